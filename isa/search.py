"""Instructions that find and select elements: by value, by position, and those that are not 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.alu import Operator
from neuroncore.clause.immediate import Constant, Integer
from neuroncore.clause.instruction import FOLDING, instruction
from neuroncore.clause.operand import Out, Reduced, Single
from neuroncore.core import engines, sums
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile
from neuroncore.numerics import codec
from neuroncore.numerics.loops import rows as searches

from .operators import MAXIMUM
from .words import reduction
from .words import reduction as words
from .words.reduction import EIGHT, LEAST, Count, Listed, Numbers, Searched

vector, gpsimd = engine.vector, engine.gpsimd


# --- eight at a time ------------------------------------------------------------------------------


@instruction(vector, shapes="src: P F>=8<=search_free; dst: P 8", cost=cost.streaming())
def max8(dst: Out, src: Searched, *, core: Core) -> None:
    """dst[p, i] = the i-th greatest of src[p, :], i = 0...7; equal elements count separately

    NaN is above all numbers (unpublished: `Options.nan_minmax`); +0 is above -0.
    """
    data = numeric.rows(src)
    codes = data.view(f"i{data.itemsize}")
    greatest = np.empty((src.shape[0], EIGHT), codes.dtype)
    searches.largest(codec.ranks(codes, core.options.nan_minmax == "number"), greatest)
    values = codec.mirrored(greatest).view(data.dtype)
    values[np.isnan(values)] = np.nan
    dst.store(values)


@instruction(vector, shapes="data: P F>=8<=search_free; vals dst: P 8", cost=cost.streaming())
def nc_find_index8(dst: words.Indices, data: Searched, vals: Searched) -> None:
    """dst[p, i] = the first f with data[p, f] == vals[p, i]; if there is none, a number with all
    bits set

    If vals[p, :] has a value several times, the first i gets the value's first position, and so on.
    """
    numeric.write(dst, occurrences(data, vals, backwards=False))


@instruction(
    vector, shapes="data: P F<=search_free; dst: P F; vals dst_idx: P 8", cost=cost.streaming()
)
def nc_match_replace8(
    dst: Out, data: Searched, vals: Searched, imm: Constant, dst_idx: words.MaybeIndices = None
) -> None:
    """dst[p, :] = data[p, :], but imm at f_i, the first f with data[p, f] == vals[p, i], i = 0...7

    dst_idx[p, i] = f_i; if there is none, a number with all bits set. If vals[p, :] has a value
    several times, the last i gets the value's first position, and so on.
    """
    places = occurrences(data, vals, backwards=True)
    matched = places != searches.MISSING
    codes = np.array(dst.encoded(data, data.codes())).reshape(len(places), -1)
    new = codec.encode(dst.held, np.array([imm], np.float32))[0]
    codes[np.nonzero(matched)[0], places[matched]] = new
    dst.codes()[...] = codes.reshape(dst.shape)
    if dst_idx is not None:
        numeric.write(dst_idx, places)


# --- by position ----------------------------------------------------------------------------------


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
    on_true_tile: words.Floats,
    comp_op0: words.Comparison,
    comp_op1: words.Comparison,
    bound0: Single,
    bound1: Single,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: Reduced = None,
    reduce_op: reduction.Max = MAXIMUM,
    range_start: Integer = 0,
    on_false_value: words.Filling = LEAST,
    *,
    core: Core,
) -> None:
    """dst[p, f] = on_true_tile[p, f] if i <op0> bound0[p] and i <op1> bound1[p] else -3.4e38

    i = range_start + f, compared in float32. reduce_res[p] = the greatest of dst[p, :] before
    rounding. Elements outside of the range get the least float32, which becomes -inf in formats
    with a smaller range."""
    kept = numeric.rows(on_true_tile)
    places = (range_start + np.arange(kept.shape[1])).astype(np.float32)[np.newaxis]
    chosen = holds(comp_op0, places, bound0, kept) & holds(comp_op1, places, bound1, kept)
    out = numeric.where(chosen, kept, np.float32(LEAST))
    sums.accumulate(core, vector, on_true_tile, out, reduce_op, reduce_cmd)
    dst.store(out)
    sums.read_out(core, vector, on_true_tile, words.wide(core, reduce_res))


@instruction(
    gpsimd,
    shapes="segment_ids: 1 F; dst: 1 2*F",
    example="dst=1 2 512",
    cost=cost.streaming(extra="gpsimd_start_cycles"),
    rules=[words.pairs],
)
def sequence_bounds(dst: words.Bounds, segment_ids: words.Ids) -> None:
    """dst[0, :, f] = the start, and the end (exclusive), of the run of equal ids around f

    Padding, which has id 0, gets the number of ids as its start and -1 as its end.
    """
    ids = segment_ids.codes().reshape(-1)
    starts, ends = runs(ids)
    padding = ids == 0
    bounds = np.stack([np.where(padding, len(ids), starts), np.where(padding, -1, ends)])
    numeric.write(dst, bounds)


# --- with a GpSimd processor for every 16 partitions ----------------------------------------------


@instruction(
    gpsimd,
    shapes="src: P%gpsimd_core_partitions S; val_dst idx_dst: P F",
    example="F=32; n=512",
    cost=words.topk_cost,
    rules=words.TOPK,
)
def topk(
    val_dst: words.SnakeOut, idx_dst: words.SnakeIndices, src: words.Snake, n: Count, *, core: Core
) -> None:
    """val_dst[j] = src[idx_dst[j]], the K greatest of src[0...n-1], ascending; in each group

    A group is 16 partitions. Element j of a group is in its partition j % 16, column j // 16, in
    src and in the results. K is the number of columns of val_dst. The results are in the first K /
    16 columns; other columns are unchanged. Among equal elements, the first ones are chosen
    (unpublished).
    """
    snake = engines.read_groups(core, "src", src, n)
    descending = np.argsort(~codec.ranks(snake.view(f"i{snake.itemsize}")), axis=1, kind="stable")
    chosen = descending[:, : val_dst.free_size][:, ::-1]
    engines.write_groups(core, val_dst, np.take_along_axis(snake, chosen, 1))
    engines.write_groups(core, idx_dst, chosen.astype(np.uint32))


@instruction(
    gpsimd,
    shapes="src: P F; dst: P F+1",
    cost=cost.streaming(extra="gpsimd_start_cycles"),
    feature="nonzero_with_count",
)
def nonzero_with_count(
    dst: Listed, src: Numbers, index_offset: Integer = 0, padding_val: Integer = -1, *, core: Core
) -> None:
    """dst[p, :] = [f + index_offset where src[p, f] != 0, padding_val ..., count];  p = 0, 16...

    Other partitions of dst are unchanged, and other partitions of src are not read.
    """
    first = np.arange(src.shape[0]) % core.machine.limits.gpsimd_core_partitions == 0
    nonzero = engines.read_rows(core, "src", src, first) != 0
    count = nonzero.sum(axis=1, keepdims=True)
    places = np.argsort(~nonzero, axis=1, kind="stable") + index_offset
    listed = np.where(np.arange(nonzero.shape[1]) < count, places, padding_val)
    codes = np.hstack([listed, count]).astype(np.int32)
    numeric.put(dst, first, codes.reshape(len(codes), *dst.shape[1:]))


# --- functions for the bodies ---------------------------------------------------------------------


def occurrences(data: Tile, vals: Tile, backwards: bool) -> Any:
    """Return the position of each value of vals in its row of data, or MISSING, as uint32 [P, 8].
    Equal values get successive positions; if `backwards`, the last value gets the first."""
    places = np.empty((data.shape[0], EIGHT), np.uint32)
    searches.occurrences(numeric.rows(data), numeric.rows(vals), places, backwards)
    return places


def holds(op: Operator, places: Any, bound: Any, like: Any) -> Any:
    """Return a flag for each partition and position, in the shape of `like`: whether the position
    satisfies the comparison `op` with the bound of the partition."""
    flags = np.empty(like.shape, np.bool_)
    op.apply(places, numeric.per_lane(bound, like)[:, np.newaxis], flags)
    return flags


def runs(ids: Any) -> tuple[Any, Any]:
    """Return two arrays with a number for each element: the start, and the end (exclusive), of the
    run of equal neighbors that contains the element."""
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    edges = np.append(np.flatnonzero(first), len(ids))
    number = np.cumsum(first)
    return edges[number - 1], edges[number]
