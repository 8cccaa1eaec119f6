"""Elementwise instructions of the older API, reductions along free axes, and selections by masks
and predicates. Unlike the functions of `forwarded`, these functions do more than convert
arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from neuroncore.base.errors import ShapeError, SignatureError
from neuroncore.frontend.neuronxcc.nki.expressions import Box, Index, Mask
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    apart,
    begin,
    format_or,
    in_sbuf,
    number,
    write,
)
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine, member
from neuroncore.frontend.neuronxcc.nki.isa.forwarded import tensor_copy
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords, token
from neuroncore.frontend.neuronxcc.nki.promotion import promoted
from neuroncore.frontend.neuronxcc.nki.results import produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki import language as newer
from neuroncore.memory.access import Dims
from neuroncore.numerics.formats import Format

__all__ = [
    "affine_select", "iota", "memset", "tensor_copy_predicated", "tensor_reduce",
    "tensor_tensor",
]  # fmt: skip


def tensor_tensor(
    data1: Any, data2: Any, op: Any, *, dtype: Any = None, mask: Any = None,
    engine: Any = engine.unknown, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return data1 <op> data2. Free axes of size 1 are repeated. An operand with one element per
    partition is repeated along all free axes."""
    begin(kwargs)
    x, y = tile(data1, "data1"), tile(data2, "data2")
    if x.shape != y.shape:
        x, y = _repeated(*_of_one_rank(x, y))
    form = format_or(dtype, promoted(x, y, token(op)))
    return combined(x, y, token(op), form, mask, member(constants.engine, engine))


def combined(
    x: Tensor, y: Tensor, op: Any, form: Format, mask: Any, on: Any = engine.unknown
) -> Tensor:
    """Return x <op> y for two tiles, in format `form`, by tensor_tensor on the engine `on`. The
    operands are not converted."""
    row = getattr(op, "operator", None)
    x, y = apart(x, y, on_gpsimd=row is not None and "vector" not in row.engines)
    return produce("tensor_tensor", (x.shape, form), mask, data1=x, data2=y, op=op, engine=on)


