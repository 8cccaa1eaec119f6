"""Instructions that sum up: means and variances, folds over partitions, running folds."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.arithmetic import Operator
from neuroncore.clause.cost import streaming
from neuroncore.clause.instruction import Call, instruction, require
from neuroncore.clause.number import unary_operand
from neuroncore.clause.operand import In, Op, Operand, Out, SbufIn, SbufOut
from neuroncore.clause.rules import (
    bitvec_on_integers,
    commands,
    per_partition,
    runs_there,
    same_elements,
    same_partitions,
)
from neuroncore.clause.usual import Arithmetic, MaybeSingle, Single
from neuroncore.core.accumulators import accumulators, preset
from neuroncore.core.core import Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.errors import KernelError, OperatorError, ShapeError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.native.lazy import Lazy
from neuroncore.numerics.formats import FORMATS, bool_, int32, tfloat32, uint32

from .operators import ADD
from .reduction import LOAD_REDUCE

vector, gpsimd = engine.vector, engine.gpsimd
loops: Any = Lazy("neuroncore.native.statistics")

TRIPLE = 3  # count, mean, sum of squared deviations

# --- mean and variance ----------------------------------------------------------------------------


@instruction(
    vector,
    shapes="data: P F<=bn_stats_free; dst: P 6",
    cost=streaming(),
)
def bn_stats(dst: Out, data: Annotated[Tile, Operand(reads=True)]) -> None:
    """dst[p, :] = [n, mean, sum of (x - mean)^2] of data[p, 0::2], then of data[p, 1::2]

    Each is rounded once (how the engine sums is unpublished). Of no elements, all three are 0.
    """
    found = numeric.floats(dst, (data.shape[0], 2 * TRIPLE))
    loops.moments(numeric.rows(data), found)
    dst.store(found)


def whole_triples(call: Call, machine: Machine) -> KernelError | None:
    data = call.view("data")
    if data.free_size % TRIPLE == 0:
        return None
    return ShapeError(
        f"{call.name}: data has {data.free_size} elements per partition",
        argument="data",
        expected=f"a multiple of {TRIPLE}",
        got=str(data),
        because="it is a list of count, mean and sum of squares, as nisa.bn_stats leaves them",
    )


def aggregation_cost(call: Call, machine: Machine) -> cost.Cost:
    """13 cycles for each triple (ISA226)."""
    return cost.stream(call, machine, 13 * call.view("data").free_size / TRIPLE)


@instruction(
    vector,
    cost=cost.dynamic(aggregation_cost),
    rules=[same_partitions("data", "dst"), per_partition(2, "dst"), whole_triples],
)
def bn_aggr(dst: Out, data: In) -> None:
    """dst[p, :] = [m, v];  m = sum n_i m_i / N, v = sum (M_i + n_i (m_i - m)^2) / N, N = sum n_i

    over the (n_i, m_i, M_i) that data[p, :] lists, as bn_stats leaves them.
    """
    found = numeric.floats(dst, (data.shape[0], 2))
    loops.aggregate(numeric.rows(data), found)
    dst.store(found)


# --- over partitions ------------------------------------------------------------------------------


def folded_to_one(call: Call, machine: Machine) -> KernelError | None:
    dst, data = call.view("dst"), call.view("data")
    if dst.partitions == 1 and dst.free_size == data.free_size:
        return None
    return ShapeError(
        f"{call.name}: dst is {dst}, the fold of {data} is one row",
        argument="dst",
        expected=f"1 partition of {data.free_size} elements",
        got=f"{dst.partitions} of {dst.free_size}",
    )


@instruction(
    gpsimd,
    cost=streaming("partition_reduce", extra="gpsimd_start_cycles"),
    rules=[folded_to_one, bitvec_on_integers("dst", "data", ops=("op",), unit=gpsimd)],
)
def tensor_partition_reduce(
    dst: SbufOut,
    op: Annotated[
        Operator,
        Op(
            ("arithmetic", "bitvec", "partition"),
            names=("add", "average", "maximum", "bitwise_or", "bitwise_and"),
        ),
    ],
    data: SbufIn,
) -> None:
    """dst[0, f] = data[0, f] <op> data[1, f] <op> ... over the partitions;  average: sum / count"""
    if op.kind == "bitvec":
        columns = data.codes().reshape(data.shape[0], -1).T
        dst.codes()[...] = numeric.shaped(numeric.reduce(op, columns, 1), dst.shape)
        return
    average = op.name == "average"
    total = numeric.reduce(ADD if average else op, numeric.rows(data).T, 1)
    dst.store(total / np.float32(data.shape[0]) if average else total)


# --- running folds --------------------------------------------------------------------------------

SHORT = tuple(f for f in FORMATS.values() if f not in (tfloat32, int32, uint32, bool_))
Running = Annotated[Operator, Op(names=("add", "subtract", "multiply", "maximum", "minimum"))]


@instruction(
    vector,
    cost=streaming("scan"),
    rules=[
        same_elements("dst", "src"),
        same_partitions("src", "imm0", "imm1"),
        runs_there("op0"),
        commands("reset_reduce", "reduce", "load_reduce"),
    ],
)
def tensor_scalar_cumulative(
    dst: Annotated[Tile, Operand(writes=True, dtypes=SHORT, indirect=True)],
    src: Annotated[Tile, Operand(reads=True, dtypes=SHORT, indirect=True)],
    op0: Arithmetic,
    op1: Running,
    imm0: Single,
    imm1: MaybeSingle = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    *,
    core: Core,
) -> None:
    """dst[p, f] = r = (src[p, f] <op0> imm0[p]) <op1> r, the accumulator; f = 0, 1, ...

    r starts from what op1 leaves alone (0 for subtract), from imm1[p] with load_reduce, or where
    the last instruction left it with reduce. It stays float32 even if dst is narrower.
    """
    unary_operand(op0, imm0, "imm0")
    require(
        reduce_cmd is not LOAD_REDUCE or imm1 is not None,
        "reduce_cmd.load_reduce needs imm1",
        OperatorError,
        argument="imm1",
        got="None",
    )
    values, out = numeric.rows(src), numeric.floats(dst, (src.shape[0], src.free_size))
    numeric.apply(op0, values, numeric.scalar(imm0, out), out)
    registers = accumulators(core, vector, src)
    preset(registers, op1, reduce_cmd, imm1)
    numeric.cumulate(op1, out, registers, out)
    dst.store(out)
