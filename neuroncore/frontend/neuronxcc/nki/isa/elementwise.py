"""Instructions that work element by element, of which this API says more than a row: in the older
API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.frontend.formats import common
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    apart,
    column,
    format_or,
    number,
    write,
)
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine, member, reduce_cmd
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.results import flush, produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.neuronxcc.nki.tokens import token

__all__ = ["memset", "tensor_scalar_cumulative", "tensor_tensor"]


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
        engine=member(constants.engine, engine),
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
        "reduce_cmd": member(constants.reduce_cmd, reduce_cmd),
    }
    if dst is not None:
        write("tensor_scalar_cumulative", dst, mask, **arguments)
        return dst  # type: ignore[no-any-return]
    out = (x.shape, format_or(dtype, x.dtype))
    return produce("tensor_scalar_cumulative", out, mask, **arguments)


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
    return produce(
        "memset", out, mask, value=number(value), engine=member(constants.engine, engine)
    )
