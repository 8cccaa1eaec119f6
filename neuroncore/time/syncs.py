"""Synchronizations: instructions at which cores of a launch wait for each other. Collectives are
synchronizations too; their time depends on the instance on which the ranks run."""

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
from neuroncore.time.loops.work import Work, own_kinds

if TYPE_CHECKING:
    from neuroncore.machine.collective_time import CollectiveTime

Array = npt.NDArray[Any]


def partners(programs: Sequence[Program], at: Sequence[int], world: World) -> Array:
    """Return, for each instruction of all cores, the next core's instruction at the same
    synchronization; -1 without a synchronization. The first core follows the last.

    `at`: core c has the instructions from at[c] to at[c + 1] - 1"""
    partner = np.full(at[-1], -1, np.int32)
    for sync in together(programs, world):
        ring = [at[number] + instruction for number, instruction in sync.items()]
        partner[ring] = np.roll(ring, -1)
    return partner


def together(programs: Sequence[Program], world: World) -> list[dict[int, int]]:
    """Return every synchronization of several cores, as a dict from each core to its instruction.

    The k-th synchronization of a group consists of each core's k-th instruction that meets this
    group. It is left out if a core's record ends before."""
    syncs: dict[tuple[tuple[int, ...], int], dict[int, int]] = {}
    for number, program in enumerate(programs):
        members = {
            index: tuple(sorted(call.instruction.meets(call, world, number)))
            for index, call in enumerate(program.calls)
            if call.instruction.meets is not None
        }
        if not members:
            continue
        column, met = program.columns().call, Counter[tuple[int, ...]]()
        for i in np.flatnonzero(np.isin(column, list(members))).tolist():
            group = members[column[i]]
            syncs.setdefault((group, met[group]), {})[number] = i
            met[group] += 1
    return [
        instructions
        for (group, _), instructions in syncs.items()
        if len(instructions) == len(group) > 1
    ]


def collectives(compiled: Compiled) -> list[tuple[int, Collective]]:
    """Return the collectives of a program in order, as pairs of instruction index and
    `Collective`."""
    by_row = {
        row: collective
        for row, collective in enumerate(compiled.table.collectives)
        if collective is not None
    }
    instructions = np.flatnonzero(np.isin(compiled.row, list(by_row))) if by_row else ()
    return [(int(i), by_row[compiled.row[i]]) for i in instructions]


def time_of(
    collective: Collective, world: World, number: int, machine: str
) -> CollectiveTime | None:
    """Return the time of a collective of core `number`, on the instance of the world. Without an
    instance, use the smallest with this `machine` and enough ranks.

    Return None if there is no such instance, or if the ranks do not fit it."""
    group = collective.group(world.rank(number))
    least_ranks = max(world.ranks, 1 + max(group))
    named = instances.find(world.instance) if world.instance else None
    instance = named or instances.holding(machine, world.cores, least_ranks)
    if instance is None or world.cores not in instance.chip.logical_core_sizes:
        return None
    if max(group) >= instance.ranks(world.cores):
        return None
    return collective_time.known_time(
        instance.name, world.cores, collective.pattern, collective.size_bytes, group
    )


def place_collectives(
    compiled: Compiled, work: Work, world: World, number: int, machine: str
) -> Work:
    """Return the work of core `number` with the latencies of its collectives, if their time is
    known. Each collective waits for the previous one (in `work.previous`).

    The CC-cores (processors for collectives) of a core work on one stream unless the kernel names
    another (the vendor's page compute-comm-overlap.rst)."""
    before, placed = -1, collectives(compiled)
    if placed:
        work = work._replace(**own_kinds(work._asdict(), np.array([i for i, _ in placed])))
    for i, collective in placed:
        time = time_of(collective, world, number, machine)
        if time is not None:
            work.latency[work.kind[i]] = time.ns
        if before >= 0:
            queue = work.queue[before]
            work.previous[i, queue] = max(work.previous[i, queue], before)
        before = i
    return work
