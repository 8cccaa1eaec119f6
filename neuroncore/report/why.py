"""Why a run takes as long as it does, and what would help: for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from neuroncore.base.structs import dataclass
from neuroncore.base.units import duration
from neuroncore.machine.world import World
from neuroncore.report.bounds import sentence
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.time import lines
from neuroncore.time.changes import RESOURCES, Change, as_it_is
from neuroncore.time.lines import Line
from neuroncore.time.promise import promising
from neuroncore.time.schedule import Timeline
from neuroncore.time.variation import Variation
from neuroncore.time.verdict import (
    ALONE,
    Bound,
    Effect,
    Outcome,
    bound_of,
    outcome,
    pair,
    tried,
)

SCHEMA = "neuroncore.why/1"
NOTHING = 0.01  # a part of the time: what changes it by less changes nothing
ROOM = 24_000_000  # instructions to schedule again, each as often as it is: some 15 s
SOME = "the run is long: only changes of what its critical path consists of most were scheduled"
ALL = 120  # times that a run is scheduled for all what-ifs, at most


@dataclass(frozen=True)
class WhatIf:
    """A change, how long the run takes with it, in nanoseconds, the part of the time that is saved
    (less than 0 if it takes longer), and what bounds it then; None where nobody asked."""

    what: str
    how: str
    ns: float
    gain: float
    bound: str | None

    @property
    def matters(self) -> bool:
        return abs(self.gain) >= NOTHING

    def __str__(self) -> str:
        return f"{self.what} {self.how}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "how": self.how,
            "time": self.ns / 1e9,
            "gain": self.gain,
            "bound_by": self.bound,
        }


@dataclass(frozen=True)
class Answers:
    """What bounds a core, also in a sentence, and what if: there were more of each resource,
    nothing waited for anything, something were different about the costliest lines. What saves most
    is first in its list. Where no one resource saves enough, `pair` are the two that do.

    Of a run too long for `all` of that, the lists have the changes of what the critical path
    consists of most, `overlap` may be None, and nobody asks what bounds the run then.
    """

    bound: Bound
    sentence: str
    resources: Sequence[WhatIf]
    pair: WhatIf | None
    overlap: WhatIf | None
    changes: Sequence[WhatIf]
    all: bool

    @property
    def together(self) -> list[WhatIf]:
        """The pair and the overlap, as far as they are there."""
        return [one for one in (self.pair, self.overlap) if one is not None]

    def to_dict(self) -> dict[str, Any]:
        return {
            "bound_by": self.bound.what,
            "sentence": self.sentence,
            "resources": [one.to_dict() for one in self.resources],
            "pair": self.pair.to_dict() if self.pair is not None else None,
            "perfect_overlap": self.overlap.to_dict() if self.overlap is not None else None,
            "changes": [one.to_dict() for one in self.changes],
            "all": self.all,
        }


@dataclass(frozen=True, repr=False)
class Why:
    """How long the slowest core of a launch takes, the source lines on its critical path, those
    that keep it longest first, and what there is to say of that. `number` is the core's in its
    world. `top` is how many lines are changed, and how many rows of each kind are printed."""

    kernel: str
    target: str
    world: World
    number: int
    estimate: Estimate
    lines: Sequence[Line]
    answers: Answers | None
    top: int

    def to_dict(self) -> dict[str, Any]:
        """Times in seconds, shares and gains as parts of one."""
        total = self.estimate.seconds * 1e9 or 1.0
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "target": self.target,
            "rank": self.world.rank(self.number),
            "core": self.world.core(self.number),
            "total_time": self.estimate.seconds,
            "lines": [self._line(line, total) for line in self.lines],
        }
        if self.answers is not None:
            found |= self.answers.to_dict()
        return found

    def _line(self, line: Line, total: float) -> dict[str, Any]:
        found = {
            "place": str(line.place),
            "text": line.place.text.strip(),
            "instructions": sorted({call.name for call in line.calls}),
            "count": line.count,
            "on_critical_path": line.steps,
            "share": line.ns / total,
        }
        if self.answers is not None:
            found["parts"] = {name: ns / total for name, ns in line.parts.named.items()}
        return found

    def without_answers(self) -> Why:
        """The critical path alone: for classes in which the rest is what is asked."""
        return replace(self, answers=None)

    def __repr__(self) -> str:
        """What a notebook shows, and `print`."""
        return "\n".join(_text(self))


def why(kernel: str, timeline: Timeline, top: int = 5, room: int = ROOM) -> Why:
    """Of a core, by its timeline; that of the slowest core is what counts of a launch. So many
    instructions, in all, are scheduled again for what-ifs."""
    said, found = estimate(timeline), lines.on_the_path(timeline)
    answers, times = None, room // (sum(map(len, timeline.launch)) or 1)
    if found and times >= ALL:
        answers = _answers(timeline, said.bound, found, top)
    elif found:
        answers = _some_answers(timeline, said.bound, found, top, times)
    return Why(
        kernel=kernel,
        target=timeline.machine.name,
        world=timeline.world,
        number=timeline.core,
        estimate=said,
        lines=found,
        answers=answers,
        top=top,
    )


def _some_answers(
    timeline: Timeline, limit: Bound, found: Sequence[Line], top: int, times: int
) -> Answers:
    """As many as scheduling so many times gives, besides what the bound was found by."""
    overlap = _overlap(as_it_is(timeline))
    each = chain([overlap], promising(timeline, found[:top]))
    made = [outcome(change, timeline).effect for change in islice(each, times)]
    names = {resource.name for resource in RESOURCES}
    ranked = sorted([*tried(timeline), *made], key=lambda one: -one.gain)
    resources = [_effect(one) for one in ranked if one.change.what in names]
    return Answers(
        bound=limit,
        sentence=sentence(timeline, limit, found) + _contrast(limit, resources),
        resources=resources,
        pair=None,
        overlap=next((_effect(one) for one in made if one.change is overlap), None),
        changes=[
            _effect(one) for one in ranked
            if one.change is not overlap and one.change.what not in names
        ],
        all=False,
    )  # fmt: skip


def _answers(timeline: Timeline, limit: Bound, found: Sequence[Line], top: int) -> Answers:
    base = as_it_is(timeline)
    each = [outcome(resource.change(base), timeline) for resource in RESOURCES]
    resources = _first(each, top)
    of_lines = (change for line in found[:top] for change in lines.changes(base, line))
    both = None
    if limit.gain < ALONE:
        both = _what_if(pair(timeline, each), asked=True)
    return Answers(
        bound=limit,
        sentence=_sentence(timeline, limit, found, both) + _contrast(limit, resources),
        resources=resources,
        pair=both,
        overlap=_what_if(outcome(_overlap(base), timeline), asked=True),
        changes=_first([outcome(change, timeline) for change in of_lines], top),
        all=True,
    )


def _sentence(timeline: Timeline, limit: Bound, found: Sequence[Line], both: WhatIf | None) -> str:
    if both is None or both.gain < ALONE:
        return sentence(timeline, limit, found)
    return (
        f"bound by {both.what} at the same time: more of both saves {both.gain:.0%}, "
        f"of one at most {limit.gain:.0%}"
    )


def _contrast(limit: Bound, resources: Sequence[WhatIf]) -> str:
    """What readers would try where transfers are the matter, if it is in vain."""
    bandwidth = (one for one in resources if one.what == "DMA bandwidth")
    in_vain = limit.what.startswith("DMA") and limit.gain >= ALONE
    in_vain &= any(not one.matters for one in bandwidth)
    return ", bandwidth does not" if in_vain else ""


def _overlap(base: Change) -> Change:
    free = [Variation(loose=np.ones(len(program), np.bool_)) for program in base.programs]
    return replace(base, what="perfect overlap", how="where nothing waits", variations=free)


def _first(outcomes: Iterable[Outcome], top: int) -> list[WhatIf]:
    """What saves most first; of so many of them also what bounds the run then."""
    made = sorted(outcomes, key=lambda one: -one.gain)
    return [_what_if(one, number < top) for number, one in enumerate(made)]


def _what_if(one: Outcome, asked: bool) -> WhatIf:
    then = bound_of(one.change, one.timeline).what if asked else None
    return _effect(one.effect, then)


def _effect(one: Effect, bound: str | None = None) -> WhatIf:
    return WhatIf(one.change.what, one.change.how, one.ns, one.gain, bound)


def _text(told: Why) -> Iterator[str]:
    yield f"{told.kernel} on {told.target}{_whose(told)}   {told.estimate.time}"
    if not told.lines:
        yield "no instruction was issued"
        return
    if told.answers is not None:
        yield told.answers.sentence
    yield from ("", *_path(told))
    if told.answers is not None:
        yield from ("", *_what_ifs(told.answers, told.top))


def _whose(told: Why) -> str:
    """Whose core it is, of several ranks."""
    if told.world.ranks == 1:
        return ""
    return f", {told.world.named(told.number)}, the slowest of {told.world.ranks} ranks"


def _what_ifs(told: Answers, top: int) -> Iterator[str]:
    yield f"{'what if':<52}{'estimate':>10}{'change':>9}   {'then bound by' * told.all}".rstrip()
    shown = *told.resources[:top], *told.together, *told.changes[:top]
    for one in (one for one in shown if one.matters):
        row = f"  {one!s:<50}{duration(one.ns):>10}{-one.gain:>+9.0%}   {one.bound or ''}"
        yield row.rstrip()
    if also := [f"{one} {-one.gain:+.0%}" for one in told.resources[top:] if one.matters]:
        yield f"also: {', '.join(also)}"
    if idle := [str(one) for one in told.resources if not one.matters]:
        yield f"no difference: {', '.join(idle)}"
    if not told.all:
        yield f"({SOME})"


def _path(told: Why) -> Iterator[str]:
    yield "critical path by source line"
    total = told.estimate.seconds * 1e9
    for line in told.lines[: told.top]:
        names = "/".join(sorted({call.name for call in line.calls}))
        parts = line.parts.named if told.answers is not None else {}
        seen = ((name, ns / total) for name, ns in parts.items() if ns > total / 200)
        said = ", ".join(f"{name} {share:.0%}" for name, share in seen)
        yield f"  {line.ns / total:5.0%}  {line.name:<23} {names:<21} {said}".rstrip()
    if (rest := len(told.lines) - told.top) > 0:
        part = sum(line.ns for line in told.lines[told.top :]) / total
        yield f"  {part:5.0%}  {rest} other lines"
