"""What of a storage was never written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Gaps:
    """Which elements of a storage were never written.

    Until the first partial write there is no mask: nothing has been written. A storage that has
    been written from end to end has no Gaps at all.
    """

    __slots__ = ("granule", "mask", "total", "written")

    def __init__(self, nbytes: int, granule: int) -> None:
        self.granule = granule  # bytes that one flag stands for
        self.total = nbytes // granule
        self.written = 0  # flags set, counting repeats: the mask is full only if this >= total
        self.mask: Array | None = None

    def flags(self, start: int, shape: Sequence[int], strides: Sequence[int], item: int) -> Array:
        """The flags of an access, in bytes: `shape`, plus an axis if an element has several."""
        if self.mask is None:
            self.mask = np.zeros(self.total, np.bool_)
        if item % self.granule or any(s % self.granule for s in (start, *strides)):
            self.mask = np.repeat(self.mask, self.granule)
            self.total, self.written = self.total * self.granule, self.written * self.granule
            self.granule = 1
        steps = [s // self.granule for s in strides]
        first, several = start // self.granule, item // self.granule
        if several > 1:
            shape, steps = (*shape, several), [*steps, 1]
        return np.ndarray(tuple(shape), np.bool_, self.mask, first, tuple(steps))

    def write(
        self,
        start: int,
        shape: Sequence[int],
        strides: Sequence[int],
        item: int,
        chosen: Array | None = None,
    ) -> bool:
        """Note a write, of all elements or the `chosen`; True if nothing is missing any more."""
        flags = self.flags(start, shape, strides, item)
        if chosen is None:
            flags[...] = True
        else:
            flags[chosen] = True
        self.written += flags.size
        return self.written >= self.total and self.mask is not None and bool(self.mask.all())

    def missing(
        self, start: int, shape: Sequence[int], strides: Sequence[int], item: int
    ) -> Array | None:
        """Which elements of an access lack a byte, or None if all are there."""
        if self.mask is None:
            return np.ones(tuple(shape), np.bool_)
        flags = self.flags(start, shape, strides, item)
        if flags.all():
            return None
        whole: Array = flags if flags.ndim == len(shape) else np.all(flags, axis=-1)
        return np.logical_not(whole)
