"""Functions that only convert their arguments (`arguments.converted`), and issue the instruction
with the same name.

The functions of the most frequent instructions do not call `arguments.converted`. To save time,
these functions convert each argument separately."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from neuroncore.base import enums
from neuroncore.base.errors import NotEmulated
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki.expressions import Box
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    accumulator,
    apart,
    begin,
    column,
    converted,
    float32_column,
    format_or,
    like,
    per_partition,
    write,
    written,
)
from neuroncore.frontend.neuronxcc.nki.isa.arguments import bias as as_bias
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine, fp32, member, reduce_cmd
from neuroncore.frontend.neuronxcc.nki.keywords import token
from neuroncore.frontend.neuronxcc.nki.promotion import promoted
from neuroncore.frontend.neuronxcc.nki.results import produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki import language
from neuroncore.memory import access
from neuroncore.numerics.formats import uint32

__all__ = [
    "activation", "activation_reduce", "bn_aggr", "bn_stats", "dropout", "max8",
    "nc_find_index8", "nc_match_replace8", "nc_stream_shuffle", "range_select", "reciprocal",
    "scalar_tensor_tensor", "select_reduce", "sequence_bounds", "tensor_copy",
    "tensor_copy_dynamic_dst", "tensor_copy_dynamic_src", "tensor_partition_reduce",
    "tensor_scalar", "tensor_scalar_cumulative", "tensor_scalar_reduce", "tensor_tensor_scan",
]  # fmt: skip


def activation(
    op: Any, data: Any, *, bias: Any = None, scale: Any = 1.0, reduce_op: Any = None,
    reduce_res: Any = None, reduce_cmd: Any = reduce_cmd.idle, mask: Any = None, dtype: Any = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return op(data * scale + bias). Reduce the result along the free axes by reduce_op, and write
    the reduction to reduce_res."""
    begin(kwargs)
    op, x = token(op), tile(data, "data")
    return produce(
        "activation", (x.shape, format_or(dtype, x.dtype)), mask, op=op, data=x,
        bias=as_bias(bias, "bias"), scale=column(scale, "scale"), reduce_op=token(reduce_op),
        reduce_res=accumulator(reduce_res, "reduce_res"),
        reduce_cmd=member(enums.reduce_cmd, reduce_cmd),
    )  # fmt: skip


