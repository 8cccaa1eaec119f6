"""Operands, rules and costs of activation functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.base.errors import OperatorError
from neuroncore.clause import (
    Act,
    Call,
    Fault,
    Function,
    Op,
    Operator,
    View,
    cost,
    fault,
    reads,
    rule,
    rules,
    writes,
)
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile

STEPS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
FOLDS = ("add", "maximum", "minimum", "abs_max", "abs_min")
NARROW = "float8_e4m3 float8_e5m2 float16 bfloat16 float32 int8 int16 int32 uint8 uint16"

Activation = Annotated[Function, Act()]
Data = Annotated[Tile, reads(indirect=True, float8="scalar_float8_e4m3fn")]
Bias = Annotated[Tile | float | None, reads("but tfloat32", scalar=True, optional=True)]
Sum = Annotated[Operator, Op(names=("add",))]
MaybeSum = Annotated[Operator | None, Op(names=("add",), optional=True)]
Step = Annotated[Operator, Op(names=("multiply", "add", "subtract", "bypass"))]
MaybeFold = Annotated[Operator | None, Op(names=FOLDS, optional=True)]
Exponents = Annotated[Tile, reads(f"{NARROW} uint32", indirect=True)]
Exponentials = Annotated[Tile, writes(f"{NARROW} tfloat32", indirect=True)]
Total = Annotated[
    Tile | None,
    writes("float8_e4m3 float8_e5m2 float16 bfloat16 float32 tfloat32", optional=True),
]


# --- rules ----------------------------------------------------------------------------------------


@rule(because="lane p reads and writes partition p", also="err_num_partition_mismatch")
def registers_of_data_or_more(call: Call, machine: Machine) -> Fault | None:
    """reduce_res has as many partitions as data, or more"""
    # nki-library's router_topk of NKI 0.2 reads out registers behind those of data
    data, result = call.view("data"), call["reduce_res"]
    if not isinstance(result, View):
        return None
    count, beyond = data.partitions, machine.limits.partitions - data.partition
    if count <= result.partitions <= beyond:
        return None
    said = f"reduce_res has {result.partitions} partitions, data has {count}"
    return fault("reduce_res", said, f"{count} partitions, as data ({data})")


@rule(OperatorError)
def two_steps(call: Call, machine: Machine) -> Fault | None:
    """op0 and op1 are a pair that the input stage can do"""
    op0, op1 = call["op0"], call["op1"]
    if (op0.name, op1.name) in STEPS:
        return None
    expected = ", ".join(f"({first}, {second})" for first, second in STEPS)
    return fault("op1", f"op1={op1} can't follow op0={op0}", expected, f"({op0.name}, {op1.name})")


BIAS = (
    rules.needs(
        "scalar_constant_bias",
        "constant bias",
        "bias",
        lambda call: call["bias"] == "number",
        hint="fill a [P, 1] tile with nisa.memset and pass that",
        also="NCC_IBIR605",
    ),
    rules.needs(
        "scalar_constant_bias",
        "bias with nl.reciprocal",
        "bias",
        lambda call: call["op"].name == "reciprocal" and isinstance(call["bias"], View),
    ),
)
COMMANDS = rules.commands("idle", "reset", "reduce", "reset_reduce")
ACTIVATE2 = (
    two_steps,
    rules.only_if("reverse0", "op0", "has two operands", lambda op: op.arity == 2),
    rules.only_if("reverse1", "op1", "has two operands", lambda op: op.arity == 2),
    rules.same_dtype("imm0", "imm1", because=None),
    rules.needed_if(
        "reduce_op", "reduce_cmd", "is not idle", lambda cmd: cmd is not reduce_cmd.idle
    ),
    COMMANDS,
)


# --- costs ----------------------------------------------------------------------------------------


def activation_cost(call: Call, machine: Machine) -> cost.Cost:
    """One element per lane and cycle, whatever the function; reading the accumulator is a second
    instruction (ISA226). Any function but copy fetches a column for its bias, be there one or not:
    published traces differ by just that."""
    reads_out = call["reduce_res"] is not None
    cycles = cost.elements(call) / cost.rate(machine, engine.scalar, "default")
    extra = reads_out * machine.fixed.accumulator_read_cycles
    found = cost.stream(call, machine, cycles, extra, column=call["op"].name != "copy")
    return replace(found, table=call["op"].table)
