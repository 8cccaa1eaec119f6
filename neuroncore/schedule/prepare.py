"""What a core has to do: its instructions, what each takes and waits for, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.enums import MemoryRegion
from neuroncore.machine import Machine
from neuroncore.native.lazy import Lazy
from neuroncore.record.program import Columns, Order, Program
from neuroncore.schedule.allocation import spill_ns, take_over
from neuroncore.schedule.copy_propagation import made_before, written_by_source
from neuroncore.schedule.costs import CallTable, busy
from neuroncore.schedule.dependencies import neighbours
from neuroncore.schedule.reordering import POLICIES
from neuroncore.schedule.timeline import LOADS, QUEUES, STORES, SYNC

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.schedule")


@dataclass(frozen=True, eq=False)
class Work:
    """A program on a machine, ready to be timed. Instruction i waits for the writers
    needs[first[i]:first[i + 1]] and for instructions previous[i, q] of each queue q, unless -1."""

    program: Program
    order: Order
    columns: Columns
    queue: Array
    loads: Array  # the instructions of their queue, in the order in which they come
    first: Array
    needs: Array
    previous: Array
    busy: Array
    latency: Array
    lane: Array  # the first and last DMA engine of a transfer, or -1
    lane_ns: Array  # what it takes of each
    filled: Array  # products with more than half of the PE's rows
    fresh: Array  # what reads nothing
    shares: Array  # what goes the way to SBUF that Vector and GpSimd have in common
    limits: Array  # for each queue, among how many it chooses, and of fresh ones
    meetings: Array  # the instructions at which the core meets another, in their order
    peaks: tuple[int, int]  # of SBUF and PSUM, in bytes per partition
    spill_ns: float


def prepared(program: Program, machine: Machine, order: Order | None) -> Work:
    """`order` is the program's own if not given."""
    columns, order = program.columns(), order or program.order
    policy, boxes = POLICIES[order], program.box_table()
    table = CallTable(program.calls, machine, policy)
    row, count = table.rows_for(columns.call, policy), len(columns.call)
    queue = table.queue[row]
    previous = np.full((count, len(QUEUES)), -1, np.int32)
    reload = np.zeros(count, np.bool_)
    version = np.zeros(len(columns.operands) if policy.rewrites else 0, np.int32)
    gone = np.full(count, count, np.int32)
    accesses = columns.start, columns.operands, table.reads[row], *neighbours(program, boxes)
    first, needs = native.dependencies(
        queue, *accesses, table.weights[row], previous, reload, version, gone
    )
    first, needs = _with(first, needs, *program.edges().T)
    previous[:, SYNC] = np.maximum(previous[:, SYNC], program.decided())
    waits = (table.lane[row, 0] >= 0) | (not policy.rewrites)
    sbuf, psum = (
        take_over(program, boxes, columns, queue, waits, previous, region, capacity)
        for region, capacity in (
            (MemoryRegion.sbuf, machine.sbuf.usable_bytes),
            (MemoryRegion.psum, machine.psum.partition_bytes),
        )
    )
    loads = np.flatnonzero(queue == LOADS)
    if policy.by_first_use:
        used = native.first_uses(*accesses, table.stays[row])
        np.minimum.at(used, program.edges()[:, 1], program.edges()[:, 0])
        loads = loads[np.argsort(used[loads], kind="stable")]
    spilled = 0.0
    if policy.rewrites and sbuf > machine.sbuf.usable_bytes:
        spilled = spill_ns(program, machine)
    taken = busy(table, row, queue, reload | table.picks_weights[row], machine)
    latency, transfer, lane = table.latency[row], table.lane_ns[row], table.lane[row]
    if policy.rewrites:
        before = made_before(program.calls, columns, version, gone, policy.reach)
        again = np.flatnonzero(before >= 0)
        taken[again] = latency[again] = transfer[again] = 0.0
        lane[again] = -1
        own = again, queue[before[again]]
        previous[own] = np.maximum(previous[own], before[again])
        written, makers = written_by_source(
            program.calls, columns, version, gone, boxes[:, 0], first, needs, before
        )
        taken[written] = latency[written] = 0.0
        queue[written] = queue[makers]
    limits = np.tile([policy.window, policy.reach], (len(QUEUES), 1))
    limits[[LOADS, STORES]] = policy.transfers
    limits[SYNC] = 1  # registers and what they decide
    meetings = np.flatnonzero(table.meets[row])
    _hold_up(meetings, queue, lane, previous)
    return Work(
        program, order, columns, queue, loads, first, needs, previous, taken, latency, lane,
        transfer, table.filled[row], table.reads[row] == 0, table.shares[row] & (taken > 0), limits,
        meetings, (sbuf, psum), spilled,
    )  # fmt: skip


def _with(first: Array, needs: Array, consumers: Array, producers: Array) -> tuple[Array, Array]:
    """`first` and `needs` of instructions that have more to wait for."""
    if not len(consumers):
        return first, needs
    own = np.repeat(np.arange(len(first) - 1), np.diff(first))
    order = np.argsort(np.concatenate((own, consumers)), kind="stable")
    more = np.bincount(consumers, minlength=len(first) - 1)
    first = first + np.concatenate(([0], np.cumsum(more)))
    return first, np.concatenate((needs, producers))[order]


def _hold_up(meetings: Array, queue: Array, lane: Array, previous: Array) -> None:
    """An engine that waits for the other core begins nothing that comes after; DMA rings go on."""
    barriers = meetings[lane[meetings, 0] < 0]
    for q in np.unique(queue[barriers]):
        own = np.flatnonzero(queue == q)
        last = np.maximum.accumulate(np.where(np.isin(own, barriers), own, -1))
        previous[own[1:], q] = np.maximum(previous[own[1:], q], last[:-1])
