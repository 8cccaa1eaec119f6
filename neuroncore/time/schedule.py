"""Timing: the timelines of programs on a machine. Values of tensors are not used.

Each engine and each DMA ring issues its instructions in program order, unless a compiler changes it
(`policy`). Loads and stores have separate rings, so that a waiting store does not delay loads. An
instruction waits for three things:

* the data that it reads or overwrites (`loops.dependencies`),
* space in SBUF and PSUM (`prepare`),
* other cores at synchronizations (`syncs`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.lazy import Lazy
from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.record.program import Order, Program
from neuroncore.time.compiled import Compiled, compiled
from neuroncore.time.loops.timeline import timeline
from neuroncore.time.loops.work import FIXED, CoreCosts, Queues, Times, Work, waits_together
from neuroncore.time.prepare import Prepared, prepared
from neuroncore.time.queues import GPSIMD, QUEUES, TENSOR, VECTOR
from neuroncore.time.syncs import partners, place_collectives
from neuroncore.time.timeline import Timeline as Timeline

if TYPE_CHECKING:  # loaded when needed: a rule of the older API's compiler
    from neuroncore.time import semaphores
else:
    semaphores = Lazy("neuroncore.time.semaphores")

Array = npt.NDArray[Any]


def schedule(program: Program, machine: Machine, order: Order | None = None) -> Timeline:
    """Return the timeline of a program that does not wait for other cores.

    `machine`: may differ from the machine that recorded the program
    `order`: by default, the order that the program names"""
    return schedule_cores([program], machine, order)[0]


def schedule_cores(
    programs: Sequence[Program],
    machine: Machine,
    order: Order | None = None,
    world: World | None = None,
) -> list[Timeline]:
    """Return the timelines of the cores of a launch.

    `world`: the number of ranks, and the cores of each rank; by default, all cores belong to one
        rank"""
    launch_world = world or World(1, len(programs))
    shared = machine.shared_by(launch_world.cores)
    works = (prepared(compiled(program, shared, order), shared, last=True) for program in programs)
    return timed(works, machine, launch_world)


def over_phases(timeline: Timeline, phases: Sequence[float]) -> list[float]:
    """Return the total nanoseconds of the timeline's core, for each phase of the Tensor engine's
    clock.

    `phases`: values of `Options.clock_phase` for all cores"""
    machine, world = timeline.machine, timeline.world
    shared = machine.shared_by(world.cores)
    works = [
        prepared(form or compiled(program, shared, timeline.order), shared)
        for program, form in zip(timeline.launch, _known_forms(timeline), strict=True)
    ]
    return [timed(works, machine, world, p)[timeline.core].total_ns for p in phases]


def _known_forms(timeline: Timeline) -> list[Compiled | None]:
    return [timeline.compiled if n == timeline.core else None for n in range(len(timeline.launch))]


def timed(
    forms: Iterable[Prepared], machine: Machine, world: World, phase: float | None = None
) -> list[Timeline]:
    """Return the timelines of the cores of one launch, which wait for each other at
    synchronizations.

    `forms`: the prepared program of each core, for a machine with this core's share of HBM
        bandwidth (`Machine.shared_by`)
    `phase`: the phase of the Tensor engine's clock; by default that of the first program or
        machine"""
    works = [_ready(form, world, number, machine) for number, form in enumerate(forms)]
    works = [_with_own_times(each) for each in works]
    if not works:
        return []
    clock_phase = works[0].compiled.written.clock_phase if phase is None else phase
    at = [*accumulate((len(prepared_core.work.queue) for prepared_core in works), initial=0)]
    work, queues = _side_by_side(works, at, world)
    begin, done, end = (buffers.filled((at[-1],), -1.0, np.float64) for _ in range(3))
    times = Times(begin, done, end, buffers.filled((at[-1],), -1, np.int32))
    costs = CoreCosts(
        TENSOR, VECTOR, GPSIMD, *(float(getattr(machine.fixed, name)) for name in FIXED)
    )
    timeline(
        work,
        queues,
        costs if clock_phase is None else costs._replace(clock_phase=clock_phase),
        times,
    )
    _wait_for_stores(works, at, machine.dma.store_wait_ns, work.busy, times)
    programs = tuple(each.compiled.written for each in works)
    timelines = []
    for core, prepared_core in enumerate(works):
        rows = slice(at[core], at[core + 1])
        cause = times.cause[rows]
        if core:
            cause[cause >= 0] -= rows.start
        timelines.append(
            Timeline(
                compiled=prepared_core.compiled,
                machine=machine,
                queue=prepared_core.work.queue,
                begin=begin[rows],
                busy=work.busy[rows],
                done=done[rows],
                end=end[rows],
                cause=cause,
                kind=prepared_core.work.kind,
                lane_ns_of_kind=prepared_core.work.lane_ns,
                lane_of_kind=prepared_core.work.lane,
                peak_sbuf=prepared_core.peak_sbuf,
                peak_psum=prepared_core.peak_psum,
                launch=programs,
                core=core,
                spill_ns=prepared_core.spill_ns,
                world=world,
            )
        )
    return timelines


def _with_own_times(form: Prepared) -> Prepared:
    """Return a prepared program with a copy of `Work.busy`, because timing changes it. The
    original is freed if nothing else refers to it."""
    return replace(form, work=form.work._replace(busy=form.work.busy.copy()))


def _ready(form: Prepared, world: World, number: int, machine: Machine) -> Prepared:
    """Return the prepared program of core `number` with its collectives, and all waits in
    `Work.needs`."""
    work = form.work
    if not form.collectives_placed:
        work = place_collectives(form.compiled, work, world, number, machine.name)
    count = len(work.needs) + int(np.count_nonzero(work.previous >= 0))
    first, needs = np.empty_like(work.first), np.empty(count, work.needs.dtype)
    waits_together.over(len(work.queue))(work, first, needs)
    work = work._replace(first=first, needs=needs, previous=work.previous[:0].copy())
    return replace(form, work=work, collectives_placed=True)


def _wait_for_stores(
    works: Sequence[Prepared], at: Sequence[int], wait_ns: float, busy: Array, times: Times
) -> None:
    """Let each program end with waits for its stores (`semaphores`). at[c] is core c's first
    instruction."""
    for core, prepared_core in enumerate(works):
        if len(prepared_core.final_stores):
            columns = (column[at[core] : at[core + 1]] for column in (times.begin, busy, times.end))
            semaphores.complete_last_store(prepared_core.final_stores, wait_ns, *columns)


def _side_by_side(
    works: Sequence[Prepared], at: Sequence[int], world: World
) -> tuple[Work, Queues]:
    """Return the instructions and queues of all cores in one Work and one Queues.

    `at`: at[c] is the first instruction of core c. Its first queue is c * len(QUEUES)."""
    parts = [each.work for each in works]
    if len(parts) == 1:
        alone = buffers.filled(parts[0].queue.shape, -1, np.int32)
        return parts[0]._replace(partner=alone), works[0].queues
    queues_at = range(0, len(parts) * len(QUEUES), len(QUEUES))
    kinds_at = [*accumulate((len(part.early) for part in parts), initial=0)]
    needs_at = [*accumulate((len(part.needs) for part in parts), initial=0)]
    work = Work(*map(np.concatenate, zip(*parts, strict=True)))._replace(
        queue=_shifted([part.queue for part in parts], queues_at),
        first=_shifted([part.first[c > 0 :] for c, part in enumerate(parts)], needs_at),
        needs=_shifted([part.needs for part in parts], at),
        kind=_shifted([part.kind for part in parts], kinds_at),
        partner=partners([each.compiled.program for each in works], at, world),
    )
    core_queues = [each.queues for each in works]
    return work, Queues(
        order=_shifted([each.order for each in core_queues], at),
        start=_shifted([each.start[c > 0 :] for c, each in enumerate(core_queues)], at),
        limits=np.concatenate([each.limits for each in core_queues]),
    )


def _shifted(arrays: Sequence[Array], at: Sequence[int]) -> Array:
    """Concatenate arrays of indices. Add at[k] to the indices of array k, except -1."""
    shifted = (np.where(a >= 0, a + a.dtype.type(k), a) for a, k in zip(arrays, at, strict=False))
    return np.concatenate(list(shifted))
