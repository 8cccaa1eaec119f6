"""The Vector engine (DVE): 128 lanes, each with an ALU that computes in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from neuroncore import buffers, cost, numeric
from neuroncore.core import Core
from neuroncore.cost import streaming
from neuroncore.enums import engine, reduce_cmd
from neuroncore.errors import DtypeError, KernelError, OperatorError, ShapeError
from neuroncore.formats import (
    FLOATS,
    FORMATS,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from neuroncore.instruction import PSUM, Call, In, Op, Operand, Out, Static, instruction, require
from neuroncore.machine import Machine
from neuroncore.numeric import Operator
from neuroncore.rules import (
    bitvec_on_integers,
    float32_operands,
    not_both_in_psum,
    on_engine_needs,
    runs_there,
    same_dtype,
    same_elements,
    same_partitions,
)
from neuroncore.tile import Tile

from .operators import MAXIMUM

vector, scalar, gpsimd, unknown = engine.vector, engine.scalar, engine.gpsimd, engine.unknown

BOTH = ("arithmetic", "bitvec")
EXACT = (int32, uint32)  # the formats of the GpSimd engine's own integer arithmetic
AnyOp = Annotated[Operator, Op(BOTH)]
MaybeOp = Annotated[Operator | None, Op(BOTH, optional=True)]
Arithmetic = Annotated[Operator, Op()]
Reduction = Annotated[Operator, Op(names=("add", "multiply", "maximum", "minimum"), reduces=True)]
Max = Annotated[Operator, Op(names=("maximum",))]

Number = Annotated[Tile | float, Operand(reads=True, column=True, scalar=True)]
MaybeNumber = Annotated[
    Tile | float | None, Operand(reads=True, column=True, scalar=True, optional=True)
]
Reduced = Annotated[Tile | None, Operand(writes=True, column=True, optional=True)]


# --- copies ------------------------------------------------------------------------------------------


@instruction(
    vector,
    scalar,
    gpsimd,
    cost=cost.dynamic(cost.copying),
    rules=[
        same_elements("dst", "src"),
        on_engine_needs(scalar, "scalar_tensor_copy", "use nisa.activation(op=nl.copy)"),
    ],
    opcode="COPY",
)
def tensor_copy(dst: Out, src: In, engine: engine = unknown) -> None:
    """dst[p, f] = src[p, f]; bits between equal formats, else through float32"""
    if dst.dtype is src.dtype:
        dst.codes()[...] = numeric.shaped(src.codes(), dst.shape)
    else:
        dst.store(src.values())


@instruction(
    vector,
    gpsimd,
    cost=cost.filling,
    opcode="MEMSET",
)
def memset(
    dst: Annotated[Tile, Operand(writes=True)], value: float, engine: engine = unknown
) -> None:
    """dst[p, f] = value"""
    require(
        dst.dtype.is_float or float(value).is_integer(),
        f"memset: {value} is not a value of {dst.dtype}",
        DtypeError,
        argument="value",
        expected="an integer",
        got=repr(value),
        because="the constant is stored in the format of dst; nothing is converted",
    )
    dst.codes()[...] = numeric.constant(dst.dtype, value)


def predicated_cost(call: Call, machine: Machine) -> cost.Cost:
    regions = {view.region for view in call.views("src", "predicate")}
    kind = "predicated_mixed" if len(regions) > 1 else "predicated"
    return cost.stream(call, machine, cost.elements(call) / cost.rate(machine, vector, kind))


@instruction(
    vector,
    cost=predicated_cost,
    rules=[
        same_elements("dst", "src", "predicate"),
        same_dtype("dst", "src"),
        not_both_in_psum("src", "predicate"),
    ],
)
def tensor_copy_predicated(
    dst: Annotated[Tile, Operand(writes=True, partial=True)],
    src: Annotated[Tile | float, Operand(reads=True, scalar=True)],
    predicate: Annotated[Tile, Operand(reads=True, dtypes=(uint8, uint16, uint32))],
    reverse_pred: bool = False,
) -> None:
    """dst[p, f] = src[p, f] where predicate[p, f] != 0, else unchanged"""
    chosen = numeric.shaped(predicate.codes() != 0, dst.shape) ^ reverse_pred
    if isinstance(src, Tile):
        new = numeric.shaped(src.codes(), dst.shape)[chosen]
    else:
        new = numeric.constant(dst.dtype, src)
    dst.codes()[chosen] = new
    dst.mark_written(chosen)


# --- element by element --------------------------------------------------------------------------------


def choose_tensor_tensor(call: Call, machine: Machine) -> engine:
    """Integers of 32 bits go to the GpSimd engine, whose arithmetic on them is exact, unless it
    can't reach them; so does power (ISA)."""
    if "gpsimd" in call["op"].engines and "vector" not in call["op"].engines:
        return gpsimd
    exact = all(v.dtype in EXACT and v.region is not PSUM for v in call.views())
    return gpsimd if exact and call["op"].kind == "arithmetic" else vector


