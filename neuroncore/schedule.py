"""Timing: a program and a machine in, a timeline out. Data is never looked at.

Each engine takes its instructions in order, and so do the two DMA rings, one for loads and one
for stores, so that a store that waits does not hold up loads. An instruction waits for what it
reads, overwrites or displaces: SBUF and PSUM are finite, and a tile takes over the space that has
been free the longest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore import access
from neuroncore.cost import Cost
from neuroncore.enums import MemoryRegion, engine
from neuroncore.instruction import Call
from neuroncore.lazy import Lazy
from neuroncore.machine import Machine
from neuroncore.program import Columns, Pattern, Program

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.schedule")

QUEUES = ("Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA loads", "DMA stores")
TENSOR, VECTOR, SCALAR, GPSIMD, SYNC, LOADS, STORES = range(len(QUEUES))
QUEUE_OF = {
    engine.tensor: TENSOR,
    engine.vector: VECTOR,
    engine.scalar: SCALAR,
    engine.gpsimd: GPSIMD,
    engine.sync: SYNC,
}
EXACT_PAIRS = 2000  # of strided accesses that are compared byte by byte
EXACT_BYTES = 1 << 16


@dataclass(frozen=True, eq=False)
class Timeline:
    """When everything happened, in nanoseconds: instruction i begins at begin[i], keeps its queue
    for busy[i], has done its work at done[i] (a DMA: moved its bytes), and its result can be read
    at end[i].

    cause[i] is the instruction that i waited for: -1 none, -2 the one before it in its queue.
    """

    program: Program
    machine: Machine
    columns: Columns
    queue: Array
    begin: Array
    busy: Array
    done: Array
    end: Array
    cause: Array
    transfer_ns: Array  # what a DMA takes of each engine it uses
    engines_used: Array  # and how many it uses
    peak_sbuf: int  # bytes per partition of the tiles alive at one point of the program
    peak_psum: int

    @property
    def total_ns(self) -> float:
        return float(self.end.max() - self.begin.min()) if len(self.end) else 0.0

    @cached_property
    def busy_share(self) -> dict[str, float]:
        """Of each compute engine and of the DMA engines together, the part of the time it works."""
        total = self.total_ns or 1.0
        shares = {
            name: float(self.busy[self.queue == q].sum()) / total
            for q, name in enumerate(QUEUES[:LOADS])
        }
        moved = float((self.transfer_ns * self.engines_used).sum())
        shares["DMA"] = moved / (total * self.machine.dma.engines)
        return shares

    @cached_property
    def critical_path(self) -> list[int]:
        """The chain of instructions that ends last, in order: each waited for the one before."""
        if not len(self.end):
            return []
        before = _before_in_queue(self.queue)
        path = [int(np.argmax(self.end))]
        while True:
            cause = int(self.cause[path[-1]])
            cause = int(before[path[-1]]) if cause == -2 else cause
            if cause < 0:
                return path[::-1]
            path.append(cause)

    @cached_property
    def path_share(self) -> dict[str, float]:
        """How much of the critical path each queue keeps, and `latency`: waiting for a result
        that its engine has already left behind."""
        path = self.critical_path
        if not path:
            return {}
        shares = dict.fromkeys((*QUEUES, "latency"), 0.0)
        for i, following in zip(path, [*path[1:], -1], strict=True):
            until = self.begin[following] if following >= 0 else self.end[i]
            span = float(until - self.begin[i])
            working = min(span, float(self.done[i] - self.begin[i]))
            shares[QUEUES[self.queue[i]]] += working
            shares["latency"] += span - working
        total = self.total_ns or 1.0
        return {name: ns / total for name, ns in shares.items() if ns > 0}


def schedule(program: Program, machine: Machine) -> Timeline:
    """Time a program on a machine, which may be another than the one it was recorded on."""
    columns = program.columns()
    costs = [call.instruction.cost(call, machine) for call in program.calls]
    table = _CallTable(program.calls, costs)
    call, count = columns.call, len(columns.call)
    queue = table.queue[call]
    previous = np.full((count, len(QUEUES)), -1, np.int32)
    reload = np.zeros(count, np.bool_)
    near, near_start = _neighbours(program)
    native.dependencies(
        queue, columns.start, columns.operands, table.reads[call], near, near_start,
        table.weights[call], previous, reload,
    )  # fmt: skip
    for consumer, producer in program.edges:
        waits = previous[consumer]
        waits[queue[producer]] = max(waits[queue[producer]], producer)
    peaks = [
        _take_over_space(program, columns, queue, previous, region, capacity)
        for region, capacity in (
            (MemoryRegion.sbuf, machine.sbuf.usable_bytes),
            (MemoryRegion.psum, machine.psum.partition_bytes),
        )
    ]
    busy = _busy(table, call, queue, reload | table.picks_weights[call], machine)
    order = np.argsort(queue, kind="stable").astype(np.int32)
    queue_start = np.searchsorted(queue[order], np.arange(len(QUEUES) + 1)).astype(np.int32)
    begin, end = np.full(count, -1.0), np.full(count, -1.0)
    cause = np.full(count, -1, np.int32)
    native.timeline(
        queue, order, queue_start, previous, busy, table.latency[call], table.lane[call],
        table.lane_ns[call], machine.fixed.semaphore_ns, TENSOR, begin, end, cause,
    )  # fmt: skip
    lane = table.lane[call]
    engines_used = np.where(lane[:, 0] >= 0, lane[:, 1] - lane[:, 0] + 1, 0)
    return Timeline(
        program, machine, columns, queue, begin, busy, end - table.latency[call], end, cause,
        table.lane_ns[call], engines_used, *peaks,
    )  # fmt: skip


class _CallTable:
    """What the schedule needs of each distinct call, as arrays."""

    def __init__(self, calls: list[Call], costs: list[Cost]) -> None:
        count = len(calls)
        self.queue = np.zeros(count, np.int32)
        self.reads = np.array([len(c.reads) + len(c.indices) for c in calls], np.int32)
        self.busy = np.array([c.busy_ns for c in costs], np.float64)
        self.latency = np.array([c.latency_ns for c in costs], np.float64)
        self.weights_ns = np.array([c.weights_ns for c in costs], np.float64)
        self.weights = np.full(count, -1, np.int32)
        self.picks_weights = np.zeros(count, np.bool_)  # by an index, which may have changed
        self.lane = np.full((count, 2), -1, np.int32)
        self.lane_ns = np.zeros(count, np.float64)
        names = sorted({c.table for c in costs if c.table})
        self.table = np.array([names.index(c.table) if c.table else -1 for c in costs], np.int32)
        for i, (call, cost) in enumerate(zip(calls, costs, strict=True)):
            if cost.transfer is not None:
                self.queue[i] = STORES if cost.transfer.store else LOADS
                self.lane[i] = cost.transfer.first, cost.transfer.last
                self.lane_ns[i] = cost.transfer.ns
            else:
                self.queue[i] = QUEUE_OF[call.engine]
            if cost.weights_ns:
                self.weights[i] = call.reads.index(cost.weights_operand)
                self.picks_weights[i] = call.view(cost.weights_operand).picks is not None


def _busy(table: _CallTable, call: Array, queue: Array, reload: Array, machine: Machine) -> Array:
    """How long each instruction keeps its queue, with what depends on the one before it: the
    weights that are in the array already, the activation table that is loaded."""
    busy, weights = table.busy[call], np.where(reload, table.weights_ns[call], 0.0)
    busy = np.maximum(busy, weights) if machine.fixed.weights_hidden else busy + weights
    loads = np.flatnonzero((queue == SCALAR) & (table.table[call] >= 0))
    tables = table.table[call][loads]
    changed = np.diff(tables, prepend=-1) != 0
    busy[loads[changed]] += machine.fixed.activation_table_ns
    return busy


def _before_in_queue(queue: Array) -> Array:
    before = np.full(len(queue), -1, np.int32)
    for q in range(len(QUEUES)):
        own = np.flatnonzero(queue == q)
        before[own[1:]] = own[:-1]
    return before


# --- which accesses touch the same bytes ----------------------------------------------------------


def _neighbours(program: Program) -> tuple[Array, Array]:
    """The boxes that each box shares bytes with, itself among them: indices, and where each box's
    begin."""
    count = len(program.boxes)
    box = np.array([b[1:5] for b in program.boxes], np.int64).reshape(count, 4)
    area = np.array([b[0] for b in program.boxes], np.int64)
    order = np.lexsort((box[:, 0], area)).astype(np.int32)
    edges = np.flatnonzero(np.diff(area[order], prepend=-1, append=-1))
    counts = np.zeros(count, np.int64)
    native.overlap_counts(order, edges[:-1], edges[1:], box, counts)
    start = np.concatenate([[0], np.cumsum(counts)])
    near = np.zeros(start[-1], np.int32)
    native.overlap_pairs(order, edges[:-1], edges[1:], box, start[:-1].copy(), near)
    return _without_near_misses(program, near, start)


def _without_near_misses(program: Program, near: Array, start: Array) -> tuple[Array, Array]:
    """Drop pairs of strided accesses that interleave: their boxes overlap, their bytes don't."""
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    strided = np.zeros(len(start) - 1, np.bool_)
    strided[list(program.patterns)] = True
    suspects = np.flatnonzero(strided[owner] & strided[near] & (owner < near))
    if not 0 < len(suspects) <= EXACT_PAIRS:
        return near, start
    apart = {(int(owner[s]), int(near[s])) for s in suspects}
    apart = {pair for pair in apart if not _meet(program, *pair)}
    keep = np.array(
        [(min(a, b), max(a, b)) not in apart for a, b in zip(owner, near, strict=True)], np.bool_
    )
    counts = np.bincount(owner[keep], minlength=len(start) - 1)
    return near[keep], np.concatenate([[0], np.cumsum(counts)])


