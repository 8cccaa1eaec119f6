"""The bound of a run. If resources work nearly all of the time, it is the one of which more would
save the most time; otherwise it is the chain of instructions that each wait for the one before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from neuroncore.time.changes import RESOURCES, Change, Resource, as_it_is
from neuroncore.time.path import PathParts, parts, steps
from neuroncore.time.queues import LOADS, QUEUES
from neuroncore.time.schedule import Timeline

# How much more a change may save than its part of the critical path, for engines take instructions
# in another order then: this many times as much, and this part of the whole beside.
MORE, BESIDE = 1.25, 0.25
SATURATED = 0.75  # of the time, that a resource works which bounds a run
CHAIN, COLLECTIVES = "serial chain", "collectives"
TOGETHER = 0.4  # of the critical path, that collectives take which bound a run


@dataclass(frozen=True)
class ChangeOutcome:
    """The effect of a change on a core's time, which was `before_ns`."""

    change: Change
    timeline: Timeline
    before_ns: float

    @property
    def gain(self) -> float:
        """The part of the time that is saved; less than 0 if it takes longer."""
        return 1 - self.timeline.total_ns / self.before_ns

    @property
    def effect(self) -> Effect:
        then = then_bound_by(self.timeline)
        return Effect(self.change, self.timeline.total_ns, self.gain, then)


@dataclass(frozen=True)
class Bound:
    """A limit of a kernel: its name, the share of the time that it takes or the change that was
    tried, and the share of the time that this change saves."""

    what: str
    how: str = ""
    gain: float = 0.0

    def __str__(self) -> str:
        if self.what == "nothing":
            return "nothing: no instruction was issued"
        if self.what == CHAIN:
            return f"a serial chain: each instruction waits for the one before ({self.how})"
        if self.what == COLLECTIVES:
            return f"the {self.what} ({self.how})"
        return f"{self.what} ({self.gain:.0%} less time {self.how})"


class Effect(NamedTuple):
    """An outcome without its timeline: nanoseconds, the share that is saved, and the bound then."""

    change: Change
    ns: float
    gain: float
    then: str


@dataclass(frozen=True, eq=False)
class Tried:
    """The bound of a core, the changes that were tried to find it, and the launch that they
    change."""

    bound: Bound
    base: Change
    effects: list[Effect]


_known: WeakKeyDictionary[Timeline, Tried] = WeakKeyDictionary()


def tried(timeline: Timeline) -> Tried:
    """The bound of a core and how it was found; scheduled once."""
    found = _known.get(timeline)
    if found is None:
        found = _known[timeline] = _tried(timeline)
    return found


def bound(timeline: Timeline) -> Bound:
    """The bound of a core, by its timeline."""
    return tried(timeline).bound


def _tried(timeline: Timeline) -> Tried:
    base = as_it_is(timeline)
    alone = bound_by_times(timeline)
    if alone is not None:
        return Tried(alone, base, [])
    effects = [one.effect for one in _likely(base, timeline)]
    best = max(effects, key=lambda one: one.gain)
    return Tried(Bound(best.change.what, f"if it were {best.change.how}", best.gain), base, effects)


def bound_by_times(timeline: Timeline) -> Bound | None:
    """Return the bound if no resource is saturated. It needs no other schedule."""
    if not timeline.total_ns:
        return Bound("nothing")
    if saturated(timeline):
        return None
    alone = timeline.world.ranks == 1
    met = 0.0 if alone else parts(timeline, steps(timeline)).collectives / timeline.total_ns
    if met >= TOGETHER:
        return Bound(COLLECTIVES, f"{met:.0%} of the critical path")
    name, share = max(timeline.busy_share.items(), key=lambda one: one[1])
    return Bound(
        CHAIN,
        f"the busiest engine or queue, {name}, works {share:.0%} of the time",
    )


def saturated(timeline: Timeline) -> list[str]:
    """Return the names of all that is busy for nearly all of the time, the busiest first: engines,
    rings of DMA queues by their names, and DMA engines as "DMA"."""
    total = timeline.total_ns or 1.0
    shares = dict(timeline.busy_share)
    rings = np.bincount(timeline.queue, timeline.busy, len(QUEUES))[LOADS:] / total
    shares |= dict(zip(QUEUES[LOADS:], rings.tolist(), strict=True))
    found = [name for name, share in shares.items() if share >= SATURATED]
    return sorted(found, key=lambda name: -shares[name])


def then_bound_by(timeline: Timeline) -> str:
    """Return the bound as a word, without another schedule: the busiest resource, or the serial
    chain."""
    found = bound_by_times(timeline)
    if found is not None:
        return found.what
    busiest = saturated(timeline)[0]
    if busiest == "DMA":
        return "DMA bandwidth"
    return "DMA issue" if busiest in QUEUES[LOADS:] else busiest


def _likely(base: Change, timeline: Timeline) -> Iterator[ChangeOutcome]:
    """The outcomes of changes of a resource, without those that can't be the best."""
    total, found, best = timeline.total_ns, parts(timeline, steps(timeline)), 0.0

    def most(resource: Resource) -> float:
        return MORE * resource.saves(found) / total + BESIDE

    for resource in sorted(RESOURCES, key=most, reverse=True):
        if most(resource) < best:
            return
        made = outcome(resource.change(base), timeline)
        best = max(best, made.gain)
        yield made


def matters(resource: Resource, found: PathParts, total: float, least: float) -> bool:
    """Return whether a change of a resource may save this part of the time."""
    return MORE * resource.saves(found) / total >= least


def outcome(change: Change, timeline: Timeline) -> ChangeOutcome:
    """The outcome of a change, compared with the timeline of a core without it."""
    changed = change.scheduled(timeline.core)
    return ChangeOutcome(change, changed, timeline.total_ns)
