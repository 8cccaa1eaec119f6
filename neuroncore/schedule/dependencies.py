"""Which accesses of a program touch the same bytes."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.memory import access
from neuroncore.native.lazy import Lazy
from neuroncore.record.boxes import Pattern, Patterns
from neuroncore.record.program import Program

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.dependencies")

EXACT_PAIRS = 2000  # of strided accesses that are compared byte by byte
EXACT_BYTES = 1 << 16
MANY = 256  # boxes of one area, from which on it matters by what they are sorted


def neighbours(program: Program, boxes: Array) -> tuple[Array, Array]:
    """The boxes that each box shares bytes with, itself among them: indices, and where each box's
    begin. `boxes` is the program's table of them."""
    count = len(boxes)
    area, box = boxes[:, 0], boxes[:, 1:5].copy()
    which, patterns = program.patterns()
    _cut_into_steps(area, box, which, patterns)
    order = np.lexsort((box[:, 0], area)).astype(np.int32)
    edges = np.flatnonzero(np.diff(area[order], prepend=-1, append=-1))
    many: Array = np.flatnonzero(np.diff(edges) > MANY)
    for a in many:
        _sort_by_what_tells_them_apart(order[edges[a] : edges[a + 1]], box)
    counts = np.zeros(count, np.int64)
    native.overlap_counts.over(count)(order, edges[:-1], edges[1:], box, counts)
    start = np.concatenate([[0], np.cumsum(counts)])
    near = np.zeros(start[-1], np.int32)
    native.overlap_pairs.over(count)(order, edges[:-1], edges[1:], box, start[:-1].copy(), near)
    return _without_near_misses(which, patterns, near, start)


def _cut_into_steps(area: Array, box: Array, which: Array, patterns: Patterns) -> None:
    """Where all accesses of an area go by steps of one length, like those of a tensor's rows in
    HBM, boxes become the steps that they touch times the bytes within each: what interleaves is
    apart then, however many there are."""
    pitch = np.zeros(len(patterns), np.int64)
    steps = np.zeros((len(patterns), 4), np.int64)
    for k, pattern in enumerate(patterns):
        touched = None if pattern is None else _in_steps(pattern)
        if pattern is not None and touched is not None:
            pitch[k], steps[k] = pattern[2][0], touched
    own = np.where(which >= 0, pitch[which], 0)
    areas, number = np.unique(area, return_inverse=True)
    least, most = np.full(len(areas), np.iinfo(np.int64).max), np.zeros(len(areas), np.int64)
    np.minimum.at(least, number, own)
    np.maximum.at(most, number, own)
    alike = ((least == most) & (most > 0))[number]
    box[alike] = steps[which[alike]]


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


def _without_near_misses(
    which: Array, patterns: Patterns, near: Array, start: Array
) -> tuple[Array, Array]:
    """Drop pairs of strided accesses that interleave: their boxes overlap, their bytes don't."""
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    suspects = np.flatnonzero((which[owner] >= 0) & (which[near] >= 0) & (owner != near))
    one, two = which[owner[suspects]], which[near[suspects]]
    key = np.minimum(one, two) * len(patterns) + np.maximum(one, two)
    pairs, pair = np.unique(key, return_inverse=True)
    if not 0 < len(pairs) <= EXACT_PAIRS:
        return near, start
    meet = cache(_meet)  # a loop's accesses lie to each other as they did the time before
    both = (divmod(k, len(patterns)) for k in pairs.tolist())
    share = np.array([meet(*_beside(patterns[a], patterns[b])) for a, b in both], np.bool_)
    keep = np.ones(len(near), np.bool_)
    keep[suspects] = share[pair]
    counts = np.bincount(owner[keep], minlength=len(start) - 1)
    return near[keep], np.concatenate([[0], np.cumsum(counts)])


def _beside(one: Pattern, two: Pattern) -> tuple[Pattern, Pattern]:
    """The same two accesses, one of them moved to 0.

    Rows that are equally far apart in both are all alike, and one of them stands for all.
    """
    pitch = one[2][0]
    if two[2][0] == pitch and None not in (_in_steps(one), _in_steps(two)):
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


def _in_steps(pattern: Pattern) -> tuple[int, int, int, int] | None:
    """The steps of the first axis that an access touches and the bytes within each, half open;
    None if it leaves them."""
    offset, shape, strides, item = pattern
    if strides[0] <= 0:
        return None
    low, high = access.extent(shape[1:], strides[1:])
    row, column = divmod(offset, strides[0])
    if column + low < 0 or column + high + item > strides[0]:
        return None
    return row, row + shape[0], column + low, column + high + item


def _bytes(pattern: Pattern) -> Array:
    offset, shape, steps, item = pattern
    places = np.array([offset])
    for size, step in zip((*shape, item), (*steps, 1), strict=True):
        places = (places[:, None] + np.arange(size) * step).reshape(-1)
    return places
