"""Instructions that sum up: means and variances, folds over partitions, running folds."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.clause import (
    FOLDING,
    LANEWISE,
    Arithmetic,
    In,
    MaybeSingle,
    Out,
    SbufIn,
    SbufOut,
    Single,
    cost,
    instruction,
    number_for,
    numeric,
    rules,
)
from neuroncore.core.accumulators import cumulate
from neuroncore.core.core import Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.native.lazy import Lazy

from .operators import ADD
from .words import reduction as words
from .words.reduction import OverPartitions, Running, Short, ShortOut

vector, gpsimd = engine.vector, engine.gpsimd
loops: Any = Lazy("neuroncore.native.statistics")


@instruction(
    vector, shapes="data: P F<=bn_stats_free; dst: P 6", cost=cost.streaming(), traits=LANEWISE
)
def bn_stats(dst: Out, data: In) -> None:
    """dst[p, :] = [n, mean, sum of (x - mean)^2] of data[p, 0::2], then of data[p, 1::2]

    Each is rounded once (how the engine sums is unpublished). Of no elements, all three are 0.
    """
    found = numeric.floats(dst, (data.shape[0], 6))
    loops.moments(numeric.rows(data), found)
    dst.store(found)


@instruction(
    vector,
    shapes="data: P F%3; dst: P 2",
    cost=cost.dynamic(words.aggregation_cost),
    traits=LANEWISE,
)
def bn_aggr(dst: Out, data: In) -> None:
    """dst[p, :] = [m, v];  m = sum n_i m_i / N, v = sum (M_i + n_i (m_i - m)^2) / N, N = sum n_i

    over the (n_i, m_i, M_i) that data[p, :] lists, as bn_stats leaves them.
    """
    found = numeric.floats(dst, (data.shape[0], 2))
    loops.aggregate(numeric.rows(data), found)
    dst.store(found)


@instruction(
    gpsimd,
    shapes="data: P F; dst: 1 F",
    cost=cost.streaming("partition_reduce", extra="gpsimd_start_cycles"),
    rules=[rules.bitvec_on_integers("dst", "data", ops=("op",), unit=gpsimd)],
)
def tensor_partition_reduce(dst: SbufOut, op: OverPartitions, data: SbufIn) -> None:
    """dst[0, f] = data[0, f] <op> data[1, f] <op> ... over the partitions;  average: sum / count"""
    if op.kind == "bitvec":
        columns = data.codes().reshape(data.shape[0], -1).T
        dst.codes()[...] = numeric.shaped(numeric.reduce(op, columns, 1), dst.shape)
        return
    average = op.name == "average"
    total = numeric.reduce(ADD if average else op, numeric.rows(data).T, 1)
    dst.store(total / np.float32(data.shape[0]) if average else total)


@instruction(
    vector,
    shapes="dst src: P F; imm0 imm1: P 1",
    cost=cost.streaming("scan"),
    rules=words.CUMULATIVE,
    traits=FOLDING,
)
def tensor_scalar_cumulative(
    dst: ShortOut,
    src: Short,
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
    number_for(op0, imm0, "imm0")
    out = numeric.floats(dst, (src.shape[0], src.free_size))
    numeric.stepped(numeric.rows(src), [(op0, imm0, False)], out)
    cumulate(core, src, out, op1, reduce_cmd, imm1)
    dst.store(out)
