"""Instructions that select by position: elements of a range, and where a sequence begins and
ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.clause import FOLDING, Integer, Operator, Out, Reduced, cost, instruction, numeric
from neuroncore.core.accumulators import accumulate, read_out
from neuroncore.core.core import Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.memory.tile import Tile

from .operators import MAXIMUM
from .words import search as words
from .words.reduction import Max
from .words.search import LEAST, Bound, Bounds, Comparison, Filling, FloatsIn, Ids

vector, gpsimd = engine.vector, engine.gpsimd


@instruction(
    vector,
    shapes="dst on_true_tile: P F; bound0 bound1 reduce_res: P 1",
    cost=cost.streaming(),
    rules=words.RANGE_SELECT,
    feature="range_select",
    traits=FOLDING,
)
def range_select(
    dst: Out,
    on_true_tile: FloatsIn,
    comp_op0: Comparison,
    comp_op1: Comparison,
    bound0: Bound,
    bound1: Bound,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: Reduced = None,
    reduce_op: Max = MAXIMUM,
    range_start: Integer = 0,
    on_false_value: Filling = LEAST,
    *,
    core: Core,
) -> None:
    """dst[p, f] = on_true_tile[p, f] if i <op0> bound0[p] and i <op1> bound1[p] else -3.4e38

    i = range_start + f, compared in float32. reduce_res[p] = max over f of dst[p, f] before it is
    rounded. The filling is exactly the least float32: -inf in formats that do not reach it.
    """
    kept = numeric.rows(on_true_tile)
    places = (range_start + np.arange(kept.shape[1])).astype(np.float32)[np.newaxis]
    chosen = holds(comp_op0, places, bound0) & holds(comp_op1, places, bound1)
    out = np.where(chosen, kept, np.float32(LEAST))
    accumulate(core, vector, on_true_tile, out, reduce_op, reduce_cmd)
    dst.store(out)
    read_out(core, vector, on_true_tile, reduce_res)


@instruction(
    gpsimd,
    shapes="segment_ids: P F; dst: P 2*F",
    cost=cost.streaming(extra="gpsimd_start_cycles"),
    rules=[words.one_row, words.pairs],
)
def sequence_bounds(dst: Bounds, segment_ids: Ids) -> None:
    """dst[0, 0, f], dst[0, 1, f] = where the run of equal ids around f starts, and ends before

    Padding, which has id 0, gets the number of ids as its start and -1 as its end.
    """
    ids = segment_ids.codes().reshape(-1)
    starts, ends = runs(ids)
    padding = ids == 0
    bounds = np.stack([np.where(padding, len(ids), starts), np.where(padding, -1, ends)])
    numeric.write(dst, bounds)


def holds(op: Operator, places: Any, bound: Tile) -> Any:
    """Which of the places compare so with the bound of each partition."""
    found = np.empty((bound.shape[0], places.shape[1]), np.bool_)
    op.apply(places, bound.column(), found)
    return found


def runs(ids: Any) -> tuple[Any, Any]:
    """For each element, where the run of equal neighbours that it is in starts, and ends before."""
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    edges = np.append(np.flatnonzero(first), len(ids))
    number = np.cumsum(first)
    return edges[number - 1], edges[number]
