"""Instructions that select elements by masks, ranges and predicates, in the older API."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from neuroncore.base.errors import NotEmulated, SignatureError
from neuroncore.frontend.neuronxcc.nki.expressions import Index, Mask
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin, format_or, in_sbuf, write
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import memset
from neuroncore.frontend.neuronxcc.nki.isa.forwarded import tensor_copy
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.results import chosen, produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki import language as newer
from neuroncore.memory.access import Dims
from neuroncore.numerics.formats import Format

__all__ = ["affine_select", "iota", "tensor_copy_predicated"]


def tensor_copy_predicated(
    *, src: Any, dst: Any, predicate: Any, reverse_pred: bool = False, mask: Any = None,
    dtype: Any = None, **kwargs: Any,
) -> None:  # fmt: skip
    """dst = src where the predicate isn't 0 (is 0, with reverse_pred)."""
    check_keywords(kwargs)
    source = tile(src, "src") if isinstance(src, Tensor) else src
    target = tile(dst, "dst")
    decides = _for_all_behind(tile(predicate, "predicate"), target.shape)
    write(
        "tensor_copy_predicated",
        target,
        mask,
        src=source,
        predicate=decides,
        reverse_pred=reverse_pred,
    )


def _for_all_behind(x: Tensor, shape: Dims) -> Tensor:
    """Return a predicate for the whole tile from one over its first axes, or of size 1 along some:
    published kernels leave the other axes out (nki-samples, flash_paged_attn_varlen)."""
    if x.size == prod(shape):
        return x
    behind = x
    for axis in range(len(x.shape), len(shape)):
        behind = behind.expand_dims(axis)
    fits = all(n in (1, m) for n, m in zip(behind.shape, shape, strict=False))
    return behind.stretched(shape) if fits and len(behind.shape) == len(shape) else x


def iota(expr: Any, dtype: Any, *, mask: Any = None, **kwargs: Any) -> Tensor:
    """The values of an index expression, whose first axis is the partition. The number of a program
    or of an iteration is an expression of one element, shape (1, 1): vLLM's paged attention and
    nki-samples' flash_paged_attn_varlen make a tile of `nl.program_id(1)` this way."""
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
        pattern=_pattern(expr),
        offset=expr.start,
        channel_multiplier=expr.steps[0],
    )


def _pattern(expr: Index) -> list[list[int]]:
    return [[step, size] for step, size in zip(expr.steps[1:], expr.shape[1:], strict=True)]


def affine_select(
    pred: Any, on_true_tile: Any, on_false_value: Any, *, mask: Any = None, dtype: Any = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """on_true_tile where comparisons of index expressions hold, else a number."""
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
