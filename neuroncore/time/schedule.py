"""Timing: a program and a machine in, a timeline out. Data is never looked at.

Each engine takes its instructions in an order that may differ from the program's by as much as a
compiler would change it (`policy`), and so do the DMA rings, those of loads and those of stores, so
that a store that waits does not hold up loads. An instruction waits for what it reads, overwrites
(`loops.dependencies`) or displaces (`prepare`), and where cores meet, for the others (`meetings`).
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
    """Time a program on a machine, which may be another than the one it was recorded on. The
    default of `order` is the order of the program. It never waits for another core."""
    return schedule_cores([program], machine, order)[0]


def schedule_cores(
    programs: Sequence[Program],
    machine: Machine,
    order: Order | None = None,
    world: World | None = None,
) -> list[Timeline]:
    """Time the programs of the cores of a launch. Without a world they are the cores of one
    rank."""
    of = world or World(1, len(programs))
    shared = machine.beside(of.cores)
    return timed([prepared(compiled(own, shared, order), shared) for own in programs], machine, of)


def over_phases(timeline: Timeline, phases: Sequence[float]) -> list[float]:
    """Return the nanoseconds that a core takes with each phase of the Tensor engine's clock."""
    machine, world = timeline.machine, timeline.world
    shared = machine.beside(world.cores)
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
    """Time the cores of one launch. The cores of a rank share the bandwidth of HBM, as in the
    machine that they were prepared for, and all wait for each other at meetings. `phase` of the
    Tensor engine's clock has precedence over that of the programs."""
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
    """Concatenate the instructions of all cores: those of core c begin at at[c], and its queues at
    c * len(QUEUES)."""
    parts = [each.work for each in works]
    busy = np.concatenate([part.busy for part in parts])  # what the timeline changes
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
    """Concatenate arrays; numbers that count from 0 in the kth one count from `at[k]` in the
    result."""
    shifted = (np.where(a >= 0, a + a.dtype.type(k), a) for a, k in zip(arrays, at, strict=False))
    return np.concatenate(list(shifted))