def _of_one_rank(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return both tiles. A tile with one element per partition is reshaped to the other tile's
    number of axes. The pages don't mention this, but students' kernels that ran on Trainium add a
    [128, 1] tile to a tile of three axes."""
    x, y = (
        t.reshape((t.shape[0], *(1 for _ in other.shape[1:])))
        if t.free_size == 1 and (other.free_size > 1 or len(t.shape) < len(other.shape))
        else t
        for t, other in ((x, y), (y, x))
    )
    return x, y


def _repeated(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return both tiles, with free axes of size 1 repeated to the size in the other tile. If the
    axes don't fit, return the tiles unchanged."""
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
    """Return a new tile in SBUF, filled with a number."""
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
    """Return the reduction of a tile along free axes. A mask is over the axes of `data`.

    According to the pages, the reduced axes must be the last axes. But kernels reduce other axes
    too (nki-samples, average_pool2d). For these kernels, the access pattern of the instruction puts
    the reduced axes last, so that the elements to combine stream one after another."""
    begin(kwargs)
    x = tile(data)
    axes = _folded(x, axis)
    order = [a for a in range(len(x.shape)) if a not in axes] + [*axes]
    if order != sorted(order):
        permuted = mask.permuted(x.shape, order) if isinstance(mask, Mask) else mask
        last = range(len(order) - len(axes), len(order))
        folded = tensor_reduce(
            op, x.permuted(order), last, mask=permuted, dtype=dtype, negate=negate
        )
        for a in axes if keepdims else ():
            folded = folded.expand_dims(a)
        return folded
    kept = [a for a in range(len(x.shape)) if keepdims or a not in axes]
    shape = [1 if a in axes else x.shape[a] for a in kept]

    def reduced_part(dst: Tensor, box: Box) -> Tensor:
        pieces = [(0, 1) if a in axes else box[a] for a in kept]
        return dst.within(tuple(pieces + [(0, 1)] * (len(dst.shape) - len(pieces))))

    return produce(
        "tensor_reduce",
        (shape, format_or(dtype, x.dtype)),
        mask,
        masked="data",
        part=reduced_part,
        op=token(op),
        data=x,
        axis=axes,
        negate=negate,
        keepdims=keepdims,
    )


def _folded(x: Tensor, axis: Axis) -> Dims:
    """Return the axes to reduce, counted from the front and sorted. Raises ShapeError for axes that
    aren't free axes of the tile."""
    values = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    rank = len(x.shape)
    numbers = [int(a) for a in values if isinstance(a, int | np.integer)]
    axes = tuple(sorted(a + rank * (a < 0) for a in numbers)) if len(numbers) == len(values) else ()
    if not axes or axes[0] < 1 or axes[-1] >= rank or len({*axes}) < len(axes):
        raise ShapeError(
            f"axis {axis!r} of {x} can't be reduced",
            argument="axis",
            expected=f"reduce axes from 1 to {rank - 1}" if rank > 2 else "reduce axis 1",
            got=repr(axis),
            because="axis 0 is the partition axis, and each partition is reduced separately",
            hint="to reduce across partitions, use nisa.tensor_partition_reduce, or multiply by a "
            "matrix of ones",
        )
    return axes


def tensor_copy_predicated(
    *, src: Any, dst: Any, predicate: Any, reverse_pred: bool = False, mask: Any = None,
    dtype: Any = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Copy src to dst where the predicate isn't 0. With reverse_pred, copy where it is 0."""
    check_keywords(kwargs)
    source = tile(src, "src") if isinstance(src, Tensor) else src
    target = tile(dst, "dst")
    flags = _repeated_predicate(tile(predicate, "predicate"), target.shape)
    write(
        "tensor_copy_predicated",
        target,
        mask,
        src=source,
        predicate=flags,
        reverse_pred=reverse_pred,
    )


def _repeated_predicate(x: Tensor, shape: Dims) -> Tensor:
    """Return a predicate for each element of a tile of shape `shape`.

    The predicate x may lack the last axes, or have size 1 along some axes. Then x is repeated along
    these axes, because published kernels pass such predicates (nki-samples,
    flash_paged_attn_varlen). If x doesn't fit, return x unchanged."""
    if x.size == prod(shape):
        return x
    wide = x
    for axis in range(len(x.shape), len(shape)):
        wide = wide.expand_dims(axis)
    fits = all(n in (1, m) for n, m in zip(wide.shape, shape, strict=False))
    return wide.stretched(shape) if fits and len(wide.shape) == len(shape) else x


def iota(expr: Any, dtype: Any, *, mask: Any = None, **kwargs: Any) -> Tensor:
    """Return a tile with the values of an index expression. Its first axis is the partition axis.

    An int, such as the number of a program or a loop variable, is an expression of shape (1, 1).
    vLLM's paged attention and nki-samples' flash_paged_attn_varlen make a tile of
    `nl.program_id(1)` in this way."""
    begin(kwargs)
    if isinstance(expr, int):
        expr = Index((1, 1), (0, 0), int(expr))
    if not isinstance(expr, Index) or expr.ndim < 2:
        raise SignatureError(
            f"iota: {expr!r} is not an index expression of a tile",
            argument="expr",
            position=0,
            expected="an expression of nl.arange(...)[:, None], nl.arange(...)[None, :], ...",
            also="err_1d_arange_not_supported" if isinstance(expr, Index) else None,
        )
    return produce(
        "iota",
        (expr.shape, format_or(dtype, None)),
        mask,
        of_box=lambda box: _numbers(expr, box),
        **_numbers(expr),
    )


def _numbers(expr: Index, box: Box = ()) -> dict[str, Any]:
    """Return the arguments of iota and affine_select for the elements of an index expression in a
    box. The argument `pattern` lists [step, size] of each free axis."""
    part = expr[tuple(slice(first, first + count) for first, count in box)] if box else expr
    return {
        "pattern": [[*pair] for pair in zip(part.steps[1:], part.shape[1:], strict=True)],
        "offset": part.start,
        "channel_multiplier": part.steps[0],
    }


def affine_select(
    pred: Any, on_true_tile: Any, on_false_value: Any, *, mask: Any = None, dtype: Any = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return on_true_tile where `pred` holds, else the number on_false_value. `pred` consists of
    comparisons of index expressions, or is a bool."""
    begin(kwargs)
    x = in_sbuf(on_true_tile, "on_true_tile")  # the GpSimd engine has no path to PSUM
    form = format_or(dtype, x.dtype)
    if isinstance(pred, bool | np.bool_):
        return (
            tensor_copy(x, dtype=form, mask=mask)
            if pred
            else memset(x.shape, on_false_value, form, mask=mask)
        )
    if not isinstance(pred, Mask):
        raise SignatureError(
            f"affine_select: {pred!r:.60} is not a comparison of index expressions",
            argument="pred",
            position=0,
            expected="comparisons of index expressions, combined with &",
            also="err_unsupported_expression_in_mask",
        )
    *before, last = pred.terms
    for term in before:
        x = _selected(term, x, on_false_value, form, mask, hold=False)
    return _selected(last, x, on_false_value, form, mask)


COMPARISONS = {">=": newer.greater_equal, "==": newer.equal, "!=": newer.not_equal}


def _selected(
    term: tuple[Index, str], x: Tensor, other: Any, form: Format, mask: Any, hold: bool = True
) -> Tensor:
    """Return x where the comparison `term` holds, else the number `other`, in format `form`. `term`
    is (expression, operator), as in Mask. With `hold`, the instruction may be delayed until the
    kernel assigns its result (`results`)."""
    index, how = term[0].over(x.shape), term[1]
    return produce(
        "affine_select",
        (x.shape, form),
        mask,
        of_box=lambda box: _numbers(index, box),
        on_true_tile=x,
        on_false_value=float(other),
        cmp_op=COMPARISONS[how],
        now=not hold,
        **_numbers(index),
    )
