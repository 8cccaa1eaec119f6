"""Which accesses of a program touch the same bytes."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.memory import access
from neuroncore.record.loops import boxes as native

Array = npt.NDArray[Any]

EXACT_PAIRS = 2000  # of strided accesses that are compared byte by byte
EXACT_BYTES = 1 << 16
MANY = 256  # boxes of one area, from which on it matters by what they are sorted


class Form(NamedTuple):
    """A pattern, wherever it begins, in bytes of its area."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    item: int  # bytes of an element


class Patterns(NamedTuple):
    """Exact accesses of what is not dense: pattern k has forms[form[k]], and begins at byte
    start[k] of its area."""

    start: Array
    form: Array
    forms: list[Form]

    def each(self) -> list[tuple[Any, ...]]:
        """(start, shape, steps, item) of each."""
        pairs = zip(self.start.tolist(), self.form.tolist(), strict=True)
        return [(start, *self.forms[form]) for start, form in pairs]


class AxisSteps(NamedTuple):
    """The steps of the first axis of each pattern, `pitch` bytes apart: the steps that it touches,
    the bytes within each, as a box, and whether it stays in them (`whole`)."""

    pitch: Array
    box: Array
    whole: Array


def neighbors(area: Array, box: Array, which: Array, patterns: Patterns) -> tuple[Array, Array]:
    """The boxes that each box shares bytes with, itself among them: indices, and where each box's
    begin. A row of `box` is the rows and the bytes of one, which is written over, and is in area[b]
    and has the pattern which[b], or -1."""
    count, steps = len(box), _steps(patterns)
    _cut_into_steps(area, box, which, steps)
    order = np.lexsort((box[:, 0], area)).astype(np.int32)
    edges = np.flatnonzero(np.diff(area[order], prepend=-1, append=-1))
    many: Array = np.flatnonzero(np.diff(edges) > MANY)
    for a in many:
        _sort_by_what_tells_them_apart(order[edges[a] : edges[a + 1]], box)
    counts = np.zeros(count, np.int64)
    native.overlap_counts.over(count)(order, edges[:-1], edges[1:], box, counts)
    start = np.concatenate([[0], np.cumsum(counts)])
    near = np.zeros(start[-1], np.int32)
    pairs = native.overlap_pairs.over(count)
    pairs(order, edges[:-1], edges[1:], box, start[:-1].copy(), near)
    return _without_near_misses(which, patterns, steps.whole, near, start)


def _steps(patterns: Patterns) -> AxisSteps:
    """The steps of the first axis that each touches and the bytes within each, half open."""
    rows = []
    for shape, steps, item in patterns.forms:
        low, high = access.extent(shape[1:], steps[1:])
        rows.append((shape[0], steps[0], low, high + item))
    size, pitch, low, high = np.array(rows, np.int64).reshape(-1, 4)[patterns.form].T
    row, byte = np.divmod(patterns.start, np.maximum(pitch, 1))
    box = np.column_stack([row, row + size, byte + low, byte + high])
    return AxisSteps(pitch, box, (pitch > 0) & (box[:, 2] >= 0) & (box[:, 3] <= pitch))


def _cut_into_steps(area: Array, box: Array, which: Array, steps: AxisSteps) -> None:
    """Where all accesses of an area go by steps of one length, like those of a tensor's rows in
    HBM, boxes become the steps that they touch times the bytes within each: what interleaves is
    apart then, however many there are."""
    if not len(steps.pitch):
        return
    own = np.where(which >= 0, np.where(steps.whole, steps.pitch, 0)[which], 0)
    count = area.max() + 1
    least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(least, area, own)
    np.maximum.at(most, area, own)
    alike = ((least == most) & (most > 0))[area]
    box[alike] = steps.box[which[alike]]


def _sort_by_what_tells_them_apart(order: Array, box: Array) -> None:
    """Boxes that share rows but not bytes get their bytes instead of rows, and are sorted by
    them."""
    own = box[order]
    if _reached(own[:, 2], own[:, 3]) < _reached(own[:, 0], own[:, 1]):
        box[order] = own[:, [2, 3, 0, 1]]
        order[:] = order[np.argsort(own[:, 2], kind="stable")]


def _reached(begin: Array, end: Array) -> int:
    """How many of them begin before the end of each, in total."""
    return int(np.searchsorted(np.sort(begin), end).sum())


def _without_near_misses(
    which: Array, patterns: Patterns, in_steps: Array, near: Array, start: Array
) -> tuple[Array, Array]:
    """Drop pairs of strided accesses that interleave: their boxes overlap, their bytes don't."""
    count = len(patterns.start)
    if not count:
        return near, start
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    suspects = np.flatnonzero((which[owner] >= 0) & (which[near] >= 0) & (owner != near))
    one, two = which[owner[suspects]], which[near[suspects]]
    key = np.minimum(one, two) * count + np.maximum(one, two)
    pairs, pair = np.unique(key, return_inverse=True)
    if not 0 < len(pairs) <= EXACT_PAIRS:
        return near, start
    meet = cache(_meet)  # a loop's accesses lie to each other as they did the time before
    both = (divmod(k, count) for k in pairs.tolist())
    share = np.array([meet(*_beside(a, b, patterns, in_steps)) for a, b in both], np.bool_)
    keep = np.ones(len(near), np.bool_)
    keep[suspects] = share[pair]
    counts = np.bincount(owner[keep], minlength=len(start) - 1)
    return near[keep], np.concatenate([[0], np.cumsum(counts)])


def _beside(one: int, two: int, patterns: Patterns, in_steps: Array) -> tuple[Form, int, Form]:
    """The forms of two accesses, and how far behind the first one the second one begins.

    If rows are equally far apart in both, all rows are alike, and one represents all.
    """
    first, second = patterns.forms[patterns.form[one]], patterns.forms[patterns.form[two]]
    start, following = int(patterns.start[one]), int(patterns.start[two])
    pitch = first.steps[0]
    if second.steps[0] == pitch and in_steps[one] and in_steps[two]:
        first, second = (Form(f.shape[1:], f.steps[1:], f.item) for f in (first, second))
        start, following = start % pitch, following % pitch
    return first, following - start, second


def _meet(one: Form, apart: int, two: Form) -> bool:
    """Return whether two strided accesses share a byte; True for large ones without a search."""
    if max(prod(form.shape) * form.item for form in (one, two)) > EXACT_BYTES:
        return True
    return bool(np.isin(_bytes(one), _bytes(two) + apart).any())


def _bytes(form: Form) -> Array:
    places = np.zeros(1, np.int64)
    for size, step in zip((*form.shape, form.item), (*form.steps, 1), strict=True):
        places = (places[:, None] + np.arange(size) * step).reshape(-1)
    return places