def activation_reduce(
    op: Any, data: Any, *, reduce_op: Any, reduce_res: Any, bias: Any = None, scale: Any = 1.0,
    mask: Any = None, dtype: Any = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return op(data * scale + bias). Reduce the result along the free axes by reduce_op, and write
    the reduction to reduce_res."""
    return like("data", "activation_reduce", locals())


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return data with randomly chosen elements set to 0. `prob` is the probability of 0 for an
    element. If `dtype` is not the format of data, tensor_copy converts the result."""
    begin(kwargs)
    x = tile(data, "data")
    dropped = produce("dropout", (x.shape, x.dtype), mask, data=x, prob=column(prob, "prob"))
    same = dtype is None or format_or(dtype, None) is x.dtype
    return dropped if same else tensor_copy(dropped, mask=mask, dtype=dtype)


def nc_stream_shuffle(
    src: Any, dst: Any, shuffle_mask: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tensor:
    """Compute dst[p] = src[shuffle_mask[p]] within each group of 32 partitions, and return dst."""
    return written("nc_stream_shuffle", locals())


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tensor:
    """Return 1 / data."""
    return like("data", "reciprocal", locals())


def scalar_tensor_tensor(
    *, data: Any, op0: Any, operand0: Any, op1: Any, operand1: Any, reverse0: bool = False,
    reverse1: bool = False, dtype: Any = None, mask: Any = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return (data <op0> operand0) <op1> operand1. operand0 is a number or a (P, 1) tile, and
    operand1 a tile of the shape of data."""
    begin(kwargs)
    del kwargs
    data, operand1 = apart(tile(data, "data"), tile(operand1, "operand1"))
    operand0 = float32_column(operand0, "operand0", op0)
    return like("data", "scalar_tensor_tensor", locals())


def tensor_copy(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tensor:
    """Return a copy of a tile in SBUF."""
    begin(kwargs)
    x, engine = tile(src, "src"), member(enums.engine, engine)
    if _by_activation(engine):
        return activation(language.copy, x, mask=mask, dtype=dtype)
    return produce("tensor_copy", (x.shape, format_or(dtype, x.dtype)), mask, src=x, engine=engine)


def tensor_copy_dynamic_dst(
    *, dst: Any, src: Any, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Copy src to dst, a part of a tensor. The tensor was indexed with a tile, which contains the
    offset of this part along a free axis."""
    if _by_activation(member(enums.engine, engine)):
        begin(kwargs)
        return write("activation", dst, mask, op=language.copy, data=tile(src, "src"))
    return written("tensor_copy", locals())


def _by_activation(engine: enums.engine) -> bool:
    """Return whether a copy on this engine is an activation.

    The Scalar engine of NeuronCore-v2 has no tensor_copy, so there a copy is an activation.
    According to the page of the older tensor_copy, that engine converts to float32 in a copy."""
    return engine is enums.engine.scalar and not current().machine.has("scalar_tensor_copy")


def tensor_copy_dynamic_src(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tensor:
    """Return a copy of src, a part of a tensor. The tensor was indexed with a tile, which contains
    the offset of this part along a free axis."""
    begin(kwargs)
    return tensor_copy(src, mask=mask, dtype=dtype, engine=engine)


def tensor_partition_reduce(
    op: Any, data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """Return the reduction of a tile across partitions, in one partition."""
    arguments = converted("tensor_partition_reduce", locals())
    x = arguments["data"]
    return produce(
        "tensor_partition_reduce",
        ((1, *x.shape[1:]), format_or(dtype, x.dtype)),
        mask,
        masked="data",
        part=lambda dst, box: dst.within(((0, 1), *box[1:])),
        **arguments,
    )


def tensor_scalar(
    data: Any, op0: Any, operand0: Any, reverse0: bool = False, op1: Any = None,
    operand1: Any = None, reverse1: bool = False, *, dtype: Any = None, mask: Any = None,
    engine: Any = engine.unknown, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return (data <op0> operand0) <op1> operand1. operand0 and operand1 are numbers or (P, 1)
    tiles."""
    begin(kwargs)
    x = tile(data, "data")
    return produce(
        "tensor_scalar", (x.shape, format_or(dtype, x.dtype)), mask, data=x,
        op0=token(op0), operand0=float32_column(operand0, "operand0", op0), reverse0=reverse0,
        op1=token(op1), operand1=float32_column(operand1, "operand1", op1), reverse1=reverse1,
        engine=member(enums.engine, engine),
    )  # fmt: skip


def tensor_scalar_cumulative(
    *, src: Any, op0: Any, op1: Any, imm0: Any, imm1: Any = None,
    reduce_cmd: Any = reduce_cmd.reset_reduce, mask: Any = None, dtype: Any = None, dst: Any = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return the cumulative reduction by op1 of src <op0> imm0. With reduce_cmd.load_reduce the
    reduction starts from imm1."""
    if dst is not None:
        return written("tensor_scalar_cumulative", locals())
    return like("src", "tensor_scalar_cumulative", locals())


def tensor_scalar_reduce(
    *, data: Any, op0: Any, operand0: Any, reduce_op: Any, reduce_res: Any, reverse0: bool = False,
    dtype: Any = None, mask: Any = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return data <op0> operand0. Reduce the result along the free axes by reduce_op, and write the
    reduction to reduce_res."""
    begin(kwargs)
    del kwargs
    operand0 = float32_column(operand0, "operand0", op0)
    return like("data", "tensor_scalar_reduce", locals())


def tensor_tensor_scan(
    data0: Any, data1: Any, initial: Any, op0: Any, op1: Any, reverse0: bool = False,
    reverse1: bool = False, *, dtype: Any = None, mask: Any = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return r, where r[:, i] = (data0[:, i] <op0> r[:, i - 1]) <op1> data1[:, i]. For i = 0,
    `initial` replaces r[:, i - 1]."""
    begin(kwargs)
    del kwargs
    data0, data1 = apart(tile(data0, "data0"), tile(data1, "data1"))
    dtype = format_or(dtype, promoted(data0, data1))
    return like("data0", "tensor_tensor_scan", locals())


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return (mean, variance) of each partition, of shape (P, 2), from results of bn_stats."""
    return per_partition(2, "data", "bn_aggr", locals())


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return six numbers for each partition, as a tile of shape (P, 6): the count, the mean, and
    the sum of squared differences from the mean. The first three are of the elements at even
    positions, and the last three of the elements at odd positions."""
    return per_partition(6, "data", "bn_stats", locals())


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return the 8 greatest elements of each partition in descending order, as a tile of shape (P,
    8)."""
    return per_partition(8, "src", "max8", locals())


def nc_find_index8(
    *, data: Any, vals: Any, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """Return, for each partition, the indices in data of the 8 values in vals. The shape is (P,
    8)."""
    dtype = uint32 if dtype is None else dtype
    return per_partition(8, "data", "nc_find_index8", locals())


def nc_match_replace8(
    *, data: Any, vals: Any, imm: Any, dst_idx: Any = None, mask: Any = None, dtype: Any = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return data with the first match of each of the 8 values in vals replaced by the number imm.
    Write the indices of the matches to dst_idx."""
    return like("data", "nc_match_replace8", locals())


def range_select(
    *, on_true_tile: Any, comp_op0: Any, comp_op1: Any, bound0: Any, bound1: Any,
    reduce_cmd: Any = reduce_cmd.idle, reduce_res: Any = None, reduce_op: Any = np.amax,
    range_start: Any = 0, on_false_value: Any = fp32.min, mask: Any = None, dtype: Any = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return on_true_tile[:, i] where range_start + i satisfies two comparisons, else the number
    on_false_value. The comparisons are comp_op0 with bound0, and comp_op1 with bound1. Raises
    NotEmulated if a mask chooses elements of a partition that are not adjacent."""
    return like(
        "on_true_tile", "range_select", locals(), partial(_range_of_box, on_true_tile, range_start)
    )


def _range_of_box(x: Tensor, start: Any, box: Box) -> dict[str, Any]:
    """Return the argument range_start of an instruction on the elements of x in a box."""
    strides = access.dense(x.shape[1:])
    if not access.is_dense([size for _, size in box[1:]], strides):
        raise NotEmulated("range_select can't have a mask that chooses separate elements")
    return {"range_start": start + sum(n * s for (n, _), s in zip(box[1:], strides, strict=True))}


def select_reduce(
    *, dst: Any, predicate: Any, on_true: Any, on_false: Any, reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle, reduce_op: Any = np.amax, reverse_pred: bool = False,
    mask: Any = None, dtype: Any = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Write on_true to dst where the predicate isn't 0, and on_false elsewhere. Write the maximum
    of dst in each partition to reduce_res. Return dst."""
    return written("select_reduce", locals())


def sequence_bounds(*, segment_ids: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return the start and the end (exclusive) of each element's segment, a run of equal ids. The
    shape is (1, 2, F). Padding, which has id 0, gets F and -1."""
    arguments = converted("sequence_bounds", locals())
    x = arguments["segment_ids"]
    return produce(
        "sequence_bounds",
        ((x.shape[0], 2, x.free_size), format_or(dtype, x.dtype)),
        None,
        masked="segment_ids",
        part=lambda dst, box: dst.within((box[0], (0, 2), *box[1:])),
        **arguments,
    )
