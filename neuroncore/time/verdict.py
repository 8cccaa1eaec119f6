"""The bound of a run, which is its bottleneck.

If some resource is busy nearly all of the time, the program is scheduled again with more of one
resource at a time. The bound is the resource that saves the most time. If no resource is so busy,
the bound is the collectives if they take a large part of the critical path (TOGETHER), or else the
serial chain: each instruction waits for the one before."""

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

# A change may save more time than its resource takes on the critical path, because engines then
# issue instructions in another order. It is assumed to save at most MORE times the resource's time
# on the path, plus the share ADDED of the total time.
MORE, ADDED = 1.25, 0.25
SATURATED = 0.75  # share of the time that a resource must work to be the bound of a run
CHAIN, COLLECTIVES = "serial chain", "collectives"
TOGETHER = 0.4  # share of the critical path that collectives must take to be the bound of a run


@dataclass(frozen=True)
class ChangeOutcome:
    """The effect of a change on a core: the new timeline, and the nanoseconds that the core took
    before."""

    change: Change
    timeline: Timeline
    before_ns: float

    @property
    def gain(self) -> float:
        """The share of the time that is saved; negative if the core takes longer."""
        return 1 - self.timeline.total_ns / self.before_ns

    @property
    def effect(self) -> Effect:
        then = then_bound_by(self.timeline)
        return Effect(self.change, self.timeline.total_ns, self.gain, then)


@dataclass(frozen=True)
class Bound:
    """The bound of a kernel.

    `what`: the name of the bound
    `how`: the reason in words: times that show the bound, or the change that was tried
    `gain`: the share of the time that this change saves; for a world of ranks, the share that the
        bound takes"""

    what: str
    how: str = ""
    gain: float = 0.0

    def __str__(self) -> str:
        if self.what == "nothing":
            return "nothing: no instruction was issued"
        if self.what == CHAIN:
            return f"a serial chain: each instruction waits for the previous one ({self.how})"
        if self.what == COLLECTIVES:
            return f"the {self.what} ({self.how})"
        return f"{self.what} ({self.gain:.0%} less time {self.how})"


class Effect(NamedTuple):
    """The effect of a change on a core.

    `ns`: the new time in nanoseconds
    `gain`: the share of the time that the change saves
    `then`: the name of the bound after the change"""

    change: Change
    ns: float
    gain: float
    then: str


@dataclass(frozen=True, eq=False)
class BoundSearch:
    """The bound of a core, and the effects of the changes that were tried on the launch `base`."""

    bound: Bound
    base: Change
    effects: list[Effect]


_known: WeakKeyDictionary[Timeline, BoundSearch] = WeakKeyDictionary()


def bound_search(timeline: Timeline) -> BoundSearch:
    """Return the bound of a core, with the changes that were tried. The result is cached for each
    timeline."""
    known = _known.get(timeline)
    if known is None:
        known = _known[timeline] = _search(timeline)
    return known


def bound(timeline: Timeline) -> Bound:
    """Return the bound of a core."""
    return bound_search(timeline).bound


def _search(timeline: Timeline) -> BoundSearch:
    base = as_it_is(timeline)
    simple_bound = bound_by_times(timeline)
    if simple_bound is not None:
        return BoundSearch(simple_bound, base, [])
    effects = [outcome.effect for outcome in _likely(base, timeline)]
    best = max(effects, key=lambda effect: effect.gain)
    return BoundSearch(
        Bound(best.change.what, f"if it were {best.change.how}", best.gain), base, effects
    )


def bound_by_times(timeline: Timeline) -> Bound | None:
    """Return the bound if no resource is saturated or there is no instruction; otherwise None,
    because changes must be scheduled to find it."""
    if not timeline.total_ns:
        return Bound("nothing")
    if saturated(timeline):
        return None
    alone = timeline.world.ranks == 1
    met = 0.0 if alone else parts(timeline, steps(timeline)).collectives / timeline.total_ns
    if met >= TOGETHER:
        return Bound(COLLECTIVES, f"{met:.0%} of the critical path")
    name, share = max(timeline.busy_share.items(), key=lambda item: item[1])
    return Bound(
        CHAIN,
        f"the busiest engine or queue, {name}, is busy {share:.0%} of the time",
    )


def saturated(timeline: Timeline) -> list[str]:
    """Return the resources that are busy nearly all of the time, the busiest first: engines, DMA
    rings, and all DMA engines together as "DMA"."""
    total = timeline.total_ns or 1.0
    shares = dict(timeline.busy_share)
    rings = np.bincount(timeline.queue, timeline.busy, len(QUEUES))[LOADS:] / total
    shares |= dict(zip(QUEUES[LOADS:], rings.tolist(), strict=True))
    names = [name for name, share in shares.items() if share >= SATURATED]
    return sorted(names, key=lambda name: -shares[name])


def then_bound_by(timeline: Timeline) -> str:
    """Return the name of the bound without scheduling a change.

    The bound is the busiest resource that is saturated, even if another resource would save more
    time. If no resource is saturated, it is the serial chain, or the collectives."""
    simple_bound = bound_by_times(timeline)
    if simple_bound is not None:
        return simple_bound.what
    busiest = saturated(timeline)[0]
    if busiest == "DMA":
        return "DMA bandwidth"
    return "DMA issue" if busiest in QUEUES[LOADS:] else busiest


def _likely(base: Change, timeline: Timeline) -> Iterator[ChangeOutcome]:
    """Yield the outcomes of changes that give more of one resource, the most promising first. Stop
    when no other change can save more than the best so far."""
    total, path_parts, best = timeline.total_ns, parts(timeline, steps(timeline)), 0.0

    def most(resource: Resource) -> float:
        return MORE * resource.saves(path_parts) / total + ADDED

    for resource in sorted(RESOURCES, key=most, reverse=True):
        if most(resource) < best:
            return
        tried = outcome(resource.change(base), timeline)
        best = max(best, tried.gain)
        yield tried


def matters(resource: Resource, path_parts: PathParts, total: float, least: float) -> bool:
    """Return whether more of a resource may save at least `least`, a fraction of the time.

    `path_parts`: the parts of the critical path
    `total`: the time in nanoseconds"""
    return MORE * resource.saves(path_parts) / total >= least


def outcome(change: Change, timeline: Timeline) -> ChangeOutcome:
    """Return the effect of a change on the core of `timeline`, which has no change."""
    changed = change.scheduled(timeline.core)
    return ChangeOutcome(change, changed, timeline.total_ns)
