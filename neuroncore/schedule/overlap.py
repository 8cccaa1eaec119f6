"""Which accesses of a program touch the same bytes."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore import access
from neuroncore.lazy import Lazy
from neuroncore.program import Pattern, Program

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.schedule")

EXACT_PAIRS = 2000  # of strided accesses that are compared byte by byte
EXACT_BYTES = 1 << 16
MANY = 256  # boxes of one area, from which on it matters by what they are sorted


def neighbours(program: Program, boxes: Array) -> tuple[Array, Array]:
    """The boxes that each box shares bytes with, itself among them: indices, and where each box's
    begin. `boxes` is the program's table of them."""
    count = len(boxes)
    area, box = boxes[:, 0], np.ascontiguousarray(boxes[:, 1:5])
    order = np.lexsort((box[:, 0], area)).astype(np.int32)
    edges = np.flatnonzero(np.diff(area[order], prepend=-1, append=-1))
    for a in np.flatnonzero(np.diff(edges) > MANY):
        _sort_by_what_tells_them_apart(order[edges[a] : edges[a + 1]], box)
    counts = np.zeros(count, np.int64)
    native.overlap_counts(order, edges[:-1], edges[1:], box, counts)
    start = np.concatenate([[0], np.cumsum(counts)])
    near = np.zeros(start[-1], np.int32)
    native.overlap_pairs(order, edges[:-1], edges[1:], box, start[:-1].copy(), near)
    return _without_near_misses(program, near, start)


def _sort_by_what_tells_them_apart(order: Array, box: Array) -> None:
    """Boxes that share rows but not bytes get their bytes in the place of rows, and are sorted by
    them."""
    own = box[order]
    if _reached(own[:, 2], own[:, 3]) < _reached(own[:, 0], own[:, 1]):
        box[order] = own[:, [2, 3, 0, 1]]
        order[:] = order[np.argsort(own[:, 2], kind="stable")]


def _reached(begin: Array, end: Array) -> int:
    """How many of them begin before the end of each, in total."""
    return int(np.searchsorted(np.sort(begin), end).sum())


def _without_near_misses(program: Program, near: Array, start: Array) -> tuple[Array, Array]:
    """Drop pairs of strided accesses that interleave: their boxes overlap, their bytes don't."""
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    strided = program.strided()
    suspects = np.flatnonzero(strided[owner] & strided[near] & (owner < near))
    if not 0 < len(suspects) <= EXACT_PAIRS:
        return near, start
    meet = cache(_meet)  # a loop's accesses lie to each other as they did the time before
    pairs = {(int(owner[s]), int(near[s])) for s in suspects}
    apart = {pair for pair in pairs if not meet(*_beside(*map(program.pattern, pair)))}
    keep = np.array(
        [(min(a, b), max(a, b)) not in apart for a, b in zip(owner, near, strict=True)], np.bool_
    )
    counts = np.bincount(owner[keep], minlength=len(start) - 1)
    return near[keep], np.concatenate([[0], np.cumsum(counts)])


def _beside(one: Pattern, two: Pattern) -> tuple[Pattern, Pattern]:
    """The same two accesses, one of them moved to 0.

    Rows that are equally far apart in both are all alike, and one of them stands for all.
    """
    pitch = one[2][0]
    if two[2][0] == pitch and _stays_in_its_row(one) and _stays_in_its_row(two):
        one, two = (
            (offset % pitch, shape[1:], steps[1:], item)
            for offset, shape, steps, item in (one, two)
        )
    return (0, *one[1:]), (two[0] - one[0], *two[1:])


def _meet(one: Pattern, two: Pattern) -> bool:
    """Whether two strided accesses share a byte; said of large ones without looking."""
    if max(prod(shape) * item for _, shape, _, item in (one, two)) > EXACT_BYTES:
        return True
    return bool(np.isin(_bytes(one), _bytes(two)).any())


def _stays_in_its_row(pattern: Pattern) -> bool:
    offset, shape, steps, item = pattern
    if steps[0] <= 0:
        return False
    low, high = access.extent(shape[1:], steps[1:])
    column = offset % steps[0]
    return column + low >= 0 and column + high + item <= steps[0]


def _bytes(pattern: Pattern) -> Array:
    offset, shape, steps, item = pattern
    places = np.array([offset])
    for size, step in zip((*shape, item), (*steps, 1), strict=True):
        places = (places[:, None] + np.arange(size) * step).reshape(-1)
    return places