def _meet(program: Program, first: int, second: int) -> bool:
    """Whether two strided accesses share a byte; said of large ones without looking.

    Rows that are equally far apart in both are all alike, and one of them is looked at.
    """
    one, two = program.patterns[first], program.patterns[second]
    pitch = one[2][0]
    if two[2][0] == pitch and _stays_in_its_row(one) and _stays_in_its_row(two):
        one, two = (
            (offset % pitch, shape[1:], steps[1:], item)
            for offset, shape, steps, item in (one, two)
        )
    if max(prod(shape) * item for _, shape, _, item in (one, two)) > EXACT_BYTES:
        return True
    return bool(np.intersect1d(_bytes(one), _bytes(two)).size)


def _stays_in_its_row(pattern: Pattern) -> bool:
    offset, shape, steps, item = pattern
    if steps[0] <= 0:
        return False
    low, high = access.extent(shape[1:], steps[1:])
    column = offset % steps[0]
    return column + low >= 0 and column + high + item <= steps[0]


def _bytes(pattern: Pattern) -> Array:
    offset, shape, steps, item = pattern
    places = np.array([offset])
    for size, step in zip((*shape, item), (*steps, 1), strict=True):
        places = (places[:, None] + np.arange(size) * step).reshape(-1)
    return places


# --- space ----------------------------------------------------------------------------------------


