"""What a core has to do: its instructions, what each takes and waits for, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.enums import MemoryRegion
from neuroncore.machine import Machine
from neuroncore.native.lazy import Lazy
from neuroncore.record.program import Columns, Order, Program
from neuroncore.schedule.allocation import allocate, spill_ns
from neuroncore.schedule.copy_propagation import Definitions, propagated_copies, recomputed
from neuroncore.schedule.costs import CallTable, busy
from neuroncore.schedule.reordering import POLICIES, Policy
from neuroncore.schedule.timeline import LOADS, QUEUES, STORES, SYNC
from neuroncore.schedule.variation import AS_IT_IS, Variation, flow_of_data, vary

if TYPE_CHECKING:  # numba is imported when it is needed
    from neuroncore.native.dependencies import Accesses, Flow
    from neuroncore.native.timeline import Work

Array = npt.NDArray[Any]
dataflow: Any = Lazy("neuroncore.native.dependencies")
native: Any = Lazy("neuroncore.native.timeline")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A program on a machine, ready to be timed."""

    program: Program
    order: Order
    columns: Columns
    work: Work
    loads: Array  # the instructions of their queue, in the order in which they come
    limits: Array  # for each queue, among how many it chooses, and of fresh ones
    meetings: Array  # the instructions at which the core meets another, in their order
    peak_sbuf: int  # bytes per partition
    peak_psum: int
    spill_ns: float


def prepared(
    program: Program, machine: Machine, order: Order | None, variation: Variation = AS_IT_IS
) -> Prepared:
    """`order` is the program's own if not given."""
    columns, order = program.columns(), order or program.order
    policy, boxes = POLICIES[order], program.box_table()
    table = CallTable(program.calls, machine, policy)
    row = table.rows_for(columns.call, policy)
    accesses = dataflow.Accesses(
        columns.start, columns.operands, table.reads[row], *program.boxes().near
    )
    flow = _no_flow(accesses, policy)
    work = _work(program, table, row, accesses, flow, machine, variation.renamed)
    waits = (work.lane[:, 0] >= 0) | (not policy.rewrites)
    peak_sbuf, peak_psum = (
        allocate(program, columns, work.queue, waits, work.previous, region, capacity)
        for region, capacity in (
            (MemoryRegion.sbuf, machine.sbuf.usable_bytes),
            (MemoryRegion.psum, machine.psum.partition_bytes),
        )
    )
    loads = _loads(program, work.queue, policy, accesses, table.stays[row])
    if policy.rewrites:
        _eliminate(work, Definitions(program.calls, columns, boxes[:, 0], accesses, flow), policy)
    work.shares[:] &= work.busy > 0
    meetings = np.flatnonzero(table.meets[row])
    _hold_up(meetings, work.queue, work.lane, work.previous)
    spills = policy.rewrites and peak_sbuf > machine.sbuf.usable_bytes
    return Prepared(
        program=program,
        order=order,
        columns=columns,
        work=vary(work, variation),
        loads=loads,
        limits=_limits(policy),
        meetings=meetings,
        peak_sbuf=peak_sbuf,
        peak_psum=peak_psum,
        spill_ns=spill_ns(program, machine) if spills else 0.0,
    )


def _no_flow(accesses: Accesses, policy: Policy) -> Flow:
    """Room for the flow of data: of definitions only where the policy asks for them."""
    count = len(accesses.reads)
    flow: Flow = dataflow.Flow(
        previous=np.full((count, len(QUEUES)), -1, np.int32),
        reload=np.zeros(count, np.bool_),
        reaching=np.zeros(len(accesses.operands) if policy.rewrites else 0, np.int32),
        killer=np.full(count, count, np.int32),
    )
    return flow


def _work(
    program: Program, table: CallTable, row: Array, accesses: Accesses, flow: Flow,
    machine: Machine, renamed: bool,
) -> Work:  # fmt: skip
    """What each instruction takes, and waits for by the flow of data, which is filled in."""
    queue = table.queue[row]
    first, needs = dataflow.dependencies(queue, accesses, table.weights[row], flow)
    if renamed:
        first, needs = flow_of_data(first, needs, accesses)
        flow.previous[:] = -1
    first, needs = _with(first, needs, *program.edges().T)
    flow.previous[:, SYNC] = np.maximum(flow.previous[:, SYNC], program.decided())
    work: Work = native.Work(
        queue=queue,
        first=first,
        needs=needs,
        previous=flow.previous,
        partner=np.full(len(row), -1, np.int32),
        busy=busy(table, row, queue, flow.reload | table.picks_weights[row], machine),
        latency=table.latency[row],
        lane=table.lane[row],
        lane_ns=table.lane_ns[row],
        filled=table.filled[row],
        fresh=table.reads[row] == 0,
        shares=table.shares[row],
    )
    return work


def _loads(
    program: Program, queue: Array, policy: Policy, accesses: Accesses, stays: Array
) -> Array:
    """The instructions of the ring of loads, in the order in which it takes them."""
    loads: Array = np.flatnonzero(queue == LOADS)
    if policy.by_first_use:
        used = dataflow.first_uses.over(len(queue))(accesses, stays)
        np.minimum.at(used, program.edges()[:, 1], program.edges()[:, 0])
        loads = loads[np.argsort(used[loads], kind="stable")]
    return loads


def _eliminate(work: Work, definitions: Definitions, policy: Policy) -> None:
    """What the compiler leaves out takes no time; it waits for what has done the same, or runs
    where its source was made."""
    before = recomputed(definitions, policy.reach)
    again = np.flatnonzero(before >= 0)
    work.busy[again] = work.latency[again] = work.lane_ns[again] = 0.0
    work.lane[again] = -1
    own = again, work.queue[before[again]]
    work.previous[own] = np.maximum(work.previous[own], before[again])
    copies, makers = propagated_copies(definitions, work.first, work.needs, before)
    work.busy[copies] = work.latency[copies] = 0.0
    work.queue[copies] = work.queue[makers]


def _limits(policy: Policy) -> Array:
    limits = np.tile([policy.window, policy.reach], (len(QUEUES), 1))
    limits[[LOADS, STORES]] = policy.transfers
    limits[SYNC] = 1  # registers and what they decide
    return limits


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
