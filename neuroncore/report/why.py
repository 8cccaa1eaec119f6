"""The bottleneck of a run, and what would help: for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.structs import dataclass
from neuroncore.base.units import duration, plural, size
from neuroncore.machine.world import World
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.time import lines
from neuroncore.time.changes import RESOURCES, Change, as_it_is
from neuroncore.time.lines import Line
from neuroncore.time.path import Parts
from neuroncore.time.promise import promising
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.variation import Variation
from neuroncore.time.verdict import (
    ALONE,
    Bound,
    ChangeOutcome,
    Effect,
    bound_of,
    outcome,
    pair,
    tried,
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BoundText:
    """How to report a resource: the part of a line that belongs to it, and the sentence."""

    share: Callable[[Parts], float]
    sentence: Callable[[Timeline, str], str]


def sentence(timeline: Timeline, limit: Bound, lines: Sequence[Line]) -> str:
    """Return the sentence, without a period. `lines` are the lines on the critical path."""
    if limit.what == "nothing":
        return f"bound by {limit}"
    told = TOLD[limit.what] if limit.what in TOLD else _of_engine(limit.what)
    where = max(lines, key=lambda line: told.share(line.parts), default=None)
    said = told.sentence(timeline, where.name if where is not None else "")
    if limit.gain < ALONE:
        return f"bound by no single resource; first by {said}"
    return f"bound by {said}"


def _of_engine(name: str) -> BoundText:
    queue = QUEUES.index(name)

    def said(timeline: Timeline, where: str) -> str:
        count = int((timeline.queue == queue).sum())
        busy = timeline.busy_share[name]
        return (
            f"the {name} engine: busy {busy:.0%} of the time with {plural(count, 'instruction')}, "
            f"most on the critical path at {where}; give it less work, or move some to another "
            "engine"
        )

    return BoundText(lambda parts: parts.work.get(name, 0.0), said)


def _bandwidth(timeline: Timeline, where: str) -> str:
    moved, spent = _moved(timeline), timeline.total_ns
    return (
        f"DMA bandwidth: {size(moved)} at {moved / spent:.0f} GB/s, mostly at {where}; move fewer "
        "bytes: use narrower types, load reused data once"
    )


def _rows(timeline: Timeline, where: str) -> str:
    count = int(timeline.moves.sum())
    return (
        f"DMA rows: {plural(count, 'transfer')} of {size(_moved(timeline) / count)} on average, "
        f"mostly at {where}; move longer contiguous rows of HBM"
    )


def _issue(timeline: Timeline, where: str) -> str:
    own = timeline.moves
    each = duration(float(timeline.busy[own].mean()))
    return (
        f"DMA issue: {plural(int(own.sum()), 'transfer')}, one per {each}, mostly at {where}; "
        "use fewer, larger transfers"
    )


def _transfer_latency(timeline: Timeline, where: str) -> str:
    dma = timeline.machine.dma
    each = duration(dma.issue_ns + dma.load_latency_ns)
    return (
        f"DMA latency (about {each} per transfer, whatever its size), mostly at {where}; start "
        "loads earlier, or overlap them with compute"
    )


def _latency(_: Timeline, where: str) -> str:
    return (
        f"latency: instructions wait for the previous result, mostly at {where}; put independent "
        "work between them"
    )


def _overhead(timeline: Timeline, where: str) -> str:
    count = plural(int((~timeline.moves).sum()), "instruction")
    return f"the fixed cost of {count}, mostly at {where}; use fewer, larger ones"


def _warm_up(_: Timeline, where: str) -> str:
    return f"the warm-up of the Tensor engine, mostly at {where}; issue products without gaps"


def _tables(_: Timeline, where: str) -> str:
    return (
        f"loads of activation tables, one per change of function, mostly at {where}; group calls "
        "of the same function"
    )


def _space(_: Timeline, where: str) -> str:
    return (
        f"buffer reuse: tiles wait until the previous contents of their buffer are read, mostly at "
        f"{where}; double-buffer them"
    )


def _moved(timeline: Timeline) -> int:
    calls, times = np.unique(timeline.columns.call[timeline.moves], return_counts=True)
    each = (timeline.program.calls[call].written_bytes for call in calls.tolist())
    return sum(one * many for one, many in zip(each, times.tolist(), strict=True))


def _work(parts: Parts) -> float:
    return sum(parts.work.values())


TOLD = {
    "DMA bandwidth": BoundText(lambda parts: parts.moves, _bandwidth),
    "DMA rows": BoundText(lambda parts: parts.moves, _rows),
    "DMA issue": BoundText(lambda parts: parts.issue, _issue),
    "DMA latency": BoundText(lambda parts: parts.transfer_latency, _transfer_latency),
    "latency": BoundText(lambda parts: parts.latency, _latency),
    "overhead": BoundText(_work, _overhead),
    "warm-up": BoundText(lambda parts: parts.work.get("Tensor", 0.0), _warm_up),
    "activation tables": BoundText(lambda parts: parts.work.get("Scalar", 0.0), _tables),
    "space": BoundText(lambda parts: parts.latency + parts.transfer_latency, _space),
}


SCHEMA = "neuroncore.why/1"
NOTHING = 0.01  # relative changes of the time below this count as none
ROOM = 24_000_000  # instructions to schedule again in total: about 15 s
SOME = "long run: only the changes for the largest parts of the critical path were scheduled"
ALL = 120  # maximum number of schedules for all what-ifs


@dataclass(frozen=True)
class WhatIf:
    """A change, the time with it in nanoseconds, the fraction of the time that it saves
    (negative if it takes longer), and the new bottleneck, or None if that was not computed."""

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
    """The bottleneck of a core, also as a sentence, and what-ifs: more of each resource, perfect
    overlap, and changes of the most expensive lines. Each list begins with the change that saves
    most. If no single resource saves enough, `pair` has the two that save most together.

    If a run is too long for `all` changes, the lists have those for the largest parts of the
    critical path, `overlap` may be None, and the new bottlenecks are not computed.
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
        """Return the pair and the overlap, if they exist."""
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
    """The time of the slowest core of a launch, the source lines on its critical path (the longest
    first), and the answers. `number` is the number of the core in its world. `top` is the number of
    lines that are changed, and of rows of each kind that are printed."""

    kernel: str
    target: str
    world: World
    number: int
    estimate: Estimate
    lines: Sequence[Line]
    answers: Answers | None
    top: int

    def to_dict(self) -> dict[str, Any]:
        """Return fields for JSON: times in seconds, shares and gains as fractions."""
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
        """Return only the critical path, for coursework in which students find the rest."""
        return replace(self, answers=None)

    def __repr__(self) -> str:
        """Return the text for notebooks and `print`."""
        return "\n".join(_text(self))


