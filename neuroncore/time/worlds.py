"""The bound (the bottleneck) of a world, and what-if changes of it. A world is all ranks of one
launch. Its bound may be the collectives, a rank that arrives last there, or lines with unequal
work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.source import Place
from neuroncore.time.changes import Change
from neuroncore.time.path import across, parts
from neuroncore.time.schedule import Timeline
from neuroncore.time.syncs import collectives, time_of, together
from neuroncore.time.variation import Variation
from neuroncore.time.verdict import Bound

Array = npt.NDArray[Any]
# Thresholds for the bound of a world, as shares:
WAITED = 0.1  # late ranks are the bound if they cost this share of the total time
MOSTLY = 0.6  # one rank is the bound if it causes this share of the time that late ranks cost
TOGETHER = 0.4  # collectives are the bound if they take this share of the critical path
BYTES = 0.5  # links are the bound if this share of the collectives' time depends on bytes


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The collectives in which cores of several ranks meet.

    `each`: for each collective, a dict from the cores to their arrival times in nanoseconds"""

    timelines: Sequence[Timeline]

    @cached_property
    def each(self) -> list[dict[int, float]]:
        world = self.timelines[0].world
        arrivals = []
        for sync in together([timeline.program for timeline in self.timelines], world):
            if len({world.rank(number) for number in sync}) > 1:
                times = {n: float(self.timelines[n].done[i]) for n, i in sync.items()}
                arrivals.append(times)
        return arrivals

    @cached_property
    def late(self) -> dict[int, float]:
        """The total delay in nanoseconds of each rank that arrived last at some collectives,
        compared with the median core of the other ranks."""
        world, lateness = self.timelines[0].world, dict[int, float]()
        for times in self.each:
            last = max(times, key=lambda n: times[n])
            rest = [ns for n, ns in times.items() if world.rank(n) != world.rank(last)]
            rank = world.rank(last)
            lateness[rank] = lateness.get(rank, 0.0) + times[last] - median(rest)
        return lateness

    @property
    def latest(self) -> int:
        """The rank that others waited for most."""
        return max(self.late, key=lambda rank: self.late[rank])


@dataclass(frozen=True, eq=False)
class Imbalance:
    """A line at which ranks do unequal work.

    `more_ns`: how many nanoseconds longer the cores that arrive last at collectives work at this
        line than the median core, in total
    `each`: each[n, k] is the work of core n at the line between its collectives k - 1 and k, in
        nanoseconds; shape (cores, collectives + 1)"""

    place: Place
    more_ns: float
    each: Array


def imbalance(timelines: Sequence[Timeline]) -> Imbalance | None:
    """Return the line with the largest `more_ns`, or None if no line has more than 0."""
    arrivals, busy, places = Arrivals(timelines), dict[str, Array](), dict[str, Place]()
    for number, timeline in enumerate(timelines):
        lines, phase = len(timeline.program.lines), _phase(timeline)
        key = phase * lines + timeline.columns.line
        times = np.bincount(key, timeline.busy, (len(arrivals.each) + 1) * lines).reshape(-1, lines)
        for k in np.unique(timeline.columns.line).tolist():
            place = timeline.program.place(k)
            places[str(place)] = place
            table = busy.setdefault(str(place), np.zeros((len(timelines), len(times))))
            table[number] += times[:, k]
    more = {name: _more(each, arrivals) for name, each in busy.items()}
    name = max(more, key=lambda place: more[place], default="")
    return Imbalance(places[name], more[name], busy[name]) if more.get(name, 0.0) > 0 else None


def _phase(timeline: Timeline) -> Array:
    """Return, for each instruction of a core, the number of collectives before it in the
    program."""
    met = np.array([i for i, _ in collectives(timeline.compiled)], np.int64)
    phase: Array = np.searchsorted(met, np.arange(len(timeline.queue)))
    return phase


def _more(each: Array, arrivals: Arrivals) -> float:
    """Return `Imbalance.more_ns` of a line: the work of the core that arrives last minus that of
    the median core, added over all collectives.

    `each`: `Imbalance.each` of the line

    Collective k of the launch is assumed to be collective k of each core."""
    latest = [max(times, key=lambda n: times[n]) for times in arrivals.each]
    return float(sum(each[n, k] - np.median(each[:, k]) for k, n in enumerate(latest)))


@dataclass(frozen=True)
class CollectiveWork:
    """The collectives of one line on one core.

    `count`: how many collectives there are
    `ns`: their time in nanoseconds
    `bytes_ns`: the part of this time that depends on their bytes
    `size_bytes`: the bytes of the largest collective"""

    place: Place
    name: str
    count: int
    ns: float
    bytes_ns: float
    size_bytes: int


def collective_work(timeline: Timeline) -> list[CollectiveWork]:
    """Return the collectives of one core by line. Lines whose collectives take longest come
    first."""
    by_line: dict[str, CollectiveWork] = {}
    program = timeline.program
    for i, done in collectives(timeline.compiled):
        ns, rest = _times(timeline, done)
        place = program.place(timeline.columns.line[i])
        call = program.calls[timeline.columns.call[i]]
        known = by_line.get(str(place), CollectiveWork(place, call.name, 0, 0.0, 0.0, 0))
        by_line[str(place)] = replace(
            known,
            count=known.count + 1,
            ns=known.ns + ns,
            bytes_ns=known.bytes_ns + ns - rest,
            size_bytes=max(known.size_bytes, done.size_bytes),
        )
    return sorted(by_line.values(), key=lambda work: -work.ns)


