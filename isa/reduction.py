"""The Vector engine's reductions and scans, which carry a value along the free axes."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.arithmetic import Operator
from neuroncore.clause.cost import streaming
from neuroncore.clause.instruction import Call, instruction, require
from neuroncore.clause.number import unary_operand
from neuroncore.clause.operand import Gathered, In, Op, Operand, Out, Scattered, Static
from neuroncore.clause.rules import (
    bitvec_on_integers,
    commands,
    not_both_in_psum,
    runs_there,
    same_elements,
    same_partitions,
    two_operands,
)
from neuroncore.clause.usual import BOTH, Arithmetic, MaybeSingle, Number, Reduced
from neuroncore.core.accumulators import accumulate, accumulators, read_out
from neuroncore.core.core import Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.errors import KernelError, OperatorError, ShapeError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import (
    FLOATS,
    FORMATS,
    bfloat16,
    bool_,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)

from .operators import MAXIMUM

vector, unknown = engine.vector, engine.unknown
LOAD_REDUCE = reduce_cmd.load_reduce

Reduction = Annotated[Operator, Op(names=("add", "multiply", "maximum", "minimum"), reduces=True)]
Max = Annotated[Operator, Op(names=("maximum",))]


def reduced_axes(call: Call) -> int:
    """How many of the last axes are folded away; 0 if the axes asked for are not the last."""
    rank = len(call.view("data").shape)
    axis = call["axis"]
    given = axis if isinstance(axis, tuple) else (axis,)
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


def folds_the_last_axes(call: Call, machine: Machine) -> KernelError | None:
    data, dst = call.view("data"), call.view("dst")
    count = reduced_axes(call)
    if not count:
        return ShapeError(
            f"tensor_reduce can't reduce axis {call['axis']} of {data}",
            argument="axis",
            expected="the last free axes, such as (1,) of a 2-D tile or (2, 3) of a 4-D one",
            got=str(call["axis"]),
            because="a lane folds what streams past it; axis 0 is the lanes themselves",
            hint="transpose first, or sum over partitions with nisa.nc_matmul against ones",
        )
    left = data.free_size // int(np.prod(data.shape[len(data.shape) - count :]))
    if dst.free_size != left:
        return ShapeError(
            f"tensor_reduce: {left} elements per partition are left, dst holds {dst.free_size}",
            argument="dst",
            expected=f"{left} elements per partition",
            got=str(dst),
        )
    return None


def negates_numbers(call: Call, machine: Machine) -> KernelError | None:
    if not call["negate"] or call["op"].kind == "arithmetic":
        return None
    return OperatorError(
        f"tensor_reduce: negate does not go with {call['op']}",
        argument="negate",
        expected="an arithmetic operator",
        got=repr(call["op"]),
        because="it multiplies the result by -1.0; bit patterns are not multiplied",
    )


def reduce_cost(call: Call, machine: Machine) -> cost.Cost:
    narrow = all(v.dtype is bfloat16 for v in call.views())
    fast = narrow and call["op"].name in ("add", "maximum")
    kind = "reduce_16bit" if fast else "default"
    return cost.stream(call, machine, cost.elements(call) / cost.rate(machine, vector, kind))


@instruction(
    vector,
    cost=cost.dynamic(reduce_cost),
    rules=[
        same_partitions("dst", "data"),
        folds_the_last_axes,
        bitvec_on_integers("dst", "data", ops=("op",)),
        negates_numbers,
    ],
)
def tensor_reduce(
    dst: Scattered,
    op: Annotated[Operator, Op(BOTH, reduces=True)],
    data: Gathered,
    axis: Annotated[int | tuple[int, ...], Static(sequence=True)],
    negate: bool = False,
    keepdims: bool = False,
    *,
    core: Core,
) -> None:
    """dst[p, ...] = data[p, ..., 0] <op> data[p, ..., 1] <op> ... over the last axes"""
    given = (axis,) if isinstance(axis, int) else axis
    axes = len(given)
    if not trailing(given, len(data.shape)):
        core.report(
            "AXIS_FROM_WITHIN",
            f"tensor_reduce: axis {axis} of {data} folds its last {axes}, as in releases 0.1 and "
            "0.2, where 1 is the innermost axis; later ones refuse it",
        )
    if op.kind == "bitvec":
        dst.codes()[...] = numeric.shaped(numeric.reduce(op, data.codes(), axes), dst.shape)
        return
    result = numeric.reduce(op, data.values(), axes)
    dst.store(np.negative(result) if negate else result)


def in_order(call: Call, machine: Machine) -> KernelError | None:
    """The API has a reverse0 here and says that it is not supported yet (ISA)."""
    if not call["reverse0"]:
        return None
    return OperatorError(
        f"{call.name}: reverse0 is not supported",
        argument="reverse0",
        expected="False",
        got=repr(call["reverse0"]),
        hint="use nisa.tensor_scalar(reverse0=True), then nisa.tensor_reduce",
    )


@instruction(
    vector,
    cost=streaming(extra="accumulator_read_cycles"),
    rules=[
        same_elements("dst", "data"),
        same_partitions("data", "operand0", "reduce_res", "reduce_init"),
        runs_there("op0"),
        in_order,
        commands("reset_reduce", "reduce", "load_reduce"),
    ],
)
def tensor_scalar_reduce(
    dst: Scattered,
    data: Gathered,
    op0: Arithmetic,
    operand0: MaybeSingle,
    reduce_op: Reduction,
    reduce_res: Reduced = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: MaybeSingle = None,
    reduce_res_negate: bool = False,
    *,
    core: Core,
) -> None:
    """dst[p, f] = data[p, f] <op0> operand0[p];  reduce_res[p] = fold of dst[p, :] by reduce_op"""
    unary_operand(op0, operand0, "operand0")
    loads = reduce_cmd is LOAD_REDUCE
    require(
        loads == (reduce_init is not None),
        "reduce_init goes with reduce_cmd.load_reduce",
        OperatorError,
        argument="reduce_init",
    )
    out = numeric.floats(dst)
    value = numeric.shaped(data.values(), dst.shape)
    numeric.apply(op0, value, numeric.scalar(operand0, out), out, reverse0)
    registers = accumulators(core, vector, data)
    total = accumulate(registers, reduce_op, out, reduce_cmd, reduce_init)
    dst.store(out)
    read_out(core, reduce_res, total, reduce_res_negate)


@instruction(
    vector,
    cost=streaming("scan"),
    rules=[
        same_elements("dst", "data0", "data1"),
        same_partitions("data0", "initial"),
        not_both_in_psum("data0", "data1"),
        two_operands("op0", "op1"),
        runs_there("op0", "op1"),
    ],
)
def tensor_tensor_scan(
    dst: Out,
    data0: In,
    data1: In,
    initial: Number,
    op0: Arithmetic,
    op1: Arithmetic,
    reverse0: bool = False,
    reverse1: bool = False,
) -> None:
    """r[p, f] = (data0[p, f] <op0> r[p, f-1]) <op1> data1[p, f];  dst = r, r[p, -1] = initial

    The state stays float32 even if dst is narrower.
    """
    rows = dst.shape[0]
    out = numeric.floats(dst, (rows, dst.free_size))
    state = np.empty(rows, out.dtype)
    state[:] = initial.values().reshape(-1) if isinstance(initial, Tile) else initial
    first, second = (t.values().reshape(rows, -1) for t in (data0, data1))
    numeric.scan(op0, op1, first, second, state, out, reverse0, reverse1)
    dst.store(out)


@instruction(
    vector,
    cost=cost.streaming("predicated_mixed"),
    rules=[
        same_elements("dst", "predicate", "on_true"),
        same_partitions("dst", "on_false", "reduce_res"),
        not_both_in_psum("on_true", "predicate"),
        commands("idle", "reset_reduce", "reduce"),
    ],
)
def select_reduce(
    dst: Out,
    predicate: Annotated[Tile, Operand(reads=True, dtypes=(bool_, int8, uint8, int16, uint16))],
    on_true: Annotated[
        Tile,
        Operand(
            reads=True,
            dtypes=tuple(f for f in FORMATS.values() if f not in (tfloat32, int32, uint32)),
        ),
    ],
    on_false: Number,
    reduce_res: Annotated[
        Tile | None, Operand(writes=True, column=True, optional=True, dtypes=FLOATS)
    ] = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: Max = MAXIMUM,
    reverse_pred: bool = False,
    *,
    core: Core,
) -> None:
    """dst[p, f] = on_true[p, f] if predicate[p, f] != 0 else on_false[p];  reduce_res[p] = max_f

    max_f is the largest of dst[p, :] before it is rounded.
    """
    chosen = numeric.shaped(predicate.codes() != 0, dst.shape) ^ reverse_pred
    kept = numeric.shaped(on_true.values(), dst.shape)
    out = np.where(chosen, kept, numeric.scalar(on_false, kept))
    total = accumulate(accumulators(core, vector, on_true), reduce_op, out, reduce_cmd)
    dst.store(out)
    read_out(core, reduce_res, total)
