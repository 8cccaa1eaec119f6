"""Instructions that work element by element, in the older API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.enums import MemoryRegion
from neuroncore.errors import DtypeError
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    accumulator,
    column,
    engine_of,
    format_or,
    number,
    write,
)
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine, reduce_cmd
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.operators import token
from neuroncore.frontend.neuronxcc.nki.results import flush, produce, tile
from neuroncore.frontend.neuronxcc.nki.scopes import running
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki.language.elementwise import common
from neuroncore.numerics.formats import bfloat16, float16, float32

SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
Axis = int | Sequence[int]


BIASES = (float32, float16, bfloat16)  # SDK 2.21 to 2.26, nki.isa.activation


def _bias(value: Any) -> Any:
    found = column(value, "bias")
    if isinstance(found, Tensor) and found.dtype not in BIASES:
        raise DtypeError(
            f"bias can't be {found.dtype}",
            argument="bias",
            expected=" or ".join(BIASES),
            got=repr(found),
            because="it is added in float32, to which the engine converts float formats only",
            also="err_activation_bias_invalid_type",
        )
    return found


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
    """op(data * scale + bias), and what it is folded to along the free axes in reduce_res."""
    check_keywords(kwargs)
    flush()
    x = tile(data)
    return produce(
        "activation",
        (x.shape, format_or(dtype, x.dtype)),
        mask,
        op=token(op),
        data=x,
        bias=_bias(bias),
        scale=column(scale, "scale"),
        reduce_op=token(reduce_op),
        reduce_res=accumulator(reduce_res),
        reduce_cmd=constants.member(constants.reduce_cmd, reduce_cmd),
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
    """op(data * scale + bias), and its fold along the free axes in reduce_res."""
    check_keywords(kwargs)
    flush()
    x = tile(data)
    return produce(
        "activation_reduce",
        (x.shape, format_or(dtype, x.dtype)),
        mask,
        op=token(op),
        data=x,
        reduce_op=token(reduce_op),
        reduce_res=accumulator(reduce_res),
        bias=_bias(bias),
        scale=column(scale, "scale"),
    )


def tensor_tensor(
    data1: Any,
    data2: Any,
    op: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tensor:
    """data1 <op> data2; free axes of size 1 are repeated, and one element per partition is along
    all of them."""
    check_keywords(kwargs)
    flush()
    x, y = _of_one_rank(tile(data1, "data1"), tile(data2, "data2"))
    if x.shape != y.shape and len(x.shape) == len(y.shape):
        shape = (x.shape[0], *map(max, zip(x.shape[1:], y.shape[1:], strict=True)))
        if all(n in (1, m) for t in (x, y) for n, m in zip(t.shape[1:], shape[1:], strict=True)):
            x, y = (t.stretched((t.shape[0], *shape[1:])) for t in (x, y))
    operator = token(op)
    row = getattr(operator, "operator", None)
    x, y = apart(x, y, on_gpsimd=row is not None and "vector" not in row.engines)
    return produce(
        "tensor_tensor",
        (x.shape, format_or(dtype, common(x, y))),
        mask,
        data1=x,
        data2=y,
        op=operator,
        engine=engine_of(engine),
    )


def _of_one_rank(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The pages don't say so, but students' kernels that ran on Trainium add [128, 1] to 3D."""
    x, y = (
        t.reshape((t.shape[0], *(1 for _ in other.shape[1:])))
        if t.free_size == 1 and (other.free_size > 1 or len(t.shape) < len(other.shape))
        else t
        for t, other in ((x, y), (y, x))
    )
    return x, y


