"""The Scalar engine (ACT): it computes one function of one number at a time. A multiplier and an
adder come before the function, and an accumulator after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from neuroncore.base import buffers
from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost, rules
from neuroncore.clause.alu import PREVIOUS, Function, Loop, in_steps
from neuroncore.clause.instruction import FOLDING, Run, instruction
from neuroncore.clause.operand import Gathered, Number, Reduced, Scattered, Single
from neuroncore.clause.refusal import left_out
from neuroncore.core import engines as tables
from neuroncore.core import sums
from neuroncore.core.core import Core
from neuroncore.memory.tile import Array, Tile

from .operators import ADD, EXP, PRELU
from .words import lanes as words

scalar, vector = engine.scalar, engine.vector
IDLE, LOAD = reduce_cmd.idle, reduce_cmd.load_reduce


@instruction(
    scalar,
    shapes="dst data: P F; bias scale: P 1; reduce_res: R 1",
    cost=cost.dynamic(words.activation_cost),
    rules=[*words.BIAS, words.registers_of_data_or_more, words.COMMANDS],
    opcode="ACTIVATE",
    traits=FOLDING,
)
def activation(
    dst: Scattered,
    op: words.Activation,
    data: words.Data,
    bias: words.Bias = None,
    scale: Single = 1.0,
    reduce_op: words.MaybeSum = None,
    reduce_res: Reduced = None,
    reduce_cmd: reduce_cmd = IDLE,
    *,
    core: Core,
) -> Run:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = the accumulator

    Multiplication and addition round separately. The accumulator adds the float32 results before
    they are rounded to dst.
    """
    return activated(dst, op, data, bias, scale, reduce_cmd)


