"""Bytes of HBM that two cores of a rank, or two programs of a grid, use without synchronization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from neuroncore.base.findings import Finding
from neuroncore.base.source import Place
from neuroncore.base.structs import dataclass
from neuroncore.checks.happens_before import HappensBefore, Thread, meetings, threads
from neuroncore.checks.shared_hbm import Access, Shared, SharedSpot, shared
from neuroncore.checks.uses import Array, Uses
from neuroncore.machine.world import World

TOLD = 20  # the most pairs of lines
MASKED = 62  # threads that have a separate bit; further threads share bits


class Race(NamedTuple):
    """Two unordered accesses to the same bytes, with their boxes; the second one writes."""

    first: Access
    second: Access
    first_box: int
    box: int


@dataclass(frozen=True, eq=False)
class LaunchAccesses:
    """The threads of a launch, their shared bytes, and their order."""

    world: World
    threads: Sequence[Thread]
    uses: Sequence[Uses]
    order: HappensBefore
    shared: Shared

    def line(self, access: Access) -> Place:
        return self.uses[self.threads[access.thread].core].line(access.row)

    def who(self, access: Access) -> str:
        thread = self.threads[access.thread]
        alone = sum(other.core == thread.core for other in self.threads) == 1
        return self.world.named(thread.core) if alone else f"program {thread.number}"

    @cached_property
    def writers(self) -> dict[SharedSpot, list[Access]]:
        """The writes to each spot, by all threads."""
        by_spot: dict[SharedSpot, list[Access]] = {}
        for spot, accesses in zip(self.shared.spots, self.shared.accesses, strict=True):
            by_spot.setdefault(spot, []).extend(one for one in accesses if one.writes)
        return by_spot


def launch_of(uses: Sequence[Uses], world: World) -> LaunchAccesses:
    """Return the threads of the cores of all ranks."""
    programs = [one.program for one in uses]
    among = threads(programs)
    alone = len(among) == world.ranks  # each has separate HBM, and shares nothing
    order = HappensBefore(len(among), () if alone else meetings(programs, among, world))
    return LaunchAccesses(
        world, among, uses, order, Shared() if alone else shared(uses, among, order, world)
    )


def findings(uses: Sequence[Uses], world: World) -> list[Finding]:
    """Return a finding for each pair of lines of which one writes bytes that the other uses,
    unordered, in the programs of all cores."""
    launch = launch_of(uses, world)
    reported: dict[frozenset[Place], Finding] = {}
    for race in races(launch):
        lines = frozenset((launch.line(race.first), launch.line(race.second)))
        if lines not in reported:
            reported[lines] = _told(race, launch)
        if len(reported) == TOLD:
            break
    return list(reported.values())


def races(launch: LaunchAccesses) -> Iterator[Race]:
    """Return pairs of unordered accesses of two threads to the same bytes, at least one a write."""
    if len(launch.threads) < 2:
        return
    accesses = launch.shared.accesses
    if not accesses:
        return
    one, other = launch.shared.near()
    threads, writes = _threads(accesses), np.array([any(a.writes for a in b) for b in accesses])
    apart = threads[one] | threads[other]
    suspect = ((apart & (apart - 1)) != 0) & (writes[one] | writes[other])
    for a, b in zip(one[suspect].tolist(), other[suspect].tolist(), strict=True):
        yield from _between(a, b, launch)


def _threads(accesses: list[list[Access]]) -> Array:
    """Return, for each box, a bit for each thread that uses it."""
    bits = [sum(1 << n for n in {a.thread % MASKED for a in each}) for each in accesses]
    return np.array(bits, np.int64)


def _between(one: int, other: int, launch: LaunchAccesses) -> Iterator[Race]:
    """Return the races of two boxes, if they share bytes."""
    accesses, order = launch.shared.accesses, launch.order
    for a in accesses[one]:
        for b in accesses[other]:
            if a.thread == b.thread or not (a.writes or b.writes):
                continue
            if not order.are_concurrent(a.thread, a.segment, b.thread, b.segment):
                continue
            if not launch.shared.share(one, other):
                return
            if b.writes and (not a.writes or b.thread >= a.thread):
                yield Race(a, b, one, other)
            else:
                yield Race(b, a, other, one)


def _told(race: Race, launch: LaunchAccesses) -> Finding:
    first, second = race.first, race.second
    place, line = launch.line(second), launch.line(first)
    message = (
        f"{launch.who(second)} writes bytes of HBM that {launch.who(first)} "
        f"{'writes' if first.writes else 'reads'} at {line.short}, and nothing synchronizes the two"
    )
    if not _do_the_same(race, launch):
        return Finding("RACE", message, place)
    message_of_both = (
        f"{message}; both write the same bytes from one line, so the result is right only if the "
    )
    return Finding("RACE", f"{message_of_both}values are the same", place, severity="note")


def _do_the_same(race: Race, launch: LaunchAccesses) -> bool:
    """Return whether both threads write the bytes from one line, and a thread that reads them does
    so after its own write. Then the values may be the same in either order."""
    first, second = race.first, race.second
    if first.writes:
        same = launch.shared.spots[race.first_box] == launch.shared.spots[race.box]
        return same and launch.line(first) == launch.line(second)
    written = launch.writers[launch.shared.spots[race.box]]
    earlier = (w for w in written if w.thread == first.thread and w.row <= first.row)
    return any(launch.line(one) == launch.line(second) for one in earlier)
