"""The format of a result of two tiles whose formats differ: "NKI Type Promotion" of the older API.
The documentation of SDK 2.20 to 2.26 has the rules and their examples."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from neuroncore.frontend.operators import common
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, bfloat16, bool_, float32, lookup


def promoted(x: Any, y: Any, op: Any = None) -> Format:
    """Return the format of x <op> y: the tile's format if the other operand is a number, otherwise
    the format to which those of both tiles are promoted. Operators on bit patterns convert nothing,
    so their result has the format of one operand (`operators.common`)."""
    bits = getattr(getattr(op, "operator", None), "kind", "") == "bitvec"
    if bits or not isinstance(x, Tile) or not isinstance(y, Tile):
        return common(x, y)
    return x.dtype if x.dtype is y.dtype else _promoted(lookup(x.dtype), lookup(y.dtype))


@cache
def _promoted(a: Format, b: Format) -> Format:
    if a.is_float or b.is_float:
        return _of_floats(a, b) if a.is_float and b.is_float else a if a.is_float else b
    if bool_ in (a, b):
        return b if a is bool_ else a
    wide = np.promote_types(a.numpy, b.numpy)
    return float32 if wide.itemsize > 4 else lookup(wide)  # engines have no integers of 64 bits


def _of_floats(a: Format, b: Format) -> Format:
    """Return the float that has the range and the fraction of the other one. If neither has both,
    return a wider one."""
    for one, other in ((a, b), (b, a)):
        if one.exponent >= other.exponent and one.mantissa >= other.mantissa:
            return one
    return bfloat16 if a.bits == b.bits == 8 else float32
