"""Allocation: which tiles reuse which space, and which engine executes a copy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled, inlined

Array = npt.NDArray[Any]


class BufferUses(NamedTuple):
    """The tiles that instructions use. Instruction i is in queue[i], and accesses the boxes
    (rectangles of bytes: `record.boxes`) with the numbers operands[start[i]:start[i + 1]]. tile[b]
    is the number of the tile that contains box b, or -1 if that tile is not allocated here."""

    start: Array
    operands: Array
    tile: Array
    queue: Array


class Lives(NamedTuple):
    """The life of each tile: the first instruction that uses it (`birth`) and the last one
    (`last`). For each tile and each queue: the last instruction that uses the tile (`last_user`),
    and the last one that used the space before the tile (`space`); -1 for none."""

    birth: Array
    last: Array
    last_user: Array
    space: Array


@compiled
def reuse_of_space(
    uses: BufferUses, size: Array, waits: Array, capacity: int, lives: Lives, previous: Array
) -> int:
    """Let the users of a tile wait until the space that the tile reuses is free: previous[i, q]
    becomes the last user of that space on queue q. All users wait, because a compiler may begin any
    of them first. Return the peak of live bytes.

    size[t] is the size of a tile. waits[i] is True if a tile whose first user is instruction i
    waits for space even while more bytes are alive than fit in the memory. The caller sets all
    births to -1. Tiles are numbered by first use. The space that has been free the longest is
    reused first. If too little space is free, the tile also takes the space of tiles that are
    spilled, and returns this space when it dies.
    """
    start, operands, tile, queue = uses
    birth, last, last_user, space = lives
    for i in range(queue.shape[0]):
        for k in range(start[i], start[i + 1]):
            t = tile[operands[k]]
            if t >= 0:
                if birth[t] < 0:
                    birth[t] = i
                    for q in range(space.shape[1]):
                        last_user[t, q] = space[t, q] = -1
                last[t] = last_user[t, queue[i]] = i
    deaths, remaining = _in_order(last, queue.shape[0]), np.zeros(last.shape[0], np.int64)
    unused, used, peak = capacity, 0, 0
    died, taken = 0, 0  # how many of `deaths` have died, and how many have no space left
    displaced = False
    for t in range(size.shape[0]):
        while last[deaths[died]] < birth[t]:
            used -= size[deaths[died]]
            died += 1
        used += size[t]
        peak = max(peak, used)
        fresh = min(unused, size[t])
        unused -= fresh
        need = size[t] - fresh
        while need > 0 and taken < died and (waits[birth[t]] or used <= capacity):
            d = deaths[taken]
            take = min(remaining[d], need)
            if take > 0:
                displaced = True
                for q in range(space.shape[1]):
                    space[t, q] = max(space[t, q], last_user[d, q])
            remaining[d] -= take
            need -= take
            if remaining[d] == 0:
                taken += 1
        remaining[t] = size[t] - need
    if displaced:
        for i in range(queue.shape[0]):
            for k in range(start[i], start[i + 1]):
                t = tile[operands[k]]
                if t >= 0:
                    for q in range(space.shape[1]):
                        previous[i, q] = max(previous[i, q], space[t, q])
    return int(peak)


@inlined
def _in_order(last: Array, count: int) -> Array:
    """Sort tiles by the last of `count` instructions that uses them, and then by number."""
    dying, following = np.full(count, -1), np.empty(last.shape[0], np.int64)
    for t in range(last.shape[0] - 1, -1, -1):
        following[t], dying[last[t]] = dying[last[t]], t
    ordered, k = np.empty_like(following), 0
    for i in range(count):
        t = dying[i]
        while t >= 0:
            ordered[k], t, k = t, following[t], k + 1
    return ordered


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