def _operand(value: Any, name: str) -> Any:
    """A number, or one per partition: this API's pages let it have any format and cast it to
    float32, in which the instruction takes it; the cast is a copy."""
    found = column(value, name)
    if not isinstance(found, Tensor) or found.dtype is float32 or found.dtype.is_integer:
        return found
    wide = tensor_copy(found, dtype=float32)
    flush()
    return wide


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
    check_keywords(kwargs)
    flush()
    x = tile(data)
    return produce(
        "tensor_scalar",
        (x.shape, format_or(dtype, x.dtype)),
        mask,
        data=x,
        op0=token(op0),
        operand0=_operand(operand0, "operand0"),
        reverse0=reverse0,
        op1=token(op1),
        operand1=_operand(operand1, "operand1"),
        reverse1=reverse1,
        engine=engine_of(engine),
    )


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
    check_keywords(kwargs)
    flush()
    x, y = apart(tile(data), tile(operand1, "operand1"))
    return produce(
        "scalar_tensor_tensor",
        (x.shape, format_or(dtype, x.dtype)),
        mask,
        data=x,
        op0=token(op0),
        operand0=_operand(operand0, "operand0"),
        op1=token(op1),
        operand1=y,
        reverse0=reverse0,
        reverse1=reverse1,
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
    check_keywords(kwargs)
    flush()
    x, y = apart(tile(data0, "data0"), tile(data1, "data1"))
    return produce(
        "tensor_tensor_scan",
        (x.shape, format_or(dtype, common(x, y))),
        mask,
        data0=x,
        data1=y,
        initial=column(initial, "initial"),
        op0=token(op0),
        op1=token(op1),
        reverse0=reverse0,
        reverse1=reverse1,
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
    """The running fold by op1 of src <op0> imm0."""
    check_keywords(kwargs)
    flush()
    x = tile(src, "src")
    arguments = {
        "src": x,
        "op0": token(op0),
        "op1": token(op1),
        "imm0": column(imm0, "imm0"),
        "imm1": column(imm1, "imm1"),
        "reduce_cmd": constants.member(constants.reduce_cmd, reduce_cmd),
    }
    if dst is not None:
        write("tensor_scalar_cumulative", dst, mask, **arguments)
        return dst  # type: ignore[no-any-return]
    out = (x.shape, format_or(dtype, x.dtype))
    return produce("tensor_scalar_cumulative", out, mask, **arguments)


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tensor:
    """1 / data."""
    check_keywords(kwargs)
    flush()
    x = tile(data)
    return produce("reciprocal", (x.shape, format_or(dtype, x.dtype)), mask, data=x)


def tensor_copy(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tensor:
    """A copy in SBUF."""
    check_keywords(kwargs)
    flush()
    x = tile(src, "src")
    out = (x.shape, format_or(dtype, x.dtype))
    return produce("tensor_copy", out, mask, src=x, engine=engine_of(engine))


def in_sbuf(value: Any, name: str) -> Tensor:
    """An operand of an engine that reads SBUF only: what is in PSUM is copied, which the device's
    compiler does too."""
    flush()
    operand = tile(value, name)
    if operand.region is not PSUM:
        return operand
    moved = tensor_copy(operand)
    flush()
    return moved


def apart(x: Tensor, y: Tensor, on_gpsimd: bool = False) -> tuple[Tensor, Tensor]:
    """Two operands of which only one may be in PSUM, none `on_gpsimd`: a broadcast that is there
    is moved."""
    if on_gpsimd or (x.region is PSUM and y.region is PSUM):
        broadcasts = running().broadcasts
        if y.storage.id in broadcasts:
            y = in_sbuf(y, "data2")
        elif x.storage.id in broadcasts:
            x = in_sbuf(x, "data1")
    return x, y


def tensor_copy_dynamic_src(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tensor:
    """A copy of a part whose free offset a tile holds: src is indexed with that tile."""
    check_keywords(kwargs)
    return tensor_copy(src, mask=mask, dtype=dtype, engine=engine)


def tensor_copy_dynamic_dst(
    *,
    dst: Any,
    src: Any,
    mask: Any = None,
    dtype: Any = None,
    engine: Any = engine.unknown,
    **kwargs: Any,
) -> None:
    """Copy src to a part whose free offset a tile holds: dst is indexed with that tile."""
    check_keywords(kwargs)
    write("tensor_copy", dst, mask, src=tile(src, "src"), engine=engine_of(engine))


def memset(
    shape: Sequence[int],
    value: Any,
    dtype: Any,
    *,
    mask: Any = None,
    engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tensor:
    """A tile of SBUF filled with a number."""
    check_keywords(kwargs)
    flush()
    out = (tuple(shape), format_or(dtype, None))
    return produce("memset", out, mask, value=number(value), engine=engine_of(engine))


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """data with elements zeroed at random, each with probability `prob`."""
    check_keywords(kwargs)
    flush()
    x = tile(data)
    out = (x.shape, format_or(dtype, x.dtype))
    return produce("dropout", out, mask, data=x, prob=column(prob, "prob"))
