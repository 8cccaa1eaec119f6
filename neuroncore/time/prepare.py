"""The work of a core: its instructions, their times and dependencies, as arrays.

A tile waits for space in SBUF or PSUM: it takes the space that has been free the longest. The older
API's compiler spills tiles that don't fit, but only to make room for results. A load waits until
there is room. The reason for this rule: published kernels that spill (conv1d, swiglu, lora, mamba)
run no slower between the spills.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.lazy import Lazy
from neuroncore.machine import Machine
from neuroncore.record.boxes import Box, Pieces
from neuroncore.record.columns import owners
from neuroncore.time.compiled import ISSUED, REPEATED, Compiled
from neuroncore.time.costs import spread
from neuroncore.time.loops import allocation, dependencies
from neuroncore.time.loops.work import RELOADED, SAVED, Moves, Queues, Work, idle, own_kinds
from neuroncore.time.queues import GPSIMD, LOADS, QUEUES, SCALAR, STORES, SYNC

if TYPE_CHECKING:  # loaded when needed: rules of the older API's compiler, or of one source only
    from neuroncore.time import reported, semaphores
else:
    reported = Lazy("neuroncore.time.reported")
    semaphores = Lazy("neuroncore.time.semaphores")

Array = npt.NDArray[Any]
BYTE_END = Box._fields.index("byte_end")
NO_STORES = np.zeros(0, np.int64)
NO_PARTNERS = NO_SIZES = np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A program on a machine, ready to be timed.

    `peak_sbuf`, `peak_psum`: the most bytes per partition that the tiles take at one time
    `spill_ns`: the time in which spilled tiles move, which is added to the total
    `final_stores`: the stores for which the end of the program waits (`semaphores.final_stores`)
    `collectives_placed`: whether collectives have their times (`syncs.place_collectives`)"""

    compiled: Compiled
    work: Work
    queues: Queues
    peak_sbuf: int
    peak_psum: int
    spill_ns: float
    final_stores: Array
    collectives_placed: bool = False


def prepared(compiled: Compiled, machine: Machine, last: bool = False) -> Prepared:
    """Return a compiled program on a machine, ready to be timed.

    `last`: whether this is the last use of the tables of `compiled` (`Compiled.free_tables`)"""
    queues = _queues(compiled, compiled.queue)
    work = _work(compiled, machine, queues)
    waits = work.moves if compiled.policy.rewrites else np.ones(len(compiled.row), np.bool_)
    start, operands = compiled.accesses.start, compiled.accesses.operands
    regions = MemoryRegion.sbuf, MemoryRegion.psum
    in_sbuf, in_psum = (_tiles(compiled, region) for region in regions)
    if last:
        compiled.free_tables()
    sbuf = _wait_for_space(start, operands, in_sbuf, work, waits, machine.sbuf.usable_bytes)
    psum = _wait_for_space(start, operands, in_psum, work, waits, machine.psum.partition_bytes)
    if compiled.leaves_out:
        work = _leave_out(work, compiled)
    _block_at_barriers(work, compiled)
    spilled_ns = spill_ns(compiled.moves, machine) if len(compiled.moves.kind) else 0.0
    static = compiled.policy.rewrites and not compiled.policy.generates(machine)
    stores = semaphores.final_stores(compiled, work) if static else NO_STORES
    return Prepared(compiled, work, queues, sbuf, psum, spilled_ns, stores)


def costed(known: Prepared, compiled: Compiled, machine: Machine) -> Prepared:
    """Return `known` with the costs of `compiled`, the same compiled program at other costs.

    `machine`: must have the same memories

    The compiler must not leave out any instruction."""
    work = known.work._replace(**_costs(compiled, machine))
    return replace(known, compiled=compiled, work=work)