def tensor_tensor_engine(call: Call, machine: Machine) -> KernelError | None:
    op = call["op"]
    if op.engines == ("gpsimd",) and call.engine is not gpsimd:
        return runs_there("op")(call, machine)
    return None


@instruction(
    vector,
    gpsimd,
    cost=cost.dynamic(cost.two_inputs),
    choose=choose_tensor_tensor,
    rules=[
        same_elements("dst", "data1", "data2"),
        not_both_in_psum("data1", "data2"),
        bitvec_on_integers("dst", "data1", "data2", ops=("op",)),
        tensor_tensor_engine,
    ],
)
def tensor_tensor(dst: Out, data1: In, data2: In, op: AnyOp, engine: engine = unknown) -> None:
    """dst[p, f] = data1[p, f] <op> data2[p, f]"""
    exact = engine is gpsimd and op.integer and {dst.dtype, data1.dtype, data2.dtype} <= {*EXACT}
    if op.kind == "bitvec" or exact:
        numeric.integer_binary(op, dst, data1, data2)
        return
    out = numeric.target(dst, data1, data2)
    op.apply(
        numeric.shaped(data1.values(), dst.shape), numeric.shaped(data2.values(), dst.shape), out
    )
    numeric.finish(dst, out)


def choose_tensor_scalar(call: Call, machine: Machine) -> engine:
    ops = [op for op in (call["op0"], call["op1"]) if op is not None]
    return gpsimd if any("vector" not in op.engines for op in ops) else vector


def tensor_scalar_engine(call: Call, machine: Machine) -> KernelError | None:
    """The Scalar engine multiplies and then adds; GpSimd does what the Vector engine can't."""
    op0, op1 = call["op0"], call["op1"]
    names = (op0.name, op1.name if op1 else None)
    if call.engine is scalar and names not in (
        ("multiply", "add"), ("multiply", None), ("add", None),
    ):  # fmt: skip
        return OperatorError(
            f"tensor_scalar: the Scalar engine has no {' then '.join(n for n in names if n)}",
            argument="op0",
            expected="multiply then add, multiply, or add",
            got=f"op0={op0}, op1={op1}",
            because="its input stage is one multiplier followed by one adder",
            hint="use engine=nisa.engine.vector",
        )
    if call.engine is vector:
        return runs_there("op0", "op1")(call, machine)
    return None


def unary_operand(op: Operator, operand: Any, name: str) -> None:
    """An operator of one operand leaves the other out."""
    require(
        op.arity == 2 or operand is None or (not isinstance(operand, Tile) and operand == 0),
        f"{name} must be None or 0: {op} has one operand",
        OperatorError,
        argument=name,
        got=repr(operand),
    )
    require(
        op.arity == 1 or operand is not None,
        f"{op} needs {name}",
        OperatorError,
        argument=name,
        got="None",
    )


