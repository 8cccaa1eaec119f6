"""The GpSimd engine (POOL): eight small processors, sixteen partitions each, with SBUF only."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause.arithmetic import Operator
from neuroncore.clause.cost import streaming
from neuroncore.clause.instruction import instruction, require
from neuroncore.clause.operand import Op, SbufIn, SbufOut
from neuroncore.clause.rules import same_elements
from neuroncore.core.core import Core
from neuroncore.enums import engine
from neuroncore.errors import KernelError, SignatureError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import int32, uint32

from .operators import EQUAL

gpsimd = engine.gpsimd

Pattern = Sequence[Sequence[int]]
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def affine_values(
    dst: Tile, pattern: Pattern, offset: int, channel_multiplier: int, machine: Machine
) -> Any:
    """offset + p * channel_multiplier + the sum of index * step over the pattern's axes, [P, F] in
    32-bit integers that wrap around. The pattern lists [step, count], outermost first."""
    pairs = _pairs(pattern)
    sizes = [count for _, count in pairs]
    require(
        0 < len(sizes) <= machine.limits.iota_dims,
        f"the pattern has {len(sizes)} axes",
        argument="pattern",
        expected=f"1 to {machine.limits.iota_dims} [step, count] pairs",
    )
    require(
        prod(sizes) == dst.free_size and min(sizes) > 0,
        f"the pattern counts {prod(sizes)} elements, dst has {dst.free_size} per partition",
        argument="pattern",
        expected=f"counts that multiply to {dst.free_size}",
        got=str([list(pair) for pair in pattern]),
    )
    values = np.full((dst.shape[0], *[1] * len(sizes)), int(offset), np.int64)
    values += np.arange(dst.shape[0]).reshape(values.shape) * int(channel_multiplier)
    for axis, (step, count) in enumerate(pairs):
        steps = np.arange(count, dtype=np.int64) * step
        values = values + steps.reshape(-1, *[1] * (len(sizes) - axis - 1))
    return values.astype(np.int32).reshape(dst.shape[0], -1)


def _pairs(pattern: Pattern) -> list[tuple[int, int]]:
    try:
        return [(index(step), index(count)) for step, count in pattern]
    except KernelError:  # a register
        raise
    except (TypeError, ValueError):
        raise SignatureError(
            "pattern must list [step, count] pairs of integers",
            argument="pattern",
            got=repr(pattern),
        ) from None


@instruction(gpsimd, cost=streaming(extra="gpsimd_start_cycles"))
def iota(
    dst: SbufOut,
    pattern: Pattern,
    offset: int = 0,
    channel_multiplier: int = 0,
    *,
    core: Core,
) -> None:
    """dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x"""
    values = affine_values(dst, pattern, offset, channel_multiplier, core.machine)
    if dst.dtype in (int32, uint32):
        dst.codes()[...] = values.view(dst.dtype.storage).reshape(dst.shape)
    else:
        dst.store(codec.decode(int32, values))


@instruction(
    gpsimd,
    cost=streaming(extra="gpsimd_start_cycles"),
    rules=[same_elements("dst", "on_true_tile")],
)
def affine_select(
    dst: SbufOut,
    pattern: Pattern,
    channel_multiplier: int,
    on_true_tile: SbufIn,
    on_false_value: float,
    cmp_op: Annotated[Operator, Op(names=COMPARISONS)] = EQUAL,
    offset: int = 0,
    *,
    core: Core,
) -> None:
    """dst[p, f] = on_true_tile[p, f] if v[p, f] <cmp_op> 0 else on_false_value, v as in iota"""
    values = affine_values(dst, pattern, offset, channel_multiplier, core.machine)
    chosen = np.empty(values.shape, np.bool_)
    cmp_op.apply(values, 0, chosen)
    kept = dst.encoded(on_true_tile, on_true_tile.codes())
    other = codec.encode(dst.held, np.array([on_false_value], np.float32))
    dst.codes()[...] = np.where(chosen.reshape(dst.shape), numeric.shaped(kept, dst.shape), other)
