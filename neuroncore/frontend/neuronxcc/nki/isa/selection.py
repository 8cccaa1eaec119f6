"""Instructions that choose among elements by masks, ranges and predicates, in the older API."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from neuroncore.enums import MemoryRegion
from neuroncore.errors import NotEmulated, SignatureError
from neuroncore.frontend.neuronxcc.nki.index import Index, Mask
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    accumulator,
    column,
    format_or,
    write,
)
from neuroncore.frontend.neuronxcc.nki.isa.constants import reduce_cmd
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import in_sbuf, memset, tensor_copy
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.operators import token
from neuroncore.frontend.neuronxcc.nki.results import chosen, flush, produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki import language as newer
from neuroncore.memory.access import Dims
from neuroncore.numerics.formats import Format

SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
Axis = int | Sequence[int]


class fp32:
    """Limits of float32 numbers."""

    min = float(np.finfo(np.float32).min)


class bfp16:
    """Limits of bfloat16 numbers."""

    min = float(np.ldexp(-(2 - 2.0**-7), 127))


def tensor_copy_predicated(
    *,
    src: Any,
    dst: Any,
    predicate: Any,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> None:
    """dst = src where the predicate isn't 0 (is 0, with reverse_pred)."""
    check_keywords(kwargs)
    given = tile(src, "src") if isinstance(src, Tensor) else src
    target = tile(dst, "dst")
    decides = _for_all_behind(tile(predicate, "predicate"), target.shape)
    write(
        "tensor_copy_predicated",
        target,
        mask,
        src=given,
        predicate=decides,
        reverse_pred=reverse_pred,
    )


def _for_all_behind(x: Tensor, shape: Dims) -> Tensor:
    """A predicate of a tile's first axes, or of size 1 along some, for the whole tile: published
    kernels leave the others out (nki-samples, flash_paged_attn_varlen)."""
    if x.size == prod(shape):
        return x
    behind = x
    for axis in range(len(x.shape), len(shape)):
        behind = behind.expand_dims(axis)
    fits = all(n in (1, m) for n, m in zip(behind.shape, shape, strict=False))
    return behind.stretched(shape) if fits and len(behind.shape) == len(shape) else x


def select_reduce(
    *,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle,
    reduce_op: Any = np.amax,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> None:
    """dst = on_true where the predicate isn't 0, else on_false, and its maximum in reduce_res."""
    check_keywords(kwargs)
    write(
        "select_reduce",
        dst,
        mask,
        predicate=tile(predicate, "predicate"),
        on_true=tile(on_true, "on_true"),
        on_false=column(on_false, "on_false"),
        reduce_res=accumulator(reduce_res),
        reduce_cmd=constants.member(constants.reduce_cmd, reduce_cmd),
        reduce_op=token(reduce_op),
        reverse_pred=reverse_pred,
    )


def iota(expr: Any, dtype: Any, *, mask: Any = None, **kwargs: Any) -> Tensor:
    """The values of an index expression, whose first axis is the partition."""
    check_keywords(kwargs)
    flush()
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
        pattern=_pattern(expr),
        offset=expr.start,
        channel_multiplier=expr.steps[0],
    )


def _pattern(expr: Index) -> list[list[int]]:
    return [[step, size] for step, size in zip(expr.steps[1:], expr.shape[1:], strict=True)]


def affine_select(
    pred: Any,
    on_true_tile: Any,
    on_false_value: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """on_true_tile where comparisons of index expressions hold, else a number."""
    check_keywords(kwargs)
    flush()
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
    index, how = term[0].over(x.shape), term[1]
    if any(box for box in chosen(mask, x.shape)):
        raise NotEmulated("affine_select with a mask over a part of its tile")
    return produce(
        "affine_select",
        (x.shape, form),
        mask,
        pattern=_pattern(index),
        channel_multiplier=index.steps[0],
        on_true_tile=x,
        on_false_value=float(other),
        cmp_op=COMPARISONS[how],
        offset=index.start,
        now=not hold,
    )


def range_select(
    *,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = reduce_cmd.idle,
    reduce_res: Any = None,
    reduce_op: Any = np.amax,
    range_start: Any = 0,
    on_false_value: float = fp32.min,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """on_true_tile[:, i] where range_start + i is within two bounds, else a number."""
    check_keywords(kwargs)
    flush()
    x = tile(on_true_tile, "on_true_tile")
    return produce(
        "range_select",
        (x.shape, format_or(dtype, x.dtype)),
        mask,
        on_true_tile=x,
        comp_op0=token(comp_op0),
        comp_op1=token(comp_op1),
        bound0=column(bound0, "bound0"),
        bound1=column(bound1, "bound1"),
        reduce_cmd=constants.member(constants.reduce_cmd, reduce_cmd),
        reduce_res=accumulator(reduce_res),
        reduce_op=token(reduce_op),
        range_start=int(range_start),
        on_false_value=on_false_value,
    )