@instruction(
    vector,
    scalar,
    gpsimd,
    cost=cost.dynamic(cost.copying),
    choose=choose_tensor_scalar,
    rules=[
        same_elements("dst", "data"),
        same_partitions("data", "operand0", "operand1"),
        bitvec_on_integers("dst", "data", ops=("op0", "op1")),
        on_engine_needs(scalar, "scalar_tensor_scalar", "use engine=nisa.engine.vector"),
        tensor_scalar_engine,
    ],
)
def tensor_scalar(
    dst: Out,
    data: In,
    op0: AnyOp,
    operand0: MaybeNumber,
    reverse0: bool = False,
    op1: MaybeOp = None,
    operand1: MaybeNumber = None,
    reverse1: bool = False,
    engine: engine = unknown,
) -> None:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p]"""
    unary_operand(op0, operand0, "operand0")
    steps = [(op0, operand0, reverse0)]
    if op1 is not None:
        unary_operand(op1, operand1, "operand1")
        steps.append((op1, operand1, reverse1))
    if op0.kind == "bitvec":
        numeric.integer_chain(dst, data, steps)
        return
    require_float32(operand0=operand0, operand1=operand1)
    out = numeric.target(dst, data, *(o for o in (operand0, operand1) if isinstance(o, Tile)))
    value = numeric.shaped(data.values(), dst.shape)
    for op, operand, reverse in steps:
        numeric.apply(op, value, numeric.scalar(operand, out), out, reverse)
        value = out
    numeric.finish(dst, out)


def require_float32(**operands: Any) -> None:
    """Arithmetic takes its per-partition operands from float32 tiles (ISA)."""
    for name, operand in operands.items():
        require(
            not isinstance(operand, Tile) or operand.dtype is float32,
            f"{name} must be float32 for an arithmetic operator",
            DtypeError,
            argument=name,
            expected="float32",
            got=str(operand),
            because="the lane's scalar registers hold float32",
            hint="copy it into a float32 tile with nisa.tensor_copy",
        )


@instruction(
    vector,
    cost=cost.dynamic(cost.two_inputs),
    rules=[
        same_elements("dst", "data", "operand1"),
        same_partitions("data", "operand0"),
        not_both_in_psum("data", "operand1"),
        runs_there("op0", "op1"),
    ],
)
def scalar_tensor_tensor(
    dst: Out,
    data: In,
    op0: Arithmetic,
    operand0: Number,
    op1: Arithmetic,
    operand1: In,
    reverse0: bool = False,
    reverse1: bool = False,
) -> None:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p, f]"""
    value, other = data.values(), operand1.values()
    out = buffers.floats(dst.shape)
    numeric.apply(
        op0, numeric.shaped(value, dst.shape), numeric.scalar(operand0, out), out, reverse0
    )
    numeric.apply(op1, out, numeric.shaped(other, dst.shape), out, reverse1)
    dst.store(out)


@instruction(vector, cost=streaming("reciprocal"), rules=[same_elements("dst", "data")])
def reciprocal(dst: Out, data: In) -> None:
    """dst[p, f] = 1 / data[p, f]"""
    out = numeric.target(dst, data)
    np.divide(np.float32(1), numeric.shaped(data.values(), dst.shape), out=out)
    numeric.finish(dst, out)


# --- reductions and scans along the free axes -------------------------------------------------------------


def reduced_axes(call: Call) -> int:
    """How many of the last axes are folded away; 0 if the axes asked for are not the last."""
    rank = len(call.view("data").shape)
    axis = call["axis"]
    axes = sorted(a % rank for a in ((axis,) if isinstance(axis, int) else axis))
    return len(axes) if axes == list(range(rank - len(axes), rank)) and 0 not in axes else 0


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


def reduce_cost(call: Call, machine: Machine) -> cost.Cost:
    narrow = all(v.dtype in cost.SIXTEEN_BIT for v in call.views())
    fast = narrow and call["op"].name in ("add", "maximum")
    kind = "reduce_16bit" if fast else "default"
    return cost.stream(call, machine, cost.elements(call) / cost.rate(machine, vector, kind))


@instruction(
    vector,
    cost=reduce_cost,
    rules=[
        same_partitions("dst", "data"),
        folds_the_last_axes,
        bitvec_on_integers("dst", "data", ops=("op",)),
    ],
)
def tensor_reduce(
    dst: Out,
    op: Annotated[Operator, Op(BOTH, reduces=True)],
    data: In,
    axis: Annotated[int | tuple[int, ...], Static(sequence=True)],
    negate: bool = False,
    keepdims: bool = False,
) -> None:
    """dst[p, ...] = data[p, ..., 0] <op> data[p, ..., 1] <op> ... over the last axes"""
    axes = 1 if isinstance(axis, int) else len(axis)
    if op.kind == "bitvec":
        dst.codes()[...] = numeric.shaped(numeric.reduce(op, data.codes(), axes), dst.shape)
        return
    result = numeric.reduce(op, data.values(), axes)
    dst.store(np.negative(result) if negate else result)


def accumulate(
    core: Core, unit: engine, op: Operator, values: Any, command: reduce_cmd, initial: Any
) -> Any:
    """Run values [P, F] through an engine's accumulator registers; the registers, as they are
    afterwards, come back. An idle instruction may clobber them (ISA): they are poisoned."""
    rows = values.shape[0]
    registers = core.accumulators[unit][:rows]
    if command is reduce_cmd.idle:
        registers[:] = np.nan
        return registers
    if command in (reduce_cmd.reset, reduce_cmd.reset_reduce):
        registers[:] = op.identity
    elif command is reduce_cmd.load_reduce:
        registers[:] = initial.values().reshape(-1) if isinstance(initial, Tile) else initial
    if command is not reduce_cmd.reset:
        numeric.fold(op, values.reshape(rows, -1), registers)
    return registers


