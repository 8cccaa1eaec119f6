"""The bound of a run: the resource of which more would save the most time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from neuroncore.base.structs import dataclass
from neuroncore.time.changes import RESOURCES, Change, Resource, as_it_is
from neuroncore.time.path import parts, steps
from neuroncore.time.schedule import Timeline

# How much more a change may save than its part of the critical path, for engines take instructions
# in another order then: this many times as much, and this part of the whole beside.
MORE, BESIDE = 1.25, 0.25
ALONE = 0.1  # what more of one resource has to save for it to bound a run by itself


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
        return Effect(self.change, self.timeline.total_ns, self.gain)


@dataclass(frozen=True)
class Bound:
    """A limit of a kernel: a resource, the change that was tried, and the share of the time that it
    saves."""

    what: str
    how: str = ""
    gain: float = 0.0

    def __str__(self) -> str:
        if self.what == "nothing":
            return "nothing: no instruction was issued"
        if self.gain < ALONE:
            return f"no single resource ({self.what} {self.how}: {self.gain:.0%} less)"
        return f"{self.what} ({self.how}: {self.gain:.0%} less)"


class Effect(NamedTuple):
    """An outcome without its timeline: nanoseconds, and the share that is saved."""

    change: Change
    ns: float
    gain: float


_known: WeakKeyDictionary[Timeline, list[Effect]] = WeakKeyDictionary()


def tried(timeline: Timeline) -> list[Effect]:
    """The changes of resources by which the bound of a core was found; scheduled once."""
    found = _known.get(timeline)
    if found is None:
        likely = _likely(as_it_is(timeline), timeline)
        found = _known[timeline] = [one.effect for one in likely]
    return found


def bound(timeline: Timeline) -> Bound:
    """The bound of a core, by its timeline."""
    return _best(tried(timeline))


def bound_of(change: Change, timeline: Timeline) -> Bound:
    """The same where something is changed; the timeline is of that."""
    return _best(one.effect for one in _likely(change, timeline))


def _best(effects: Iterable[Effect]) -> Bound:
    best = max(effects, key=lambda found: found.gain, default=None)
    if best is None:
        return Bound("nothing")
    return Bound(best.change.what, best.change.how, best.gain)


def _likely(base: Change, timeline: Timeline) -> Iterator[ChangeOutcome]:
    """The outcomes of changes of a resource, without those that can't be the best."""
    total = timeline.total_ns
    if not total:
        return
    found, best = parts(timeline, steps(timeline)), 0.0

    def most(resource: Resource) -> float:
        return MORE * resource.saves(found) / total + BESIDE

    for resource in sorted(RESOURCES, key=most, reverse=True):
        if most(resource) < best:
            return
        made = outcome(resource.change(base), timeline)
        best = max(best, made.gain)
        yield made


def outcome(change: Change, timeline: Timeline) -> ChangeOutcome:
    """The outcome of a change, compared with the timeline of a core without it."""
    changed = change.scheduled(timeline.core)
    return ChangeOutcome(change, changed, timeline.total_ns)


def pair(timeline: Timeline, outcomes: Iterable[ChangeOutcome]) -> ChangeOutcome:
    """The two changes of resources that save most together, of which `outcomes` are the first."""
    every = ((one, other) for one in outcomes for other in _likely(one.change, one.timeline))
    one, other = min(every, key=lambda both: both[1].timeline.total_ns)
    both = replace(other.change, what=f"{one.change.what} and {other.change.what}", how="together")
    return ChangeOutcome(both, other.timeline, timeline.total_ns)
