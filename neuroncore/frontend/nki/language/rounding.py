"""Numbers without their fraction."""

from __future__ import annotations

from typing import Any

from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import ndarray
from neuroncore.frontend.nki.language.elementwise import (
    abs as absolute,
)
from neuroncore.frontend.nki.language.elementwise import (
    add,
    copy,
    greater,
    less,
    multiply,
    result,
    sign,
)
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.operators import Operation
from neuroncore.numerics.formats import float32, int32, uint8

__all__ = ["ceil", "floor", "trunc"]


def _rounded(x: NkiTensor) -> NkiTensor:
    """The nearest integer, as float32, and x itself where it has no fraction: large or NaN."""
    whole, nearest = ndarray(x.shape, int32), ndarray(x.shape, float32)
    isa.tensor_copy(whole, x)
    isa.tensor_copy(nearest, whole)
    small, magnitude = ndarray(x.shape, uint8), ndarray(x.shape, float32)
    isa.tensor_scalar(magnitude, x, absolute, None)
    isa.tensor_scalar(small, magnitude, less, float(2**23))
    exact = x if x.dtype is float32 else copy(x, float32)
    isa.tensor_copy_predicated(nearest, exact, small, reverse_pred=True)
    return nearest


def _stepped(x: NkiTensor, comparison: Operation, sign_: float, dtype: Any) -> NkiTensor:
    """The nearest integer, moved by one where it is on the wrong side of x; x if it is whole."""
    if x.dtype.is_integer:
        return copy(x, dtype)  # type: ignore[no-any-return]
    nearest, wrong, out = _rounded(x), ndarray(x.shape, float32), result(x, dtype)
    isa.tensor_tensor(wrong, nearest, x, comparison)
    isa.scalar_tensor_tensor(out, wrong, multiply, sign_, add, nearest)
    return out


def floor(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The greatest integer not above x: tensor_copy to int32 and back, which rounds; tensor_scalar
    and tensor_copy_predicated keep what is too large; tensor_tensor and scalar_tensor_tensor step
    down where that was up."""
    return _stepped(x, greater, -1.0, dtype)


def ceil(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The least integer not below x: the instructions of nl.floor."""
    return _stepped(x, less, 1.0, dtype)


def trunc(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """x without its fraction: tensor_scalar and nl.floor of |x|, and the sign back with activation
    and tensor_tensor."""
    if x.dtype.is_integer:
        return copy(x, dtype)  # type: ignore[no-any-return]
    magnitude, signs, out = ndarray(x.shape, float32), ndarray(x.shape, float32), result(x, dtype)
    isa.tensor_scalar(magnitude, x, absolute, None)
    isa.activation(signs, sign, x)
    isa.tensor_tensor(out, floor(magnitude), signs, multiply)
    return out