def _work(compiled: Compiled, machine: Machine, queues: Queues) -> Work:
    """Return the times of each instruction, and its waits for data or for a required order."""
    program, costs = compiled.program, _costs(compiled, machine)
    first, needs = _with(compiled.flow.first, compiled.flow.needs, *program.edges().T)
    first, needs = _with(first, needs, *compiled.held.T)
    if "loop-drains" in program.assume:
        first, needs = _with(first, needs, *reported.drains(program, queues).T)
    if compiled.policy.rewrites:
        first, needs = _with(first, needs, *members_waits(compiled.heads, first, needs))
    previous = buffers.filled((len(compiled.row), len(QUEUES)), -1, np.int32)
    previous[compiled.flow.overwriting] = compiled.flow.previous
    np.maximum(previous[:, SYNC], program.decided(), out=previous[:, SYNC])
    return Work(
        queue=compiled.queue,
        first=first,
        needs=needs,
        previous=previous,
        partner=NO_PARTNERS,
        **costs,
    )


def _costs(compiled: Compiled, machine: Machine) -> dict[str, Array]:
    """Return the columns of `Work` that depend on costs, by name. The first of merged transfers
    moves the bytes of all."""
    table, columns = compiled.table, {"kind": compiled.row, **compiled.table.kinds}
    busy = _busy(compiled, machine)
    if compiled.policy.rewrites:
        merged = ((compiled.heads >= 0) & (table.lane[:, 0] >= 0).take(compiled.row)).nonzero()[0]
        columns = own_kinds(columns, np.union1d(merged, compiled.heads[merged]))
        kinds, heads = columns["kind"][merged], columns["kind"][compiled.heads[merged]]
        np.add.at(columns["lane_ns"], heads, columns["lane_ns"][kinds])
        busy[merged] = columns["latency"][kinds] = columns["lane_ns"][kinds] = 0.0
        columns["lane"][kinds] = -1
    loads = _table_loads(compiled)
    if len(loads):
        columns = own_kinds(columns, loads)
        columns["early"][columns["kind"][loads]] = machine.fixed.activation_table_ns
        busy[loads] += machine.fixed.activation_table_ns
    return {"busy": busy, **columns}


def _busy(compiled: Compiled, machine: Machine) -> Array:
    """Return how many nanoseconds each instruction occupies its queue, without loads of activation
    tables. Merged instructions are set up once. Weights in the array are not loaded again."""
    table, row = compiled.table, compiled.row
    busy_ns = spread(table.busy, row)
    if compiled.policy.rewrites:
        joined = compiled.heads >= 0
        busy_ns[joined] -= table.set_up_ns[row[joined]]
    if table.weights_ns.any():
        loaded = compiled.flow.reload | table.picks_weights.take(row)
        weights = np.where(loaded, table.weights_ns[row], 0.0)
        busy_ns = (
            np.maximum(busy_ns, weights) if machine.fixed.weights_hidden else busy_ns + weights
        )
    return busy_ns


def _table_loads(compiled: Compiled) -> Array:
    """Return the instructions that must first load their activation table."""
    uses = (compiled.table.table >= 0) & (compiled.table.queue == SCALAR)
    using: Array = spread(uses, compiled.row).nonzero()[0]
    if not len(using):
        return using
    used = compiled.table.table[compiled.row[using]]
    changed = np.ones(len(using), np.bool_)
    changed[1:] = used[1:] != used[:-1]
    loads: Array = using[changed]
    return loads


def _with(first: Array, needs: Array, consumers: Array, producers: Array) -> tuple[Array, Array]:
    """Return the dependencies `first` and `needs` with additional ones: instruction consumers[k]
    also waits for instruction producers[k]."""
    if not len(consumers):
        return first, needs
    waiting = owners(first)
    order = np.argsort(np.concatenate((waiting, consumers)), kind="stable")
    more = np.bincount(consumers, minlength=len(first) - 1)
    # With another type of integers, the timeline would be compiled again, which takes seconds.
    first = first + np.concatenate(([0], np.cumsum(more))).astype(first.dtype)
    return first, np.concatenate((needs, producers), dtype=needs.dtype, casting="same_kind")[order]


