"""Columns of integers as compressed text, decoded by `web/columns.js`."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.record.saved import narrowest

Array = npt.NDArray[Any]
LEVEL = 6  # level of compression
Packed = dict[str, Any]


def packed(values: Array) -> Packed:
    """Return integers as their numpy type and data for `DecompressionStream("deflate")`."""
    column = narrowest(values)
    return {"type": column.dtype.str[1:], "data": text(column.tobytes())}


def differences(values: Array) -> Packed:
    """Return integers as packed differences, which the page adds up."""
    return {**packed(np.diff(values.astype(np.int64), prepend=0)), "sums": True}


def text(content: bytes) -> str:
    """Return compressed bytes in base64."""
    return base64.b64encode(zlib.compress(content, LEVEL)).decode("ascii")


def signed(values: Array) -> Array:
    """Return 0, -1, 1, -2, 2 as 0, 1, 2, 3, 4, so that small integers take few bits."""
    return np.where(values < 0, -2 * values - 1, 2 * values)
