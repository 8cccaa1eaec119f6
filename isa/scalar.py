"""The Scalar engine (ACT): one function of one number at a time, with a multiplier and an adder
in front and an accumulator behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.arithmetic import FUNCTIONS, Function, Operator
from neuroncore.clause.instruction import Call, instruction, require
from neuroncore.clause.operand import Act, Gathered, Op, Operand, Scattered, View
from neuroncore.clause.rules import commands, same_elements, same_partitions
from neuroncore.clause.usual import Number, Reduced, Single
from neuroncore.core.accumulators import accumulate, accumulators, read_out
from neuroncore.core.core import Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.errors import DtypeError, KernelError, OperatorError, TargetError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.native import buffers
from neuroncore.numerics.formats import (
    FORMATS,
    bfloat16,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)

from .operators import ADD
from .reduction import LOAD_REDUCE

scalar, vector = engine.scalar, engine.vector
IDLE = reduce_cmd.idle

Activation = Annotated[Function, Act()]
Data = Annotated[Tile, Operand(reads=True, indirect=True, float8="scalar_float8_e4m3fn")]
Sum = Annotated[Operator, Op(names=("add",))]
MaybeSum = Annotated[Operator | None, Op(names=("add",), optional=True)]
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


def activation_cost(call: Call, machine: Machine) -> cost.Cost:
    """One element per lane and cycle, whatever the function; reading the accumulator is a second
    instruction (ISA226). Any function but copy fetches a column for its bias, be there one or not:
    published traces differ by just that."""
    reads_out = call["reduce_res"] is not None
    cycles = cost.elements(call) / cost.rate(machine, scalar, "default")
    extra = reads_out * machine.fixed.accumulator_read_cycles
    found = cost.stream(call, machine, cycles, extra, column=call["op"].name != "copy")
    return replace(found, table=call["op"].table)


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


one_register_for_each = same_partitions("data", "reduce_res")


def registers_of_data_or_more(call: Call, machine: Machine) -> KernelError | None:
    """nki-library's router_topk of NKI 0.2 reads out more of them than data has partitions."""
    data, result = call.view("data"), call["reduce_res"]
    beyond = machine.limits.partitions - data.partition
    if isinstance(result, View) and data.partitions < result.partitions <= beyond:
        return None
    return one_register_for_each(call, machine)


ACTIVATION_RULES = (
    same_elements("dst", "data"),
    same_partitions("data", "bias", "scale"),
    bias_on_this_machine,
)


