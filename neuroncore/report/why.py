"""The bottleneck of a run, and the changes that would help, for people and for programs.

A what-if is the estimate of the launch after one change, and an edit is a change that a programmer
can make to the kernel. A world is all ranks of a launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import exp
from typing import Any

import numpy as np

from neuroncore.base import display
from neuroncore.base.units import duration, plural, size
from neuroncore.machine.world import World
from neuroncore.report import pairs
from neuroncore.report.clock import ClockPhase, clock_phase
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.report.summary import assumptions
from neuroncore.report.verdicts import (
    chain_of,
    sentence,
    waiting_for_space,
    world_sentence,
)
from neuroncore.time import lines
from neuroncore.time.changes import RESOURCES, Change
from neuroncore.time.edits.buffers import SpaceWait, space_waits
from neuroncore.time.edits.candidates import candidates
from neuroncore.time.edits.edit import Edit
from neuroncore.time.lines import Line
from neuroncore.time.path import ON_PATH, SPACE, PathParts, parts, steps
from neuroncore.time.policy import POLICIES, requests
from neuroncore.time.schedule import Timeline
from neuroncore.time.variation import Variation
from neuroncore.time.verdict import (
    Bound,
    BoundSearch,
    Effect,
    bound_search,
    matters,
    then_bound_by,
)
from neuroncore.time.worlds import changes_of_worlds, world_bound

SCHEMA = "neuroncore.why/2"
NOTHING = 0.01  # smaller relative changes of the time count as none
ROOM = 400_000  # how many instructions are scheduled again in total: about 0.3 s
ROUNDS = 8  # the least number of schedules, even for a long run
# If waits for space take at least the share MUCH of the time, the sentence mentions them. If they
# take at least MOSTLY, the sentence names them as the reason for a serial chain.
MUCH, MOSTLY = 0.1, 0.3
MOST = 48  # the largest number of edits that are scheduled
PART = 0.6  # the share of all schedules that edits may use
REQUESTED = "in-order", "standalone"  # orders that only an option selects
SOME = "long run: only the changes for the largest parts of the critical path were tried"


@dataclass(frozen=True)
class WhatIf:
    """A change of a launch, and its effect.

    `what`: what changes.
    `how`: how it changes.
    `ns`: the time with the change, in nanoseconds.
    `gain`: the fraction of the time that is saved; negative if the launch takes longer.
    `bound`: the name of the new bottleneck."""

    what: str
    how: str
    ns: float
    gain: float
    bound: str

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
class Advice(WhatIf):
    """An edit of the kernel: `what` names the line, and `how` is the action there. The gain is a
    fraction of the time, expected between `low` and `high`. `sbuf` and `psum` are the additional
    bytes per partition that the edit needs."""

    low: float
    high: float
    sbuf: int
    psum: int

    def __str__(self) -> str:
        return f"{self.what}: {self.how}"

    @property
    def space(self) -> str:
        """Return the space that an edit takes, in words."""
        sizes = (self.sbuf, "SBUF"), (self.psum, "PSUM")
        return ", ".join(f"+{size(nbytes)} {name}" for nbytes, name in sizes if nbytes)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "gain_range": [self.low, self.high],
            "sbuf_bytes_per_partition": self.sbuf,
            "psum_bytes_per_partition": self.psum,
        }


@dataclass(frozen=True)
class Answers:
    """The answers about a run.

    `bound`: the bottleneck; `sentence` describes it.
    `chain`: the names of the lines that take most of the critical path, in order.
    `edits`: edits of the kernel that save time, the best first.
    `world`: what-ifs with other collectives or ranks.
    `limits`: what-ifs of ideal hardware: more of each resource, and perfect overlap.
    `all`: False if the run was too long to schedule all changes."""

    bound: Bound
    sentence: str
    chain: Sequence[str]
    edits: Sequence[Advice]
    world: Sequence[WhatIf]
    limits: Sequence[WhatIf]
    all: bool

    @property
    def statements(self) -> str:
        """The parts of the sentence, one per line, for a terminal."""
        return self.sentence.replace("; ", "\n  ")

    def to_dict(self) -> dict[str, Any]:
        return {
            "bound_by": self.bound.what,
            "sentence": self.sentence,
            "chain": list(self.chain),
            "edits": [edit.to_dict() for edit in self.edits],
            "ranks": [change.to_dict() for change in self.world],
            "limits": [limit.to_dict() for limit in self.limits],
            "all": self.all,
        }


@dataclass(frozen=True, repr=False)
class Why:
    """The slowest core of a launch: its time, and the lines on its critical path, the longest
    first.

    If there are several ranks, the path goes through all of them. `answers` is None without
    instructions and after `without_answers`. `number` is the number of the core in its world. `top`
    is how many rows of each kind are printed."""

    kernel: str
    target: str
    world: World
    number: int
    estimate: Estimate
    lines: Sequence[Line]
    answers: Answers | None
    top: int
    clock: ClockPhase | None

    def to_dict(self) -> dict[str, Any]:
        """Return fields for JSON: times in seconds, shares and gains as fractions."""
        total = self.estimate.seconds * 1e9 or 1.0
        fields: dict[str, Any] = {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "target": self.target,
            "rank": self.world.rank(self.number),
            "core": self.world.core(self.number),
            "total_time": self.estimate.seconds,
            **assumptions(self.estimate.timeline),
            "lines": [self._line(line, total) for line in self.lines],
        }
        if self.clock is not None:
            fields |= self.clock.to_dict()
        if self.answers is not None:
            fields |= self.answers.to_dict()
        return fields

    def _line(self, line: Line, total: float) -> dict[str, Any]:
        fields = {
            "place": str(line.place),
            "text": line.place.text.strip(),
            "instructions": sorted({call.name for call in line.calls}),
            "count": line.count,
            "on_critical_path": line.steps,
            "share": line.ns / total,
        }
        if self.answers is not None:
            fields["parts"] = {name: ns / total for name, ns in line.parts.named.items()}
            fields["waited_for"] = {name: ns / total for name, ns in line.held.items() if ns > 0}
        return fields

    def without_answers(self) -> Why:
        """Return only the critical path, for coursework in which students find the rest."""
        return replace(self, answers=None)

    def __repr__(self) -> str:
        """Return the text for `print`."""
        return "\n".join(_text(self))

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        return display.block(f"{_head(self)}", *_html(self))


def why(
    kernel: str,
    timeline: Timeline,
    top: int = 5,
    room: int = ROOM,
    world: Sequence[Timeline] = (),
) -> Why:
    """Return the critical path and the bottleneck of the core with this timeline, and edits that
    save time. If `world` has the timelines of several cores, the report is about all of them;
    `timeline` must be one of them. `room` limits the number of instructions that are scheduled
    again."""
    world = world if len(world) > 1 else ()
    every = world or (timeline,)
    slowest = estimate(max((timeline, *every), key=lambda each: each.total_ns))
    path_lines = lines.on_the_path(timeline, world)
    rounds = max(ROUNDS, room // (sum(map(len, timeline.launch)) or 1))
    return Why(
        kernel=kernel,
        target=timeline.machine.name,
        world=timeline.world,
        number=timeline.core,
        estimate=slowest,
        lines=path_lines,
        answers=_Search(timeline, world, path_lines, rounds).answers() if path_lines else None,
        top=top,
        clock=clock_phase(timeline),
    )


class _Search:
    """The search for the answers about one launch. The launch is scheduled again with changes, at
    most `rounds` times. `path_lines` are the lines on its critical path."""

    def __init__(
        self, timeline: Timeline, world: Sequence[Timeline], path_lines: Sequence[Line], rounds: int
    ) -> None:
        self.timeline, self.world, self.lines, self.rounds = timeline, world, path_lines, rounds
        self.total = max(each.total_ns for each in world or (timeline,))
        self.work = pairs.work(timeline)
        self.search: BoundSearch = bound_search(timeline)
        self.all = True

    def answers(self) -> Answers:
        limit = world_bound(self.world) if self.timeline.world.ranks > 1 and self.world else None
        waits = space_waits(self.timeline, steps(self.timeline))
        edits = self._edits(waits)
        limits = self._limits()
        space = self._space(waits, MUCH)
        if limit is not None:
            text = world_sentence(self.world, limit)
        else:
            text = sentence(
                self.timeline, self.search.bound, self.lines, self._space(waits, MOSTLY)
            )
        space = "" if space in text else space
        notes = (space, _contrast(self.search.bound, limits), _first(edits))
        return Answers(
            bound=limit or self.search.bound,
            sentence="; ".join((text, *filter(None, notes))),
            chain=[line.name for line in chain_of(self.timeline, self.lines)],
            edits=edits,
            world=self._ranks(),
            limits=limits,
            all=self.all,
        )

    def _space(self, waits: Sequence[SpaceWait], least: float) -> str:
        """Return the text about the first wait for a buffer (`waiting_for_space`). Return "" if
        waits for buffers take less than the fraction `least` of the total time."""
        waiting_ns = sum(line.held[ON_PATH[SPACE]] for line in self.lines)
        return waiting_for_space(waits) if waiting_ns >= least * self.total else ""

    def _edits(self, waits: Sequence[SpaceWait]) -> list[Advice]:
        """Return the edits that save time, the best first. If two edits save the same, the edit
        that needs less space comes first."""
        edits = candidates(self.search.base, self.timeline, self.lines, waits)
        rounds = min(MOST, int(PART * self.rounds))
        advice = [self._advice(edit) for edit in islice(edits, rounds)]
        self.all &= next(edits, None) is None
        ranked = sorted(advice, key=lambda each: (-round(each.gain, 3), each.sbuf + each.psum))
        return [each for each in ranked if each.gain >= NOTHING]

    def _advice(self, edit: Edit) -> Advice:
        timelines = edit.change.timelines()
        changed = timelines[self.timeline.core]
        ns = self._ns(timelines)
        ratio, margin = ns / self.total, exp(pairs.margin(self.work, pairs.work(changed)))
        return Advice(
            what=edit.place.short,
            how=edit.action,
            ns=ns,
            gain=1 - ratio,
            bound=then_bound_by(changed),
            low=1 - ratio * margin,
            high=1 - ratio / margin,
            sbuf=edit.sbuf,
            psum=edit.psum,
        )

    def _ns(self, timelines: Sequence[Timeline]) -> float:
        """Return the time with a change, in nanoseconds, from the changed timeline of each core. If
        the report is about several cores, this is the time of the slowest one."""
        if self.world:
            return max(timeline.total_ns for timeline in timelines)
        return timelines[self.timeline.core].total_ns

    def _ranks(self) -> list[WhatIf]:
        if self.timeline.world.ranks == 1 or not self.world:
            return []
        changes = changes_of_worlds(self.search.base, self.world)
        return sorted(map(self._what_if, changes), key=lambda what_if: -what_if.gain)

    def _what_if(self, change: Change) -> WhatIf:
        timelines = change.timelines()
        ns, changed = self._ns(timelines), timelines[self.timeline.core]
        return WhatIf(change.what, change.how, ns, 1 - ns / self.total, then_bound_by(changed))

    def _limits(self) -> list[WhatIf]:
        """Return the what-ifs of ideal hardware: more of each resource that may save time, and
        perfect overlap."""
        path_parts, base = parts(self.timeline, steps(self.timeline)), self.search.base
        known = {effect.change.what for effect in self.search.effects}
        what_ifs = [self._effect(effect) for effect in self.search.effects]
        likely = [r for r in RESOURCES if r.name not in known and self._may_save(r, path_parts)]
        likely.sort(key=lambda resource: -resource.saves(path_parts))
        rounds = max(0, self.rounds - int(PART * self.rounds) - 1)
        self.all &= len(likely) <= rounds
        changes = [resource.change(base) for resource in likely[:rounds]]
        what_ifs += map(self._what_if, [*changes, _overlap(base)])
        return sorted(what_ifs, key=lambda what_if: -what_if.gain)

    def _may_save(self, resource: Any, path_parts: PathParts) -> bool:
        return matters(resource, path_parts, self.timeline.total_ns, NOTHING)

    def _effect(self, effect: Effect) -> WhatIf:
        change = effect.change
        return WhatIf(change.what, change.how, effect.ns, effect.gain, effect.then)


def _overlap(base: Change) -> Change:
    """Return the change in which no instruction waits for data, space or other cores."""
    variations = [Variation(loose=np.ones(len(program), np.bool_)) for program in base.programs]
    return replace(base, what="perfect overlap", how="without waits", variations=variations)


def _contrast(limit: Bound, limits: Sequence[WhatIf]) -> str:
    """Return a remark if transfers are limited by their number or latency, not by bandwidth; else
    ""."""
    helps = any(limit.what == "DMA bandwidth" and limit.matters for limit in limits)
    in_vain = limit.what in ("DMA issue", "DMA latency", "DMA rows") and not helps
    return "more bandwidth would not help" if in_vain else ""


def _first(edits: Sequence[Advice]) -> str:
    """Return the best edit in words, or a remark that there is none, as a part of a sentence."""
    if not edits:
        return "no edit that was tried saves 1% or more"
    return f"best edit: at {edits[0].what}, {edits[0].how} ({-edits[0].gain:+.0%})"


# --- output ---------------------------------------------------------------------------------------


WIDTH = 64  # characters for the description of a change


def _text(report: Why) -> Iterator[str]:
    yield _head(report)
    if not report.lines:
        yield "no instruction was issued"
        return
    if report.answers is not None:
        yield report.answers.statements
    yield from ("", *_path(report))
    if report.answers is not None:
        yield from ("", *_edits(report.answers, report.top))
        yield from ("", *_limits(report.answers, report.top))
    if report.clock is not None:
        yield f"clock: {report.clock}"
    timeline = report.estimate.timeline
    if timeline.order in REQUESTED:
        yield f"order: {POLICIES[timeline.order].description}"
    yield from (f"{name}: {said}" for name, said in requests(timeline.program, timeline.order))


def _head(report: Why) -> str:
    return f"{report.kernel} on {report.target}{_whose(report)}   {report.estimate.time}"


def _html(report: Why) -> Iterator[str]:
    total, answers = report.estimate.seconds * 1e9, report.answers
    if answers is not None:
        yield display.line(answers.sentence)
        edits = [
            (str(edit), duration(edit.ns), f"{-edit.gain:+.0%}", _range(edit), edit.space)
            for edit in answers.edits[: report.top]
        ]
        yield display.table(edits, ("edit", "estimate", "change", "range", "memory"))
        others = [what_if for what_if in (*answers.world, *answers.limits) if what_if.matters][
            : report.top
        ]
        limits = [(str(limit), duration(limit.ns), f"{-limit.gain:+.0%}") for limit in others]
        yield display.table(limits, ("limit", "estimate", "change"))
    shares = ((line, line.ns / total) for line in report.lines[: report.top])
    rows = ((line.name, display.bar(share), f"{share:.0%}") for line, share in shares)
    yield display.table(rows, ("line", "on the critical path", ""))


def _whose(report: Why) -> str:
    """Return a text that names the core if there are several ranks; otherwise an empty string."""
    if report.world.ranks == 1:
        return ""
    return f", {report.world.named(report.number)}, the slowest of {report.world.ranks} ranks"


def _edits(answers: Answers, top: int) -> Iterator[str]:
    if not answers.edits:
        yield "edits: no edit that was tried saves 1% or more"
    else:
        head = f"{'edit':<{WIDTH}}{'estimate':>12}{'change':>8}  {'range':<16}{'memory':<16}"
        yield f"{head}then bound by"
    for edit in answers.edits[:top]:
        figures = f"{_change(edit)}  {_range(edit):<16}{edit.space:<16}{edit.bound}"
        yield f"  {edit!s:<{WIDTH}}{figures}"
    if more := len(answers.edits) - top:
        yield from [f"and {more} more"] * (more > 0)
    if answers.world:
        yield ""
        yield "with other ranks or collectives"
    for what_if in answers.world:
        yield f"  {what_if!s:<{WIDTH}}{_change(what_if)}  then bound by {what_if.bound}"


def _limits(answers: Answers, top: int) -> Iterator[str]:
    yield "limits: what ideal hardware would save"
    shown = [limit for limit in answers.limits if limit.matters]
    if not shown:
        yield "  nothing: no limit that was tried saves 1% or more"
    for limit in shown[:top]:
        yield f"  {limit!s:<{WIDTH}}{_change(limit)}"
    if smaller := [f"{limit} {-limit.gain:+.0%}" for limit in shown[top:]]:
        yield f"smaller limits: {', '.join(smaller)}"
    if not answers.all:
        yield f"({SOME})"


def _change(what_if: WhatIf) -> str:
    return f"{duration(what_if.ns):>10}{-what_if.gain:>+8.0%}"


def _range(edit: Advice) -> str:
    return f"{-edit.high:+.0%} to {-edit.low:+.0%}"


def _path(report: Why) -> Iterator[str]:
    yield "critical path by source line"
    total = report.estimate.seconds * 1e9
    for line in report.lines[: report.top]:
        names = "/".join(sorted({call.name for call in line.calls}))
        parts = line.parts.named if report.answers is not None else {}
        shares = ((name, ns / total) for name, ns in parts.items() if ns > total / 200)
        text = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        held = line.held[ON_PATH[SPACE]] / total
        if report.answers is not None and held >= 0.01:
            text += f"; begins when space is free {held:.0%}"
        yield f"  {line.ns / total:5.0%}  {line.name:<23} {names:<21} {text}".rstrip()
    if (rest := len(report.lines) - report.top) > 0:
        part = sum(line.ns for line in report.lines[report.top :]) / total
        yield f"  {part:5.0%}  {plural(rest, 'other line')}"
