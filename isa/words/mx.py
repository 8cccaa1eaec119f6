"""Operands, rules and costs of microscaling formats, and the positions of their scales."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.base.errors import StartPartitionError
from neuroncore.base.units import either
from neuroncore.clause import cost
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM, SBUF, Operand
from neuroncore.clause.refusal import Rule
from neuroncore.clause.rules import holds
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import (
    PACKED,
    bfloat16,
    float8_e4m3fn_x4,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    uint8,
)
from neuroncore.numerics.packed import ROWS

from .tensor import array_tiling, indirect_uses_the_whole_array, moving_fits, rows_only

OFFSETS = (0, 4, 8, 12)

WIDE = Operand(reads=True, regions=(SBUF,), dtypes=(float16, bfloat16))
SCALE = Operand(
    reads=True, partial=True, regions=(SBUF,), dtypes=(float8_e8m0fnu, uint8), starts=False
)
MX = Operand(writes=True, regions=(SBUF,), dtypes=(float8_e5m2_x4, float8_e4m3fn_x4))
SUM = Operand(writes=True, regions=(PSUM,), dtypes=(float32, bfloat16), indirect=True)

Wide = Annotated[Tile, WIDE]
Quantized = Annotated[Tile, MX]
Scales = Annotated[Tile, replace(SCALE, reads=False, writes=True)]
Sum = Annotated[Tile, SUM]
Packed = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=PACKED, indirect=True)]
StationaryScale = Annotated[Tile, replace(SCALE, indirect=True, index_of="stationary")]
MovingScale = Annotated[Tile, replace(SCALE, indirect=True, index_of="moving")]


def scale_rows(partitions: int, machine: Machine) -> Array:
    """Return the indices of the rows of a scale tile that contain the scales of data with this
    number of partitions."""
    quadrant, groups = machine.limits.quadrant, np.arange(partitions // ROWS)
    per_quadrant = quadrant // ROWS
    return groups // per_quadrant * quadrant + groups % per_quadrant


def has_scales(data: str, scale: str) -> tuple[Rule, Rule]:
    """Require that `scale` has a row for every 8 partitions of `data`, and starts in the quadrant
    in which `data` is."""

    def rows(call: Call) -> int:
        return int(scale_rows(call.view(data).partitions, call.machine).max(initial=0)) + 1

    def starts(call: Call) -> list[int]:
        quadrant = call.machine.limits.quadrant
        first = call.view(data).partition // quadrant * quadrant
        return [first + offset for offset in OFFSETS]

    enough = holds(
        scale,
        f"{scale} must have the scales of {data}: 4 partitions for each 32 partitions of {data}",
        lambda call: call.view(scale).partitions >= rows(call),
        expected=lambda call: f"at least {rows(call):,} partitions",
    )
    placed = holds(
        scale,
        f"{scale} must start in the same quadrant (32 partitions) as {data}",
        lambda call: not call.view(scale).stepped and call.view(scale).partition in starts(call),
        StartPartitionError,
        lambda call: f"consecutive partitions that start at {either(starts(call))}",
        got=lambda call: f"partition {call.view(scale).partition}",
    )
    return enough, placed


PRODUCT = (
    "stationary: K%quadrant M%2<=stationary_free; moving: K N; dst: M N; "
    "stationary_scale: S M; moving_scale: T N"
)
QUANTIZE = has_scales("dst", "dst_scale")
MATMUL = (
    moving_fits,
    *has_scales("stationary", "stationary_scale"),
    *has_scales("moving", "moving_scale"),
    array_tiling,
    rows_only,
    indirect_uses_the_whole_array,
)


def quantize_cost(call: Call, machine: Machine) -> cost.Cost:
    """The time to read src at the rate `quantize_mx` of the Vector engine."""
    per_cycle = cost.rate(machine, engine.vector, "quantize_mx")
    return cost.stream(call, machine, call.view("src").free_size / per_cycle)


def mx_cost(call: Call, machine: Machine) -> cost.Cost:
    """One column per cycle, as for 8-bit formats. Because an element of a column packs four
    numbers, a cycle does four times the work (ARCH3)."""
    s, x = call.view("stationary"), call.view("moving")
    columns = max(x.free_size, cost.strided_cycles(x, machine))
    return cost.systolic(call, machine, "float8", columns, s.free_size)
