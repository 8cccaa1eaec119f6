"""The Vector engine's reductions and scans, which carry a value along the free axes."""

from __future__ import annotations

import numpy as np

from neuroncore.clause import (
    FOLDING,
    LANEWISE,
    Arithmetic,
    Gathered,
    In,
    MaybeSingle,
    Number,
    Out,
    Reduced,
    Scattered,
    cost,
    instruction,
    number_for,
    numeric,
    rules,
)
from neuroncore.core.accumulators import accumulate, read_out
from neuroncore.core.core import Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.memory.tile import Tile

from .operators import MAXIMUM
from .words import reduction as words
from .words.reduction import Axes, FloatReduced, Folding, Max, Narrow, Predicate, Reduction

vector = engine.vector


@instruction(
    vector,
    shapes="data: P G*F; dst: P F",
    given={"G": words.folded},
    cost=cost.dynamic(words.reduce_cost),
    rules=words.REDUCE,
    traits=LANEWISE,
)
def tensor_reduce(
    dst: Scattered,
    op: Folding,
    data: Gathered,
    axis: Axes,
    negate: bool = False,
    keepdims: bool = False,
    *,
    core: Core,
) -> None:
    """dst[p, ...] = data[p, ..., 0] <op> data[p, ..., 1] <op> ... over the last axes"""
    axes = len(words.listed(axis))
    report_old_axes(core, data, axis)
    if op.kind == "bitvec":
        dst.codes()[...] = numeric.shaped(numeric.reduce(op, data.codes(), axes), dst.shape)
        return
    result = numeric.reduce(op, data.values(), axes)
    dst.store(np.negative(result) if negate else result)


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
    number_for(op0, operand0, "operand0")
    value, out = numeric.shaped(data.values(), dst.shape), numeric.floats(dst)
    numeric.stepped(value, [(op0, operand0, False)], out)
    accumulate(core, vector, data, out, reduce_op, reduce_cmd, reduce_init)
    dst.store(out)
    read_out(core, vector, data, reduce_res, reduce_res_negate)


@instruction(
    vector,
    shapes="dst data0 data1: P F; initial: P 1",
    cost=cost.streaming("scan"),
    rules=[
        rules.not_both_in_psum("data0", "data1"),
        rules.two_operands("op0", "op1"),
        rules.runs_there("op0", "op1"),
    ],
    traits=LANEWISE,
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
    predicate: Predicate,
    on_true: Narrow,
    on_false: Number,
    reduce_res: FloatReduced = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: Max = MAXIMUM,
    reverse_pred: bool = False,
    *,
    core: Core,
) -> None:
    """dst[p, f] = on_true[p, f] if predicate[p, f] != 0 else on_false[p];  reduce_res[p] = max_f

    max_f is the largest of dst[p, :] before it is rounded.
    """
    chosen = numeric.mask(predicate, dst, reverse_pred)
    kept = numeric.shaped(on_true.values(), dst.shape)
    out = np.where(chosen, kept, numeric.scalar(on_false, kept))
    accumulate(core, vector, on_true, out, reduce_op, reduce_cmd)
    dst.store(out)
    read_out(core, vector, on_true, reduce_res)


def report_old_axes(core: Core, data: Tile, axis: int | tuple[int, ...]) -> None:
    """Find axes that only releases 0.1 and 0.2 of the API take."""
    given = words.listed(axis)
    if not words.trailing(given, len(data.shape)):
        core.report(
            "AXIS_FROM_WITHIN",
            f"tensor_reduce: axis {axis} of {data} folds its last {len(given)}, as in releases 0.1 "
            "and 0.2, where 1 is the innermost axis; later ones refuse it",
        )
