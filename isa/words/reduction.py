"""Operands, rules and costs of instructions that fold along the free axes or over partitions, and
of instructions that find elements or select them by position."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Annotated

import numpy as np

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.base.errors import FreeSizeError, OperatorError
from neuroncore.clause import cost, rules
from neuroncore.clause.alu import Operator
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import BOTH, SBUF, Op, Operand, Static, reads, writes
from neuroncore.clause.refusal import Fault, fault, rule
from neuroncore.core.core import Core
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FLOATS, bfloat16, float32

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
    """Return the number of axes that the call folds; 0 if they are not the last axes of data."""
    rank, axes = len(call.view("data").shape), listed(call["axis"])
    if not all(isinstance(a, int) for a in axes):
        return 0
    most = call.machine.limits.free_dims
    return trailing(axes, rank) or counted_from_within(axes, rank, most)


@cache
def trailing(axes: tuple[int, ...], rank: int) -> int:
    """Return the number of `axes` if they are the last axes of a tile and not axis 0. Otherwise
    return 0. The tile has `rank` axes."""
    if not all(-rank <= a < rank for a in axes):
        return 0
    last = sorted(a % rank for a in axes)
    return len(last) if last == list(range(rank - len(last), rank)) and 0 not in last else 0


def counted_from_within(axes: tuple[int, ...], rank: int, most: int) -> int:
    """Return the number of `axes` if they are legal in releases 0.1 and 0.2 of the API. Otherwise
    return 0. In these releases, axis 1 is the innermost axis, and axis `most` has the highest
    number. But in nki-library's kernels of 0.2, axis `most` is the innermost one. So consecutive
    axes are legal if they begin with axis 1 or end with axis `most`, and if they are fewer than the
    `rank` axes of the tile."""
    numbers = sorted(axes)
    consecutive = numbers == list(range(numbers[0], numbers[0] + len(numbers))) if axes else False
    ends = consecutive and (numbers[0] == 1 or numbers[-1] == most)
    return len(numbers) if ends and numbers[0] >= 1 and len(numbers) < rank else 0


def folded(call: Call) -> int:
    """Return the number of elements that are folded into one result."""
    shape = call.view("data").shape
    return prod(shape[len(shape) - reduced_axes(call) :])


# --- rules ----------------------------------------------------------------------------------------


@rule(
    early=True,
    because="axis 0 is the partition axis, and each partition is reduced separately",
    hint="transpose first, or sum over partitions by a product with ones (nisa.nc_matmul)",
)
def last_axes(call: Call, machine: Machine) -> Fault | None:
    """axis must be the last free axes, such as (1,) of a 2-D tile or (2, 3) of a 4-D tile"""
    if reduced_axes(call):
        return None
    problem = f"axis={call['axis']} of {call.view('data')} can't be reduced"
    return fault("axis", problem, "reduce only the last free axes", call["axis"])


REDUCE = (
    last_axes,
    rules.bitvec_on_integers("dst", "data", ops=("op",)),
    rules.only_if(
        "negate",
        "op",
        "is an arithmetic operator",
        lambda op: op.kind == "arithmetic",
        because="negate multiplies the result by -1.0, and bit patterns are not multiplied",
    ),
)
SCALAR_REDUCE = (
    rules.runs_there("op0"),
    rules.operand_of(op0="operand0"),
    # the API has a parameter reverse0, and documents that it isn't supported yet (ISA)
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
    """The time to read data once. Sums and maxima of bfloat16 have the rate `reduce_16bit`."""
    narrow = all(v.dtype is bfloat16 for v in call.views())
    fast = narrow and call["op"].name in ("add", "maximum")
    kind = "reduce_16bit" if fast else "default"
    return cost.stream(call, machine, cost.elements(call) / cost.rate(machine, engine.vector, kind))


def aggregation_cost(call: Call, machine: Machine) -> cost.Cost:
    """13 cycles for each triple of data (ISA226)."""
    return cost.stream(call, machine, 13 * call.view("data").free_size / 3)


EIGHT = 8  # values that a lane's registers compare with the stream
LEAST = float(np.finfo(np.float32).min)  # the value that hardware writes if a comparison fails

Searched = Annotated[Tile, reads(free_dims="search_free_dims")]
Indices = Annotated[Tile, writes("uint16 uint32")]
MaybeIndices = Annotated[Tile | None, writes("uint16 uint32", optional=True)]

Comparison = Annotated[
    Operator, Op(names=("equal", "less", "less_equal", "greater", "greater_equal"))
]
Floats = Annotated[Tile, Operand(reads=True, dtypes=FLOATS)]
Filling = Annotated[float, Immediate(float, keyed=True)]
Ids = Annotated[Tile, reads("float32 int32", SBUF)]
Bounds = Annotated[Tile, writes("float32 int32", SBUF)]

Snake = Annotated[Tile, reads("bfloat16", SBUF, partial=True)]
SnakeOut = Annotated[Tile, writes("bfloat16", SBUF, partial=True)]
SnakeIndices = Annotated[Tile, writes("uint32", SBUF, partial=True)]
Count = Annotated[int, Immediate(int, keyed=True)]
Listed = Annotated[Tile, writes("int32", SBUF, partial=True)]
Numbers = Annotated[Tile, reads("float32 int32", SBUF, partial=True)]


# --- rules ----------------------------------------------------------------------------------------


@rule(OperatorError, because="outside the range, the engine can only write the lowest float32")
def fills_with_the_least(call: Call, machine: Machine) -> Fault | None:
    """on_false_value must be the lowest float32 number, about -3.4e38"""
    value = call["on_false_value"]
    with np.errstate(over="ignore"):
        if np.float32(value) == LEAST:
            return None
    return fault("on_false_value", "on_false_value must be the lowest float32", LEAST, repr(value))


RANGE_SELECT = (fills_with_the_least, rules.commands("idle", "reset", "reduce", "reset_reduce"))


@rule(early=True)
def pairs(call: Call, machine: Machine) -> Fault | None:
    """dst must have the shape [1, 2, F]: starts, then ends"""
    dst, ids = call.view("dst"), call.view("segment_ids")
    if dst.shape[1] == 2 and dst.free_size == 2 * ids.free_size:
        return None
    problem = f"dst has no room for a start and an end for each element of segment_ids ({ids})"
    return fault("dst", problem, f"(1, 2, {ids.free_size})")


@rule()
def two_axes(call: Call, machine: Machine) -> Fault | None:
    """src, val_dst and idx_dst must have two axes"""
    for name in ("src", "val_dst", "idx_dst"):
        if len(call.view(name).shape) != 2:
            return fault(name, f"{name} must have two axes", "the shape (partitions, elements)")
    return None


@rule(FreeSizeError)
def as_many_as_there_are(call: Call, machine: Machine) -> Fault | None:
    """n must be from 8 to the number of elements in a group of src, and at most topk_elements (a
    limit of the machine)"""
    src, n, limit = call.view("src"), call["n"], machine.limits.topk_elements
    group = machine.limits.gpsimd_core_partitions
    most = min(limit, group * src.free_size)
    if EIGHT <= n <= most:
        return None
    because = (
        f"a group of src has {group} partitions with {src.free_size:,} elements each, and the "
        f"instruction searches at most {limit:,} elements"
    )
    return fault("n", f"n can't be {n} for src ({src})", f"{EIGHT} to {most}", n, because=because)


@rule(FreeSizeError)
def results(call: Call, machine: Machine) -> Fault | None:
    """val_dst must have at most n elements per partition, and at most topk_results (a limit)"""
    count, most = call.view("val_dst").free_size, min(machine.limits.topk_results, call["n"])
    if count <= most:
        return None
    problem = f"val_dst has {count:,} elements per partition, but the instruction returns {most:,}"
    return fault("val_dst", problem, f"1 to {most:,} elements per partition")


TOPK = (two_axes, as_many_as_there_are, results)


# --- costs ----------------------------------------------------------------------------------------


def topk_cost(call: Call, machine: Machine) -> cost.Cost:
    """4 n + K cycles (ISA); all groups of partitions are processed at the same time."""
    cycles = 4 * call["n"] + call.view("val_dst").free_size
    return cost.stream(call, machine, cycles, machine.fixed.gpsimd_start_cycles)


def wide(core: Core, reduce_res: Tile | None) -> Tile | None:
    """Return reduce_res, and report a format other than float32. If a row has only the fill value,
    its maximum is -inf in a narrower format. The activation that follows then computes -inf - -inf,
    which is NaN (ISA, range_select)."""
    if reduce_res is not None and reduce_res.dtype is not float32:
        core.report(
            "NARROW_MAXIMUM",
            f"reduce_res is {reduce_res.dtype}: if a row has only the fill value, its maximum may "
            "become -inf in this format",
            reduce_res.storage.id,
        )
    return reduce_res
