"""Formats as arguments name them, and the one that two operands share."""

from __future__ import annotations

from typing import Any

from neuroncore.base.errors import SignatureError, UsageError
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FORMATS, OPAQUE, Format, lookup

WIDTHS = [*FORMATS, *OPAQUE]  # widest first among floats; formats only for memory are refused later


def format_of(dtype: Any, position: int) -> Format:
    """Return the format that an argument called `dtype` names."""
    try:
        return lookup(dtype)
    except UsageError as error:
        raise SignatureError(str(error), argument="dtype", position=position) from None


def common(x: Any, y: Any) -> Format:
    """Return the format of x <op> y: the format of the tile, or the wider one of two tiles."""
    if isinstance(x, Tile) and isinstance(y, Tile) and x.dtype is y.dtype:
        return x.dtype
    formats = [lookup(t.dtype) for t in (x, y) if isinstance(t, Tile)]
    return min(formats, key=WIDTHS.index)
