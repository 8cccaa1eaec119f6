"""The Vector engine (DVE): 128 lanes, each with an ALU that computes in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.cost import streaming
from neuroncore.clause.instruction import Call, Fusion, instruction, out_of_reach, require
from neuroncore.clause.number import a_value_of, unary_operand
from neuroncore.clause.operand import PSUM, Gathered, In, Operand, Out, Scattered, View
from neuroncore.clause.rules import (
    bits_if_opaque,
    bitvec_on_integers,
    float32_operands,
    indirect_on,
    not_both_in_psum,
    on_engine_needs,
    runs_there,
    same_dtype,
    same_elements,
    same_partitions,
    two_operands,
)
from neuroncore.clause.usual import AnyOp, Arithmetic, MaybeNumber, MaybeOp, Number
from neuroncore.enums import engine
from neuroncore.errors import (
    DtypeError,
    KernelError,
    OperatorError,
    ShapeError,
)
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import (
    bool_,
    float32,
    int32,
    uint8,
    uint16,
    uint32,
)

vector, scalar, gpsimd, unknown = engine.vector, engine.scalar, engine.gpsimd, engine.unknown

EXACT = (int32, uint32)  # the formats of the GpSimd engine's own integer arithmetic


# --- copies ---------------------------------------------------------------------------------------


def left_open(call: Call) -> list[engine]:
    """Where the kernel names no engine, all that reach the operands."""
    if call["engine"] is not unknown:
        return [call.engine]
    return [unit for unit in call.instruction.engines if not out_of_reach(call, unit)]


def rounds_once(call: Call) -> bool:
    """Where the kernel names no engine, and the way through src loses nothing."""
    dst, src = call.views("dst", "src")
    return call["engine"] is unknown and src.dtype in (float32, dst.dtype)


@instruction(
    vector,
    scalar,
    gpsimd,
    cost=cost.dynamic(cost.copying),
    rules=[
        same_elements("dst", "src"),
        bits_if_opaque("dst", "src"),
        on_engine_needs(scalar, "scalar_tensor_copy", "use nisa.activation(op=nl.copy)"),
        indirect_on(vector, scalar),
    ],
    opcode="COPY",
    older_compiler=Fusion(engines=left_open, into_source=rounds_once),
)
def tensor_copy(
    dst: Annotated[Tile, Operand(writes=True, moved=True, indirect=True)],
    src: Annotated[Tile, Operand(reads=True, moved=True, indirect=True)],
    engine: engine = unknown,
) -> None:
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
    dst: Annotated[Tile, Operand(writes=True, moved=True)],
    value: float,
    engine: engine = unknown,
) -> None:
    """dst[p, f] = value; packed formats take 0 only"""
    a_value_of("memset", "value", value, dst)
    dst.codes()[...] = 0 if dst.dtype.element else numeric.constant(dst.held, value)


def predicated_cost(call: Call, machine: Machine) -> cost.Cost:
    """Two streams, unless it is one scalar that is copied (FIT)."""
    regions = {view.region for view in call.views("src", "predicate") if view.free_size > 1}
    one = not isinstance(call["src"], View) or call.view("src").free_size == 1
    kind = "default" if one else "predicated_mixed" if len(regions) > 1 else "predicated"
    return cost.stream(call, machine, cost.elements(call) / cost.rate(machine, vector, kind))


@instruction(
    vector,
    cost=cost.dynamic(predicated_cost),
    rules=[
        same_elements("dst", "src", "predicate"),
        same_dtype("dst", "src"),
        not_both_in_psum("src", "predicate"),
    ],
)
def tensor_copy_predicated(
    dst: Annotated[Tile, Operand(writes=True, partial=True, indirect=True)],
    src: Annotated[Tile | float, Operand(reads=True, scalar=True)],
    predicate: Annotated[
        Tile, Operand(reads=True, dtypes=(bool_, uint8, uint16, uint32), indirect=True)
    ],
    reverse_pred: bool = False,
) -> None:
    """dst[p, f] = src[p, f] where predicate[p, f] != 0, else unchanged"""
    chosen = numeric.shaped(predicate.codes() != 0, dst.shape) ^ reverse_pred
    if isinstance(src, Tile):
        new = numeric.shaped(src.codes(), dst.shape)[chosen]
    else:
        a_value_of("tensor_copy_predicated", "src", src, dst)
        new = numeric.constant(dst.held, src)
    dst.codes()[chosen] = new
    dst.mark_written(chosen)


# --- element by element ---------------------------------------------------------------------------


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
        two_operands("op"),
        bitvec_on_integers("dst", "data1", "data2", ops=("op",)),
        tensor_tensor_engine,
    ],
    older_compiler=Fusion(once=lambda call: True),
)
def tensor_tensor(
    dst: Scattered, data1: Gathered, data2: In, op: AnyOp, engine: engine = unknown
) -> None:
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


def tensor_scalar_operands(call: Call, machine: Machine) -> KernelError | None:
    """Arithmetic takes its per-partition operands from float32 tiles, bitvec from integers."""
    if call["op0"].kind == "arithmetic":
        return float32_operands("operand0", "operand1")(call, machine)
    for name in ("operand0", "operand1"):
        if isinstance(view := call[name], View) and not view.dtype.is_integer:
            return DtypeError(
                f"{call.name}: {name} is {view.dtype}, and {call['op0']} is a bitvec operator",
                argument=name,
                expected="an integer format",
                got=str(view),
                because="bitvec operators work on bit patterns; nothing is converted",
            )
    return None


def second_step(call: Call, machine: Machine) -> KernelError | None:
    if call["op1"] is not None or call["operand1"] is None:
        return None
    return OperatorError(
        f"{call.name}: operand1 is given without op1",
        argument="operand1",
        expected="op1 and operand1, or neither",
        got="operand1 alone",
        because="there is nothing that would be done with it",
    )


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
    reasons = [op for op in (op0, op1) if op and "vector" not in op.engines]
    if call.engine is gpsimd and not (reasons and all("gpsimd" in op.engines for op in reasons)):
        return OperatorError(
            f"tensor_scalar: {(*reasons, op0)[0]} does not run on the GpSimd engine",
            argument="op0",
            expected="nl.rsqrt or nl.power",
            got=f"op0={op0}, op1={op1}",
            hint="leave `engine` out and the right one is chosen",
        )
    if call.engine is vector:
        return runs_there("op0", "op1")(call, machine)
    return None


def no_indirect_addresses(call: Call, machine: Machine) -> KernelError | None:
    """tensor_scalar_addr, the arithmetic on addresses, takes no indirect views (ISA). Which uses
    that is isn't published; taken to be arithmetic from 32-bit integers to 32-bit integers."""
    dst, data = call.view("dst"), call.view("data")
    addresses = dst.dtype in EXACT and data.dtype in EXACT and call["op0"].kind == "arithmetic"
    if not addresses or not (dst.picked_by or data.picked_by):
        return None
    return OperatorError(
        f"{call.name}: arithmetic on {data.dtype} takes no indirect views",
        argument="data" if data.picked_by else "dst",
        expected="float32, narrower integers or a bitvec operator",
        got=f"{call['op0']} from {data.dtype} to {dst.dtype}",
        because="32-bit integers are computed with as addresses are",
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
        tensor_scalar_operands,
        on_engine_needs(scalar, "scalar_tensor_scalar", "use engine=nisa.engine.vector"),
        second_step,
        tensor_scalar_engine,
        no_indirect_addresses,
    ],
)
def tensor_scalar(
    dst: Scattered,
    data: Gathered,
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
    first = (operand0,) if isinstance(operand0, Tile) else ()
    out = numeric.target(dst, data, *first, later=operand1)
    value = numeric.shaped(data.values(), dst.shape)
    for op, operand, reverse in steps:
        numeric.apply(op, value, numeric.scalar(operand, out), out, reverse)
        value = out
    numeric.finish(dst, out)


@instruction(
    vector,
    cost=cost.dynamic(cost.two_inputs),
    rules=[
        same_elements("dst", "data", "operand1"),
        same_partitions("data", "operand0"),
        not_both_in_psum("data", "operand1"),
        two_operands("op1"),
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
    out = numeric.floats(dst)
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


# --- across partitions ----------------------------------------------------------------------------

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
