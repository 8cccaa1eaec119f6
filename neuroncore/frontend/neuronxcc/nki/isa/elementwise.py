"""Elementwise instructions and reductions along free axes in the older API that need more than a
row of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from neuroncore.base.errors import ShapeError
from neuroncore.frontend.neuronxcc.nki.expressions import Box, Mask
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import apart, begin, format_or, number
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine, member
from neuroncore.frontend.neuronxcc.nki.keywords import token
from neuroncore.frontend.neuronxcc.nki.results import produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.operators import common
from neuroncore.memory.access import Dims
from neuroncore.numerics.formats import Format

__all__ = [
    "memset", "tensor_reduce", "tensor_tensor",
]  # fmt: skip


def tensor_tensor(
    data1: Any, data2: Any, op: Any, *, dtype: Any = None, mask: Any = None,
    engine: Any = engine.unknown, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """data1 <op> data2; free axes of size 1 are repeated, and an operand with one element per
    partition is repeated along all of them."""
    begin(kwargs)
    x, y = tile(data1, "data1"), tile(data2, "data2")
    if x.shape != y.shape:
        x, y = _repeated(*_of_one_rank(x, y))
    form = format_or(dtype, common(x, y))
    return combined(x, y, token(op), form, mask, member(constants.engine, engine))


def combined(
    x: Tensor, y: Tensor, op: Any, form: Format, mask: Any, on: Any = engine.unknown
) -> Tensor:
    """x <op> y of tiles without conversion, in a format."""
    row = getattr(op, "operator", None)
    x, y = apart(x, y, on_gpsimd=row is not None and "vector" not in row.engines)
    return produce("tensor_tensor", (x.shape, form), mask, data1=x, data2=y, op=op, engine=on)


def _of_one_rank(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return both tiles with the same number of axes. The pages don't state this, but students'
    kernels that ran on Trainium add [128, 1] to 3D."""
    x, y = (
        t.reshape((t.shape[0], *(1 for _ in other.shape[1:])))
        if t.free_size == 1 and (other.free_size > 1 or len(t.shape) < len(other.shape))
        else t
        for t, other in ((x, y), (y, x))
    )
    return x, y


def _repeated(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return both tiles, with free axes of size 1 repeated to the other's size, if all axes fit."""
    if x.shape == y.shape or len(x.shape) != len(y.shape):
        return x, y
    free = tuple(map(max, zip(x.shape[1:], y.shape[1:], strict=True)))
    if any(n not in (1, m) for t in (x, y) for n, m in zip(t.shape[1:], free, strict=True)):
        return x, y
    return x.stretched((x.shape[0], *free)), y.stretched((y.shape[0], *free))


def memset(
    shape: Sequence[int], value: Any, dtype: Any, *, mask: Any = None, engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """A tile of SBUF filled with a number."""
    begin(kwargs)
    out = (tuple(shape), format_or(dtype, None))
    return produce(
        "memset", out, mask, value=number(value), engine=member(constants.engine, engine)
    )


Axis = int | Sequence[int]


def tensor_reduce(
    op: Any, data: Any, axis: Axis, *, mask: Any = None, dtype: Any = None, negate: bool = False,
    keepdims: bool = False, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """The reduction of a tile along free axes; a mask is over data.

    The access pattern has the reduced axes last, as they stream past a lane. The pages require that
    order, but kernels reduce other axes too (nki-samples, average_pool2d).
    """
    begin(kwargs)
    x = tile(data)
    axes = _folded(x, axis)
    order = [a for a in range(len(x.shape)) if a not in axes] + [*axes]
    if order != sorted(order):
        over = mask.permuted(x.shape, order) if isinstance(mask, Mask) else mask
        last = range(len(order) - len(axes), len(order))
        folded = tensor_reduce(op, x.permuted(order), last, mask=over, dtype=dtype, negate=negate)
        for a in axes if keepdims else ():
            folded = folded.expand_dims(a)
        return folded
    kept = [a for a in range(len(x.shape)) if keepdims or a not in axes]
    shape = [1 if a in axes else x.shape[a] for a in kept]

    def left(dst: Tensor, box: Box) -> Tensor:
        pieces = [(0, 1) if a in axes else box[a] for a in kept]
        return dst.within(tuple(pieces + [(0, 1)] * (len(dst.shape) - len(pieces))))

    return produce(
        "tensor_reduce",
        (shape, format_or(dtype, x.dtype)),
        mask,
        space=x.shape,
        part=left,
        op=token(op),
        data=x,
        axis=axes,
        negate=negate,
        keepdims=keepdims,
    )


def _folded(x: Tensor, axis: Axis) -> Dims:
    """Return the axes to reduce, in order. Raises ShapeError for axes that aren't free axes of the
    tile."""
    listed = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    rank = len(x.shape)
    numbers = [int(a) for a in listed if isinstance(a, int | np.integer)]
    axes = tuple(sorted(a + rank * (a < 0) for a in numbers)) if len(numbers) == len(listed) else ()
    if not axes or axes[0] < 1 or axes[-1] >= rank or len({*axes}) < len(axes):
        raise ShapeError(
            f"axis {axis!r} of {x} can't be reduced",
            argument="axis",
            expected=f"some of the axes 1 to {rank - 1}",
            got=repr(axis),
            because="a lane reduces its own elements; axis 0 is the lanes",
            hint="use nisa.tensor_partition_reduce, or a product with ones, across partitions",
        )
    return axes
