"""Operands, rules and costs of what looks for elements and of what selects them by position."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from neuroncore.base.errors import FreeSizeError, OperatorError, PartitionLimitError
from neuroncore.clause import (
    SBUF,
    Call,
    Fault,
    Immediate,
    Op,
    Operand,
    Operator,
    cost,
    fault,
    reads,
    rule,
    rules,
    writes,
)
from neuroncore.core.core import Core
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FLOATS, float32

EIGHT = 8  # values that the lane's registers hold to compare with what streams past
LEAST = float(np.finfo(np.float32).min)  # what hardware fills in where a comparison fails

Searched = Annotated[Tile, reads(free_dims="search_free_dims")]
Indices = Annotated[Tile, writes("uint16 uint32")]
MaybeIndices = Annotated[Tile | None, writes("uint16 uint32", optional=True)]

Comparison = Annotated[
    Operator, Op(names=("equal", "less", "less_equal", "greater", "greater_equal"))
]
Floats = Annotated[Tile, Operand(reads=True, dtypes=FLOATS)]
Bound = Annotated[Tile, reads("float32")]
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


@rule(OperatorError, because="the engine has that one constant")
def fills_with_the_least(call: Call, machine: Machine) -> Fault | None:
    """on_false_value is the least float32"""
    value = call["on_false_value"]
    with np.errstate(over="ignore"):
        if np.float32(value) == LEAST:
            return None
    return fault("on_false_value", "on_false_value must be the least float32", LEAST, repr(value))


RANGE_SELECT = (fills_with_the_least, rules.commands("idle", "reset", "reduce", "reset_reduce"))


@rule(early=True, because="the sequences are along the free axis of a single partition")
def one_row_of_pairs(call: Call, machine: Machine) -> Fault | None:
    """segment_ids is [1, F] and dst [1, 2, F]: starts, then ends"""
    dst, ids = call.view("dst"), call.view("segment_ids")
    for name, view in (("segment_ids", ids), ("dst", dst)):
        if view.partitions != 1:
            said = f"{name} has {view.partitions} partitions"
            return fault(name, said, "1 partition", kind=PartitionLimitError)
    if dst.shape[1] == 2 and dst.free_size == 2 * ids.free_size:
        return None
    said = f"dst has no room for a start and an end for each of {ids.free_size} elements"
    return fault("dst", said, f"(1, 2, {ids.free_size})")


@rule()
def two_axes(call: Call, machine: Machine) -> Fault | None:
    """src, val_dst and idx_dst have two axes"""
    for name in ("src", "val_dst", "idx_dst"):
        if len(call.view(name).shape) != 2:
            return fault(name, f"{name} must have two axes", "(partitions, elements)")
    return None


@rule(FreeSizeError)
def as_many_as_there_are(call: Call, machine: Machine) -> Fault | None:
    """n is 8 or more, at most what a group of src holds and what the instruction counts to"""
    src, n, counted = call.view("src"), call["n"], machine.limits.topk_elements
    group = machine.limits.gpsimd_core_partitions
    most = min(counted, group * src.free_size)
    if EIGHT <= n <= most:
        return None
    because = (
        f"src holds {group} x {src.free_size} elements in each group, and the instruction counts "
        f"to {counted}"
    )
    return fault("n", f"n is {n}", f"{EIGHT} to {most} for src of {src}", n, because=because)


@rule(FreeSizeError)
def results(call: Call, machine: Machine) -> Fault | None:
    """val_dst takes at most n results, and no more than the instruction can give"""
    found, most = call.view("val_dst").free_size, min(machine.limits.topk_results, call["n"])
    if found <= most:
        return None
    said = f"{found} of {call['n']} elements are asked for"
    return fault("val_dst", said, f"1 to {most} elements per partition")


TOPK = (two_axes, as_many_as_there_are, results)


# --- costs ----------------------------------------------------------------------------------------


def topk_cost(call: Call, machine: Machine) -> cost.Cost:
    """4 n + K cycles (ISA); the groups are worked on at the same time."""
    cycles = 4 * call["n"] + call.view("val_dst").free_size
    return cost.stream(call, machine, cycles, machine.fixed.gpsimd_start_cycles)


def wide(core: Core, reduce_res: Tile | None) -> Tile | None:
    """reduce_res, which is better float32: in a narrower format the maximum of a row of fillings is
    -inf, and -inf - -inf is NaN in the activation that follows (ISA, range_select)."""
    if reduce_res is not None and reduce_res.dtype is not float32:
        core.report(
            "NARROW_MAXIMUM",
            f"reduce_res is {reduce_res.dtype}, in which the maximum of a row that is all filling "
            "may become -inf",
            reduce_res.storage.id,
        )
    return reduce_res
