"""Timing: a program and a machine in, a timeline out. Data is never looked at.

Each engine takes its instructions in an order that may differ from the program's by as much as a
compiler would change it (`order`), and so do the DMA rings, those of loads and those of stores, so
that a store that waits does not hold up loads. An instruction waits for what it reads, overwrites
(`overlap`) or displaces (`space`), and where cores meet, for the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.machine import Machine
from neuroncore.native.lazy import Lazy
from neuroncore.record.program import Order, Program
from neuroncore.schedule.prepare import Work, prepared
from neuroncore.schedule.timeline import GPSIMD as GPSIMD
from neuroncore.schedule.timeline import LOADS as LOADS
from neuroncore.schedule.timeline import QUEUES as QUEUES
from neuroncore.schedule.timeline import SCALAR as SCALAR
from neuroncore.schedule.timeline import STORES as STORES
from neuroncore.schedule.timeline import TENSOR as TENSOR
from neuroncore.schedule.timeline import VECTOR as VECTOR
from neuroncore.schedule.timeline import Timeline as Timeline
from neuroncore.schedule.timeline import is_transfer as is_transfer

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.schedule")


def schedule(program: Program, machine: Machine, order: Order | None = None) -> Timeline:
    """Time a program on a machine, which may be another than the one it was recorded on. `order`
    is the program's own if not given. Another core keeps it waiting nowhere."""
    return _timed([prepared(program, machine, order)], machine)[0]


def schedule_cores(
    programs: Sequence[Program], machine: Machine, order: Order | None = None
) -> list[Timeline]:
    """Time the programs of the cores of one launch, which share what HBM gives, and wait for each
    other where they meet."""
    if not programs:
        return []
    shared = machine.beside(len(programs))
    return _timed([prepared(program, shared, order) for program in programs], machine)


def _timed(works: Sequence[Work], machine: Machine) -> list[Timeline]:
    """The queues of the cores side by side: those of core c are from c * len(QUEUES) on."""
    at = np.cumsum([0, *(len(work.queue) for work in works)])
    needs_at = np.cumsum([0, *(len(work.needs) for work in works)])
    queues = len(works) * len(QUEUES)
    queue = _joined([work.queue for work in works], range(0, queues, len(QUEUES)))
    by_queue = np.argsort(queue, kind="stable").astype(np.int32)
    queue_start = np.searchsorted(queue[by_queue], np.arange(queues + 1)).astype(np.int32)
    for core, work in enumerate(works):
        begin = queue_start[core * len(QUEUES) + LOADS]
        by_queue[begin : begin + len(work.loads)] = at[core] + work.loads
    busy, latency, lane, lane_ns, filled, fresh, shares, limits = (
        _joined([getattr(work, name) for work in works])
        for name in ("busy", "latency", "lane", "lane_ns", "filled", "fresh", "shares", "limits")
    )
    begin, done, end = (np.full(at[-1], -1.0) for _ in range(3))
    cause = np.full(at[-1], -1, np.int32)
    fixed = machine.fixed
    native.timeline(
        queue, by_queue, queue_start,
        _joined([work.first[c > 0 :] for c, work in enumerate(works)], needs_at),
        _joined([work.needs for work in works], at),
        _joined([work.previous for work in works], at),
        _partners(works, at), busy, latency, lane, lane_ns, fixed.semaphore_ns, TENSOR, filled,
        fixed.warmup_ns, fixed.cooling_ns, fixed.cooling_share, fixed.cold_clock_share, VECTOR,
        GPSIMD, shares, limits, fresh, begin, done, end, cause,
    )  # fmt: skip
    engines_used = np.where(lane[:, 0] >= 0, lane[:, 1] - lane[:, 0] + 1, 0)
    timelines = []
    for work, start, stop in zip(works, at[:-1], at[1:], strict=True):
        own = slice(start, stop)
        waited = cause[own]
        waited[waited >= 0] -= start
        timeline = Timeline(
            work.program, machine, work.order, work.columns, work.queue, begin[own], busy[own],
            done[own], end[own], waited, lane_ns[own], engines_used[own], *work.peaks,
            work.spill_ns,
        )  # fmt: skip
        timelines.append(timeline)
    return timelines


def _joined(arrays: Sequence[Array], at: Sequence[int] | Array | None = None) -> Array:
    """One after the other; what counts up to `at[k]` in the whole counts from 0 in the kth."""
    if len(arrays) == 1:
        return arrays[0]
    if at is None:
        return np.concatenate(arrays)
    shifted = (np.where(a >= 0, a + a.dtype.type(k), a) for a, k in zip(arrays, at, strict=False))
    return np.concatenate(list(shifted))


def _partners(works: Sequence[Work], at: Array) -> Array:
    """What the other core has to have done for each instruction to end; -1 for nothing. Launches
    have two cores at most."""
    partner = np.full(at[-1], -1, np.int32)
    if len(works) == 2:
        both = min(len(work.meetings) for work in works)  # a record may end before the other
        one, other = (start + work.meetings[:both] for start, work in zip(at, works, strict=False))
        partner[one], partner[other] = other, one
    return partner
