"""Reductions, means and variances, and scans (running sums, products and maxima)."""

from __future__ import annotations

from functools import partial

import numpy as np

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost, rules
from neuroncore.clause.alu import PREVIOUS, Fold, Loop, Operator, in_steps
from neuroncore.clause.instruction import FOLDING, LANEWISE, SCANNING, Run, Traits, instruction
from neuroncore.clause.operand import (
    Arithmetic,
    Gathered,
    In,
    MaybeSingle,
    Number,
    Out,
    Reduced,
    SbufIn,
    SbufOut,
    Scattered,
    Single,
)
from neuroncore.clause.refusal import number_for
from neuroncore.core import sums
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile
from neuroncore.numerics.loops import rows as loops

from .operators import ADD, MAXIMUM
from .words import reduction as words

vector, gpsimd = engine.vector, engine.gpsimd


@instruction(
    vector,
    shapes="data: P G*F; dst: P F",
    example="data=128 512; dst=128 1; axis=1",
    given={"G": words.folded},
    cost=cost.dynamic(words.reduce_cost),
    rules=words.REDUCE,
    traits=LANEWISE,
)
def tensor_reduce(
    dst: Scattered,
    op: words.Folding,
    data: Gathered,
    axis: words.Axes,
    negate: bool = False,
    keepdims: bool = False,
    *,
    core: Core,
) -> Run:
    """dst[p, ...] = data[p, ..., 0] <op> data[p, ..., 1] <op> ... over the last axes"""
    run = folded(op, len(words.listed(axis)), negate)
    if words.trailing(words.listed(axis), len(data.shape)):
        return run
    return partial(with_old_axes, run, axis)


@instruction(
    vector,
    shapes="dst data: P F; operand0 reduce_res reduce_init: P 1",
    cost=cost.streaming(extra="accumulator_read_cycles"),
    rules=words.SCALAR_REDUCE,
    traits=FOLDING,
)
def tensor_scalar_reduce(
    dst: Scattered,
    data: Gathered,
    op0: Arithmetic,
    operand0: MaybeSingle,
    reduce_op: words.Reduction,
    reduce_res: Reduced = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: MaybeSingle = None,
    reduce_res_negate: bool = False,
    *,
    core: Core,
) -> None:
    """dst[p, f] = data[p, f] <op0> operand0[p];  reduce_res[p] = fold of dst[p, :] by reduce_op"""
    number_for(op0, operand0, "operand0")
    out = numeric.stepped(dst, data, (op0, operand0, False))
    sums.accumulate(core, vector, data, out, reduce_op, reduce_cmd, reduce_init)
    dst.store(out)
    sums.read_out(core, vector, data, reduce_res, reduce_res_negate)


@instruction(
    vector,
    shapes="dst predicate on_true: P F; on_false reduce_res: P 1",
    cost=cost.streaming("predicated_mixed"),
    rules=[
        rules.not_both_in_psum("on_true", "predicate"),
        rules.commands("idle", "reset_reduce", "reduce"),
    ],
    traits=FOLDING,
)
def select_reduce(
    dst: Out,
    predicate: words.SignedPredicate,
    on_true: words.Narrow,
    on_false: Number,
    reduce_res: words.FloatReduced = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: words.Max = MAXIMUM,
    reverse_pred: bool = False,
    *,
    core: Core,
) -> None:
    """dst[p, f] = on_true[p, f] if predicate[p, f] != 0 else on_false[p];  reduce_res[p] = max_f

    max_f is the greatest of dst[p, :] before rounding.
    """
    chosen = numeric.mask(predicate, dst, reverse_pred)
    kept = numeric.shaped(on_true.values(), dst.shape)
    out = numeric.where(chosen, kept, numeric.scalar(on_false, kept))
    sums.accumulate(core, vector, on_true, out, reduce_op, reduce_cmd)
    dst.store(out)
    sums.read_out(core, vector, on_true, reduce_res)


@instruction(
    gpsimd,
    shapes="data: P F; dst: 1 F",
    cost=cost.streaming("partition_reduce", extra="gpsimd_start_cycles"),
    rules=[rules.bitvec_on_integers("dst", "data", ops=("op",), unit=gpsimd)],
)
def tensor_partition_reduce(dst: SbufOut, op: words.OverPartitions, data: SbufIn) -> None:
    """dst[0, f] = data[0, f] <op> data[1, f] <op> ... over the partitions;  average: sum / count"""
    if op.kind == "bitvec":
        columns = data.codes().reshape(data.shape[0], -1).T
        dst.codes()[...] = numeric.shaped(numeric.reduce(op, columns, 1), dst.shape)
        return
    average = op.name == "average"
    total = numeric.reduce(ADD if average else op, numeric.rows(data).T, 1)
    dst.store(total / np.float32(data.shape[0]) if average else total)


