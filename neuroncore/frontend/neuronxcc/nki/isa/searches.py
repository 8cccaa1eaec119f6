"""Searches and statistics of the older API: they only convert their arguments and pass them on."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base import enums
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    accumulator,
    begin,
    column,
    format_or,
    like,
    per_partition,
    write,
)
from neuroncore.frontend.neuronxcc.nki.isa.constants import fp32, member, reduce_cmd
from neuroncore.frontend.neuronxcc.nki.results import flush, produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.neuronxcc.nki.tokens import token
from neuroncore.numerics.formats import uint32

__all__ = [
    "bn_aggr",
    "bn_stats",
    "max8",
    "nc_find_index8",
    "nc_match_replace8",
    "range_select",
    "select_reduce",
    "sequence_bounds",
]


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Mean and variance from the result of bn_stats: (P, 2)."""
    begin(kwargs)
    return per_partition(2, "data", "bn_aggr", mask, dtype, data=tile(data, "data"))


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Count, mean and sum of squares of the even and of the odd elements: (P, 6)."""
    begin(kwargs)
    return per_partition(6, "data", "bn_stats", mask, dtype, data=tile(data, "data"))


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """The 8 greatest of each partition, the greatest first."""
    begin(kwargs)
    return per_partition(8, "src", "max8", mask, dtype, src=tile(src, "src"))


def nc_find_index8(
    *, data: Any, vals: Any, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """The index in data of each of 8 values, for each partition."""
    begin(kwargs)
    return per_partition(
        8,
        "data",
        "nc_find_index8",
        mask,
        uint32 if dtype is None else dtype,
        data=tile(data, "data"),
        vals=tile(vals, "vals"),
    )


def nc_match_replace8(
    *,
    data: Any,
    vals: Any,
    imm: Any,
    dst_idx: Any = None,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """data with the first match of each of 8 values replaced by a number; the indices of the
    matches are in dst_idx."""
    begin(kwargs)
    return like(
        "data",
        "nc_match_replace8",
        mask,
        dtype,
        data=tile(data, "data"),
        vals=tile(vals, "vals"),
        imm=imm,
        dst_idx=dst_idx,
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
    on_false_value: Any = fp32.min,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """on_true_tile[:, i] where range_start + i is within two bounds, else a number."""
    begin(kwargs)
    return like(
        "on_true_tile",
        "range_select",
        mask,
        dtype,
        on_true_tile=tile(on_true_tile, "on_true_tile"),
        comp_op0=token(comp_op0),
        comp_op1=token(comp_op1),
        bound0=column(bound0, "bound0"),
        bound1=column(bound1, "bound1"),
        reduce_cmd=member(enums.reduce_cmd, reduce_cmd),
        reduce_res=accumulator(reduce_res, "reduce_res"),
        reduce_op=token(reduce_op),
        range_start=int(range_start),
        on_false_value=on_false_value,
    )


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
) -> Tensor:
    """dst = on_true where the predicate isn't 0, else on_false, and its maximum in reduce_res."""
    begin(kwargs)
    return write(
        "select_reduce",
        dst,
        mask,
        predicate=tile(predicate, "predicate"),
        on_true=tile(on_true, "on_true"),
        on_false=column(on_false, "on_false"),
        reduce_res=accumulator(reduce_res, "reduce_res"),
        reduce_cmd=member(enums.reduce_cmd, reduce_cmd),
        reduce_op=token(reduce_op),
        reverse_pred=reverse_pred,
    )


def sequence_bounds(*, segment_ids: Any, dtype: Any = None) -> Tensor:
    """First and last index of the segment that each element belongs to: (1, 2, F)."""
    flush()
    segment_ids = tile(segment_ids, "segment_ids")
    return produce(
        "sequence_bounds",
        ((segment_ids.shape[0], 2, segment_ids.free_size), format_or(dtype, segment_ids.dtype)),
        None,
        space=segment_ids.shape,
        part=lambda dst, box: dst.within((box[0], (0, 2), *box[1:])),
        segment_ids=segment_ids,
    )
