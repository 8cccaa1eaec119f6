"""The time of what ranks do together, on the instance that they are in, and the order of it."""

from __future__ import annotations

from functools import lru_cache

from neuroncore.clause.cost import Collective
from neuroncore.clause.world import World
from neuroncore.compiler import Compiled
from neuroncore.instances import instance as instances
from neuroncore.instances.collective_time import CollectiveTime, collective_time
from neuroncore.schedule.prepare import Prepared


def time_of(done: Collective, world: World, number: int, machine: str) -> CollectiveTime | None:
    """How long it takes the group of a core, on the world's instance or else on the smallest that
    has so many ranks; None if there is none, or if the instance has fewer."""
    group = done.group(world.rank(number))
    return _time_of_group(done.pattern, done.size_bytes, group, world, machine)


@lru_cache(1 << 12)
def _time_of_group(
    pattern: str, size_bytes: int, group: tuple[int, ...], world: World, machine: str
) -> CollectiveTime | None:
    most = max(world.ranks, 1 + max(group))
    found = instances.find(world.instance) if world.instance else None
    one = found or instances.holding(machine, world.cores, most)
    if one is None or world.cores not in one.chip.logical_core_sizes:
        return None
    if max(group) >= one.ranks(world.cores):
        return None
    return collective_time(one, world.cores, pattern, size_bytes, group)


def collectives(form: Compiled) -> list[tuple[int, Collective]]:
    """The instructions of a program that are collectives, in order."""
    found = form.table.collectives
    if not any(found):
        return []
    rows = ((i, found[row]) for i, row in enumerate(form.row.tolist()))
    return [(i, done) for i, done in rows if done is not None]


def lay_out(prepared: Prepared, world: World, number: int, machine: str) -> None:
    """Put their times into the latencies, and let each wait for the end of the one before: a core's
    CC-cores work on one stream where no other is named (compute-comm-overlap.rst)."""
    work, before = prepared.work, -1
    for i, done in collectives(prepared.compiled):
        taken = time_of(done, world, number, machine)
        if taken is not None:
            work.latency[i] = taken.ns
        if before >= 0:
            queue = work.queue[before]
            work.previous[i, queue] = max(work.previous[i, queue], before)
        before = i
