"""Folds, sums and scans along the free axis or over partitions, and searches."""

from math import prod
from typing import Any

import numpy as np

from neuroncore.plain.arithmetic import BITS, apply, fold
from neuroncore.plain.elementwise import chain, column
from neuroncore.plain.formats import Array, F, encode
from neuroncore.plain.memory import Operand

MISSING = np.uint32(0xFFFFFFFF)
LEAST = np.finfo(F).min


def tensor_reduce(i: Any) -> None:
    """dst[p, ...] = data[p, ..., 0] <op> data[p, ..., 1] <op> ... over the last axes"""
    axes, op = len(i.axis) if isinstance(i.axis, tuple) else 1, i.core.operator(i.op)
    rows = prod(i.data.shape[: len(i.data.shape) - axes])
    x = (i.data.codes() if op in BITS else i.data.values()).reshape(rows, -1)
    folded(i, op, x, -1 if i.negate else 1)


def tensor_scalar_reduce(i: Any) -> None:
    """dst[p, f] = data[p, f] <op0> operand0[p];  reduce_res[p] = fold of dst[p, :] by reduce_op"""
    out = chain(i, i.data, (i.op0, i.operand0, False))
    reduction = i.reduce_op, i.reduce_cmd, i.reduce_init, i.reduce_res_negate
    i.core.reduce(i, i.data, out, *reduction)


def select_reduce(i: Any) -> None:
    """dst[p, f] = on_true[p, f] if predicate[p, f] != 0 else on_false[p]

    reduce_res[p] = the greatest of dst[p, :]"""
    where = (i.predicate.bits() != 0) ^ bool(i.reverse_pred)
    out = np.where(where, i.on_true.rows(), column(i.on_false))
    i.core.reduce(i, i.on_true, out, i.reduce_op, i.reduce_cmd)


def tensor_partition_reduce(i: Any) -> None:
    """dst[0, f] = data[0, f] <op> data[1, f] <op> ... over the partitions;  average: sum / count"""
    op = "add" if i.op == "average" else i.core.operator(i.op)
    rows = i.data.bits() if op in BITS else i.data.rows()
    folded(i, op, rows.T, i.data.lanes if i.op == "average" else 1)


def folded(i: Any, op: str, x: Array, divisor: int) -> None:
    """dst = x[p, 0] <op> x[p, 1] <op> ..., divided by `divisor` unless op works on bit patterns"""
    total = fold(op, x)
    i.dst.put(total) if op in BITS else i.dst.set(total / F(divisor))


def bn_stats(i: Any) -> None:
    """dst[p, :] = [n, mean, sum of (x - mean)^2] of data[p, 0::2], then of data[p, 1::2]

    Sums are in float64, from the left, and rounded once. If n is 0, all three numbers are 0."""
    statistics, zeros = [], np.zeros(i.data.lanes)
    for x in (i.data.rows().T[start::2].astype(np.float64) for start in (0, 1)):
        mean = sum(x, zeros) / max(len(x), 1)
        statistics += [zeros + len(x), mean, sum((x - mean) ** 2, zeros)]
    i.dst.set(np.stack(statistics, 1))


def bn_aggr(i: Any) -> None:
    """dst[p, :] = [m, v];  m = sum n_k m_k / N, v = sum (M_k + n_k (m_k - m)^2) / N, N = sum n_k

    data[p, :] lists the triples (n_k, m_k, M_k). Sums are in float64, and rounded once."""
    n, m, squares = (i.data.rows().T[start::3].astype(np.float64) for start in range(3))
    mean = sum(n * m) / sum(n)
    spread = sum(squares + n * (m - mean) ** 2) / sum(n)
    i.dst.set(np.stack([mean, spread], 1))


def tensor_tensor_scan(i: Any) -> None:
    """r[p, f] = (data0[p, f] <op0> r[p, f-1]) <op1> data1[p, f];  dst = r, r[p, -1] = initial"""
    first, second, out = i.data0.rows(), i.data1.rows(), np.empty_like(i.data0.rows())
    r = np.broadcast_to(column(i.initial), (len(first), 1))[:, 0]
    for f in range(first.shape[1]):
        inner = apply(i.core.operator(i.op0), first[:, f], r, i.reverse0)
        r = out[:, f] = apply(i.core.operator(i.op1), inner, second[:, f], i.reverse1)
    i.dst.set(out)


def tensor_scalar_cumulative(i: Any) -> None:
    """dst[p, f] = r = (src[p, f] <op0> imm0[p]) <op1> r, the accumulator; f = 0, 1, ..."""
    values = chain(i, i.src, (i.op0, i.imm0, False))
    i.core.reduce(i, i.src, values, i.op1, i.reduce_cmd, i.imm1, running=True)


def max8(i: Any) -> None:
    """dst[p, k] = the k-th greatest of src[p, :], k = 0...7; equal elements count separately

    NaN is greater than all numbers, or less than all if `Options.nan_minmax` is "number"; +0 is
    greater than -0."""
    x = i.src.rows()
    order = ascending(x, nan_first=i.core.options.nan_minmax == "number")
    i.dst.set(np.take_along_axis(x, order[:, :-9:-1], 1))