def _take_over_space(
    program: Program, columns: Columns, queue: Array, previous: Array, region: MemoryRegion,
    capacity: int,
) -> int:  # fmt: skip
    """Let tiles that the system places in one memory wait for space; the peak bytes per partition.

    Tiles at addresses of the kernel's choosing overlap as it chose, and are counted by their end.
    """
    boxes = program.boxes
    area = np.array([b[0] for b in boxes], np.int64)[columns.operands]
    ids = [a for a, info in program.areas.items() if info.region is region and not info.placed]
    placed = [a for a, info in program.areas.items() if info.region is region and info.placed]
    fixed = max((b.byte_end for b in boxes if b.area in placed), default=0)
    if not ids:
        return fixed
    number = np.full(int(max(program.areas)) + 1, -1, np.int64)
    number[ids] = np.arange(len(ids))
    users = np.repeat(np.arange(len(queue)), np.diff(columns.start))
    tile = number[area]
    users, tile = users[tile >= 0], tile[tile >= 0]
    birth = np.full(len(ids), len(queue), np.int64)
    np.minimum.at(birth, tile, users)
    last_user = np.full((len(ids), len(QUEUES)), -1, np.int32)
    np.maximum.at(last_user, (tile, queue[users]), users.astype(np.int32))
    size = np.array([program.areas[a].row_bytes for a in ids], np.int64)
    live = np.zeros(len(queue) + 1, np.int64)
    peak: int = native.reuse_of_space(
        queue, np.argsort(birth, kind="stable"), birth,
        np.argsort(last_user.max(axis=1), kind="stable"), last_user, size, capacity, previous, live,
    )  # fmt: skip
    return max(peak, fixed)
