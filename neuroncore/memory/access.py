"""Arithmetic on access patterns: shapes, strides and offsets counted in elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

Dims = tuple[int, ...]


def dense(shape: Sequence[int]) -> Dims:
    """The strides of a row-major array."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def long_axes(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """(size, stride) of the axes that step at all: where elements are does not depend on others."""
    return [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The stride of an axis of size 1 that is put around these: how far they reach in all.

    For dense axes that is the product of their sizes, as NKI's access patterns count the offset
    along an axis (`offset + scalar_offset * prod(shape[indirect_dim + 1:])`, SDK nki-aps).
    """
    return max([1, *(n * abs(s) for n, s in zip(shape, strides, strict=True))])


def free_axes(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many axes besides the first an access pattern needs; those that run on count as one."""
    axes = long_axes(shape[1:], strides[1:])
    return 1 + sum(outer != n * inner for (_, outer), (n, inner) in pairwise(axes))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements fill one span in row-major order; axes of size 1 don't matter."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def extent(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest offset reached, relative to the first element; shape not empty."""
    low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
    return low, high


def reshaped(shape: Dims, strides: Dims, target: Dims) -> Dims | None:
    """Strides that show the same elements in the same order as `target`, or None.

    Sizes multiply to the same number. Axes merge only where the outer one steps by exactly the
    length of the inner one. An axis of size 1 steps over all that is inside it.
    """
    runs = _runs(shape, strides)  # [elements, stride] of each dense run, outermost first
    found: list[int] = []
    reach = 1  # of the axes found so far
    for size in reversed(target):
        if size == 1:
            found.append(reach)
            continue
        while runs and runs[-1][0] == 1:
            runs.pop()
        if not runs or runs[-1][0] % size:
            return None
        found.append(runs[-1][1])
        reach = max(reach, size * abs(runs[-1][1]))
        runs[-1] = (runs[-1][0] // size, runs[-1][1] * size)
    return tuple(reversed(found))


def _runs(shape: Dims, strides: Dims) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for size, stride in long_axes(shape, strides):
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs


def recounted(shape: Sequence[int], strides: Sequence[int], old: int, new: int) -> Dims | None:
    """Strides in elements of `new` bytes of what steps by elements of `old`; None if that is no
    whole number of them. Axes of size 1 don't matter."""
    if any(s * old % new for _, s in long_axes(shape, strides)):
        return None
    return tuple(-(-s * old // new) for s in strides)


def inferred(shape: Sequence[int], total: int) -> Dims | None:
    """`shape` with its one -1, if any, filled in to have `total` elements; None if it can't."""
    sizes = list(shape)
    if sizes.count(-1) == 1:
        known = -prod(sizes)
        if known == 0 or total % known:
            return None
        sizes[sizes.index(-1)] = total // known
    return tuple(sizes) if prod(sizes) == total and min(sizes, default=1) > 0 else None


def contiguous_run(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements the innermost axes cover without a gap."""
    run = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if stride != run:
            break
        run *= size
    return run
