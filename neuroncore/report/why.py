"""Why a run takes as long as it does, and what would help: for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuroncore.analysis import lines
from neuroncore.analysis.changes import RESOURCES, Change, as_it_is
from neuroncore.analysis.lines import Line
from neuroncore.analysis.path import Parts
from neuroncore.analysis.verdict import Outcome, bound_of, outcome
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
class Why:
    """What bounds the slowest core of a launch, the source lines on its critical path, and what if:
    more of each resource, what would be if nothing waited, and changes of the costliest lines; each
    list with what saves most first. `top` is how many lines are changed, and how many rows of a
    list are printed."""

    kernel: str
    target: str
    estimate: Estimate
    sentence: str
    lines: Sequence[Line]
    resources: Sequence[WhatIf]
    overlap: WhatIf | None
    changes: Sequence[WhatIf]
    top: int

    def to_dict(self) -> dict[str, Any]:
        """Times in seconds, shares and gains as parts of one."""
        total = self.estimate.seconds * 1e9 or 1.0
        return {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "target": self.target,
            "total_time": self.estimate.seconds,
            "bound_by": self.estimate.bound.what,
            "sentence": self.sentence,
            "lines": [_line(line, total) for line in self.lines],
            "resources": [one.to_dict() for one in self.resources],
            "perfect_overlap": self.overlap.to_dict() if self.overlap is not None else None,
            "changes": [one.to_dict() for one in self.changes],
        }

    def __str__(self) -> str:
        return "\n".join(_text(self))


def why(kernel: str, timeline: Timeline, top: int = 5) -> Why:
    """Of a core, by its timeline; the slowest core of a launch is what counts."""
    base, found = as_it_is(timeline), lines.on_the_path(timeline)
    resources = _first(timeline, (r.change(base) for r in RESOURCES), top)
    of_lines = (change for line in found[:top] for change in lines.changes(base, line))
    said = estimate(timeline)
    return Why(
        kernel=kernel,
        target=timeline.machine.name,
        estimate=said,
        sentence=sentence(timeline, said.bound, found) + _contrast(said.bound.what, resources),
        lines=found,
        resources=resources,
        overlap=_first(timeline, [_overlap(base)], 1)[0] if len(timeline.queue) else None,
        changes=_first(timeline, of_lines, top),
        top=top,
    )


def _contrast(bound: str, resources: Sequence[WhatIf]) -> str:
    """What readers try first where transfers are the matter, if it is in vain."""
    bandwidth = next((one for one in resources if one.what == "DMA bandwidth"), None)
    in_vain = bandwidth is not None and abs(bandwidth.gain) < NOTHING
    return ", bandwidth does not" if bound.startswith("DMA") and in_vain else ""


def _overlap(base: Change) -> Change:
    free = [Variation(loose=np.ones(len(program), np.bool_)) for program in base.programs]
    return replace(base, what="perfect overlap", how="where nothing waits", variations=free)


def _first(timeline: Timeline, changes: Iterable[Change], top: int) -> list[WhatIf]:
    """What comes of changes, what saves most first; of so many of them also what bounds it then."""
    made = sorted((outcome(c, timeline) for c in changes), key=lambda one: -one.gain)
    return [_what_if(one, number < top) for number, one in enumerate(made)]


def _what_if(one: Outcome, asked: bool) -> WhatIf:
    then = bound_of(one.change, one.timeline).what if asked else None
    return WhatIf(one.change.what, one.change.how, one.timeline.total_ns, one.gain, then)


def _line(line: Line, total: float) -> dict[str, Any]:
    return {
        "place": str(line.place),
        "text": line.place.text.strip(),
        "instructions": sorted({call.name for call in line.calls}),
        "count": line.count,
        "on_critical_path": line.steps,
        "share": line.ns / total,
        "parts": {name: ns / total for name, ns in _parts(line.parts)},
    }


def _parts(parts: Parts) -> list[tuple[str, float]]:
    """Those that there are, the longest first."""
    rest = parts._asdict()
    found = rest.pop("work") | {NAMES[name]: ns for name, ns in rest.items() if ns > 0}
    return sorted(found.items(), key=lambda part: -part[1])


NAMES = {
    "issue": "DMA issue",
    "moves": "DMA moving",
    "transfer_latency": "DMA latency",
    "latency": "latency",
}


def _text(told: Why) -> Iterator[str]:
    yield f"{told.kernel} on {told.target}   {told.estimate.time}"
    yield told.sentence
    if not told.lines:
        return
    yield ""
    yield from _path(told)
    yield ""
    yield f"{'what if':<52}{'estimate':>10}{'change':>9}   then bound by"
    overlap = [told.overlap] if told.overlap is not None else []
    for one in (*told.resources[: told.top], *overlap, *told.changes[: told.top]):
        yield f"  {str(one):<50}{duration(one.ns):>10}{-one.gain:>+9.0%}   {one.bound}"
    idle = [str(one) for one in told.resources if abs(one.gain) < NOTHING]
    if idle:
        yield f"no difference: {', '.join(idle)}"


def _path(told: Why) -> Iterator[str]:
    yield "critical path by source line"
    total = told.estimate.seconds * 1e9
    for line in told.lines[: told.top]:
        said = ", ".join(f"{name} {ns / total:.0%}" for name, ns in _parts(line.parts) if ns > total / 200)
        names = "/".join(sorted({call.name for call in line.calls}))
        yield f"  {line.ns / total:5.0%}  {line.name:<24}{names:<20}  {said}"
    if (rest := len(told.lines) - told.top) > 0:
        part = sum(line.ns for line in told.lines[told.top :]) / total
        yield f"  {part:5.0%}  {rest} other lines"