def why(kernel: str, timeline: Timeline, top: int = 5, room: int = ROOM) -> Why:
    """Return the answers for a core, normally the slowest of a launch. `budget` limits the
    number of instructions that are scheduled again for what-ifs."""
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
    """Return the answers of a limited number of schedules, beyond those for the bottleneck."""
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
        f"bound by {both.what} together: more of both saves {both.gain:.0%}, more of one at most "
        f"{limit.gain:.0%}"
    )


def _contrast(limit: Bound, resources: Sequence[WhatIf]) -> str:
    """Return a remark if transfers are the bottleneck but more bandwidth would not help."""
    bandwidth = (one for one in resources if one.what == "DMA bandwidth")
    in_vain = limit.what.startswith("DMA") and limit.gain >= ALONE
    in_vain &= any(not one.matters for one in bandwidth)
    return "; more bandwidth would not help" if in_vain else ""


def _overlap(base: Change) -> Change:
    free = [Variation(loose=np.ones(len(program), np.bool_)) for program in base.programs]
    return replace(base, what="perfect overlap", how="without waits", variations=free)


def _first(outcomes: Iterable[ChangeOutcome], top: int) -> list[WhatIf]:
    """Return outcomes sorted by savings, the first `top` with their new bottlenecks."""
    made = sorted(outcomes, key=lambda one: -one.gain)
    return [_what_if(one, number < top) for number, one in enumerate(made)]


def _what_if(one: ChangeOutcome, asked: bool) -> WhatIf:
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
    """Return the name of the core if there are several ranks."""
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
