"""Folds along the free axes of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product
from typing import Any

from neuroncore.base.enums import reduce_cmd
from neuroncore.base.errors import ShapeError
from neuroncore.frontend import integers
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import ndarray
from neuroncore.frontend.nki.language.elementwise import (
    add,
    checked,
    exp,
    logical_and,
    maximum,
    minimum,
    multiply,
    result,
    rsqrt,
    square,
)
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.operators import Operation
from neuroncore.numerics.formats import float32

__all__ = ["all", "max", "mean", "min", "prod", "rms_norm", "softmax", "sum", "var"]

Axis = int | Sequence[int]


def _axes(x: NkiTensor, axis: Axis) -> tuple[int, ...]:
    """The axes to fold, counted from the back, as every release has them. Raises ShapeError for the
    partition, SignatureError for what is no axis or no tile."""
    axes = tuple(sorted(checked(x)._axis(a) - x.ndim for a in integers.axes(axis)))
    if -x.ndim in axes:
        raise ShapeError(
            f"axis 0 of {x} can't be reduced",
            argument="axis",
            position=1,
            expected="the last free axes",
            got=repr(axis),
            because="axis 0 is the partition, and a lane reduces only its own elements",
            hint="nl.transpose first, or a product with ones: nl.matmul",
        )
    return axes


def _kept(x: NkiTensor, axis: Axis, keepdims: bool) -> tuple[int, ...]:
    """The shape that is left; on the chip at least two axes are."""
    axes = [a + x.ndim for a in _axes(x, axis)]
    sizes = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes]
    return tuple(sizes) if len(sizes) > 1 else (*sizes, 1)


def _reduced(x: NkiTensor, op: Operation, axis: Axis, dtype: Any, keepdims: bool) -> NkiTensor:
    out = ndarray(_kept(x, axis, keepdims), dtype or x.dtype)
    isa.tensor_reduce(out, op, x, _axes(x, axis))
    return out


def sum(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The sum along the last axes: tensor_reduce."""
    return _reduced(x, add, axis, dtype, keepdims)


def prod(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The product along the last axes: tensor_reduce."""
    return _reduced(x, multiply, axis, dtype, keepdims)


def max(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The greatest along the last axes: tensor_reduce."""
    return _reduced(x, maximum, axis, dtype, keepdims)


def min(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The least along the last axes: tensor_reduce."""
    return _reduced(x, minimum, axis, dtype, keepdims)


def all(x: NkiTensor, axis: Axis, dtype: Any = None) -> NkiTensor:
    """1 where no element along the last axes is 0: tensor_reduce."""
    return _reduced(x, logical_and, axis, dtype, False)


def _count(x: NkiTensor, axis: Axis) -> int:
    return product(x.shape[a] for a in _axes(x, axis))


def _all_free(x: NkiTensor, axis: Axis, name: str) -> tuple[int, ...]:
    """All axes but the partition. Raises ShapeError for fewer."""
    axes = _axes(x, axis)
    if len(axes) != x.ndim - 1:
        raise ShapeError(
            f"nl.{name} works along all free axes at once",
            argument="axis",
            position=1,
            expected=repr(tuple(range(1, x.ndim))),
            got=repr(axis),
            because="a lane has a single accumulator for all its elements",
        )
    return axes


def mean(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The mean along the last axes: tensor_reduce in float32, then tensor_scalar."""
    total = _reduced(x, add, axis, float32, keepdims)
    out = result(total, dtype or x.dtype)
    isa.tensor_scalar(out, total, multiply, 1.0 / _count(x, axis))
    return out


def var(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The variance (of the population) along all free axes: tensor_reduce and tensor_scalar for
    the mean, then activation and tensor_scalar.

    The reduced axes stay, with size 1, whatever `keepdims` says.
    """
    shift, total = ndarray((x.shape[0], 1), float32), ndarray((x.shape[0], 1), float32)
    squares, out = result(x, float32), ndarray(_kept(x, axis, True), dtype or x.dtype)
    isa.tensor_reduce(shift, add, x, _all_free(x, axis, "var"), negate=True)
    isa.tensor_scalar(shift, shift, multiply, 1.0 / _count(x, axis))
    isa.activation(
        squares, square, x, bias=shift, reduce_op=add, reduce_res=total,
        reduce_cmd=reduce_cmd.reset_reduce,
    )  # fmt: skip
    isa.tensor_scalar(out, total, multiply, 1.0 / _count(x, axis))
    return out


def softmax(x: NkiTensor, axis: Axis = -1, dtype: Any = None) -> NkiTensor:
    """e^(x - max) over its sum along all free axes: tensor_reduce, activation, reciprocal,
    tensor_scalar."""
    column = (x.shape[0], 1)
    least, total, scale = (ndarray(column, float32) for _ in range(3))
    powers, out = result(x, float32), result(x, dtype)
    isa.tensor_reduce(least, maximum, x, _all_free(x, axis, "softmax"), negate=True)
    isa.activation(
        powers, exp, x, bias=least, reduce_op=add, reduce_res=total,
        reduce_cmd=reduce_cmd.reset_reduce,
    )  # fmt: skip
    isa.reciprocal(scale, total)
    isa.tensor_scalar(out, powers, multiply, scale)
    return out


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Axis,
    n: int,
    epsilon: float = 1e-6,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> NkiTensor:
    """x / sqrt(sum(x^2) / n + epsilon) * w, along all free axes: activation, tensor_scalar,
    tensor_tensor."""
    _all_free(x, axis, "rms_norm")
    column, inner = (x.shape[0], 1), compute_dtype or float32
    total, scale = ndarray(column, float32), ndarray(column, float32)
    squares, scaled, out = result(x, inner), result(x, inner), result(x, dtype)
    isa.activation(
        squares, square, x, reduce_op=add, reduce_res=total, reduce_cmd=reduce_cmd.reset_reduce
    )
    isa.tensor_scalar(total, total, multiply, 1.0 / n, op1=add, operand1=epsilon)
    isa.activation(scale, rsqrt, total)
    isa.tensor_scalar(scaled, x, multiply, scale)
    isa.tensor_tensor(out, scaled, w, multiply)
    return out
