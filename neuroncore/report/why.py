"""Why a run takes as long as it does, and what would help: for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuroncore.analysis import lines
from neuroncore.analysis.changes import RESOURCES, Change, as_it_is
from neuroncore.analysis.lines import Line
from neuroncore.analysis.verdict import ALONE, Bound, Outcome, bound_of, outcome, pair
from neuroncore.report.bounds import sentence
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.report.units import duration
from neuroncore.schedule import Timeline, Variation

SCHEMA = "neuroncore.why/1"
NOTHING = 0.01  # a part of the time: what changes it by less changes nothing


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
    is first in its list. Where no one resource saves enough, `pair` are the two that do."""

    bound: Bound
    sentence: str
    resources: Sequence[WhatIf]
    pair: WhatIf | None
    overlap: WhatIf
    changes: Sequence[WhatIf]

    def to_dict(self) -> dict[str, Any]:
        return {
            "bound_by": self.bound.what,
            "sentence": self.sentence,
            "resources": [one.to_dict() for one in self.resources],
            "pair": self.pair.to_dict() if self.pair is not None else None,
            "perfect_overlap": self.overlap.to_dict(),
            "changes": [one.to_dict() for one in self.changes],
        }


@dataclass(frozen=True, repr=False)
class Why:
    """How long the slowest core of a launch takes, the source lines on its critical path, those
    that keep it longest first, and what there is to say of that. `top` is how many lines are
    changed, and how many rows of each kind are printed."""

    kernel: str
    target: str
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


def why(kernel: str, timeline: Timeline, top: int = 5) -> Why:
    """Of a core, by its timeline; that of the slowest core is what counts of a launch."""
    said, found = estimate(timeline), lines.on_the_path(timeline)
    answers = _answers(timeline, said.bound, found, top) if found else None
    return Why(kernel, timeline.machine.name, said, found, answers, top)


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
    (bandwidth,) = (one for one in resources if one.what == "DMA bandwidth")
    in_vain = limit.what.startswith("DMA") and limit.gain >= ALONE and not bandwidth.matters
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
    return WhatIf(one.change.what, one.change.how, one.timeline.total_ns, one.gain, then)


def _text(told: Why) -> Iterator[str]:
    yield f"{told.kernel} on {told.target}   {told.estimate.time}"
    if not told.lines:
        yield "no instruction was issued"
        return
    if told.answers is not None:
        yield told.answers.sentence
    yield from ("", *_path(told))
    if told.answers is not None:
        yield from ("", *_what_ifs(told.answers, told.top))


def _what_ifs(told: Answers, top: int) -> Iterator[str]:
    yield f"{'what if':<52}{'estimate':>10}{'change':>9}   then bound by"
    both = [told.pair] if told.pair is not None else []
    shown = *told.resources[:top], *both, told.overlap, *told.changes[:top]
    for one in (one for one in shown if one.matters):
        yield f"  {one!s:<50}{duration(one.ns):>10}{-one.gain:>+9.0%}   {one.bound}"
    if also := [f"{one} {-one.gain:+.0%}" for one in told.resources[top:] if one.matters]:
        yield f"also: {', '.join(also)}"
    if idle := [str(one) for one in told.resources if not one.matters]:
        yield f"no difference: {', '.join(idle)}"


def _path(told: Why) -> Iterator[str]:
    yield "critical path by source line"
    total = told.estimate.seconds * 1e9
    for line in told.lines[: told.top]:
        names = "/".join(sorted({call.name for call in line.calls}))
        parts = line.parts.named if told.answers is not None else {}
        seen = ((name, ns / total) for name, ns in parts.items() if ns > total / 200)
        said = ", ".join(f"{name} {share:.0%}" for name, share in seen)
        yield f"  {line.ns / total:5.0%}  {line.name:<24}{names:<22}{said}".rstrip()
    if (rest := len(told.lines) - told.top) > 0:
        part = sum(line.ns for line in told.lines[told.top :]) / total
        yield f"  {part:5.0%}  {rest} other lines"
