"""Who gets what: space that tiles take over, engines that copies are given to."""

from __future__ import annotations

from typing import Any, NamedTuple

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


class Lives(NamedTuple):
    """Of each tile its first instruction, its last one, and the last one of each queue, or -1."""

    birth: Array
    last: Array
    last_user: Array


class Tiles(NamedTuple):
    """Of each tile its bytes per partition, and those of its space that nobody has taken over yet;
    whether it takes space while more is alive than fits; and all of them, in the order of their
    birth and of their last use."""

    size: Array
    left: Array
    waits: Array
    born: Array
    deaths: Array


@compiled
def lives(uses: Uses, found: Lives) -> None:
    """Fill in when tiles are used; without a use one is born after all instructions."""
    for i in range(uses.queue.shape[0]):
        for k in range(uses.start[i], uses.start[i + 1]):
            t = uses.tile[uses.operands[k]]
            if t >= 0:
                found.birth[t] = min(found.birth[t], i)
                found.last[t] = found.last_user[t, uses.queue[i]] = i


@compiled
def reuse_of_space(tiles: Tiles, lives: Lives, capacity: int, space: Array) -> int:
    """The last users, of each queue, of the space that each tile takes over; the peak of live
    bytes.

    Space that has been free the longest is taken first. What a tile lacks it gets of what is
    spilled, which has it back when the tile dies.
    """
    unused, count, left = capacity, tiles.size.shape[0], tiles.left
    died, taken = 0, 0  # how many of `deaths` have died, and been taken over whole
    used, peak = 0, 0
    for b in range(count):
        t = tiles.born[b]
        i = lives.birth[t]
        while died < count and lives.last[tiles.deaths[died]] < i:
            used -= tiles.size[tiles.deaths[died]]
            died += 1
        used += tiles.size[t]
        peak = max(peak, used)
        need = tiles.size[t]
        fresh = min(unused, need)
        unused -= fresh
        need -= fresh
        while need > 0 and taken < died and (tiles.waits[t] or used <= capacity):
            d = tiles.deaths[taken]
            take = min(left[d], need)
            if take > 0:
                for q in range(space.shape[1]):
                    space[t, q] = max(space[t, q], lives.last_user[d, q])
            left[d] -= take
            need -= take
            if left[d] == 0:
                taken += 1
        left[t] -= need
    return int(peak)


@compiled
def wait_for_space(uses: Uses, space: Array, previous: Array) -> None:
    """Let all users of a tile wait for its space: a compiler may begin any of them first."""
    for i in range(uses.queue.shape[0]):
        for k in range(uses.start[i], uses.start[i + 1]):
            t = uses.tile[uses.operands[k]]
            if t >= 0:
                for q in range(space.shape[1]):
                    previous[i, q] = max(previous[i, q], space[t, q])


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
