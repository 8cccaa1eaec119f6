"""Instructions that move data: DMA, gathers and patterns of GpSimd, registers, and exchanges
between cores. A function that loads a register returns the number."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuroncore.plain.arithmetic import apply
from neuroncore.plain.elementwise import are_whole, constant
from neuroncore.plain.formats import FORMATS, Array, F, encode


def dma_copy(i: Any) -> None:
    """dst = src, in row-major order; different formats are converted through float32"""
    i.dst.put(i.dst.converted(i.src), i.src.there)


def dma_compute(i: Any) -> None:
    """dst = srcs[0] + srcs[1] + ..., in float32 from the left

    If an index n chooses rows: dst = dst + data[n], or dst[n] = dst[n] + data."""
    there = next((src.there for src in i.srcs if src.there is not None), None)
    turns = np.zeros(i.dst.shape, np.int64) if i.unique_indices else turns_of(i.dst)
    for turn in range(turns.max() + 1):
        total = i.srcs[0].values().reshape(i.dst.shape)
        for src in i.srcs[1:]:
            total = apply(i.reduce_op, total, src.values().reshape(i.dst.shape))
        chosen = turns == turn if there is None else (turns == turn) & there.reshape(turns.shape)
        i.dst.put(i.dst.round(i.dst.held, total), chosen)


def turns_of(dst: Any) -> Array:
    """Return, for each element, how many earlier lanes write to its position."""
    turns = np.zeros(dst.shape, np.int64)
    there = np.True_ if dst.there is None else dst.there
    for lane, at in enumerate(dst.positions):
        turns[lane] = ((dst.positions == at) & there)[:lane].sum(axis=0)
    return turns


def dma_transpose(i: Any) -> None:
    """dst[z, x, y, w] = src[w, x, y, z]; dst[y, x, w] = src[w, x, y]; dst[x, w] = src[w, x]"""
    order = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(i.src.shape)]
    there = None if i.src.there is None else i.src.there.transpose(order)
    i.dst.put(i.src.codes().transpose(order), there)


def iota(i: Any) -> None:
    """dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x"""
    values = affine(i)
    i.dst.put(values) if are_whole(i.dst) else i.dst.set(values.astype(F))


def affine_select(i: Any) -> None:
    """dst[p, f] = on_true_tile[p, f] if v[p, f] <cmp_op> 0 else on_false_value, v = affine(i)"""
    chosen = apply(i.cmp_op, affine(i), 0).reshape(i.dst.shape) != 0
    other = encode(i.dst.held, np.array(i.on_false_value, F))
    i.dst.put(np.where(chosen, i.dst.converted(i.on_true_tile).reshape(i.dst.shape), other))


def affine(i: Any) -> Array:
    """Return offset + p * channel_multiplier + sum of index * step over the pattern, in 32 bits."""
    values = i.offset + np.arange(i.dst.lanes, dtype=np.int64) * i.channel_multiplier
    for step, count in i.pattern:
        values = values[..., np.newaxis] + np.arange(count, dtype=np.int64) * step
    return values.astype(np.int32)


def local_gather(i: Any) -> None:
    """dst[16c + p, n*k + j] = src_buffer[16c + p, index[16c + k % 16, k // 16] + j], j < n

    c is a group of 16 partitions, p is in 0...15, n is num_elem_per_idx, k < num_valid_indices."""
    size, lanes = i.core.machine.limits.gpsimd_core_partitions, i.dst.lanes
    numbers = i.index.codes().reshape(lanes // size, size, -1).swapaxes(1, 2)
    numbers = numbers.reshape(lanes // size, -1)[:, : i.num_valid_indices].astype(np.int64)
    places = (numbers[..., np.newaxis] + np.arange(i.num_elem_per_idx)).reshape(len(numbers), -1)
    i.dst.put(np.take_along_axis(i.src_buffer.bits(), np.repeat(places, size, axis=0), 1))


def nc_n_gather(i: Any) -> None:
    """dst[p, f] = data[p, indices[p, f]], where all free axes of data count as one"""
    i.dst.put(np.take_along_axis(i.data.bits(), i.indices.bits().astype(np.int64), 1))


def register_move(i: Any) -> int:
    """dst = src"""
    return int(i.src)


def register_load(i: Any) -> int:
    """dst = src[0, 0]"""
    codes = i.src.codes()
    if not i.src.form.whole:
        codes = encode(FORMATS["int32"], i.src.values())
    return int(codes.flat[0])


def register_store(i: Any) -> None:
    """dst[0, 0] = src"""
    number = np.array(i.src, np.int64)
    i.dst.put(number if i.dst.form.kind == "integer" else constant(i.dst.held, i.src))


def rank_id(i: Any) -> int:
    """dst = the number of the rank"""
    return int(i.core.rank)


def collective_permute_implicit_current_processing_rank_id(i: Any) -> int:
    """dst = the rank whose data arrives here after iteration_id steps on the channel's ring"""
    group = next(ranks for ranks in i.replica_group if i.core.rank in ranks)
    around = i.core.ring(group, i.channel_id)
    return int(around[(around.index(i.core.rank) - i.iteration_id) % len(around)])


def core_barrier(parts: Sequence[Any]) -> None:
    """no core continues before all `cores` have arrived; then their writes to data are visible"""


def sendrecv(parts: Sequence[Any]) -> None:
    """dst = the src that core recv_from_rank sends; this core's src is sent to core send_to_rank"""
    sent = [i.src.codes() for i in parts]
    for i in parts:
        i.dst.put(sent[i.recv_from_rank])