# --- means and variances --------------------------------------------------------------------------


@instruction(
    vector, shapes="data: P F<=bn_stats_free; dst: P 6", cost=cost.streaming(), traits=SCANNING
)
def bn_stats(dst: Out, data: In) -> None:
    """dst[p, :] = [n, mean, sum of (x - mean)^2] of data[p, 0::2], then of data[p, 1::2]

    Each number is rounded once; the order of the engine's sums is unpublished. Without elements,
    all three are 0.
    """
    moments = numeric.floats(dst, (data.shape[0], 6))
    loops.moments(numeric.rows(data), moments)
    dst.store(moments)


@instruction(
    vector,
    shapes="data: P F%3; dst: P 2",
    cost=cost.dynamic(words.aggregation_cost),
    traits=SCANNING,
)
def bn_aggr(dst: Out, data: In) -> None:
    """dst[p, :] = [m, v];  m = sum n_i m_i / N, v = sum (M_i + n_i (m_i - m)^2) / N, N = sum n_i

    data[p, :] lists the triples (n_i, m_i, M_i), in the form of bn_stats.
    """
    moments = numeric.floats(dst, (data.shape[0], 2))
    loops.aggregate(numeric.rows(data), moments)
    dst.store(moments)


# --- with a state that every element changes ------------------------------------------------------


@instruction(
    vector,
    shapes="dst data0 data1: P F; initial: P 1",
    cost=cost.streaming("scan"),
    rules=words.SCAN,
    traits=SCANNING,
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
    out = numeric.floats(dst, (dst.shape[0], dst.free_size))
    first, second, state = numeric.rows(data0), numeric.rows(data1), numeric.per_lane(initial, out)
    numeric.scan(op0, op1, first, second, state, out, reverse0, reverse1)
    dst.store(out)


@instruction(
    vector,
    shapes="dst src: P F; imm0 imm1: P 1",
    cost=cost.streaming("scan"),
    rules=words.CUMULATIVE,
    traits=Traits(lanewise=True, scans=True, casts=True, accumulates=True),
)
def tensor_scalar_cumulative(
    dst: words.ShortOut,
    src: words.Short,
    op0: Arithmetic,
    op1: words.Running,
    imm0: Single,
    imm1: MaybeSingle = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    *,
    core: Core,
) -> None:
    """dst[p, f] = r = (src[p, f] <op0> imm0[p]) <op1> r, the accumulator; f = 0, 1, ...

    By default r starts from the number that op1 leaves unchanged (0 for subtract). With
    load_reduce, r starts from imm1[p], and with reduce, from its value after the previous
    instruction. r stays float32 even if dst is narrower.
    """
    number_for(op0, imm0, "imm0")
    out = numeric.stepped(dst, src, (op0, imm0, False))
    sums.cumulate(core, src, out, op1, reduce_cmd, imm1)
    dst.store(out)


def folded(op: Operator, axes: int, negate: bool) -> Run:
    """Return the function that executes a tensor_reduce. The function folds the last `axes` axes of
    data by `op`. If `negate` is true, it negates results that are numbers (not bit patterns)."""

    def run(core: Core, dst: Tile, data: Tile) -> None:
        result = numeric.reduce(op, data.values(), axes)
        dst.store(np.negative(result) if negate else result)

    def run_on_bits(core: Core, dst: Tile, data: Tile) -> None:
        dst.codes()[...] = numeric.shaped(numeric.reduce(op, data.codes(), axes), dst.shape)

    if op.kind == "bitvec":
        return run_on_bits
    fold, start = op.fold, op.neutral
    if fold is None or start is None:
        return run
    negated = [Loop(np.negative, (PREVIOUS,))] if negate else []
    return in_steps(run, lambda dst, data: [Fold(fold, start, data, axes), *negated])


def with_old_axes(run: Run, axis: int | tuple[int, ...], core: Core, dst: Tile, data: Tile) -> None:
    """Run the reduction, and report that only releases 0.1 and 0.2 of the API accept its axes."""
    core.report(
        "AXIS_FROM_WITHIN",
        f"tensor_reduce: axis={axis} of {data} is counted from the innermost axis, which is axis 1 "
        "in releases 0.1 and 0.2 of the API; later releases refuse this axis",
    )
    run(core, dst, data)
