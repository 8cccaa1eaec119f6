"""Access patterns: shapes, strides and offsets, counted in elements.

`Flags` mark bytes of a storage, for example those that were never written. One flag marks several
adjacent bytes, equally many for all flags of a storage: a tensor that is written in 32 blocks of
rows has 32 flags. If an access covers only a part of a flag's bytes, all flags are divided."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import gcd, prod
from typing import Any

import numpy as np
import numpy.typing as npt

Dims = tuple[int, ...]


def dense(shape: Sequence[int]) -> Dims:
    """Return the strides of a row-major array."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def long_axes(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Return (size, stride) of the axes whose size is not 1. Only these axes affect the positions
    of elements."""
    return [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the distance in elements that these axes cover: the stride of a further, outer axis.

    For dense axes it is the product of their sizes. NKI's access patterns count offsets in the same
    way (`offset + scalar_offset * prod(shape[indirect_dim + 1:])`, SDK nki-aps)."""
    return max([1, *(n * abs(s) for n, s in zip(shape, strides, strict=True))])


def free_axes(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many axes an access pattern needs after the first. Contiguous axes count as
    one."""
    axes = long_axes(shape[1:], strides[1:])
    return 1 + sum(outer != n * inner for (_, outer), (n, inner) in pairwise(axes))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements are contiguous, in row-major order. Axes of size 1 don't
    matter."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def extent(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the least and the greatest offset of an element from the first. No size may be 0."""
    low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
    return low, high


def reshaped(shape: Dims, strides: Dims, target: Dims) -> Dims | None:
    """Return the strides for the same elements in the shape `target`, or None if there are none.

    Both shapes must have equally many elements. Two axes can be merged if the outer stride is the
    size times the stride of the inner axis. The stride of an axis of size 1 is the distance that
    the axes inside it cover."""
    runs = _runs(shape, strides)  # [elements, stride] of each dense run, outermost first
    new_strides: list[int] = []
    reach = 1  # the distance that the axes so far cover
    for size in reversed(target):
        if size == 1:
            new_strides.append(reach)
            continue
        while runs and runs[-1][0] == 1:
            runs.pop()
        if not runs or runs[-1][0] % size:
            return None
        new_strides.append(runs[-1][1])
        reach = max(reach, size * abs(runs[-1][1]))
        runs[-1] = (runs[-1][0] // size, runs[-1][1] * size)
    return tuple(reversed(new_strides))


def _runs(shape: Dims, strides: Dims) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for size, stride in long_axes(shape, strides):
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs


def recounted(shape: Sequence[int], strides: Sequence[int], old: int, new: int) -> Dims | None:
    """Return strides in elements of `old` bytes as strides in elements of `new` bytes. Return None
    if one is not a whole number, except for axes of size 1."""
    if any(s * old % new for _, s in long_axes(shape, strides)):
        return None
    return tuple(-(-s * old // new) for s in strides)


def inferred(shape: Sequence[int], total: int) -> Dims | None:
    """Return `shape` with a size for -1 that gives `total` elements, or None if there is none."""
    sizes = list(shape)
    if sizes.count(-1) == 1:
        known = -prod(sizes)
        if known == 0 or total % known:
            return None
        sizes[sizes.index(-1)] = total // known
    return tuple(sizes) if prod(sizes) == total and min(sizes, default=1) > 0 else None


def contiguous_run(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the length in elements of the contiguous runs of an access pattern."""
    run = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if stride != run:
            break
        run *= size
    return run


Array = npt.NDArray[Any]

NONE_SET: Array = np.zeros(1, np.bool_)
NONE_SET.flags.writeable = False
LARGE = 1 << 20  # flags


class Footprint:
    """The bytes that the elements of an access cover, in any order.

    `item`, `shape`, `strides`: the size in bytes of the elements, and their positions (bytes)
    `run`: the bytes form a grid of runs of this many adjacent bytes
    `sizes`, `steps`: the number and the distance in bytes of the runs, for each axis of the grid
    `low`, `reach`: the first byte relative to the first element (0 or less), and the bytes from
        there to the end"""

    __slots__ = ("item", "low", "reach", "run", "shape", "sizes", "steps", "strides", "unit")

    def __init__(self, shape: Dims, strides: Dims, item: int) -> None:
        self.shape, self.strides, self.item = shape, strides, item
        axes = [(abs(s), n) for n, s in zip(shape, strides, strict=True) if n != 1 and s]
        self.low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
        self.reach = item + sum((n - 1) * s for s, n in axes)
        self.run = item
        rows: list[tuple[int, int]] = []
        for step, size in sorted(axes):
            if step == self.run and not rows:
                self.run *= size
            else:
                rows.append((size, step))
        self.sizes, self.steps = tuple(n for n, _ in rows), tuple(s for _, s in rows)
        # the largest number of bytes that divides the run and all steps
        self.unit = gcd(self.run, *self.steps)


@lru_cache(maxsize=1 << 12)
def footprint(shape: Dims, strides: Dims, item: int) -> Footprint:
    """Return the Footprint for these arguments."""
    return Footprint(shape, strides, item)


class Flags:
    """Flags for the bytes of a storage, one for each `granule` bytes. At first no flag is set."""

    __slots__ = ("granule", "mask")

    def __init__(self, nbytes: int) -> None:
        self.granule = nbytes or 1
        self.mask = NONE_SET  # replaced when an access first needs flags

    def pieces(self, start: int, covered: Footprint) -> Array:
        """Return a view of the flags of an access, in undefined order. `start` is the byte of the
        first element, and `covered` the Footprint of the access."""
        first = start + covered.low
        self._divide(gcd(self.granule, first, covered.unit))
        granule = self.granule
        begin, run = first // granule, covered.run // granule
        if not covered.sizes:
            return self.mask[begin : begin + run]
        steps = (*[s // granule for s in covered.steps], 1)
        return np.ndarray((*covered.sizes, run), np.bool_, self.mask, begin, steps)

    def elements(self, start: int, covered: Footprint) -> Array:
        """Return a view of the flags of an access (`pieces`) in its shape, with one more axis if
        elements have several flags."""
        self._divide(gcd(self.granule, start, covered.item, *covered.strides))
        granule, shape = self.granule, covered.shape
        steps = [s // granule for s in covered.strides]
        several = covered.item // granule
        if several > 1:
            shape, steps = (*shape, several), [*steps, 1]
        return np.ndarray(shape, np.bool_, self.mask, start // granule, tuple(steps))

    def _divide(self, granule: int) -> None:
        if self.mask is NONE_SET:  # fresh memory from the system is 0 already
            self.mask = np.zeros(self.granule // granule, np.bool_)
        elif granule != self.granule:
            self.mask = _repeated(self.mask, self.granule // granule)
        self.granule = granule


class Gaps(Flags):
    """Flags for the bytes of a storage that were written; the other bytes are its gaps.

    A completely written storage has no Gaps. Unwritten storages of one layout share a Gaps object
    (`shared`), and get their own at the first write."""

    __slots__ = ("_covered", "_start", "shared", "written")

    def __init__(self, nbytes: int, shared: bool = False) -> None:
        self.shared = shared
        self.granule, self.mask = max(nbytes, 1), NONE_SET
        # the last write, if gaps remained: kernels that sum often write to the same place again
        self._start = 0
        self._covered: Footprint | None = None
        # bytes written, with repetitions; if fewer than the storage has, some are unwritten
        self.written = 0

    def write(self, start: int, covered: Footprint, chosen: Array | None = None) -> bool:
        """Record a write of all or the `chosen` elements. Return True if no gap remains."""
        if chosen is None:
            if covered is self._covered and start == self._start:
                return False
            flags = self.pieces(start, covered)
            flags[...] = True
        else:
            flags = self.elements(start, covered)
            flags[chosen] = True
        self.written += flags.size * self.granule
        ended = self.written >= self.mask.size * self.granule and _all(self.mask)
        if ended:
            self._covered = None  # the next write is then checked again, and returns True too
        elif chosen is None:
            self._start, self._covered = start, covered
        return ended

    def another(self) -> Gaps:
        """Return a copy, for another storage of the same size."""
        gaps = object.__new__(Gaps)
        gaps.shared, gaps.granule, gaps.mask = False, self.granule, self.mask.copy()
        gaps._start, gaps._covered, gaps.written = self._start, self._covered, self.written
        return gaps

    def has_only(self, start: int, covered: Footprint) -> bool:
        """Return True if it is certain that no bytes outside of an access have been written."""
        if not self.written:
            return True
        size = covered.item * prod(covered.shape)
        return covered is self._covered and start == self._start and self.written == size

    def missing(self, start: int, covered: Footprint) -> Array | None:
        """Return whether each element of an access has an unwritten byte; None if all bytes were
        written."""
        if not self.written:
            return np.ones(covered.shape, np.bool_)
        if covered is self._covered and start == self._start:
            return None
        first = start + covered.low
        around = self.mask[first // self.granule : -(-(first + covered.reach) // self.granule)]
        if _all(around):
            return None
        pieces = self.pieces(start, covered)
        if _all(pieces):
            return None
        if not pieces.any():
            return np.ones(covered.shape, np.bool_)
        flags = self.elements(start, covered)
        whole: Array = flags if flags.ndim == len(covered.shape) else np.all(flags, axis=-1)
        return np.logical_not(whole)


def _repeated(mask: Array, times: int) -> Array:
    """Return each flag `times` times in a row. In a large result with few flags set, only these
    flags are written, so that other memory pages are not touched."""
    if mask.size * times < LARGE or np.count_nonzero(mask) * 8 > mask.size:
        return np.repeat(mask, times)
    repeated = np.zeros((mask.size, times), np.bool_)  # fresh memory from the system is 0 already
    repeated[np.flatnonzero(mask)] = True
    return repeated.reshape(-1)


def _all(flags: Array) -> bool:
    """Return whether all flags are set. numpy's `all` is several times as slow for a few flags."""
    return bool(flags.item(flags.argmin()))
