"""The GpSimd engine (POOL): eight small processors, sixteen partitions each, with SBUF only. They
count along patterns, and gather elements by indices that are data, each within its partitions."""

from __future__ import annotations

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.base.errors import OutOfBoundsError
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost, rules
from neuroncore.clause.immediate import Constant, Pattern
from neuroncore.clause.instruction import Traits, instruction
from neuroncore.clause.usual import SbufIn, SbufOut
from neuroncore.core.core import Core
from neuroncore.memory.tile import Array
from neuroncore.numerics import codec
from neuroncore.numerics.formats import int32, uint32

from .operators import EQUAL
from .words import gpsimd as words

gpsimd = engine.gpsimd
STARTED = cost.streaming(extra="gpsimd_start_cycles")


@instruction(
    gpsimd, shapes="dst: P F", example="pattern=((1, 512),)", cost=STARTED, rules=words.PATTERN
)
def iota(
    dst: SbufOut, pattern: Pattern, offset: words.Offset = 0, channel_multiplier: words.Offset = 0
) -> None:
    """dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x"""
    values = numeric.affine(dst.shape[0], pattern, offset, channel_multiplier)
    if dst.dtype in (int32, uint32):
        dst.codes()[...] = values.view(dst.dtype.storage).reshape(dst.shape)
    else:
        dst.store(codec.decode(int32, values))


@instruction(
    gpsimd,
    shapes="dst on_true_tile: P F",
    example="pattern=((1, 512),)",
    cost=STARTED,
    rules=words.PATTERN,
    traits=Traits(casts=True),
)
def affine_select(
    dst: SbufOut,
    pattern: Pattern,
    channel_multiplier: words.Offset,
    on_true_tile: SbufIn,
    on_false_value: Constant,
    cmp_op: words.Comparison = EQUAL,
    offset: words.Offset = 0,
) -> None:
    """dst[p, f] = on_true_tile[p, f] if v[p, f] <cmp_op> 0 else on_false_value, v as in iota"""
    values = numeric.affine(dst.shape[0], pattern, offset, channel_multiplier)
    chosen = np.empty(values.shape, np.bool_)
    cmp_op.apply(values, 0, chosen)
    kept = dst.encoded(on_true_tile, on_true_tile.codes())
    other = codec.encode(dst.held, np.array([on_false_value], np.float32))
    dst.codes()[...] = np.where(chosen.reshape(dst.shape), numeric.shaped(kept, dst.shape), other)


@instruction(
    gpsimd,
    shapes="src_buffer: P%gpsimd_core_partitions S; dst: P D; index: P I",
    example="I=32",
    cost=cost.dynamic(words.local_gather_cost),
    rules=words.LOCAL_GATHER,
)
def local_gather(
    dst: words.MovedOut,
    src_buffer: words.MovedIn,
    index: words.CoreIndex,
    num_elem_per_idx: words.Run = 1,
    num_valid_indices: words.Count = None,
    *,
    core: Core,
) -> None:
    """dst[16c + p, n*i + j] = src_buffer[16c + p, index[16c + i % 16, i // 16] + j], j < n

    n is num_elem_per_idx, i counts up to num_valid_indices. An index counts elements.
    """
    each = core.machine.limits.gpsimd_core_partitions
    cores = src_buffer.shape[0] // each
    table = src_buffer.codes().reshape(cores, each, -1)
    indices = index.codes().reshape(cores, each, -1)
    indices = indices.swapaxes(1, 2).reshape(cores, -1)[:, :num_valid_indices]
    inside(indices, table.shape[2], num_elem_per_idx, "index", "core")
    places = indices.astype(np.intp)[:, np.newaxis, :, np.newaxis] + np.arange(num_elem_per_idx)
    found = np.take_along_axis(table, places.reshape(cores, 1, -1), 2)
    dst.codes()[...] = found.reshape(dst.shape)


@instruction(
    gpsimd,
    shapes="dst indices: P F; data: P S",
    cost=cost.dynamic(words.n_gather_cost),
    rules=[rules.same_dtype("data", "dst")],
)
def nc_n_gather(dst: words.MovedOut, data: words.MovedIn, indices: words.Indices) -> None:
    """dst[p, f] = data[p, indices[p, f]], the free axes of data as one"""
    table = data.codes().reshape(data.shape[0], -1)
    places = indices.codes().reshape(data.shape[0], -1)
    inside(places, table.shape[1], 1, "indices", "partition")
    found = np.take_along_axis(table, places.astype(np.intp), 1)
    dst.codes()[...] = numeric.shaped(found, dst.shape)


def inside(indices: Array, size: int, run: int, argument: str, group: str) -> None:
    """Refuse indices, [groups, count], whose `run` elements leave the `size` there are. The result
    on the device is undefined (ISA)."""
    beyond = indices > size - run
    if not beyond.any():
        return
    number, place = np.argwhere(beyond)[0]
    raise OutOfBoundsError(
        f"index {place} of {group} {number} is {indices[number, place]}",
        argument=argument,
        expected=f"0 to {size - run}",
        got=str(indices[number, place]),
        because=f"a partition has {size} elements, and an index reads {run}",
    )
