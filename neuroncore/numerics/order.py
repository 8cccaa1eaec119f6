"""Floats as integers in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def mirrored(codes: Array) -> Array:
    """Signed codes of floats as integers in their order, +0 above -0; and back again."""
    sign = codes >> (codes.dtype.itemsize * 8 - 1)
    found: Array = codes ^ (sign & np.iinfo(codes.dtype).max)
    return found


def ranks(codes: Array, lost: bool = False) -> Array:
    """The same with all NaN at the top, or at the bottom if they are `lost` to numbers."""
    bottom, top = np.iinfo(codes.dtype).min, np.iinfo(codes.dtype).max
    infinity = {2: 0x7F80, 4: 0x7F800000, 8: 0x7FF << 52}[codes.dtype.itemsize]
    found = mirrored(codes)
    found[(codes & top) > infinity] = bottom if lost else top
    return found
