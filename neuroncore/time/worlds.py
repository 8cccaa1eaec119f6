"""The bound of a world of ranks: its collectives, a rank that comes last, or lines at which ranks
do unequal work; and what-if changes of these."""

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
from neuroncore.time.meetings import collectives, time_of, together
from neuroncore.time.path import across, parts
from neuroncore.time.schedule import Timeline
from neuroncore.time.variation import Variation
from neuroncore.time.verdict import Bound

Array = npt.NDArray[Any]
# Least shares at which something is the bound of a world:
WAITED = 0.1  # of the time that is lost because ranks come late to collectives
TOGETHER = 0.4  # of the critical path that collectives take
MOSTLY = 0.6  # of the time lost by late ranks that one rank causes
BYTES = 0.5  # of the collectives' time that depends on their bytes; then links are the bound


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The collectives of several ranks, in which cores of more than one rank meet. `each` has a
    dict for each collective: the number of each of its cores, and the time in nanoseconds at which
    that core arrived."""

    timelines: Sequence[Timeline]

    @cached_property
    def each(self) -> list[dict[int, float]]:
        world = self.timelines[0].world
        found = []
        for meeting in together([one.program for one in self.timelines], world):
            if len({world.rank(number) for number in meeting}) > 1:
                at = {n: float(self.timelines[n].done[i]) for n, i in meeting.items()}
                found.append(at)
        return found

    @cached_property
    def late(self) -> dict[int, float]:
        """Return, for each rank, by how many nanoseconds in total it arrived later than the median
        of the other ranks, at the collectives where it was last."""
        world, late = self.timelines[0].world, dict[int, float]()
        for at in self.each:
            last = max(at, key=lambda n: at[n])
            rest = [ns for n, ns in at.items() if world.rank(n) != world.rank(last)]
            rank = world.rank(last)
            late[rank] = late.get(rank, 0.0) + at[last] - median(rest)
        return late

    @property
    def latest(self) -> int:
        """The rank that others waited for most."""
        return max(self.late, key=lambda rank: self.late[rank])


@dataclass(frozen=True, eq=False)
class Imbalance:
    """A line at which ranks do unequal work. The cores that arrive last at collectives work at this
    line for `more_ns` nanoseconds longer than the median core, in total. each[n, k] is how many
    nanoseconds core n works at the line between its collectives k - 1 and k; the last column is the
    time after the last collective."""

    place: Place
    more_ns: float
    each: Array


def imbalance(timelines: Sequence[Timeline]) -> Imbalance | None:
    """Return the line at which the ranks that arrive last work longest in comparison with the
    others; None if they work no longer at any line."""
    arrivals, busy, places = Arrivals(timelines), dict[str, Array](), dict[str, Place]()
    for number, one in enumerate(timelines):
        lines, phase = len(one.program.lines), _phase(one)
        key = phase * lines + one.columns.line
        spent = np.bincount(key, one.busy, (len(arrivals.each) + 1) * lines).reshape(-1, lines)
        for k in np.unique(one.columns.line).tolist():
            place = one.program.place(k)
            places[str(place)] = place
            of = busy.setdefault(str(place), np.zeros((len(timelines), len(spent))))
            of[number] += spent[:, k]
    more = {name: _more(each, arrivals) for name, each in busy.items()}
    name = max(more, key=lambda place: more[place], default="")
    return Imbalance(places[name], more[name], busy[name]) if more.get(name, 0.0) > 0 else None


def _phase(timeline: Timeline) -> Array:
    """Return, for each instruction of a core, how many collectives come before it in the
    program."""
    met = np.array([i for i, _ in collectives(timeline.compiled)], np.int64)
    found: Array = np.searchsorted(met, np.arange(len(timeline.queue)))
    return found


def _more(each: Array, arrivals: Arrivals) -> float:
    """Return how many nanoseconds the cores that arrive last at collectives work longer at one line
    than the median core, in total. `each` is `Imbalance.each` of the line. Collective k of the
    launch is assumed to be collective k of each core."""
    last = [max(at, key=lambda n: at[n]) for at in arrivals.each]
    return float(sum(each[n, k] - np.median(each[:, k]) for k, n in enumerate(last)))


@dataclass(frozen=True)
class CollectiveWork:
    """The collectives of one line on one core: their number (`count`), their time in nanoseconds
    (`ns`), the part of this time that depends on their bytes (`bytes_ns`), and the bytes of the
    largest collective (`size_bytes`)."""

    place: Place
    name: str
    count: int
    ns: float
    bytes_ns: float
    size_bytes: int


def collective_work(timeline: Timeline) -> list[CollectiveWork]:
    """Return the collectives of one core by line; lines that take longest come first."""
    made: dict[str, CollectiveWork] = {}
    program = timeline.program
    for i, done in collectives(timeline.compiled):
        ns, rest = _times(timeline, done)
        place = program.place(timeline.columns.line[i])
        call = program.calls[timeline.columns.call[i]]
        known = made.get(str(place), CollectiveWork(place, call.name, 0, 0.0, 0.0, 0))
        made[str(place)] = replace(
            known,
            count=known.count + 1,
            ns=known.ns + ns,
            bytes_ns=known.bytes_ns + ns - rest,
            size_bytes=max(known.size_bytes, done.size_bytes),
        )
    return sorted(made.values(), key=lambda one: -one.ns)


def _times(timeline: Timeline, done: Any) -> tuple[float, float]:
    """Return the nanoseconds that a collective takes, and those that a collective of one byte would
    take among the same ranks."""
    each = (done, replace(done, size_bytes=1))
    world, name = timeline.world, timeline.machine.name
    found = [time_of(one, world, timeline.core, name) for one in each]
    ns, least = (one.ns if one is not None else 0.0 for one in found)
    return ns, min(ns, least)


def world_bound(timelines: Sequence[Timeline]) -> Bound | None:
    """Return the bound of a world if it is a late rank, unequal work or collectives; else None."""
    arrivals, total = Arrivals(timelines), max(one.total_ns for one in timelines)
    if not arrivals.each or not total:
        return None
    late = sum(arrivals.late.values())
    if late >= WAITED * total:
        rank = arrivals.latest
        if arrivals.late[rank] >= MOSTLY * late:
            return Bound(f"rank {rank}", "it arrives last", arrivals.late[rank] / total)
        return Bound("imbalance", "ranks take turns to be last", late / total)
    share = sum(parts(*each).collectives for each in across(timelines)) / total
    if share < TOGETHER:
        return None
    number = timelines[0].world.cores_of(arrivals.latest)[0]
    work = collective_work(timelines[number])
    moved = sum(one.bytes_ns for one in work) / (sum(one.ns for one in work) or 1.0)
    what = "collective bandwidth" if moved >= BYTES else "collective latency"
    return Bound(what, f"{share:.0%} of the critical path", share)


# --- changes --------------------------------------------------------------------------------------


def changes_of_worlds(base: Change, timelines: Sequence[Timeline]) -> Iterator[Change]:
    """Yield the changes of a world: collectives that take no time, links that are twice as fast,
    the latest rank as early as the others, and the line of the most unequal work spread evenly over
    ranks."""
    free, links = [], []
    for one in timelines:
        own = collectives(one.compiled)
        free.append(_factors(one, {i: 0.0 for i, _ in own}))
        links.append(_factors(one, {i: _with_links(one, done) for i, done in own}))
    yield replace(base, what="collectives", how="at no cost", variations=free)
    yield replace(base, what="links", how="twice as fast", variations=links)
    arrivals = Arrivals(timelines)
    if not arrivals.each:
        return
    rank = arrivals.latest
    yield _on_time(base, timelines, rank, arrivals.late[rank])
    found = imbalance(timelines)
    if found is not None:
        yield _even(base, timelines, found)


def _factors(timeline: Timeline, of: dict[int, float]) -> Variation:
    times = np.ones(len(timeline.queue))
    times[list(of)] = list(of.values())
    origin = timeline.program.origin
    if origin is not None:
        times[origin] = times.copy()
    return Variation(times=times)


def _with_links(timeline: Timeline, done: Any) -> float:
    ns, rest = _times(timeline, done)
    return (ns + rest) / (2 * ns) if ns else 1.0


def _on_time(base: Change, timelines: Sequence[Timeline], rank: int, late: float) -> Change:
    """Return the change in which a rank arrives at collectives as early as the others, because its
    work between collectives takes less time. `late` is how many nanoseconds the rank comes late in
    total."""
    world, variations = timelines[0].world, list(base.variations)
    for number in world.cores_of(rank):
        one = timelines[number]
        met = [i for i, _ in collectives(one.compiled)]
        taken = float((one.end[met] - one.done[met]).sum())
        own = one.total_ns - taken
        factor = max(0.0, 1 - late / own) if own > 0 else 1.0
        rows = dict.fromkeys(range(len(one.queue)), factor) | dict.fromkeys(met, 1.0)
        variations[number] = _factors(one, rows)
    return replace(base, what=f"rank {rank}", how="as early as the others", variations=variations)


def _even(base: Change, timelines: Sequence[Timeline], found: Imbalance) -> Change:
    mean, variations = found.each.mean(axis=0), []
    for one, own in zip(timelines, found.each, strict=True):
        here = [n for n in range(len(one.program.lines)) if _is_at(one, n, found.place)]
        rows = np.flatnonzero(np.isin(one.columns.line, here))
        ratio = np.where(own > 0, mean / np.where(own > 0, own, 1.0), 1.0)
        factors = ratio[_phase(one)[rows]]
        variations.append(_factors(one, dict(zip(rows.tolist(), factors.tolist(), strict=True))))
    return replace(
        base, what=found.place.short, how="spread evenly over ranks", variations=variations
    )


def _is_at(timeline: Timeline, line: int, place: Place) -> bool:
    return str(timeline.program.place(line)) == str(place)