def ascending(x: Array, nan_first: bool = False) -> Array:
    """Return the positions [P, F] that sort each row, the last of equal elements first. NaN is the
    greatest element, or the least if `nan_first`."""
    nan, places = np.isnan(x), np.broadcast_to(-np.arange(x.shape[1]), x.shape)
    return np.lexsort((places, ~np.signbit(x) | nan, np.where(nan, 0, x), nan ^ nan_first), axis=1)


def nc_find_index8(i: Any) -> None:
    """dst[p, k] = the first f with data[p, f] == vals[p, k]; all bits set if there is no such f

    If a value is in vals[p, :] several times, its first k gets the first f, the next k the next f.
    """
    i.dst.put(occurrences(i.data, i.vals, 1))


def nc_match_replace8(i: Any) -> None:
    """dst[p, :] = data[p, :], but imm at f_k, the first f with data[p, f] == vals[p, k], k = 0...7

    dst_idx[p, k] = f_k. If a value is in vals[p, :] several times, its last k gets the first f."""
    places = occurrences(i.data, i.vals, -1)
    codes = i.dst.converted(i.data).reshape(i.data.lanes, -1)
    for p, k in np.argwhere(places != MISSING):
        codes[p, places[p, k]] = encode(i.dst.held, np.array(i.imm, F))
    i.dst.put(codes)
    if i.dst_idx is not None:
        i.dst_idx.put(places)


def occurrences(data: Operand, vals: Operand, step: int) -> Array:
    """Return the position of each of the eight values in its row of data, or MISSING. Equal values
    get successive positions: in ascending order of k if `step` is 1, descending if -1."""
    result = np.full((data.lanes, 8), MISSING)
    for p, (x, wanted) in enumerate(zip(data.rows(), vals.rows(), strict=True)):
        free = np.ones(len(x), np.bool_)
        for k in range(8)[::step]:
            places = np.flatnonzero((x == wanted[k]) & free)
            result[p, k] = places[0] if len(places) else MISSING
            free[places[:1]] = False
    return result


def range_select(i: Any) -> None:
    """dst[p, f] = on_true_tile[p, f] if n <op0> bound0[p] and n <op1> bound1[p] else -3.4e38

    n = range_start + f, compared in float32. reduce_res[p] = the greatest of dst[p, :]."""
    x = i.on_true_tile.rows()
    n = (i.range_start + np.arange(x.shape[1])).astype(F)[np.newaxis]
    inside = apply(i.comp_op0, n, column(i.bound0)) * apply(i.comp_op1, n, column(i.bound1))
    out = np.where(inside != 0, x, LEAST)
    i.core.reduce(i, i.on_true_tile, out, i.reduce_op, i.reduce_cmd)


def sequence_bounds(i: Any) -> None:
    """dst[0, :, f] = the start, and the end (exclusive), of the run of equal ids around f

    Elements with the id 0 are padding: their start is the number of ids, and their end is -1."""
    ids = i.segment_ids.codes().view(i.segment_ids.held.numpy).reshape(-1)
    bounds, edges = np.empty((2, len(ids))), [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1)]
    for start, end in zip(edges, [*edges[1:], len(ids)], strict=True):
        bounds[:, start:end] = [[start], [end]] if ids[start] != 0 else [[len(ids)], [-1]]
    i.dst.put(bounds.astype(i.dst.held.numpy).view(i.dst.held.codes))


def topk(i: Any) -> None:
    """val_dst[j] = src[idx_dst[j]], the K greatest of src[0...n-1], ascending; in each group

    A group is 16 partitions. Element j of a group is in its partition j % 16 and column j // 16.
    The first of equal elements are chosen. All elements of the results count as written."""
    size = i.core.machine.limits.gpsimd_core_partitions
    for group in (slice(first, first + size) for first in range(0, i.src.lanes, size)):
        source = snake(i.src.part(group), i.n)
        best = ascending(source.values()[np.newaxis])[0, -i.val_dst.shape[1] :]
        snake(i.val_dst.part(group), len(best)).put(source.codes()[best])
        snake(i.idx_dst.part(group), len(best)).put(best)
    for result in (i.val_dst, i.idx_dst):
        result.put(result.codes())


def snake(group: Operand, count: int) -> Operand:
    """Return the first `count` elements of a group of partitions, column by column."""
    n = np.arange(count)
    return group.part((n % group.lanes, n // group.lanes))


def nonzero_with_count(i: Any) -> None:
    """dst[p, :] = [f + index_offset where src[p, f] != 0, padding_val ..., count];  p = 0, 16..."""
    for p in range(0, i.src.lanes, i.core.machine.limits.gpsimd_core_partitions):
        row = i.src.part(slice(p, p + 1))
        places = np.flatnonzero(row.codes().view(row.held.numpy).reshape(-1))
        listed = np.full(row.positions.size + 1, i.padding_val, np.int64)
        listed[: len(places)], listed[-1] = places + i.index_offset, len(places)
        i.dst.part(slice(p, p + 1)).put(listed)
