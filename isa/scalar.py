"""The Scalar engine (ACT): one function of one number at a time, with a multiplier and an adder
in front and an accumulator behind."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from neuroncore import buffers, cost, numeric
from neuroncore.core import Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.errors import KernelError, TargetError
from neuroncore.formats import FORMATS, tfloat32
from neuroncore.instruction import Act, Call, In, Op, Operand, Out, View, instruction
from neuroncore.machine import Machine
from neuroncore.numeric import Function, Operator
from neuroncore.rules import commands, float32_operands, same_elements, same_partitions
from neuroncore.tile import Tile

from .operators import ADD
from .reduction import accumulate, accumulators

scalar = engine.scalar

Activation = Annotated[Function, Act()]
Sum = Annotated[Operator, Op(names=("add",))]
MaybeSum = Annotated[Operator | None, Op(names=("add",), optional=True)]
Scale = Annotated[Tile | float, Operand(reads=True, column=True, scalar=True)]
Bias = Annotated[
    Tile | float | None,
    Operand(
        reads=True,
        column=True,
        scalar=True,
        optional=True,
        dtypes=tuple(f for f in FORMATS.values() if f is not tfloat32),
    ),
]
Reduced = Annotated[Tile | None, Operand(writes=True, column=True, optional=True)]


def activation_cost(call: Call, machine: Machine) -> cost.Cost:
    """One element per lane and cycle, whatever the function; reading the accumulator is a second
    instruction (ISA226)."""
    reads_out = call["reduce_res"] is not None
    cycles = cost.elements(call) / cost.rate(machine, scalar, "default")
    busy = cost.stream(call, machine, cycles + reads_out * machine.fixed.accumulator_read_cycles)
    return cost.Cost(busy.busy_ns, busy.latency_ns, table=call["op"].table)


def bias_on_this_machine(call: Call, machine: Machine) -> KernelError | None:
    """v2 takes a bias from a tile only, and none for the reciprocal (ISA)."""
    if machine.has("scalar_constant_bias"):
        return None
    if call["bias"] == "number":
        return TargetError(
            f"{call.name}: {machine.name} takes no constant bias",
            argument="bias",
            expected="a tile of shape (partitions, 1)",
            got="a number",
            hint="fill a [P, 1] tile with nisa.memset and pass that",
            also="NCC_IBIR605",
        )
    if call["op"].name == "reciprocal" and isinstance(call["bias"], View):
        return TargetError(
            f"{call.name}: {machine.name} takes no bias with nl.reciprocal", argument="bias"
        )
    return None


ACTIVATION_RULES = (
    same_elements("dst", "data"),
    same_partitions("data", "bias", "scale", "reduce_res"),
    float32_operands("scale"),
    bias_on_this_machine,
)


@instruction(
    scalar,
    cost=cost.dynamic(activation_cost),
    rules=[*ACTIVATION_RULES, commands("idle", "reset", "reduce", "reset_reduce")],
    opcode="ACTIVATE",
)
def activation(
    dst: Out,
    op: Activation,
    data: In,
    bias: Bias = None,
    scale: Scale = 1.0,
    reduce_op: MaybeSum = None,
    reduce_res: Reduced = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    *,
    core: Core,
) -> None:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = the accumulator

    Multiplication and addition round separately. The accumulator adds the float32 results before
    they are rounded to dst.
    """
    out = numeric.target(dst, data, *(t for t in (bias, scale) if isinstance(t, Tile)))
    result = out if out.flags.c_contiguous else buffers.floats(dst.shape)
    value = affine(numeric.shaped(data.values(), dst.shape), scale, bias)
    numeric.activate(op.apply, value, result)
    if reduce_cmd.name != "idle":
        accumulate(accumulators(core, scalar, data), ADD, result, reduce_cmd)
    if result is not out:
        out[...] = result
    numeric.finish(dst, out)
    if reduce_res is not None:
        reduce_res.store(accumulators(core, scalar, data))


def affine(value: Any, scale: Any, bias: Any) -> Any:
    """value * scale + bias in float32, leaving out what changes nothing."""
    out = buffers.scratch("affine", value.shape)
    if isinstance(scale, Tile) or scale != 1.0:
        value = np.multiply(value, numeric.scalar(scale, value), out=out)
    if bias is not None:  # adding 0 makes +0 of -0
        value = np.add(value, numeric.scalar(bias, value), out=out)
    return value


@instruction(scalar, cost=cost.dynamic(activation_cost), rules=ACTIVATION_RULES, opcode="ACTIVATE")
def activation_reduce(
    dst: Out,
    op: Activation,
    data: In,
    reduce_op: Sum,
    reduce_res: Reduced = None,
    bias: Bias = None,
    scale: Scale = 1.0,
    *,
    core: Core,
) -> None:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = sum over f of op(...)"""
    activation.meaning(
        dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd.reset_reduce, core=core
    )