def members_waits(heads: Array, first: Array, needs: Array) -> tuple[Array, Array]:
    """Return the additional waits of merged instructions: the waiting instructions, and those that
    they wait for.

    `heads`: heads[i] is the instruction (the head) with which i is merged; -1 for none
    `first`, `needs`: instruction i already waits for needs[first[i]:first[i + 1]]

    The head does the work of all. So it waits for all inputs, and the others wait for the head."""
    members = (heads >= 0).nonzero()[0]
    if not len(members):
        return members, members
    count = np.diff(first)[members]
    at = np.repeat(first[members] - np.cumsum(count) + count, count) + np.arange(count.sum())
    head, needed = np.repeat(heads[members], count), needs[at]
    kept = (needed < head) & (heads[needed] != head)
    return np.append(head[kept], members), np.append(needed[kept], heads[members])


class Tiles(NamedTuple):
    """The tiles in one memory.

    `end`: the highest end address of the tiles at addresses that the kernel chose, which may
        overlap
    `of_box`, `size`: of_box[b] is the tile that contains box b, and size[t] the bytes per partition
        of tile t; negative if the tile is in another memory or at a chosen address. `size` is empty
        if it would have only negative numbers."""

    end: int
    of_box: Array
    size: Array


def _tiles(compiled: Compiled, region: MemoryRegion) -> Tiles:
    """Return the tiles in the memory `region`."""
    program, areas, end = compiled.program, compiled.areas, 0
    in_region = [kind.region is region for kind in areas.kinds]
    placed = [inside and kind.placed for inside, kind in zip(in_region, areas.kinds, strict=True)]
    if any(placed):
        table = program.box_table()
        end = int(table[areas.each_box(placed, np.bool_), BYTE_END].max(initial=0))
    if sum(in_region) == sum(placed):
        return Tiles(end, areas.of_box, NO_SIZES)
    if region is MemoryRegion.sbuf and "slices" in program.assume:
        pieces = program.boxes().pieces
        return Tiles(end, pieces.of_box, _slice_sizes(pieces))
    pairs = zip(areas.kinds, in_region, strict=True)
    sizes = [kind.row_bytes if inside and not kind.placed else -1 for kind, inside in pairs]
    return Tiles(end, areas.of_box, np.array(sizes, np.int32)[areas.kind])


def _wait_for_space(
    start: Array, operands: Array, tiles: Tiles, work: Work, waits: Array, capacity: int
) -> int:
    """Let the tiles in one memory wait for space. Return the most bytes per partition in use at one
    time, at least `tiles.end`.

    `start`, `operands`: the boxes that instructions access (`dependencies.Accesses`)
    `capacity`: the bytes per partition of the memory
    `waits`: used if some tiles are spilled. A new tile, whose first user is instruction i, waits
        only if waits[i] is True; otherwise it takes the space of spilled tiles.

    The waits are added to `work.previous`."""
    size = tiles.size
    if not len(size):
        return tiles.end
    uses = allocation.BufferUses(start, operands, tiles.of_box, size, work.queue)
    # the memory of slots that are never used stays untouched
    number, ends, remaining, following = np.empty((4, len(size) + 1), np.int64)
    user, space = np.empty((2, len(size), len(QUEUES)), np.int32)
    slots = allocation.Slots(number, ends, remaining, following, user, space)
    last = buffers.array(size.shape, np.dtype(np.int32))
    reuse = allocation.reuse_of_space.over(len(work.queue))
    return max(tiles.end, reuse(uses, waits, capacity, slots, last, work.previous))


def _slice_sizes(pieces: Pieces) -> Array:
    """Return the bytes per partition of each piece of a tensor, or -1 if the compiler does not
    choose its address."""
    return np.where(pieces.movable, pieces.width, -1).astype(np.int32)


