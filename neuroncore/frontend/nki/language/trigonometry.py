"""Sine, cosine and tangent of any number: the Scalar engine knows them from -pi to pi only."""

from __future__ import annotations

from math import pi
from typing import Any

from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import ndarray
from neuroncore.frontend.nki.language.elementwise import (
    add,
    divide,
    maximum,
    minimum,
    multiply,
    result,
)
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.operators import Operation
from neuroncore.numerics.formats import float32, int32

__all__ = ["cos", "sin", "tan"]

# 2 pi as a sum of float32 numbers, the first with so few bits that its small multiples are exact
TURN = (6.28125, 0.0019353071795864769)


def _sine(x: NkiTensor, out: NkiTensor, shift: float) -> None:
    """sin(x + shift): the nearest whole number of turns is taken off, then activation."""
    turns, whole, rest = (
        ndarray(x.shape, int32),
        ndarray(x.shape, float32),
        ndarray(x.shape, float32),
    )
    isa.tensor_scalar(turns, x, multiply, 1 / (2 * pi), op1=add, operand1=shift / (2 * pi))
    isa.tensor_copy(whole, turns)
    isa.scalar_tensor_tensor(rest, whole, multiply, -TURN[0], add, x)
    isa.scalar_tensor_tensor(rest, whole, multiply, -TURN[1], add, rest)
    isa.tensor_scalar(rest, rest, add, shift, op1=minimum, operand1=pi)
    isa.tensor_scalar(rest, rest, maximum, -pi)
    isa.activation(out, sin, rest)


def _sin(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    out = result(x, dtype)
    _sine(x, out, 0.0)
    return out


sin = Operation(
    "sin",
    _sin,
    "sin x, reduced to one turn first by tensor_scalar, tensor_copy and scalar_tensor_tensor: "
    "activation.",
)


def cos(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """cos x = sin(x + pi/2): the instructions of nl.sin."""
    out = result(x, dtype)
    _sine(x, out, pi / 2)
    return out


def tan(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """tan x = sin x / cos x: nl.sin, nl.cos and nl.divide."""
    return divide(_sin(x, float32), cos(x, float32), dtype or x.dtype)  # type: ignore[no-any-return]
