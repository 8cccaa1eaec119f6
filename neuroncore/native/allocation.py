"""Who gets what: space that tiles take over, engines that copies are given to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import compiled

Array = npt.NDArray[Any]


class Tiles(NamedTuple):
    """Of one memory. `born` lists them in the order of their first use, which is at instruction
    birth[t], `deaths` in the order of their last; last_user[t, q] is the last instruction of queue
    q to use tile t, or -1, and size[t] its bytes per partition. Only tiles that waits[t] flags take
    space while more is alive than fits."""

    born: Array
    birth: Array
    deaths: Array
    last_user: Array
    size: Array
    waits: Array


@compiled
def reuse_of_space(
    tiles: Tiles, capacity: int, users: Array, used_tile: Array, previous: Array
) -> int:
    """Make instructions wait for the space that their tiles take over; the peak of live bytes.

    Space that has been free the longest is taken first. What a tile lacks it gets of what is
    spilled, which has it back when the tile dies. Instruction users[k] uses used_tile[k]: all users
    wait, for a compiler may begin any of them first.
    """
    born, birth, deaths, last_user, size, waits = tiles
    count, queues = last_user.shape
    unused = capacity
    left = size.copy()  # bytes of each tile's space that nobody has taken over yet
    died, taken = 0, 0  # how many of `deaths` have died, and been taken over whole
    used, peak = 0, 0
    space = np.full((count, queues), -1, np.int32)  # whose last users each tile waits for
    for b in range(count):
        t = born[b]
        i = birth[t]
        while died < count and last_user[deaths[died]].max() < i:
            used -= size[deaths[died]]
            died += 1
        used += size[t]
        peak = max(peak, used)
        need = size[t]
        fresh = min(unused, need)
        unused -= fresh
        need -= fresh
        while need > 0 and taken < died and (waits[t] or used <= capacity):
            d = deaths[taken]
            take = min(left[d], need)
            if take > 0:
                for q in range(queues):
                    space[t, q] = max(space[t, q], last_user[d, q])
            left[d] -= take
            need -= take
            if left[d] == 0:
                taken += 1
        left[t] -= need
    for k in range(users.shape[0]):
        i = users[k]
        for q in range(queues):
            previous[i, q] = max(previous[i, q], space[used_tile[k], q])
    return int(peak)


@compiled
def balanced(
    call: Array, first: Array, last: Array, queue: Array, busy: Array, horizon: float, row: Array
) -> None:
    """row[i] = which of the rows first[c] to last[c] of a table, c = call[i], serves instruction i:
    the one whose queue has the least work given to it so far. A queue that is behind the others of
    a choice by more than `horizon` counts as being that much behind: work can't be moved further.
    """
    given = np.zeros(queue.max() + 1)
    for i in range(call.shape[0]):
        begin, end = first[call[i]], last[call[i]]
        best = begin
        if end > begin + 1:
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