@instruction(
    scalar,
    shapes="dst data: P F; bias scale reduce_res: P 1",
    cost=cost.dynamic(words.activation_cost),
    rules=words.BIAS,
    opcode="ACTIVATE",
    traits=replace(FOLDING, fixed_command=reduce_cmd.reset_reduce),
)
def activation_reduce(
    dst: Scattered,
    op: words.Activation,
    data: words.Data,
    reduce_op: words.Sum,
    reduce_res: Reduced,
    bias: words.Bias = None,
    scale: Single = 1.0,
    *,
    core: Core,
) -> Run:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = sum over f of op(...)"""
    run = activated(dst, op, data, bias, scale, reduce_cmd.reset_reduce)
    return lambda core, dst, data, result, bias, scale: run(core, dst, data, bias, scale, result)


# --- from v4 on -----------------------------------------------------------------------------------


@instruction(
    scalar,
    shapes="dst data: P F; imm0 imm1 relu_param reduce_res: P 1",
    cost=cost.dynamic(words.activation_cost),
    rules=words.ACTIVATE2,
    feature="activate2",
    example="op1=add",
    traits=FOLDING,
)
def activate2(
    dst: Scattered,
    op: words.Activation,
    data: Gathered,
    imm0: Number,
    imm1: Number,
    op0: words.Step,
    op1: words.Step,
    relu_param: Number = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: words.MaybeFold = None,
    reduce_res: Reduced = None,
    reduce_cmd: reduce_cmd = IDLE,
    *,
    core: Core,
) -> None:
    """dst[p, f] = op((data[p, f] <op0> imm0[p]) <op1> imm1[p]);  reduce_res[p] = the accumulator

    Each step rounds to float32. The accumulator folds results before they are rounded to dst."""
    out = numeric.stepped(dst, data, (op0, imm0, reverse0), (op1, imm1, reverse1))
    evaluate(core, op, np.array(out), out, relu_param)
    if reduce_op is not None and reduce_cmd is not IDLE:
        sums.accumulate(core, scalar, data, out, reduce_op, reduce_cmd)
    dst.store(out)
    sums.read_out(core, scalar, data, reduce_res)


@instruction(
    vector,
    shapes="dst src: P F; max_value reduce_init reduce_res: P 1",
    cost=cost.streaming("exponential"),
    rules=[rules.commands("idle", "reset_reduce", "reduce", "load_reduce")],
    feature="exponential",
    traits=FOLDING,
)
def exponential(
    dst: words.Exponentials,
    src: words.Exponents,
    max_value: Single = 0.0,
    reduce_res: words.Total = None,
    reduce_cmd: reduce_cmd = IDLE,
    reduce_init: Single = 0.0,
    *,
    core: Core,
) -> None:
    """dst[p, f] = exp(src[p, f] - max_value[p]);  reduce_res[p] = sum over f of exp(...)

    The sum is of float32 numbers, before they are rounded to dst.
    """
    if reduce_cmd is not LOAD:
        left_out("reduce_init", reduce_init, "only reduce_cmd.load_reduce uses it")
    value, out = numeric.shaped(src.values(), dst.shape), numeric.floats(dst)
    numeric.activate(EXP.apply, value - numeric.scalar(max_value, value), out)
    sums.accumulate(core, vector, src, out, ADD, reduce_cmd, reduce_init)
    dst.store(out)
    sums.read_out(core, vector, src, reduce_res)


# --- functions for the bodies ---------------------------------------------------------------------


def activated(
    dst: Tile, op: Function, data: Tile, bias: Any, scale: Any, command: reduce_cmd
) -> Run:
    """Return the function that executes an activation. The function computes op(data * scale +
    bias), adds the results to the accumulator as `command` states, and writes the accumulator to
    reduce_res, if that is given."""
    moved, look_up = affine(dst, data, scale, bias), tables.looked_up(op)
    others = [i for i, operand in enumerate((bias, scale)) if isinstance(operand, Tile)]

    def run(core: Core, dst: Tile, data: Tile, bias: Any, scale: Any, result: Tile | None) -> None:
        out = numeric.target(dst, data, *[(bias, scale)[i] for i in others])
        if not out.flags.c_contiguous:
            # elements of dst may overlap, but the accumulator adds all results
            out = numeric.floats(dst)
        look_up(core, moved(data, scale, bias), out)
        if command is not IDLE:
            sums.accumulate(core, scalar, data, out, ADD, command)
        numeric.finish(dst, out)
        if result is not None:
            sums.read_out(core, scalar, data, result)

    if command is not IDLE or op.valid[0] != -np.inf:
        return run  # it changes the accumulator, or may report data outside of the function's table
    return in_steps(run, partial(steps, op))


def steps(
    op: Function, dst: Tile, data: Tile, bias: Any, scale: Any, result: Tile | None
) -> list[Any]:
    """Return the loops over the elements that compute op(data * scale + bias) in the order of
    `affine`. Return an empty list if the call has a reduce_res."""
    listed, value = [], data
    if isinstance(scale, Tile) or scale != 1.0:
        listed, value = [Loop(np.multiply, (data, scale))], PREVIOUS
    if bias is not None:
        listed, value = [*listed, Loop(np.add, (value, bias))], PREVIOUS
    return [] if result is not None else [*listed, Loop(op.apply, (value,))]


def affine(dst: Tile, data: Tile, scale: Any, bias: Any) -> Callable[[Tile, Any, Any], Array]:
    """Return a function that computes data * scale + bias in float32, without the operations that
    change nothing."""
    read = numeric.reader(data, dst.shape)
    factor, term = (numeric.operand_reader(operand, dst) for operand in (scale, bias))
    scaled, moved = isinstance(scale, Tile), bias is not None
    once = isinstance(bias, Tile) and not scaled  # scale_and_add reads a bias for each partition

    def value(data: Tile, scale: Any, bias: Any) -> Array:
        x = read(data)
        multiplied = scaled or scale != 1.0
        if not (multiplied or moved):
            return x
        out = buffers.scratch("affine", x.shape, x.dtype)
        if once and numeric.scale_and_add(x, factor(scale), term(bias), out):
            return out
        if multiplied:
            x = np.multiply(x, factor(scale), out=out)
        if moved:  # a bias of 0 is added too: it turns -0 into +0
            x = np.add(x, term(bias), out=out)
        return x

    return value


def evaluate(core: Core, op: Function, value: Any, out: Any, slope: Any = None) -> None:
    """out = op(value). For prelu, a slope may be given: x if x > 0 else slope * x."""
    if op is PRELU and slope is not None:
        out[...] = np.where(value > 0, value, numeric.scalar(slope, value) * value)
        return
    tables.looked_up(op)(core, value, out)
