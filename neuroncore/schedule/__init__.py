"""Timing: a program and a machine in, a timeline out. Data is never looked at.

Each engine takes its instructions in an order that may differ from the program's by as much as a
compiler would change it (`order`), and so do the DMA rings, those of loads and those of stores, so
that a store that waits does not hold up loads. An instruction waits for what it reads, overwrites
(`overlap`) or displaces (`space`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neuroncore.enums import MemoryRegion
from neuroncore.lazy import Lazy
from neuroncore.machine import Machine
from neuroncore.program import Order, Program
from neuroncore.schedule.calls import CallTable, busy
from neuroncore.schedule.order import POLICIES, made_before
from neuroncore.schedule.overlap import neighbours
from neuroncore.schedule.space import spill_ns, take_over
from neuroncore.schedule.timeline import LOADS as LOADS
from neuroncore.schedule.timeline import QUEUES as QUEUES
from neuroncore.schedule.timeline import SCALAR as SCALAR
from neuroncore.schedule.timeline import STORES as STORES
from neuroncore.schedule.timeline import TENSOR as TENSOR
from neuroncore.schedule.timeline import Timeline as Timeline

native: Any = Lazy("neuroncore.native.schedule")


def schedule_cores(
    programs: Sequence[Program], machine: Machine, order: Order | None = None
) -> list[Timeline]:
    """Time the programs of the cores of one launch, which share what HBM gives. That they wait for
    each other at barriers is left out."""
    shared = machine.beside(len(programs))
    timelines = [schedule(program, shared, order) for program in programs]
    return [replace(timeline, machine=machine) for timeline in timelines]


def schedule(program: Program, machine: Machine, order: Order | None = None) -> Timeline:
    """Time a program on a machine, which may be another than the one it was recorded on. `order`
    is the program's own if not given."""
    columns, order = program.columns(), order or program.order
    policy, boxes = POLICIES[order], program.box_table()
    table = CallTable(program.calls, machine, policy)
    row, count = table.rows_for(columns.call, policy), len(columns.call)
    queue = table.queue[row]
    previous = np.full((count, len(QUEUES)), -1, np.int32)
    reload = np.zeros(count, np.bool_)
    version = np.zeros(len(columns.operands) if policy.horizon_ns else 0, np.int32)
    gone = np.full(count, count, np.int32)
    first, needs = native.dependencies(
        queue, columns.start, columns.operands, table.reads[row], *neighbours(program, boxes),
        table.weights[row], previous, reload, version, gone,
    )  # fmt: skip
    for consumer, producer in program.edges:
        waits = previous[consumer]
        waits[queue[producer]] = max(waits[queue[producer]], producer)
    peaks = [
        take_over(program, boxes, columns, queue, previous, region, capacity)
        for region, capacity in (
            (MemoryRegion.sbuf, machine.sbuf.usable_bytes),
            (MemoryRegion.psum, machine.psum.partition_bytes),
        )
    ]
    spilled = 0.0
    if policy.horizon_ns and peaks[0] > machine.sbuf.usable_bytes:
        spilled = spill_ns(program, machine)
    taken = busy(table, row, queue, reload | table.picks_weights[row], machine)
    latency, transfer, lane = table.latency[row], table.lane_ns[row], table.lane[row]
    if policy.horizon_ns:
        before = made_before(program.calls, columns, version, gone, policy.reach)
        again = np.flatnonzero(before >= 0)
        taken[again] = latency[again] = transfer[again] = 0.0
        lane[again] = -1
        own = again, queue[before[again]]
        previous[own] = np.maximum(previous[own], before[again])
    by_queue = np.argsort(queue, kind="stable").astype(np.int32)
    queue_start = np.searchsorted(queue[by_queue], np.arange(len(QUEUES) + 1)).astype(np.int32)
    window = np.full(len(QUEUES), policy.window)
    reach = np.full(len(QUEUES), policy.reach)
    window[[LOADS, STORES]] = reach[[LOADS, STORES]] = policy.transfers
    begin, end = np.full(count, -1.0), np.full(count, -1.0)
    cause = np.full(count, -1, np.int32)
    fixed = machine.fixed
    native.timeline(
        queue, by_queue, queue_start, first, needs, previous, taken, latency, lane, transfer,
        fixed.semaphore_ns, TENSOR, table.filled[row], fixed.warmup_ns, fixed.cooling_ns,
        fixed.cooling_share, fixed.cold_clock_share, window, reach, table.reads[row] == 0, begin,
        end, cause,
    )  # fmt: skip
    engines_used = np.where(lane[:, 0] >= 0, lane[:, 1] - lane[:, 0] + 1, 0)
    return Timeline(
        program, machine, order, columns, queue, begin, taken, end - latency, end, cause,
        transfer, engines_used, peaks[0], peaks[1], spilled,
    )  # fmt: skip
