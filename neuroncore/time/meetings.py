"""Meetings: instructions at which cores of a launch wait for each other. This includes collectives,
whose time depends on the instance on which the ranks run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.clause.cost import Collective
from neuroncore.machine import collective_time
from neuroncore.machine import instance as instances
from neuroncore.machine.world import World
from neuroncore.record.program import Program
from neuroncore.time.compiled import Compiled
from neuroncore.time.loops.work import Work

if TYPE_CHECKING:
    from neuroncore.machine.collective_time import CollectiveTime

Array = npt.NDArray[Any]


def partners(programs: Sequence[Program], at: Array, world: World) -> Array:
    """Return, for each instruction of all cores, the instruction of the next core at the same
    meeting; -1 if the instruction meets no other core. The last core of a meeting is followed by
    the first. The instructions of core c have the numbers from at[c] to at[c + 1] - 1."""
    partner = np.full(at[-1], -1, np.int32)
    for meeting in together(programs, world):
        ring = [int(at[number]) + instruction for number, instruction in meeting.items()]
        partner[ring] = np.roll(ring, -1)
    return partner


def together(programs: Sequence[Program], world: World) -> list[dict[int, int]]:
    """Return every meeting of several cores, as a dict from the number of each core to its
    instruction.

    The k-th meeting of a group of cores is the k-th one on each core. A meeting that some cores do
    not reach, because their record ends earlier, is left out.
    """
    found: dict[tuple[tuple[int, ...], int], dict[int, int]] = {}
    for number, program in enumerate(programs):
        members = {
            index: tuple(sorted(call.instruction.meets(call, world, number)))
            for index, call in enumerate(program.calls)
            if call.instruction.meets is not None
        }
        column, met = program.columns().call, Counter[tuple[int, ...]]()
        for i in np.flatnonzero(np.isin(column, list(members))).tolist():
            who = members[column[i]]
            found.setdefault((who, met[who]), {})[number] = i
            met[who] += 1
    return [there for (who, _), there in found.items() if len(there) == len(who) > 1]


def collectives(form: Compiled) -> list[tuple[int, Collective]]:
    """Return the collectives of a program in order, each as the index of its instruction and its
    `Collective`."""
    done = {row: one for row, one in enumerate(form.table.collectives) if one is not None}
    own = np.flatnonzero(np.isin(form.row, list(done))) if done else ()
    return [(int(i), done[form.row[i]]) for i in own]


def time_of(done: Collective, world: World, number: int, machine: str) -> CollectiveTime | None:
    """Return the time of the collective `done` of core `number`, among the ranks of its group. The
    instance is the one that the world names, or else the smallest one of this `machine` with enough
    ranks. Return None if there is no such instance, or if the instance does not have these ranks or
    this many cores per rank."""
    group = done.group(world.rank(number))
    most = max(world.ranks, 1 + max(group))
    named = instances.find(world.instance) if world.instance else None
    one = named or instances.holding(machine, world.cores, most)
    if one is None or world.cores not in one.chip.logical_core_sizes:
        return None
    if max(group) >= one.ranks(world.cores):
        return None
    return collective_time.known_time(one.name, world.cores, done.pattern, done.size_bytes, group)


def lay_out(form: Compiled, work: Work, world: World, number: int, machine: str) -> None:
    """Set the latencies of the collectives of core `number` in `work`, and let each collective wait
    for the end of the collective before it: the CC-cores of a core work on one stream unless the
    kernel names another (compute-comm-overlap.rst). A collective of unknown time keeps its latency.
    """
    before = -1
    for i, done in collectives(form):
        taken = time_of(done, world, number, machine)
        if taken is not None:
            work.latency[i] = taken.ns
        if before >= 0:
            queue = work.queue[before]
            work.previous[i, queue] = max(work.previous[i, queue], before)
        before = i
