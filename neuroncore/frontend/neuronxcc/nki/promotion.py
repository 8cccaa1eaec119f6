"""The format of a result of two operands whose formats differ. The documentation of SDK 2.20 to
2.26 contains the rules and examples ("NKI Type Promotion")."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from neuroncore.frontend.operators import common
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import (
    Format,
    bfloat16,
    bool_,
    float32,
    int32,
    lookup,
    uint8,
    uint32,
)


def promoted(x: Any, y: Any, op: Any = None) -> Format:
    """Return the format of x <op> y, where x or y may be a number.

    An operator on bit patterns converts nothing (`operators.common`). A tile of floats and a number
    have the tile's format. According to the pages, a float16 tile times 1.2 is float32, but its
    matrix products with 16-bit tiles would then be refused."""
    bits = getattr(getattr(op, "operator", None), "kind", "") == "bitvec"
    a, b = (_format(v) for v in (x, y))
    numbers = [v for v in (x, y) if not isinstance(v, Tile)]
    form = common(x, y)
    if bits or a is None or b is None or (numbers and form.is_float):
        return form
    if form is uint32 and numbers and type(numbers[0]) is int:
        return form  # the pages have no example, and float32 numbers could not be indices
    return a if a is b else _promoted(a, b)


def _format(value: Any) -> Format | None:
    """Return the format of a tile or a number, or None for other values. A number of Python has the
    widest format of its kind ("Weakly Typed Scalar Type Inference")."""
    if isinstance(value, Tile) or (isinstance(value, np.generic) and value.dtype.itemsize <= 4):
        return lookup(value.dtype)
    kinds = (bool, uint8), ((int, np.integer), int32), ((float, np.floating), float32)
    return next((form for kind, form in kinds if isinstance(value, kind)), None)


@cache
def _promoted(a: Format, b: Format) -> Format:
    if a.is_float or b.is_float:
        return _of_floats(a, b) if a.is_float and b.is_float else a if a.is_float else b
    if bool_ in (a, b):
        return b if a is bool_ else a
    wide = np.promote_types(a.numpy, b.numpy)
    return float32 if wide.itemsize > 4 else lookup(wide)  # engines have no integers of 64 bits


def _of_floats(a: Format, b: Format) -> Format:
    """Return the float format, a or b, that can represent all numbers of the other format. If
    neither format can, return a wider float format."""
    if a.holds(b) or b.holds(a):
        return a if a.holds(b) else b
    return bfloat16 if a.bits == b.bits == 8 else float32
