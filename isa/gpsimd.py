"""The GpSimd engine (POOL): eight small processors with sixteen partitions each, which access only
SBUF. They generate numbers by patterns of steps and counts, and gather elements within their
partitions by indices in memory. This module also has the instructions for random numbers, because
each lane of this engine and of the Vector engine has a generator."""

from __future__ import annotations

import numpy as np

from neuroncore.base import buffers
from neuroncore.base.enums import engine
from neuroncore.base.errors import OperatorError, OutOfBoundsError
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost, rules
from neuroncore.clause.immediate import Constant, Pattern
from neuroncore.clause.instruction import Run, Traits, instruction
from neuroncore.clause.operand import In, Number, Out, SbufIn, SbufOut, Single
from neuroncore.clause.refusal import require
from neuroncore.core import engines
from neuroncore.core.core import Core
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import int32, uint32
from neuroncore.numerics.loops import elements

from .operators import EQUAL
from .words import lanes as words

vector, gpsimd = engine.vector, engine.gpsimd
STARTED = cost.streaming(extra="gpsimd_start_cycles")


@instruction(
    gpsimd, shapes="dst: P F", example="pattern=((1, 512),)", cost=STARTED, rules=words.PATTERN
)
def iota(
    dst: SbufOut, pattern: Pattern, offset: words.Start = 0, channel_multiplier: words.Offset = 0
) -> Run:
    """dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x"""
    exact = dst.dtype in (int32, uint32)

    def run(dst: Tile, offset: VirtualRegister | int, per_row: int) -> None:
        codes = dst.codes()
        in_place = exact and codes.flags.c_contiguous
        out = codes.view(np.int32).reshape(len(codes), -1) if in_place else None
        values = affine(len(codes), pattern, offset, per_row, out)
        if not exact:
            dst.store(codec.decode(int32, values))
        elif not in_place:
            codes[...] = values.view(codes.dtype).reshape(dst.shape)

    return run


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
    offset: words.Start = 0,
) -> None:
    """dst[p, f] = on_true_tile[p, f] if v[p, f] <cmp_op> 0 else on_false_value

    v has the numbers that iota computes from pattern, offset and channel_multiplier."""
    values = affine(dst.shape[0], pattern, offset, channel_multiplier)
    chosen = np.empty(values.shape, np.bool_)
    cmp_op.apply(values, 0, chosen)
    kept = dst.encoded(on_true_tile, on_true_tile.codes())
    other = codec.encode(dst.held, np.array([on_false_value], np.float32))
    kept = numeric.shaped(kept, dst.shape)
    dst.codes()[...] = numeric.where(chosen.reshape(dst.shape), kept, other)


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

    c is the number of a group of 16 partitions, and p is the number of a partition in its group. n
    is num_elem_per_idx, and i is below num_valid_indices. The numbers in index count elements.
    """
    lanes = core.machine.limits.gpsimd_core_partitions
    cores = src_buffer.shape[0] // lanes
    table = src_buffer.codes().reshape(cores, lanes, -1)
    indices = index.codes().reshape(cores, lanes, -1)
    indices = indices.swapaxes(1, 2).reshape(cores, -1)[:, :num_valid_indices]
    inside(indices, table.shape[2], num_elem_per_idx, "index", "GpSimd core")
    places = indices.astype(np.intp)[:, np.newaxis, :, np.newaxis] + np.arange(num_elem_per_idx)
    gathered = np.take_along_axis(table, places.reshape(cores, 1, -1), 2)
    dst.codes()[...] = gathered.reshape(dst.shape)


@instruction(
    gpsimd,
    shapes="dst indices: P F; data: P S",
    cost=cost.dynamic(words.n_gather_cost),
    rules=[rules.same_dtype("data", "dst")],
)
def nc_n_gather(dst: words.MovedOut, data: words.MovedIn, indices: words.Indices) -> None:
    """dst[p, f] = data[p, indices[p, f]], with all free axes of data flattened into one"""
    table = data.codes().reshape(data.shape[0], -1)
    places = indices.codes().reshape(data.shape[0], -1)
    inside(places, table.shape[1], 1, "indices", "partition")
    gathered = np.take_along_axis(table, places.astype(np.intp), 1)
    dst.codes()[...] = numeric.shaped(gathered, dst.shape)


def inside(indices: Array, size: int, run: int, argument: str, group: str) -> None:
    """Raise OutOfBoundsError if an index of `indices` [groups, count] selects elements beyond the
    `size` elements of a partition. An index selects `run` adjacent elements, and its value is the
    position of the first one. The result on the device is undefined (ISA). In the error, `argument`
    is the name of the indices, and `group` is the word for a group, such as "partition"."""
    beyond = indices > size - run
    if not beyond.any():
        return
    number, place = np.argwhere(beyond)[0]
    raise OutOfBoundsError(
        f"index {place} of {group} {number} is {indices[number, place]}",
        argument=argument,
        expected=f"use indices from 0 to {size - run}",
        got=str(indices[number, place]),
        because=f"a partition has {size:,} elements"
        + (f", and an index selects {run} adjacent elements" if run > 1 else ""),
    )


@instruction(vector, gpsimd, shapes="dst: P F", cost=words.generating, rules=[words.RNG_ENGINES])
def rng(dst: words.Integers, engine: engine = vector, *, core: Core) -> None:
    """dst[p, f] = the lowest bits of the next 32-bit random number of lane p"""
    bits = engines.draw(core, engine, dst).astype(dst.dtype.code_type)
    dst.codes()[...] = bits.view(dst.dtype.storage).reshape(dst.shape)


@instruction(
    vector, shapes="dst: P F; min max: P 1", cost=words.generating, feature="uniform_random"
)
def rand2(dst: words.Uniform, min: Single, max: Single, *, core: Core) -> None:
    """dst[p, f] = min[p] + u * (max[p] - min[p]), u uniform in [0, 1)

    u is the upper 24 bits of a random number. Each operation rounds to float32, so the result may
    be max itself.
    """
    require(
        isinstance(min, Tile) or isinstance(max, Tile) or min < max,
        f"rand2: min ({min}) is not less than max ({max})",
        OperatorError,
        argument="min",
        expected="min < max",
        got=f"{min} and {max}",
    )
    out = engines.uniform(core, vector, dst)
    low, high = numeric.scalar(min, out), numeric.scalar(max, out)
    out *= high - low
    out += low
    dst.store(out)


@instruction(vector, shapes="dst data: P F; prob: P 1", cost=cost.streaming(), rules=words.DROPOUT)
def dropout(dst: Out, data: In, prob: Number, *, core: Core) -> None:
    """dst[p, f] = 0 if u < prob[p] else data[p, f], u uniform in [0, 1)

    Elements that are kept are not scaled: their bits are unchanged.
    """
    require(
        isinstance(prob, Tile) or 0 <= prob <= 1,
        f"dropout: {prob} is not a probability",
        OperatorError,
        argument="prob",
        expected="a number from 0 to 1",
        got=str(prob),
    )
    bits = data.codes().view(f"u{data.held.itemsize}")
    u = engines.uniform(core, vector, dst)
    kept = ~(u < numeric.scalar(prob, u))  # multiplying by flags needs no branches
    np.multiply(numeric.shaped(bits, dst.shape), kept, out=dst.codes().view(bits.dtype))


@instruction(vector, shapes="src_seeds: 1 1", cost=cost.streaming())
def set_rng_seed(src_seeds: words.Seed, *, core: Core) -> None:
    """all lanes of the Vector engine restart from the seed src_seeds[0, 0]"""
    engines.seed(core, vector, int(src_seeds.codes().view(np.uint32).flat[0]))


@instruction(
    gpsimd,
    vector,
    cost=cost.streaming(),
    rules=[words.STATE_ENGINES, words.states_of_a_lane("src_seeds")],
    feature="gpsimd_random",
    example="src_seeds=128 6",
)
def rand_set_state(src_seeds: words.StateIn, engine: engine = gpsimd, *, core: Core) -> None:
    """state[p] = src_seeds[p, :], 6 words for the GpSimd engine, 4 x 6 for the Vector engine"""
    states = engines.states(core, engine, src_seeds)
    states[...] = src_seeds.codes().reshape(states.shape)


@instruction(
    gpsimd,
    vector,
    cost=cost.streaming(),
    rules=[words.STATE_ENGINES, words.states_of_a_lane("dst")],
    feature="gpsimd_random",
    example="dst=128 6",
)
def rand_get_state(dst: words.StateOut, engine: engine = gpsimd, *, core: Core) -> None:
    """dst[p, :] = state[p], 6 words of the GpSimd engine, 4 x 6 of the Vector engine"""
    dst.codes()[...] = engines.states(core, engine, dst).reshape(dst.shape)


def affine(
    rows: int,
    pattern: tuple[tuple[int, int], ...],
    offset: VirtualRegister | int,
    per_row: int,
    out: Array | None = None,
) -> Array:
    """Return offset + p * per_row + the sum of index * step over the axes of `pattern`, as a matrix
    [P, F] of 32-bit integers that wrap around. The pattern lists [step, count], outermost axis
    first. The result is in `out` if given."""
    start = offset.value if isinstance(offset, VirtualRegister) else offset
    (step, count), *inner = pattern or ((0, 1),)
    along = np.arange(count, dtype=np.int64) * step
    for step, count in inner:
        along = np.add.outer(along, np.arange(count, dtype=np.int64) * step).reshape(-1)
    if out is None:
        out = buffers.array((rows, len(along)), np.dtype(np.int32))
    elements.lattice()(int(start), int(per_row), along, out)
    return out
