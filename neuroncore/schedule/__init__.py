"""Timing: a program and a machine in, a timeline out. Data is never looked at.

Each engine takes its instructions in an order that may differ from the program's by as much as a
compiler would change it (`order`), and so do the DMA rings, those of loads and those of stores, so
that a store that waits does not hold up loads. An instruction waits for what it reads, overwrites
(`overlap`) or displaces (`space`), and where cores meet, for the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.clause.world import World
from neuroncore.compiler import compiled
from neuroncore.compiler.queues import GPSIMD as GPSIMD
from neuroncore.compiler.queues import LOADS as LOADS
from neuroncore.compiler.queues import QUEUES as QUEUES
from neuroncore.compiler.queues import SCALAR as SCALAR
from neuroncore.compiler.queues import STORES as STORES
from neuroncore.compiler.queues import TENSOR as TENSOR
from neuroncore.compiler.queues import VECTOR as VECTOR
from neuroncore.compiler.queues import is_transfer as is_transfer
from neuroncore.machine import Machine
from neuroncore.native.lazy import Lazy
from neuroncore.record.program import Order, Program
from neuroncore.schedule.collectives import lay_out
from neuroncore.schedule.meetings import partners
from neuroncore.schedule.prepare import Prepared, prepared
from neuroncore.schedule.timeline import Timeline as Timeline
from neuroncore.schedule.variation import AS_IT_IS
from neuroncore.schedule.variation import Variation as Variation

if TYPE_CHECKING:  # numba is imported when it is needed
    from neuroncore.native.timeline import Core, Queues, Times, Work

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.timeline")


def schedule(program: Program, machine: Machine, order: Order | None = None) -> Timeline:
    """Time a program on a machine, which may be another than the one it was recorded on. `order`
    is the program's own if not given. Another core keeps it waiting nowhere."""
    return schedule_cores([program], machine, order)[0]


def schedule_cores(
    programs: Sequence[Program],
    machine: Machine,
    order: Order | None = None,
    variations: Sequence[Variation] = (),
    world: World | None = None,
) -> list[Timeline]:
    """Time the programs of the cores of one launch, each with its variation if there are any.

    The cores of a rank share what HBM gives, and all wait for each other where they meet. Without
    a world they are those of one rank.
    """
    if not programs:
        return []
    of = world or World(1, len(programs))
    shared = machine.beside(of.cores)
    differing = variations or [AS_IT_IS] * len(programs)
    both = zip(programs, differing, strict=True)
    works = [prepared(compiled(own, shared, order), shared, each) for own, each in both]
    for number, work in enumerate(works):
        lay_out(work, of, number, machine.name)
    return _timed(works, machine, of)


def _timed(works: Sequence[Prepared], machine: Machine, world: World) -> list[Timeline]:
    """The queues of the cores side by side: those of core c are from c * len(QUEUES) on."""
    at = np.cumsum([0, *(len(each.work.queue) for each in works)])
    work = _together(works, at, world)
    begin, done, end = (np.full(at[-1], -1.0) for _ in range(3))
    times = native.Times(begin, done, end, np.full(at[-1], -1, np.int32))
    native.timeline(work, _queues(works, work.queue, at), _core(machine), times)
    slices = [slice(start, stop) for start, stop in pairwise(at)]
    return [_part(works, core, machine, work, times, own, world) for core, own in enumerate(slices)]


def _part(
    works: Sequence[Prepared], core: int, machine: Machine, work: Work, times: Times, own: slice,
    world: World,
) -> Timeline:  # fmt: skip
    """The timeline of one core of several."""
    each = works[core]
    cause, lane = times.cause[own], work.lane[own]
    if own.start:
        cause[cause >= 0] -= own.start
    return Timeline(
        compiled=each.compiled,
        machine=machine,
        queue=each.work.queue,
        begin=times.begin[own],
        busy=work.busy[own],
        done=times.done[own],
        end=times.end[own],
        cause=cause,
        transfer_ns=work.lane_ns[own],
        engines_used=np.where(lane[:, 0] >= 0, lane[:, 1] - lane[:, 0] + 1, 0),
        first_engine=lane[:, 0],
        peak_sbuf=each.peak_sbuf,
        peak_psum=each.peak_psum,
        launch=tuple(work.compiled.program for work in works),
        core=core,
        spill_ns=each.spill_ns,
        world=world,
    )


def _queues(works: Sequence[Prepared], queue: Array, at: Array) -> Queues:
    """What each queue has to do, in order of the program but for loads."""
    count = len(works) * len(QUEUES)
    order = np.argsort(queue.astype(np.uint16), kind="stable").astype(np.int32)
    start = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(queue, minlength=count), out=start[1:])
    for core, each in enumerate(works):
        begin = start[core * len(QUEUES) + LOADS]
        order[begin : begin + len(each.loads)] = at[core] + each.loads
    queues: Queues = native.Queues(order, start, np.concatenate([each.limits for each in works]))
    return queues


def _core(machine: Machine) -> Core:
    """Floats even where a machine has an integer: each mixture would take a compilation."""
    fixed = machine.fixed
    core: Core = native.Core(
        tensor=TENSOR,
        vector=VECTOR,
        gpsimd=GPSIMD,
        semaphore_ns=float(fixed.semaphore_ns),
        warmup_ns=float(fixed.warmup_ns),
        cooling_ns=float(fixed.cooling_ns),
        cooling_share=float(fixed.cooling_share),
        cold_clock_share=float(fixed.cold_clock_share),
    )
    return core


def _together(works: Sequence[Prepared], at: Array, world: World) -> Work:
    """The instructions of all cores, one after the other."""
    parts = [each.work for each in works]
    if len(parts) == 1:
        return parts[0]
    queues_at = range(0, len(parts) * len(QUEUES), len(QUEUES))
    needs_at = np.cumsum([0, *(len(part.needs) for part in parts)])
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    joined: Work = native.Work(*columns)
    return joined._replace(
        queue=_shifted([part.queue for part in parts], queues_at),
        first=_shifted([part.first[c > 0 :] for c, part in enumerate(parts)], needs_at),
        needs=_shifted([part.needs for part in parts], at),
        previous=_shifted([part.previous for part in parts], at),
        partner=partners(
            [work.compiled.program for work in works],
            [work.meetings for work in works],
            at,
            world,
        ),
    )


def _shifted(arrays: Sequence[Array], at: Sequence[int] | Array) -> Array:
    """One after the other; what counts up to `at[k]` in the whole counts from 0 in the kth."""
    shifted = (np.where(a >= 0, a + a.dtype.type(k), a) for a, k in zip(arrays, at, strict=False))
    return np.concatenate(list(shifted))