@instruction(
    vector,
    cost=streaming(extra="accumulator_read_cycles"),
    rules=[
        same_elements("dst", "data"),
        same_partitions("data", "operand0", "reduce_res", "reduce_init"),
        float32_operands("operand0", "reduce_init"),
        runs_there("op0"),
    ],
)
def tensor_scalar_reduce(
    dst: Out,
    data: In,
    op0: Arithmetic,
    operand0: MaybeNumber,
    reduce_op: Reduction,
    reduce_res: Reduced = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: MaybeNumber = None,
    reduce_res_negate: bool = False,
    *,
    core: Core,
) -> None:
    """dst[p, f] = data[p, f] <op0> operand0[p];  reduce_res[p] = fold of dst[p, :] by reduce_op"""
    unary_operand(op0, operand0, "operand0")
    loads = reduce_cmd.name == "load_reduce"
    require(
        loads == (reduce_init is not None),
        "reduce_init goes with reduce_cmd.load_reduce",
        OperatorError,
        argument="reduce_init",
    )
    out = buffers.floats(dst.shape)
    value = numeric.shaped(data.values(), dst.shape)
    numeric.apply(op0, value, numeric.scalar(operand0, out), out, reverse0)
    total = accumulate(core, vector, reduce_op, out, reduce_cmd, reduce_init)
    dst.store(out)
    if reduce_res is not None:
        reduce_res.store(-total if reduce_res_negate else total)


@instruction(
    vector,
    cost=streaming("scan"),
    rules=[
        same_elements("dst", "data0", "data1"),
        same_partitions("data0", "initial"),
        not_both_in_psum("data0", "data1"),
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
    state = np.empty(rows, np.float32)
    state[:] = initial.values().reshape(-1) if isinstance(initial, Tile) else initial
    out = buffers.floats((rows, dst.free_size))
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
    ],
)
def select_reduce(
    dst: Out,
    predicate: Annotated[Tile, Operand(reads=True, dtypes=(int8, uint8, int16, uint16))],
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
    """dst[p, f] = on_true[p, f] if predicate[p, f] != 0 else on_false[p];  reduce_res[p] = its max"""
    chosen = numeric.shaped(predicate.codes() != 0, dst.shape) ^ reverse_pred
    kept = numeric.shaped(on_true.values(), dst.shape)
    out = np.where(chosen, kept, numeric.scalar(on_false, kept)).astype(np.float32, copy=False)
    total = accumulate(core, vector, reduce_op, out, reduce_cmd, None)
    dst.store(out)
    if reduce_res is not None:
        reduce_res.store(total)


# --- across partitions ------------------------------------------------------------------------------------

QUADRANT = 32
KEEP = 255  # in a shuffle mask: leave that partition of dst as it is


def same_free_size(call: Call, machine: Machine) -> KernelError | None:
    dst, src = call.view("dst"), call.view("src")
    if dst.free_size == src.free_size:
        return None
    return ShapeError(
        f"{call.name}: dst has {dst.free_size} elements per partition, src {src.free_size}",
        argument="dst",
        expected=str(src),
        got=str(dst),
    )


@instruction(vector, cost=streaming(), rules=[same_dtype("dst", "src"), same_free_size])
def nc_stream_shuffle(
    dst: Annotated[Tile, Operand(writes=True, partial=True)], src: In, shuffle_mask: Sequence[int]
) -> None:
    """dst[32q + i, f] = src[32q + shuffle_mask[i], f] in each quadrant q; 255 leaves dst as it is

    One quadrant of src may go to every quadrant of dst.
    """
    mask = [int(m) for m in shuffle_mask]
    legal = len(mask) == QUADRANT and all(0 <= m < QUADRANT or m == KEEP for m in mask)
    require(
        legal,
        "shuffle_mask must name a source partition for each of 32",
        argument="shuffle_mask",
        expected=f"{QUADRANT} numbers from 0 to {QUADRANT - 1}, or {KEEP}",
        got=str(mask),
    )
    rows = np.arange(dst.shape[0])
    wanted = np.array(mask)[rows % QUADRANT]
    origin = rows // QUADRANT * QUADRANT % (-(-src.shape[0] // QUADRANT) * QUADRANT) + wanted
    moved = wanted != KEEP
    require(
        bool((origin[moved] < src.shape[0]).all()),
        "shuffle_mask asks for a partition that src does not have",
        argument="shuffle_mask",
        got=str(src),
    )
    codes = numeric.shaped(src.codes(), (src.shape[0], *dst.shape[1:]))
    dst.codes()[moved] = codes[origin[moved]]
    chosen = np.zeros(dst.shape, np.bool_)
    chosen[moved] = True
    dst.mark_written(chosen)
