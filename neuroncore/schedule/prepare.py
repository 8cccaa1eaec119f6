"""What a core has to do: its instructions, what each takes and waits for, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.compiler import Compiled
from neuroncore.compiler.costs import busy
from neuroncore.compiler.policy import Policy
from neuroncore.compiler.queues import LOADS, QUEUES, STORES, SYNC
from neuroncore.enums import MemoryRegion
from neuroncore.machine import Machine
from neuroncore.native import buffers
from neuroncore.native.lazy import Lazy
from neuroncore.native.structs import dataclass
from neuroncore.schedule.allocation import allocate, spill_ns
from neuroncore.schedule.variation import AS_IT_IS, Variation, flow_of_data, vary

if TYPE_CHECKING:  # numba is imported when it is needed
    from neuroncore.native.timeline import Work

Array = npt.NDArray[Any]
dataflow: Any = Lazy("neuroncore.native.dependencies")
native: Any = Lazy("neuroncore.native.timeline")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A program on a machine, ready to be timed."""

    compiled: Compiled
    work: Work
    loads: Array  # the instructions of their queue, in the order in which they come
    limits: Array  # for each queue, among how many it chooses, and of fresh ones
    meetings: Array  # the instructions at which the core meets another, in their order
    peak_sbuf: int  # bytes per partition
    peak_psum: int
    spill_ns: float


def prepared(form: Compiled, machine: Machine, variation: Variation = AS_IT_IS) -> Prepared:
    """A compiled program, with the variation."""
    policy, table, queue, row = form.policy, form.table, form.queue, form.row
    work = _work(form, queue, machine, variation.renamed)
    waits = (work.lane[:, 0] >= 0) | (not policy.rewrites)
    peak_sbuf, peak_psum = (
        allocate(form, waits, work.previous, region, capacity)
        for region, capacity in (
            (MemoryRegion.sbuf, machine.sbuf.usable_bytes),
            (MemoryRegion.psum, machine.psum.partition_bytes),
        )
    )
    loads = _loads(form)
    _leave_out(work, form)
    work.shares[:] &= work.busy > 0
    meetings = np.flatnonzero(table.meets[row])
    _hold_up(meetings, work.queue, work.lane, work.previous)
    return Prepared(
        compiled=form,
        work=vary(work, variation),
        loads=loads,
        limits=_limits(policy),
        meetings=meetings,
        peak_sbuf=peak_sbuf,
        peak_psum=peak_psum,
        spill_ns=spill_ns(form.traffic, machine),
    )


def _work(form: Compiled, queue: Array, machine: Machine, renamed: bool) -> Work:
    """What each instruction takes, and waits for by the flow of data."""
    table, row, program = form.table, form.row, form.program
    first, needs, before = form.first, form.needs, form.flow.previous
    previous = buffers.array(before.shape, before.dtype)
    previous[:] = -1 if renamed else before
    if renamed:
        first, needs = flow_of_data(first, needs, form.accesses)
    first, needs = _with(first, needs, *program.edges().T)
    previous[:, SYNC] = np.maximum(previous[:, SYNC], program.decided())
    reloaded = form.flow.reload | table.picks_weights.take(row)
    work: Work = native.Work(
        queue=queue,
        first=first,
        needs=needs,
        previous=previous,
        partner=np.full(len(row), -1, np.int32),
        busy=busy(table, row, form.own_queue, reloaded, form.heads, machine),
        latency=table.latency.take(row),
        lane=table.lane.take(row, axis=0),
        lane_ns=table.lane_ns.take(row),
        filled=table.filled.take(row),
        fresh=(table.reads == 0).take(row),
        shares=table.shares.take(row),
    )
    return work


def _loads(form: Compiled) -> Array:
    """The instructions of the ring of loads, in the order in which it takes them."""
    loaded = form.own_queue == LOADS
    loads: Array = np.flatnonzero(loaded)
    moving = loaded & ~form.table.stays.take(form.row)
    if form.policy.by_first_use and moving.any():
        used = dataflow.first_uses(form.accesses, moving)
        np.minimum.at(used, form.program.edges()[:, 1], form.program.edges()[:, 0])
        loads = loads[np.argsort(used[loads], kind="stable")]
    return loads


def _leave_out(work: Work, form: Compiled) -> None:
    """What is left out takes no time and no space. What repeats another waits for its result."""
    gone = np.flatnonzero(~form.issued)
    if not len(gone):
        return
    work.busy[gone] = work.latency[gone] = work.lane_ns[gone] = 0.0
    work.lane[gone] = -1
    again = np.flatnonzero(form.same_as >= 0)
    work.previous[again] = -1
    work.previous[again, work.queue[form.same_as[again]]] = form.same_as[again]


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
    if not len(barriers):
        return
    for q in np.unique(queue[barriers]):
        own = np.flatnonzero(queue == q)
        last = np.maximum.accumulate(np.where(np.isin(own, barriers), own, -1))
        previous[own[1:], q] = np.maximum(previous[own[1:], q], last[:-1])
