"""Allocation: which tiles reuse which space, and which engine executes a copy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from neuroncore.base.jit import borrowing, compiled

Array = npt.NDArray[Any]


class BufferUses(NamedTuple):
    """The tiles that instructions use. A box is a rectangle of bytes (`record.boxes`).

    `queue`: queue[i] is the queue of instruction i
    `operands`, `start`: instruction i accesses the boxes operands[start[i]:start[i + 1]]
    `tile`: tile[b] is the tile that contains box b
    `size`: size[t] is the size of tile t; negative if the tile is not allocated here"""

    start: Array
    operands: Array
    tile: Array
    size: Array
    queue: Array


class Slots(NamedTuple):
    """The tiles that have space, one in each slot: tiles in use, and dead tiles whose space is not
    used again completely.

    `number`: the tile's number in the order of first use
    `last`: the last instruction that uses the tile
    `remaining`: the bytes of the tile's space that no later tile has taken
    `user`: for each queue, the last instruction that uses the tile; -1 for none
    `space`: for each queue, the last instruction that used the space before the tile; -1 for none
    `following`: the next slot in a list. The free slots are a list that ends with -1. The dead
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
    """Let the users of a tile wait until the space that the tile reuses is free. Return the peak of
    live bytes.

    `previous`: previous[i, q] becomes the last user of the reused space on queue q. All users of
        the tile wait, because a compiler may begin any of them first.
    `waits`: waits[i] belongs to the tile whose first user is instruction i. If it is True, the tile
        waits for space even while more bytes are alive than fit in the memory.
    `last`: filled in for each tile: the tile's last user. From the first use of the tile on, it is
        ~s, where s is the tile's slot.

    The space that has been free the longest is reused first. If tiles died together, the space of
    the tile that was used first is reused first. If too little space is free, the tile also takes
    the space of spilled tiles, and returns this space when it dies."""
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
    """Let slot s take up to `need` bytes from the tile in slot `dead`. Return the bytes taken."""
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
    """Add slot s to the dead tiles, and return the newest of them. Tiles after `before` died
    together with it."""
    following, slots.last[s] = slots.following, -1
    while before != newest and slots.number[following[before]] < slots.number[s]:
        before = following[before]
    following[s], following[before] = following[before], s
    return s if before == newest else newest


class Instructions(NamedTuple):
    """The instructions to assign to engines.

    `call`: the call of each instruction
    `heads`: the instruction that each is merged with; -1 for none
    `made`: whether each instruction is issued at all
    `needs`, `first`: instruction i waits for the instructions needs[first[i]:first[i + 1]]"""

    call: Array
    heads: Array
    made: Array
    first: Array
    needs: Array


class Choices(NamedTuple):
    """The ways to run a call, as rows of a table.

    `first`, `last`: call c may be run by any of the rows first[c] to last[c]
    `queue`, `busy`: the compiler expects that row r occupies queue[r] for busy[r] ns
    `lane_ns`: row r occupies the DMA engines for lane_ns[r]
    `latency`: results exist latency[r] ns after row r has left the queue and the DMA engines"""

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
    """Choose the engine of each instruction. Transfers move their bytes one after the other.

    `row`: row[i] is set, in program order (list scheduling), to the first row of `choices` that
        lets instruction i end soonest. A merged instruction gets the row of heads[i].
    `free`: free[q] is the time at which queue q ends its last instruction so far
    `done`: done[i] is the time at which the result of instruction i is available"""
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
