"""Reduction of a tile along its free axes, in the older API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from neuroncore.base.errors import ShapeError
from neuroncore.frontend.neuronxcc.nki.expressions import Box, Mask
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin, format_or
from neuroncore.frontend.neuronxcc.nki.results import produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.neuronxcc.nki.tokens import token
from neuroncore.memory.access import Dims

__all__ = ["tensor_reduce"]

Axis = int | Sequence[int]


def tensor_reduce(
    op: Any,
    data: Any,
    axis: Axis,
    *,
    mask: Any = None,
    dtype: Any = None,
    negate: bool = False,
    keepdims: bool = False,
    **kwargs: Any,
) -> Tensor:
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