def _times(timeline: Timeline, collective: Any) -> tuple[float, float]:
    """Return the nanoseconds of a collective, and of one with one byte among the same ranks."""
    world, name = timeline.world, timeline.machine.name
    pair = (collective, replace(collective, size_bytes=1))
    times = [time_of(each, world, timeline.core, name) for each in pair]
    ns, least = (time.ns if time is not None else 0.0 for time in times)
    return ns, min(ns, least)


def world_bound(timelines: Sequence[Timeline]) -> Bound | None:
    """Return the bound of a world: a late rank, unequal work or collectives; None for another
    bound."""
    arrivals, total = Arrivals(timelines), max(timeline.total_ns for timeline in timelines)
    if not arrivals.each or not total:
        return None
    late = sum(arrivals.late.values())
    if late >= WAITED * total:
        rank = arrivals.latest
        if arrivals.late[rank] >= MOSTLY * late:
            return Bound(f"rank {rank}", "it arrives last", arrivals.late[rank] / total)
        return Bound("imbalance", "ranks take turns to be last", late / total)
    share = sum(parts(*core_steps).collectives for core_steps in across(timelines)) / total
    if share < TOGETHER:
        return None
    number = timelines[0].world.cores_of(arrivals.latest)[0]
    work = collective_work(timelines[number])
    moved = sum(line.bytes_ns for line in work) / (sum(line.ns for line in work) or 1.0)
    name = "collective bandwidth" if moved >= BYTES else "collective latency"
    return Bound(name, f"{share:.0%} of the critical path", share)


# --- changes --------------------------------------------------------------------------------------


def changes_of_worlds(base: Change, timelines: Sequence[Timeline]) -> Iterator[Change]:
    """Yield the changes of a world:

    * the collectives take no time;
    * the links are twice as fast;
    * the latest rank arrives as early as the others;
    * the work of the line at which ranks do the most unequal work is spread evenly over ranks."""
    free, links = [], []
    for timeline in timelines:
        met = collectives(timeline.compiled)
        free.append(_factors(timeline, {i: 0.0 for i, _ in met}))
        links.append(
            _factors(timeline, {i: _with_links(timeline, collective) for i, collective in met})
        )
    yield replace(base, what="collectives", how="at no cost", variations=free)
    yield replace(base, what="links", how="twice as fast", variations=links)
    arrivals = Arrivals(timelines)
    if not arrivals.each:
        return
    rank = arrivals.latest
    yield _on_time(base, timelines, rank, arrivals.late[rank])
    unequal = imbalance(timelines)
    if unequal is not None:
        yield _even(base, timelines, unequal)


def _factors(timeline: Timeline, factors: dict[int, float]) -> Variation:
    times = np.ones(len(timeline.queue))
    times[list(factors)] = list(factors.values())
    origin = timeline.program.origin
    if origin is not None:
        times[origin] = times.copy()
    return Variation(times=times)


def _with_links(timeline: Timeline, collective: Any) -> float:
    ns, rest = _times(timeline, collective)
    return (ns + rest) / (2 * ns) if ns else 1.0


def _on_time(base: Change, timelines: Sequence[Timeline], rank: int, late: float) -> Change:
    """Return the change in which a rank works less between collectives, and arrives as early as the
    others.

    `late`: how many nanoseconds the rank comes late in total"""
    world, variations = timelines[0].world, list(base.variations)
    for number in world.cores_of(rank):
        timeline = timelines[number]
        met = [i for i, _ in collectives(timeline.compiled)]
        collectives_ns = float((timeline.end[met] - timeline.done[met]).sum())
        working_ns = timeline.total_ns - collectives_ns
        factor = max(0.0, 1 - late / working_ns) if working_ns > 0 else 1.0
        factors = dict.fromkeys(range(len(timeline.queue)), factor) | dict.fromkeys(met, 1.0)
        variations[number] = _factors(timeline, factors)
    return replace(base, what=f"rank {rank}", how="as early as the others", variations=variations)


def _even(base: Change, timelines: Sequence[Timeline], unequal: Imbalance) -> Change:
    mean, variations = unequal.each.mean(axis=0), []
    for timeline, row in zip(timelines, unequal.each, strict=True):
        lines = [
            n for n in range(len(timeline.program.lines)) if _is_at(timeline, n, unequal.place)
        ]
        instructions = np.flatnonzero(np.isin(timeline.columns.line, lines))
        ratio = np.where(row > 0, mean / np.where(row > 0, row, 1.0), 1.0)
        factors = ratio[_phase(timeline)[instructions]]
        variations.append(
            _factors(timeline, dict(zip(instructions.tolist(), factors.tolist(), strict=True)))
        )
    return replace(
        base, what=unequal.place.short, how="spread evenly over ranks", variations=variations
    )


def _is_at(timeline: Timeline, line: int, place: Place) -> bool:
    return str(timeline.program.place(line)) == str(place)
