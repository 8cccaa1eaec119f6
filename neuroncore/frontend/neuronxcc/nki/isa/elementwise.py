"""Elementwise instructions of the older API that need more than a row of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.frontend.formats import common
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    apart,
    begin,
    format_or,
    number,
)
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine, member
from neuroncore.frontend.neuronxcc.nki.results import produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.neuronxcc.nki.tokens import token
from neuroncore.numerics.formats import Format

__all__ = ["memset", "tensor_tensor"]


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
    shape: Sequence[int],
    value: Any,
    dtype: Any,
    *,
    mask: Any = None,
    engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tensor:
    """A tile of SBUF filled with a number."""
    begin(kwargs)
    out = (tuple(shape), format_or(dtype, None))
    return produce(
        "memset", out, mask, value=number(value), engine=member(constants.engine, engine)
    )