@instruction(
    scalar,
    cost=cost.dynamic(activation_cost),
    rules=[
        *ACTIVATION_RULES,
        registers_of_data_or_more,
        commands("idle", "reset", "reduce", "reset_reduce"),
    ],
    opcode="ACTIVATE",
)
def activation(
    dst: Scattered,
    op: Activation,
    data: Data,
    bias: Bias = None,
    scale: Single = 1.0,
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
    result = out if out.flags.c_contiguous else numeric.floats(dst)
    value = affine(numeric.shaped(data.values(), dst.shape), scale, bias)
    report_outside(core, op, value)
    numeric.activate(op.apply, value, result)
    if reduce_cmd is not IDLE:
        accumulate(accumulators(core, scalar, data), ADD, result, reduce_cmd)
    if result is not out:
        out[...] = result
    numeric.finish(dst, out)
    if reduce_res is not None:
        registers = accumulators(core, scalar, data, reduce_res.shape[0])
        read_out(core, reduce_res, registers)


def report_outside(core: Core, op: Function, x: Any) -> None:
    """Find inputs for which the engine's tables are not valid. Zeros and infinities are taken to be
    no matter of tables."""
    low, high = op.valid
    if low == -np.inf:
        return
    size = np.abs(x) if op.name == "reciprocal" else x
    if low <= size.min() and size.max() <= high:
        return
    outside = ((size < low) | (size > high)) & (x != 0) & np.isfinite(x)
    if outside.any():
        core.report(
            "OUT_OF_RANGE",
            f"{op} of {x[outside].flat[0]:g}: the engine's tables are valid from {low:g} to "
            f"{high:g}, and beyond the device's results are not these",
        )


def affine(value: Any, scale: Any, bias: Any) -> Any:
    """value * scale + bias in float32, leaving out what changes nothing."""
    out = buffers.scratch("affine", value.shape, value.dtype)
    if isinstance(scale, Tile) or scale != 1.0:
        value = np.multiply(value, numeric.scalar(scale, value), out=out)
    if bias is not None:  # adding 0 makes +0 of -0
        value = np.add(value, numeric.scalar(bias, value), out=out)
    return value


@instruction(
    scalar,
    cost=cost.dynamic(activation_cost),
    rules=[*ACTIVATION_RULES, one_register_for_each],
    opcode="ACTIVATE",
)
def activation_reduce(
    dst: Scattered,
    op: Activation,
    data: Data,
    reduce_op: Sum,
    reduce_res: Reduced,
    bias: Bias = None,
    scale: Single = 1.0,
    *,
    core: Core,
) -> None:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = sum over f of op(...)"""
    activation.meaning(
        dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd.reset_reduce, core=core
    )


# --- from v4 on -----------------------------------------------------------------------------------

EXP, PRELU = FUNCTIONS["exp"], FUNCTIONS["prelu"]
STEPS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
FOLDS = ("add", "maximum", "minimum", "abs_max", "abs_min")

Step = Annotated[Operator, Op(names=("multiply", "add", "subtract", "bypass"))]
MaybeFold = Annotated[Operator | None, Op(names=FOLDS, optional=True)]


def two_steps(call: Call, machine: Machine) -> KernelError | None:
    """The pairs of operators that the input stage can do, and which of them can be turned round."""
    op0, op1 = call["op0"], call["op1"]
    if (op0.name, op1.name) not in STEPS:
        return OperatorError(
            f"{call.name}: op1={op1} can't follow op0={op0}",
            argument="op1",
            expected=", ".join(f"({first}, {second})" for first, second in STEPS),
            got=f"({op0.name}, {op1.name})",
        )
    for op, reverse in ((op0, "reverse0"), (op1, "reverse1")):
        if call[reverse] and op.name == "bypass":
            return OperatorError(
                f"{call.name}: {reverse} goes with an operator of two operands",
                argument=reverse,
                expected="False",
                got=repr(op),
            )
    return None


def immediates_agree(call: Call, machine: Machine) -> KernelError | None:
    tiles = call.views("imm0", "imm1")
    if len({view.dtype for view in tiles}) < 2:
        return None
    return DtypeError(
        f"{call.name}: imm1 is {tiles[1].dtype}, imm0 is {tiles[0].dtype}",
        argument="imm1",
        expected=str(tiles[0].dtype),
        got=str(tiles[1]),
    )


def names_its_fold(call: Call, machine: Machine) -> KernelError | None:
    command = call["reduce_cmd"]
    if command is reduce_cmd.idle or call["reduce_op"] is not None:
        return None
    return OperatorError(
        f"{call.name}: reduce_cmd={command.name} needs reduce_op",
        argument="reduce_op",
        expected=", ".join(FOLDS),
        got="None",
    )


@instruction(
    scalar,
    cost=cost.dynamic(activation_cost),
    rules=[
        same_elements("dst", "data"),
        same_partitions("data", "imm0", "imm1", "relu_param", "reduce_res"),
        two_steps,
        immediates_agree,
        names_its_fold,
        commands("idle", "reset", "reduce", "reset_reduce"),
    ],
    feature="activate2",
)
def activate2(
    dst: Scattered,
    op: Activation,
    data: Gathered,
    imm0: Number,
    imm1: Number,
    op0: Step,
    op1: Step,
    relu_param: Number = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: MaybeFold = None,
    reduce_res: Reduced = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    *,
    core: Core,
) -> None:
    """dst[p, f] = op((data[p, f] <op0> imm0[p]) <op1> imm1[p]);  reduce_res[p] = the accumulator

    Each step rounds to float32. The accumulator folds the results before they are rounded to dst.
    relu_param is of nl.prelu: x if x > 0 else relu_param * x.
    """
    value = np.array(numeric.shaped(data.values(), dst.shape))
    for step, operand, reverse in ((op0, imm0, reverse0), (op1, imm1, reverse1)):
        if step.name != "bypass":
            numeric.apply(step, value, numeric.scalar(operand, value), value, reverse)
    out = numeric.floats(dst)
    if op is PRELU:
        out[...] = np.where(value > 0, value, numeric.scalar(relu_param, value) * value)
    else:
        report_outside(core, op, value)
        numeric.activate(op.apply, value, out)
    registers = accumulators(core, scalar, data)
    if reduce_op is not None and reduce_cmd is not IDLE:
        accumulate(registers, reduce_op, out, reduce_cmd)
    dst.store(out)
    read_out(core, reduce_res, registers)


NARROW = (float8_e4m3, float8_e5m2, float16, bfloat16, float32)
WHOLE = (int8, int16, int32, uint8, uint16)


@instruction(
    vector,
    cost=cost.streaming("exponential"),
    rules=[
        same_elements("dst", "src"),
        same_partitions("src", "max_value", "reduce_init", "reduce_res"),
        commands("idle", "reset_reduce", "reduce", "load_reduce"),
    ],
    feature="exponential",
)
def exponential(
    dst: Annotated[Tile, Operand(writes=True, dtypes=(*NARROW, tfloat32, *WHOLE), indirect=True)],
    src: Annotated[Tile, Operand(reads=True, dtypes=(*NARROW, *WHOLE, uint32), indirect=True)],
    max_value: Single = 0.0,
    reduce_res: Annotated[
        Tile | None,
        Operand(writes=True, column=True, optional=True, dtypes=(*NARROW, tfloat32)),
    ] = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: Single = 0.0,
    *,
    core: Core,
) -> None:
    """dst[p, f] = exp(src[p, f] - max_value[p]);  reduce_res[p] = sum over f of exp(...)

    The sum is of float32 numbers, before they are rounded to dst.
    """
    loads = reduce_cmd is LOAD_REDUCE
    require(
        loads or (not isinstance(reduce_init, Tile) and reduce_init == 0),
        "reduce_init goes with reduce_cmd.load_reduce",
        OperatorError,
        argument="reduce_init",
        expected="0.0",
        got=repr(reduce_init),
    )
    value, out = numeric.shaped(src.values(), dst.shape), numeric.floats(dst)
    numeric.activate(EXP.apply, value - numeric.scalar(max_value, value), out)
    total = accumulate(accumulators(core, vector, src), ADD, out, reduce_cmd, reduce_init)
    dst.store(out)
    read_out(core, reduce_res, total)
