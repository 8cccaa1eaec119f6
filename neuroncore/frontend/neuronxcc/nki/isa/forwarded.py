"""Instructions that differ from the instruction set only in their calls: the clause gives the shape
of the result, and the arguments are converted and passed on.

Searches and statistics of the older API: they only convert their arguments and pass them on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base import enums
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    accumulator,
    apart,
    begin,
    column,
    float32_column,
    format_or,
    like,
    per_partition,
    write,
)
from neuroncore.frontend.neuronxcc.nki.isa.arguments import bias as as_bias
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine, fp32, member, reduce_cmd
from neuroncore.frontend.neuronxcc.nki.keywords import token
from neuroncore.frontend.neuronxcc.nki.results import flush, produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.operators import common
from neuroncore.numerics.formats import uint32

__all__ = [
    "activation", "activation_reduce", "bn_aggr", "bn_stats", "dropout", "max8",
    "nc_find_index8", "nc_match_replace8", "nc_stream_shuffle", "range_select", "reciprocal",
    "scalar_tensor_tensor", "select_reduce", "sequence_bounds", "tensor_copy",
    "tensor_copy_dynamic_dst", "tensor_copy_dynamic_src", "tensor_partition_reduce",
    "tensor_scalar", "tensor_scalar_cumulative", "tensor_scalar_reduce", "tensor_tensor_scan",
]  # fmt: skip


def activation(
    op: Any,
    data: Any,
    *,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """op(data * scale + bias), and its reduction along the free axes in reduce_res."""
    begin(kwargs)
    return like(
        "data",
        "activation",
        mask,
        dtype,
        op=token(op),
        data=tile(data, "data"),
        bias=as_bias(bias, "bias"),
        scale=column(scale, "scale"),
        reduce_op=token(reduce_op),
        reduce_res=accumulator(reduce_res, "reduce_res"),
        reduce_cmd=member(enums.reduce_cmd, reduce_cmd),
    )


def activation_reduce(
    op: Any,
    data: Any,
    *,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """op(data * scale + bias), and its reduction along the free axes in reduce_res."""
    begin(kwargs)
    return like(
        "data",
        "activation_reduce",
        mask,
        dtype,
        op=token(op),
        data=tile(data, "data"),
        reduce_op=token(reduce_op),
        reduce_res=accumulator(reduce_res, "reduce_res"),
        bias=as_bias(bias, "bias"),
        scale=column(scale, "scale"),
    )


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """data with elements zeroed at random, each with probability `prob`."""
    begin(kwargs)
    return like("data", "dropout", mask, dtype, data=tile(data, "data"), prob=column(prob, "prob"))


def nc_stream_shuffle(
    src: Any, dst: Any, shuffle_mask: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tensor:
    """dst[p] = src[shuffle_mask[p]] within each group of 32 partitions."""
    begin(kwargs)
    return write("nc_stream_shuffle", dst, mask, src=tile(src, "src"), shuffle_mask=shuffle_mask)


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tensor:
    """1 / data."""
    begin(kwargs)
    return like("data", "reciprocal", mask, dtype, data=tile(data, "data"))


def scalar_tensor_tensor(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> Tensor:
    """(data <op0> operand0) <op1> operand1; operand0 is a number or (P, 1), operand1 a tile."""
    begin(kwargs)
    data = tile(data, "data")
    operand1 = tile(operand1, "operand1")
    data, operand1 = apart(data, operand1)
    return like(
        "data",
        "scalar_tensor_tensor",
        mask,
        dtype,
        data=data,
        op0=token(op0),
        operand0=float32_column(operand0, "operand0"),
        op1=token(op1),
        operand1=operand1,
        reverse0=reverse0,
        reverse1=reverse1,
    )


def tensor_copy(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tensor:
    """A copy in SBUF."""
    begin(kwargs)
    return like(
        "src", "tensor_copy", mask, dtype, src=tile(src, "src"), engine=member(enums.engine, engine)
    )


def tensor_copy_dynamic_dst(
    *,
    dst: Any,
    src: Any,
    mask: Any = None,
    dtype: Any = None,
    engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tensor:
    """Copy src to a part of dst at a free offset from a tile: dst is indexed with that tile."""
    begin(kwargs)
    return write(
        "tensor_copy", dst, mask, src=tile(src, "src"), engine=member(enums.engine, engine)
    )


def tensor_copy_dynamic_src(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tensor:
    """A copy of the part of src at a free offset from a tile: src is indexed with that tile."""
    begin(kwargs)
    return tensor_copy(src, mask=mask, dtype=dtype, engine=engine)


def tensor_partition_reduce(
    op: Any, data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """The reduction of a tile across partitions, in one partition."""
    begin(kwargs)
    data = tile(data, "data")
    return produce(
        "tensor_partition_reduce",
        ((1, *data.shape[1:]), format_or(dtype, data.dtype)),
        mask,
        space=data.shape,
        part=lambda dst, box: dst.within(((0, 1), *box[1:])),
        op=token(op),
        data=data,
    )


def tensor_scalar(
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tensor:
    """(data <op0> operand0) <op1> operand1; operands are numbers or (P, 1) tiles."""
    begin(kwargs)
    return like(
        "data",
        "tensor_scalar",
        mask,
        dtype,
        data=tile(data, "data"),
        op0=token(op0),
        operand0=float32_column(operand0, "operand0"),
        reverse0=reverse0,
        op1=token(op1),
        operand1=float32_column(operand1, "operand1"),
        reverse1=reverse1,
        engine=member(enums.engine, engine),
    )


def tensor_scalar_cumulative(
    *,
    src: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    mask: Any = None,
    dtype: Any = None,
    dst: Any = None,
    **kwargs: Any,
) -> Tensor:
    """The cumulative reduction by op1 of src <op0> imm0."""
    begin(kwargs)
    arguments = {
        "src": tile(src, "src"),
        "op0": token(op0),
        "op1": token(op1),
        "imm0": column(imm0, "imm0"),
        "imm1": column(imm1, "imm1"),
        "reduce_cmd": member(enums.reduce_cmd, reduce_cmd),
    }
    if dst is not None:
        return write("tensor_scalar_cumulative", dst, mask, **arguments)
    return like("src", "tensor_scalar_cumulative", mask, dtype, **arguments)


def tensor_scalar_reduce(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any,
    reverse0: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> Tensor:
    """data <op0> operand0, and its reduction along the free axes in reduce_res."""
    begin(kwargs)
    return like(
        "data",
        "tensor_scalar_reduce",
        mask,
        dtype,
        data=tile(data, "data"),
        op0=token(op0),
        operand0=column(operand0, "operand0"),
        reduce_op=token(reduce_op),
        reduce_res=accumulator(reduce_res, "reduce_res"),
        reverse0=reverse0,
    )


def tensor_tensor_scan(
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> Tensor:
    """r[:, i] = (data0[:, i] <op0> r[:, i - 1]) <op1> data1[:, i], from `initial`."""
    begin(kwargs)
    data0 = tile(data0, "data0")
    data1 = tile(data1, "data1")
    data0, data1 = apart(data0, data1)
    return produce(
        "tensor_tensor_scan",
        (data0.shape, format_or(dtype, common(data0, data1))),
        mask,
        data0=data0,
        data1=data1,
        initial=column(initial, "initial"),
        op0=token(op0),
        op1=token(op1),
        reverse0=reverse0,
        reverse1=reverse1,
    )


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