def spill_ns(moves: Moves, machine: Machine) -> float:
    """Return the nanoseconds in which spilled tiles move to HBM and back, at the full DMA rate.
    Nothing overlaps: published mamba kernels that spill take longer by exactly this time."""
    per_engine = machine.hbm.stack_gigabytes_per_s / machine.dma.engines
    rate = min(machine.dma.gigabytes_per_s_per_engine, per_engine) * machine.dma.engines
    return (moves.bytes_of(SAVED) + moves.bytes_of(RELOADED)) / rate


def _leave_out(work: Work, compiled: Compiled) -> Work:
    """Return the work in which the instructions that the compiler leaves out take no time. A
    repeated instruction waits only for the instruction that replaces it.

    The last writer of a tile replaces all writers of its repetition. Writers that merging has moved
    before it do not wait for it, because it may wait for them."""
    left_out = (compiled.fate != ISSUED).nonzero()[0]
    if not len(left_out):
        return work
    work = idle(work, left_out)
    work.shares[work.kind[left_out]] = False
    repeated = np.flatnonzero(compiled.fate == REPEATED)
    work.previous[repeated] = -1
    repeated = repeated[compiled.instead[repeated] < repeated]
    work.previous[repeated, work.queue[compiled.instead[repeated]]] = compiled.instead[repeated]
    return work


def _block_at_barriers(work: Work, compiled: Compiled) -> None:
    """Let each instruction of an engine wait for the latest barrier before it in its queue: an
    engine that waits for other cores begins nothing else. DMA rings continue."""
    if not compiled.table.meets.any():
        return
    barrier = (compiled.table.meets & (compiled.table.lane[:, 0] < 0)).take(compiled.row)
    for q in set(work.queue[barrier].tolist()):
        instructions = np.flatnonzero(work.queue == q)
        last = np.maximum.accumulate(np.where(barrier[instructions], instructions, -1))
        blocked = work.previous[instructions[1:], q]
        work.previous[instructions[1:], q] = np.maximum(blocked, last[:-1])


def _queues(compiled: Compiled, queue: Array) -> Queues:
    """Return the queues and their limits. Instructions are in program order, except loads that the
    compiler sorts."""
    policy = compiled.policy
    order = queue.astype(np.uint8).argsort(kind="stable").astype(np.int32)
    start = np.zeros(len(QUEUES) + 1, np.int32)
    start[1:] = np.bincount(queue, minlength=len(QUEUES)).cumsum()
    if policy.by_first_use:
        _sort_loads(compiled, queue, order, start)
    if "loop-drains" in compiled.program.assume:
        reported.sort_by_iterations(compiled.program, order, start)
    limits = [(policy.window, policy.reach, 0)] * len(QUEUES)
    limits[LOADS] = policy.transfers, policy.transfers, 0
    limits[STORES] = policy.transfers, policy.transfers, policy.stores_in_flight
    if policy.software:
        window, reach = max(policy.window, policy.transfers), max(policy.reach, policy.transfers)
        limits[GPSIMD] = window, reach, 0
    limits[SYNC] = 1, 1, 0  # register loads, and branches that depend on them
    return Queues(order, start, np.array(limits, np.int64))


def _sort_loads(compiled: Compiled, queue: Array, order: Array, start: Array) -> None:
    """Sort the loads of each queue by the first use of their data.

    `order`, `start`: queue q has the instructions order[start[q]:start[q + 1]]"""
    moves = queue == LOADS
    if compiled.policy.software:
        moves |= (queue == GPSIMD) & (compiled.table.lane[:, 0] >= 0).take(compiled.row)
    moving = moves & ~compiled.table.stays.take(compiled.row)
    if not moves.any():
        return
    used, edges = dependencies.first_uses(compiled.accesses, moving), compiled.program.edges()
    if len(edges):
        np.minimum.at(used, edges[:, 1], edges[:, 0])
    for q in (LOADS, GPSIMD) if compiled.policy.software else (LOADS,):
        loads = order[start[q] : start[q + 1]]
        loads[:] = loads[used[loads].argsort(kind="stable")]
