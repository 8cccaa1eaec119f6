"""Instructions that select by position: elements of a range, and where a sequence begins and
ends."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.arithmetic import Operator
from neuroncore.clause.instruction import Call, instruction, require
from neuroncore.clause.operand import SBUF, Op, Operand, Out
from neuroncore.clause.rules import commands, same_elements, same_partitions
from neuroncore.core.accumulators import accumulate, accumulators, read_out
from neuroncore.core.core import Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.errors import KernelError, OperatorError, PartitionLimitError, ShapeError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FLOATS, float32, int32

from .operators import MAXIMUM
from .reduction import Max
from .search import whole_number

vector, gpsimd = engine.vector, engine.gpsimd

LEAST = float(np.finfo(np.float32).min)  # what hardware fills in where a comparison fails

Comparison = Annotated[
    Operator, Op(names=("equal", "less", "less_equal", "greater", "greater_equal"))
]
Bound = Annotated[Tile, Operand(reads=True, column=True, dtypes=(float32,))]


@instruction(
    vector,
    cost=cost.streaming(),
    rules=[
        same_elements("dst", "on_true_tile"),
        same_partitions("on_true_tile", "bound0", "bound1", "reduce_res"),
        commands("idle", "reset", "reduce", "reset_reduce"),
    ],
    feature="range_select",
)
def range_select(
    dst: Out,
    on_true_tile: Annotated[Tile, Operand(reads=True, dtypes=FLOATS)],
    comp_op0: Comparison,
    comp_op1: Comparison,
    bound0: Bound,
    bound1: Bound,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: Annotated[Tile | None, Operand(writes=True, column=True, optional=True)] = None,
    reduce_op: Max = MAXIMUM,
    range_start: int = 0,
    on_false_value: float = LEAST,
    *,
    core: Core,
) -> None:
    """dst[p, f] = on_true_tile[p, f] if i <op0> bound0[p] and i <op1> bound1[p] else -3.4e38

    i = range_start + f, compared in float32. reduce_res[p] = max over f of dst[p, f] before it is
    rounded. The filling is exactly the least float32: -inf in formats that do not reach it.
    """
    start = whole_number("range_start", range_start)
    require(
        isinstance(on_false_value, float | np.floating) and np.float32(on_false_value) == LEAST,
        "on_false_value must be the least float32",
        OperatorError,
        argument="on_false_value",
        expected=repr(LEAST),
        got=repr(on_false_value),
        because="the engine has that one constant",
    )
    kept = on_true_tile.values().reshape(dst.shape[0], -1)
    places = (start + np.arange(kept.shape[1])).astype(np.float32)[np.newaxis]
    chosen = np.ones(kept.shape, np.bool_)
    for op, bound in ((comp_op0, bound0), (comp_op1, bound1)):
        holds = np.empty(kept.shape, np.bool_)
        op.apply(places, bound.column(), holds)
        chosen &= holds
    out = np.where(chosen, kept, np.float32(LEAST))
    total = accumulate(accumulators(core, vector, on_true_tile), reduce_op, out, reduce_cmd)
    dst.store(out)
    read_out(core, reduce_res, total)


def one_row_of_pairs(call: Call, machine: Machine) -> KernelError | None:
    dst, ids = call.view("dst"), call.view("segment_ids")
    for name, view in (("segment_ids", ids), ("dst", dst)):
        if view.partitions != 1:
            return PartitionLimitError(
                f"{call.name}: {name} has {view.partitions} partitions",
                argument=name,
                expected="1 partition",
                got=str(view),
                because="the sequences lie along the free axis of one partition",
            )
    if dst.free_size == 2 * ids.free_size and dst.shape[1] == 2:
        return None
    return ShapeError(
        f"{call.name}: dst does not hold a start and an end for each of {ids.free_size} elements",
        argument="dst",
        expected=f"(1, 2, {ids.free_size})",
        got=str(dst),
    )


@instruction(
    gpsimd,
    cost=cost.streaming(extra="gpsimd_start_cycles"),
    rules=[one_row_of_pairs],
)
def sequence_bounds(
    dst: Annotated[Tile, Operand(writes=True, regions=(SBUF,), dtypes=(float32, int32))],
    segment_ids: Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=(float32, int32))],
) -> None:
    """dst[0, 0, f], dst[0, 1, f] = where the run of equal ids around f starts, and ends before

    Padding, which has id 0, gets the number of ids as its start and -1 as its end.
    """
    ids = segment_ids.codes().reshape(-1)
    starts, ends = runs(ids)
    padding = ids == 0
    bounds = np.stack([np.where(padding, len(ids), starts), np.where(padding, -1, ends)])
    dst.codes()[...] = numeric.shaped(bounds.astype(dst.dtype.storage), dst.shape)


def runs(ids: Any) -> tuple[Any, Any]:
    """For each element, where the run of equal neighbours that it is in starts, and ends before."""
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    edges = np.append(np.flatnonzero(first), len(ids))
    number = np.cumsum(first)
    return edges[number - 1], edges[number]
