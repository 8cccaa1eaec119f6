"""Timing: a program and a machine in, a timeline out. Data is never looked at.

Each engine and each DMA ring issues its instructions in an order that differs from the program's
only as far as a compiler would change it (`policy`). Loads and stores have separate DMA rings, so
that a store that waits does not delay loads. An instruction waits for the data that it reads or
overwrites (`loops.dependencies`), for space in SBUF and PSUM (`prepare`), and, where cores meet,
for the other cores (`meetings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.record.program import Order, Program
from neuroncore.time.compiled import Compiled, compiled
from neuroncore.time.loops.timeline import timeline
from neuroncore.time.loops.work import FIXED, CoreCosts, Queues, Times, Work
from neuroncore.time.meetings import lay_out, partners
from neuroncore.time.prepare import Prepared, prepared
from neuroncore.time.queues import GPSIMD, QUEUES, TENSOR, VECTOR
from neuroncore.time.timeline import Timeline as Timeline

Array = npt.NDArray[Any]


def schedule(program: Program, machine: Machine, order: Order | None = None) -> Timeline:
    """Return the timeline of a program on a machine, which may differ from the machine that
    recorded the program. `order` is by default the order that the program names. The program does
    not wait for other cores."""
    return schedule_cores([program], machine, order)[0]


def schedule_cores(
    programs: Sequence[Program],
    machine: Machine,
    order: Order | None = None,
    world: World | None = None,
) -> list[Timeline]:
    """Return the timelines of the cores of a launch. Without a world, they are the cores of one
    rank."""
    of = world or World(1, len(programs))
    shared = machine.shared_by(of.cores)
    return timed([prepared(compiled(own, shared, order), shared) for own in programs], machine, of)


def over_phases(timeline: Timeline, phases: Sequence[float]) -> list[float]:
    """Return, for each phase of the Tensor engine's clock, the total nanoseconds of the core of
    `timeline`, if all cores of the launch are scheduled with that phase."""
    machine, world = timeline.machine, timeline.world
    shared = machine.shared_by(world.cores)
    works = [
        prepared(form or compiled(own, shared, timeline.order), shared)
        for own, form in zip(timeline.launch, _known_forms(timeline), strict=True)
    ]
    return [timed(works, machine, world, p)[timeline.core].total_ns for p in phases]


def _known_forms(timeline: Timeline) -> list[Compiled | None]:
    return [timeline.compiled if n == timeline.core else None for n in range(len(timeline.launch))]


def timed(
    works: Sequence[Prepared], machine: Machine, world: World, phase: float | None = None
) -> list[Timeline]:
    """Return the timelines of the cores of one launch, which wait for each other at meetings. The
    cores of a rank share the bandwidth of HBM: each program in `works` must be prepared for a
    machine that has one core's share (`Machine.shared_by`). `phase` is the phase of the Tensor
    engine's clock; by default it is the phase that the first program names."""
    if not works:
        return []
    given = works[0].compiled.written.clock_phase if phase is None else phase
    for number, each in enumerate(works):
        if not each.laid_out:
            lay_out(each.compiled, each.work, world, number, machine.name)
    at = np.cumsum([0, *(len(each.work.queue) for each in works)])
    work, queues = _side_by_side(works, at, world)
    begin, done, end = (np.full(at[-1], -1.0) for _ in range(3))
    times = Times(begin, done, end, np.full(at[-1], -1, np.int32))
    costs = CoreCosts(
        TENSOR, VECTOR, GPSIMD, *(float(getattr(machine.fixed, name)) for name in FIXED)
    )
    timeline(work, queues, costs if given is None else costs._replace(clock_phase=given), times)
    programs = tuple(each.compiled.written for each in works)
    found = []
    for core, each in enumerate(works):
        own = slice(at[core], at[core + 1])
        cause = times.cause[own]
        if core:
            cause[cause >= 0] -= own.start
        found.append(
            Timeline(
                compiled=each.compiled,
                machine=machine,
                queue=each.work.queue,
                begin=begin[own],
                busy=work.busy[own],
                done=done[own],
                end=end[own],
                cause=cause,
                transfer_ns=work.lane_ns[own],
                lane=work.lane[own],
                peak_sbuf=each.peak_sbuf,
                peak_psum=each.peak_psum,
                launch=programs,
                core=core,
                spill_ns=each.spill_ns,
                world=world,
            )
        )
    return found


def _side_by_side(works: Sequence[Prepared], at: Array, world: World) -> tuple[Work, Queues]:
    """Return the instructions and the queues of all cores in one Work and one Queues. The
    instructions of core c begin at at[c], and the queues of core c at c * len(QUEUES)."""
    parts = [each.work for each in works]
    busy = np.concatenate([part.busy for part in parts])  # a copy, because timing changes it
    if len(parts) == 1:
        return parts[0]._replace(busy=busy), works[0].queues
    queues_at = range(0, len(parts) * len(QUEUES), len(QUEUES))
    needs_at = np.cumsum([0, *(len(part.needs) for part in parts)])
    work = Work(*map(np.concatenate, zip(*parts, strict=True)))._replace(
        queue=_shifted([part.queue for part in parts], queues_at),
        first=_shifted([part.first[c > 0 :] for c, part in enumerate(parts)], needs_at),
        needs=_shifted([part.needs for part in parts], at),
        previous=_shifted([part.previous for part in parts], at),
        partner=partners([each.compiled.program for each in works], at, world),
    )
    own = [each.queues for each in works]
    return work, Queues(
        order=_shifted([each.order for each in own], at),
        start=_shifted([each.start[c > 0 :] for c, each in enumerate(own)], at),
        limits=np.concatenate([each.limits for each in own]),
    )


def _shifted(arrays: Sequence[Array], at: Sequence[int] | Array) -> Array:
    """Concatenate arrays of indices. Indices of the k-th array are increased by at[k]; negative
    indices stay as they are."""
    shifted = (np.where(a >= 0, a + a.dtype.type(k), a) for a, k in zip(arrays, at, strict=False))
    return np.concatenate(list(shifted))
