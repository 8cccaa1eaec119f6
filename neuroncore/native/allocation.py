"""Who gets what: space that tiles take over, engines that copies are given to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import compiled

Array = npt.NDArray[Any]


class Uses(NamedTuple):
    """Instruction i, of queue[i], uses the boxes operands[start[i]:start[i + 1]], of which box b is
    in tile[b] of one memory, or -1."""

    start: Array
    operands: Array
    tile: Array
    queue: Array


@compiled
def reuse_of_space(uses: Uses, size: Array, waits: Array, capacity: int, previous: Array) -> int:
    """Let each user of a tile wait, as previous[i, q] says, for the last users of the space that
    the tile takes over: a compiler may begin any of its own users first. The peak of live bytes.

    size[t] is a tile's, waits[i] whether one that instruction i uses first waits while more is
    alive than fits. Tiles have numbers in the order of their first use. Space that has been free
    the longest is taken first. What a tile lacks it gets of what is spilled, which has it back when
    the tile dies.
    """
    count, queues = size.shape[0], previous.shape[1]
    birth, last = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    last_user, space = np.full((2, count, queues), -1, np.int32)
    for i in range(uses.queue.shape[0]):
        for k in range(uses.start[i], uses.start[i + 1]):
            t = uses.tile[uses.operands[k]]
            if t >= 0:
                birth[t] = i if birth[t] < 0 else birth[t]
                last[t] = last_user[t, uses.queue[i]] = i
    deaths, left = np.argsort(last, kind="mergesort"), np.zeros(count, np.int64)
    left[:] = size
    unused, used, peak = capacity, 0, 0
    died, taken = 0, 0  # how many of `deaths` have died, and been taken over whole
    displaces = False
    for t in range(count):
        while died < count and last[deaths[died]] < birth[t]:
            used -= size[deaths[died]]
            died += 1
        used += size[t]
        peak = max(peak, used)
        need = size[t]
        fresh = min(unused, need)
        unused -= fresh
        need -= fresh
        while need > 0 and taken < died and (waits[birth[t]] or used <= capacity):
            d = deaths[taken]
            take = min(left[d], need)
            if take > 0:
                displaces = True
                for q in range(queues):
                    space[t, q] = max(space[t, q], last_user[d, q])
            left[d] -= take
            need -= take
            if left[d] == 0:
                taken += 1
        left[t] -= need
    if displaces:
        for i in range(uses.queue.shape[0]):
            for k in range(uses.start[i], uses.start[i + 1]):
                t = uses.tile[uses.operands[k]]
                if t >= 0:
                    for q in range(queues):
                        previous[i, q] = max(previous[i, q], space[t, q])
    return int(peak)


class Choices(NamedTuple):
    """Call c may be any of the rows first[c] to last[c] of a table, which keep their queues busy
    for so long."""

    first: Array
    last: Array
    queue: Array
    busy: Array


@compiled
def balanced(
    call: Array, heads: Array, choices: Choices, horizon: float, given: Array, row: Array
) -> None:
    """row[i] = which row serves instruction i: that of heads[i], unless it is -1, or the one whose
    queue q has the least work given[q] to it so far. A queue that is behind the others of a choice
    by more than `horizon` counts as being that much behind: work can't be moved further."""
    queue, busy = choices.queue, choices.busy
    for i in range(call.shape[0]):
        begin, end = choices.first[call[i]], choices.last[call[i]]
        best = begin if heads[i] < 0 else row[heads[i]]
        if end > begin + 1 and heads[i] < 0:
            most = 0.0
            for r in range(begin, end):
                most = max(most, given[queue[r]])
            for r in range(begin, end):
                q = queue[r]
                given[q] = max(given[q], most - horizon)
                if given[q] + busy[r] < given[queue[best]] + busy[best]:
                    best = r
        row[i] = best
        given[queue[best]] += busy[best]
