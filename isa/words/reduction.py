"""Operands, rules and costs of what folds along the free axes or over partitions."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Annotated

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.clause import (
    BOTH,
    Call,
    Fault,
    Op,
    Operand,
    Operator,
    Static,
    cost,
    fault,
    reads,
    rule,
    rules,
    writes,
)
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FLOATS, bfloat16

Folding = Annotated[Operator, Op(BOTH, reduces=True)]
Reduction = Annotated[Operator, Op(names=("add", "multiply", "maximum", "minimum"), reduces=True)]
Running = Annotated[Operator, Op(names=("add", "subtract", "multiply", "maximum", "minimum"))]
OverPartitions = Annotated[
    Operator,
    Op((*BOTH, "partition"), names=("add", "average", "maximum", "bitwise_or", "bitwise_and")),
]
Max = Annotated[Operator, Op(names=("maximum",))]
Axes = Annotated[int | tuple[int, ...], Static(sequence=True)]
FloatReduced = Annotated[Tile | None, Operand(writes=True, optional=True, dtypes=FLOATS)]
SignedPredicate = Annotated[Tile, reads("bool int8 uint8 int16 uint16")]
Narrow = Annotated[Tile, reads("but tfloat32 int32 uint32")]
Short = Annotated[Tile, reads("but tfloat32 int32 uint32 bool", indirect=True)]
ShortOut = Annotated[Tile, writes("but tfloat32 int32 uint32 bool", indirect=True)]


def loads(command: reduce_cmd) -> bool:
    return command is reduce_cmd.load_reduce


# --- axes -----------------------------------------------------------------------------------------


def listed(axis: int | tuple[int, ...]) -> tuple[int, ...]:
    return axis if isinstance(axis, tuple) else (axis,)


def reduced_axes(call: Call) -> int:
    """How many of the last axes are folded away; 0 if the axes asked for are not the last."""
    rank, given = len(call.view("data").shape), listed(call["axis"])
    if not all(isinstance(a, int) for a in given):
        return 0
    most = call.machine.limits.free_dims
    return trailing(given, rank) or counted_from_within(given, rank, most)


@cache
def trailing(axes: tuple[int, ...], rank: int) -> int:
    """How many axes these are, if they are the last, and not the first."""
    if not all(-rank <= a < rank for a in axes):
        return 0
    found = sorted(a % rank for a in axes)
    return len(found) if found == list(range(rank - len(found), rank)) and 0 not in found else 0


def counted_from_within(axes: tuple[int, ...], rank: int, most: int) -> int:
    """The same in releases 0.1 and 0.2 of the API, where 1 is the innermost axis whatever the rank,
    of as many as an instruction has at most. nki-library's kernels of 0.2 give the innermost one
    the last number too."""
    found = sorted(axes)
    consecutive = found == list(range(found[0], found[0] + len(found))) if found else False
    ends = consecutive and (found[0] == 1 or found[-1] == most)
    return len(found) if ends and found[0] >= 1 and len(found) < rank else 0


def folded(call: Call) -> int:
    """How many elements are folded into one."""
    shape = call.view("data").shape
    return prod(shape[len(shape) - reduced_axes(call) :])


# --- rules ----------------------------------------------------------------------------------------


@rule(
    early=True,
    because="a lane reduces its own elements; axis 0 is the lanes",
    hint="transpose first, or sum over partitions with nisa.nc_matmul against ones",
)
def last_axes(call: Call, machine: Machine) -> Fault | None:
    """axis contains only the last free axes, such as (1,) of a 2-D tile or (2, 3) of a 4-D one"""
    if reduced_axes(call):
        return None
    said = f"can't reduce axis {call['axis']} of {call.view('data')}"
    return fault("axis", said, "the last free axes", call["axis"])


REDUCE = (
    last_axes,
    rules.bitvec_on_integers("dst", "data", ops=("op",)),
    rules.only_if(
        "negate",
        "op",
        "is an arithmetic operator",
        lambda op: op.kind == "arithmetic",
        because="it multiplies the result by -1.0; bit patterns are not multiplied",
    ),
)
SCALAR_REDUCE = (
    rules.runs_there("op0"),
    rules.operand_of(op0="operand0"),
    # the API has a reverse0, and says that it isn't supported yet (ISA)
    rules.unsupported("reverse0", "use nisa.tensor_scalar(reverse0=True), then nisa.tensor_reduce"),
    rules.commands("reset_reduce", "reduce", "load_reduce"),
    rules.needed_if("reduce_init", "reduce_cmd", "is load_reduce", loads),
    rules.only_if("reduce_init", "reduce_cmd", "is load_reduce", loads),
)
SCAN = (
    rules.not_both_in_psum("data0", "data1"),
    rules.two_operands("op0", "op1"),
    rules.runs_there("op0", "op1"),
)
CUMULATIVE = (
    rules.runs_there("op0"),
    rules.operand_of(op0="imm0"),
    rules.commands("reset_reduce", "reduce", "load_reduce"),
    rules.needed_if("imm1", "reduce_cmd", "is load_reduce", loads),
)


# --- costs ----------------------------------------------------------------------------------------


def reduce_cost(call: Call, machine: Machine) -> cost.Cost:
    """One pass over data; sums and maxima of bfloat16 have a separate rate."""
    narrow = all(v.dtype is bfloat16 for v in call.views())
    fast = narrow and call["op"].name in ("add", "maximum")
    kind = "reduce_16bit" if fast else "default"
    return cost.stream(call, machine, cost.elements(call) / cost.rate(machine, engine.vector, kind))


def aggregation_cost(call: Call, machine: Machine) -> cost.Cost:
    """13 cycles for each triple (ISA226)."""
    return cost.stream(call, machine, 13 * call.view("data").free_size / 3)
