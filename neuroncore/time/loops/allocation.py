"""Allocation: which tiles reuse which space, and which engine executes a copy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from neuroncore.base.jit import borrowing, compiled

Array = npt.NDArray[Any]


class BufferUses(NamedTuple):
    """The tiles that instructions use. Instruction i is in queue[i], and accesses the boxes
    (rectangles of bytes: `record.boxes`) with the numbers operands[start[i]:start[i + 1]]. tile[b]
    is the tile that contains box b, and size[t] the size of tile t; it is negative if the tile is
    not allocated here."""

    start: Array
    operands: Array
    tile: Array
    size: Array
    queue: Array


class Slots(NamedTuple):
    """The tiles that have space, one in each slot: tiles in use, and dead tiles whose space is not
    used again completely. A slot has the tile's number in the order of first use (`number`), the
    last instruction that uses it (`last`), and the bytes of its space that no later tile has taken
    (`remaining`). For each queue, it has the last instruction that uses the tile (`user`), and the
    last one that used the space before the tile (`space`); -1 for none.

    following[s] is the next slot in a list. The free slots are a list that ends with -1. The dead
    tiles are a ring, in the order in which they died; its beginning is the last entry of
    `following`."""

    number: Array
    last: Array
    remaining: Array
    following: Array
    user: Array
    space: Array


@compiled
def reuse_of_space(
    uses: BufferUses, waits: Array, capacity: int, slots: Slots, last: Array, previous: Array
) -> int:
    """Let the users of a tile wait until the space that the tile reuses is free: previous[i, q]
    becomes the last user of that space on queue q. All users wait, because a compiler may begin any
    of them first. Return the peak of live bytes.

    waits[i] is True if a tile whose first user is instruction i waits for space even while more
    bytes are alive than fit in the memory. The space that has been free the longest is reused
    first; of tiles that died together, the space of the tile that was used first. If too little
    space is free, the tile also takes the space of tiles that are spilled, and returns this space
    when it dies. `last` has an entry for each tile, which this function fills in: the tile's last
    user, and ~s from its first use on, where s is its slot.
    """
    start, operands, tile, size, queue = uses
    for i in range(queue.shape[0]):
        for k in range(start[i], start[i + 1]):
            last[tile[operands[k]]] = i
    ends = slots.following.shape[0] - 1
    slots.following[ends] = newest = ends
    unused, used, peak, born, top, free = capacity, 0, 0, 0, 0, -1
    for i in range(queue.shape[0]):
        for k in range(start[i], start[i + 1]):
            t = tile[operands[k]]
            if size[t] < 0:
                continue
            if last[t] >= 0:
                if free < 0:
                    s, top = top, top + 1
                else:
                    s, free = free, slots.following[free]
                _begin(s, born, last[t], slots)
                last[t], born, used = ~s, born + 1, used + size[t]
                peak, fresh = max(peak, used), min(unused, size[t])
                unused, need = unused - fresh, size[t] - fresh
                while need > 0 and newest != ends and (waits[i] or used <= capacity):
                    dead = slots.following[ends]
                    need -= _take(s, dead, need, slots)
                    if slots.remaining[dead] == 0:
                        slots.following[ends], slots.following[dead] = slots.following[dead], free
                        free, newest = dead, ends if newest == dead else newest
                slots.remaining[s] = size[t] - need
            _use(~last[t], i, queue[i], slots, previous)
        before = newest
        for k in range(start[i], start[i + 1]):
            t = tile[operands[k]]
            if size[t] >= 0 and slots.last[~last[t]] == i:
                used -= size[t]
                newest = _end(~last[t], before, newest, slots)
    return int(peak)


@borrowing
def _begin(s: Any, number: int, last: Any, slots: Slots) -> None:
    slots.number[s], slots.last[s] = number, last
    for q in range(slots.user.shape[1]):
        slots.user[s, q] = slots.space[s, q] = -1


@borrowing
def _take(s: Any, dead: Any, need: Any, slots: Slots) -> Any:
    """Let slot s take up to `need` bytes of the space of a dead tile. Return the bytes taken."""
    taken = min(slots.remaining[dead], need)
    slots.remaining[dead] -= taken
    if taken > 0:
        for q in range(slots.user.shape[1]):
            slots.space[s, q] = max(slots.space[s, q], slots.user[dead, q])
    return taken


@borrowing
def _use(s: Any, i: int, queue: Any, slots: Slots, previous: Array) -> None:
    slots.user[s, queue] = i
    for q in range(slots.user.shape[1]):
        previous[i, q] = max(previous[i, q], slots.space[s, q])


@borrowing
def _end(s: Any, before: int, newest: int, slots: Slots) -> int:
    """Add slot s to the dead tiles. The tiles after `before` died together with it. Return the
    newest of the dead tiles."""
    following, slots.last[s] = slots.following, -1
    while before != newest and slots.number[following[before]] < slots.number[s]:
        before = following[before]
    following[s], following[before] = following[before], s
    return s if before == newest else newest


class Instructions(NamedTuple):
    """For each instruction: its call, the instruction that it is merged with or -1 (`heads`), and
    whether it is issued at all (`made`). Instruction i waits for the instructions
    needs[first[i]:first[i + 1]]."""

    call: Array
    heads: Array
    made: Array
    first: Array
    needs: Array


class Choices(NamedTuple):
    """The ways to run a call: call c may have any of the rows first[c] to last[c] of a table. Row r
    occupies queue[r] for busy[r] ns and the DMA engines for lane_ns[r]; its results are available
    latency[r] ns after that."""

    first: Array
    last: Array
    queue: Array
    busy: Array
    lane_ns: Array
    latency: Array


@compiled
def assigned(
    work: Instructions, choices: Choices, semaphore_ns: float, free: Array, done: Array, row: Array
) -> None:
    """Choose row[i], the row of instruction i. If heads[i] is not -1, this is the row of
    instruction heads[i]. Otherwise it is the row with which instruction i ends first; of several
    such rows, the first (list scheduling in the order of the program). free[q] is the time at which
    queue q ends its last instruction so far, and done[i] the time at which the result of i is
    available. Transfers move their bytes one after the other."""
    queue, busy, needs = choices.queue, choices.busy, work.needs
    moved = 0.0
    for i in range(len(row)):
        begin, end = choices.first[work.call[i]], choices.last[work.call[i]]
        ready = 0.0
        for k in range(work.first[i], work.first[i + 1]):
            ready = max(ready, done[needs[k]])
        best = begin if work.heads[i] < 0 else row[work.heads[i]]
        if work.heads[i] < 0:
            soonest = max(ready, free[queue[begin]]) + busy[begin]
            for r in range(begin + 1, end):
                ends = max(ready, free[queue[r]]) + busy[r]
                if ends < soonest:
                    best, soonest = r, ends
        row[i], done[i] = best, ready
        if work.made[i]:
            done[i] = free[queue[best]] = max(ready, free[queue[best]]) + busy[best]
            if choices.lane_ns[best] > 0.0:
                done[i] = moved = max(moved, done[i]) + choices.lane_ns[best]
            done[i] += choices.latency[best] + semaphore_ns
