"""Columns of integers as text: in few bytes each, compressed, and decoded by `web/columns.js`."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.record.saved import narrowest

Array = npt.NDArray[Any]
LEVEL = 6  # of compression
Packed = dict[str, Any]


def packed(values: Array) -> Packed:
    """Integers: their type, as numpy writes it, and what `DecompressionStream("deflate")` reads."""
    column = narrowest(values)
    return {"type": column.dtype.str[1:], "data": text(column.tobytes())}


def differences(values: Array) -> Packed:
    """The same of integers that differ little from those before them; the page adds them up."""
    return {**packed(np.diff(values.astype(np.int64), prepend=0)), "sums": True}


def text(content: bytes) -> str:
    """Bytes, compressed, in base64."""
    return base64.b64encode(zlib.compress(content, LEVEL)).decode("ascii")


def signed(values: Array) -> Array:
    """0, -1, 1, -2, 2 as 0, 1, 2, 3, 4: small integers of either sign in few bits."""
    return np.where(values < 0, -2 * values - 1, 2 * values)
