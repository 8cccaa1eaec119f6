"""Elementwise functions of the older API that issue several instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuroncore.frontend.formats import common
from neuroncore.frontend.neuronxcc.nki import isa
from neuroncore.frontend.neuronxcc.nki.expressions import Mask
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.language.composed import composed
from neuroncore.frontend.neuronxcc.nki.language.elementwise import (
    OPERATIONS,
    broadcast_to,
    is_tile,
    on_host,
)
from neuroncore.frontend.neuronxcc.nki.results import flush, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki import language as newer
from neuroncore.frontend.operators import Operation
from neuroncore.numerics.formats import float32, int32, uint8

__all__ = ["ceil", "cos", "divide", "floor", "fmod", "mod", "sin", "tan", "trunc", "where"]

add, subtract, multiply = (OPERATIONS[name] for name in ("add", "subtract", "multiply"))
absolute, sign, less = (OPERATIONS[name] for name in ("abs", "sign", "less"))


def divide(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """x / y, as x times 1 / y: reciprocal, and tensor_tensor or tensor_scalar."""
    check_keywords(kwargs)
    if not is_tile(y):
        if not is_tile(x):
            return x / y
        inverse: Any = float(np.divide(1.0, y))
    else:
        inverse = isa.reciprocal(y, dtype=float32, mask=mask)
        flush()
    form = common(x, y)
    # else nl.floor(rows / width) of nki-samples' resize would floor a rounded number
    fraction = float32 if form.is_integer else form
    return multiply(x, inverse, dtype=dtype or fraction, mask=mask)


def _composed(name: str) -> Callable[..., Any]:
    function = getattr(newer, name)

    def lowered(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        return composed(function, mask, x, dtype=dtype) if is_tile(x) else on_host(name, x)

    lowered.__name__ = lowered.__qualname__ = name
    lowered.__doc__ = function.__doc__
    return lowered


floor = _composed("floor")
ceil = _composed("ceil")
trunc = _composed("trunc")
cos = _composed("cos")
tan = _composed("tan")
sin = Operation("sin", _composed("sin"), "sin x, of any number.")


def where(
    condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tensor:
    """x where the condition isn't 0, else y; both tiles or numbers.

    Comparisons of index expressions are conditions too; affine_select makes them tiles. Example:
    iitaku/nki-llama, whose flash attention was measured on the device.
    """
    begin(kwargs)
    if isinstance(condition, Mask):
        ones = isa.memset(condition.shape, 1, uint8)
        condition = isa.affine_select(condition, ones, 0)
    tiles = [tile(v) for v in (x, y) if is_tile(v)]
    form = dtype or (common(x, y) if tiles else float32)
    shapes = [v.shape for v in (tile(condition, "condition"), *tiles)]
    rank = max(map(len, shapes))
    spread = [(s[0], *(1,) * (rank - len(s)), *s[1:]) for s in shapes]
    shape = tuple(map(max, zip(*spread, strict=True)))

    def whole_tile(value: Any) -> Tensor:
        if is_tile(value):
            return broadcast_to(value, shape=shape)
        filled = isa.memset(shape, value, form)
        flush()
        return filled

    return composed(newer.where, mask, *map(whole_tile, (condition, x, y)), dtype=form)


def _remainder(x: Any, y: Any, like: Any, step: Any, dtype: Any, mask: Any) -> Any:
    """x - y * round(x / y), with a step added where it hasn't the sign of `like`. The quotient is
    rounded to the nearest integer, since it may be just below the exact integer."""
    single = {"dtype": float32, "mask": mask}
    rest = subtract(x, multiply(divide(x, y, dtype=int32, mask=mask), y, **single), **single)
    wrong = less(multiply(rest, like, **single), 0.0, **single)
    form = dtype or common(x, y)
    return add(rest, multiply(wrong, step, **single), dtype=form, mask=mask)


def mod(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """The remainder of x / y, with the sign of y: nl.divide and six more."""
    check_keywords(kwargs)
    if not is_tile(x) and not is_tile(y):
        return on_host("mod", x, y)
    return _remainder(x, y, y, y, dtype, mask)


def fmod(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """The remainder of x / y, with the sign of x: nl.divide and nine more."""
    check_keywords(kwargs)
    if not is_tile(x) and not is_tile(y):
        return on_host("fmod", x, y)
    size = absolute(y, dtype=float32, mask=mask) if is_tile(y) else on_host("abs", y)
    step = multiply(sign(x, dtype=float32, mask=mask) if is_tile(x) else on_host("sign", x), size)
    return _remainder(x, y, x, step, dtype, mask)
