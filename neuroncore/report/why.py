"""The bottleneck of a run, and the changes that would help, for people and for programs."""

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
from neuroncore.time.schedule import Timeline
from neuroncore.time.variation import Variation
from neuroncore.time.verdict import (
    CHAIN,
    Bound,
    BoundSearch,
    Effect,
    bound_search,
    matters,
    then_bound_by,
)
from neuroncore.time.worlds import changes_of_worlds, world_bound

SCHEMA = "neuroncore.why/2"
NOTHING = 0.01  # relative changes of the time below this count as none
ROOM = 400_000  # instructions that are scheduled again, in total: about 0.3 s
ROUNDS = 8  # least number of schedules, even for a long run
MUCH, MOSTLY = 0.1, 0.3  # shares of the critical path at which waits for space are reported
MOST = 48  # most schedules of edits
PART = 0.6  # the share of all schedules that edits may use
SOME = "long run: only the changes for the largest parts of the critical path were scheduled"


@dataclass(frozen=True)
class WhatIf:
    """A change, the time with it in nanoseconds, the fraction of the time that it saves (negative
    if it takes longer), and the new bottleneck (`bound`)."""

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
    """An edit of the kernel: `what` is the line and `how` what to do there. The gain, a fraction of
    the time, is expected between `low` and `high`. `sbuf` and `psum` are the additional bytes per
    partition that the edit needs."""

    low: float
    high: float
    sbuf: int
    psum: int

    def __str__(self) -> str:
        return f"{self.what}: {self.how}"

    @property
    def space(self) -> str:
        """Return the space that an edit takes, in words."""
        both = (self.sbuf, "SBUF"), (self.psum, "PSUM")
        return ", ".join(f"+{size(taken)} {name}" for taken, name in both if taken)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "gain_range": [self.low, self.high],
            "sbuf_bytes_per_partition": self.sbuf,
            "psum_bytes_per_partition": self.psum,
        }


@dataclass(frozen=True)
class Answers:
    """The bottleneck (`bound`) and a sentence about it; the names of the lines that take most of
    the critical path, in order (`chain`); edits of the kernel that save time, the best first;
    what-ifs with other collectives or ranks (`world`); and what-ifs that no edit reaches
    (`limits`): more of each resource, and perfect overlap. If `all` is False, the run was too long
    to schedule all changes."""

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
            "edits": [one.to_dict() for one in self.edits],
            "ranks": [one.to_dict() for one in self.world],
            "limits": [one.to_dict() for one in self.limits],
            "all": self.all,
        }


@dataclass(frozen=True, repr=False)
class Why:
    """The time of the slowest core of a launch, the source lines on its critical path, the longest
    first, and the answers. If there are several ranks, the path goes through all of them. `number`
    is the number of the core in its world. `top` is how many rows of each kind are printed."""

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
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "target": self.target,
            "rank": self.world.rank(self.number),
            "core": self.world.core(self.number),
            "total_time": self.estimate.seconds,
            "lines": [self._line(line, total) for line in self.lines],
        }
        if self.clock is not None:
            found |= self.clock.to_dict()
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
            found["waited_for"] = {name: ns / total for name, ns in line.held.items() if ns > 0}
        return found

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
    """Return the answers for a core, usually the slowest of a launch. If `world` has the timelines
    of several cores, one of which is this core, the answers are about all of them. `room` limits
    the number of instructions that are scheduled again."""
    world = world if len(world) > 1 else ()
    every = world or (timeline,)
    said = estimate(max(every, key=lambda one: one.total_ns))
    found = lines.on_the_path(timeline, world)
    rounds = max(ROUNDS, room // (sum(map(len, timeline.launch)) or 1))
    return Why(
        kernel=kernel,
        target=timeline.machine.name,
        world=timeline.world,
        number=timeline.core,
        estimate=said,
        lines=found,
        answers=_Asking(timeline, world, found, rounds).answers() if found else None,
        top=top,
        clock=clock_phase(timeline),
    )


class _Asking:
    """Finds the answers about one launch by scheduling it again with changes, at most `rounds`
    times."""

    def __init__(
        self, timeline: Timeline, world: Sequence[Timeline], found: Sequence[Line], rounds: int
    ) -> None:
        self.timeline, self.world, self.lines, self.rounds = timeline, world, found, rounds
        self.total = max(one.total_ns for one in world or (timeline,))
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
            said = world_sentence(self.world, limit)
        else:
            said = sentence(
                self.timeline, self.search.bound, self.lines, self._space(waits, MOSTLY)
            )
        space = "" if space in said else space
        notes = (space, _contrast(self.search.bound, limits), _first(edits))
        return Answers(
            bound=limit or self.search.bound,
            sentence="; ".join((said, *filter(None, notes))),
            chain=[line.name for line in chain_of(self.timeline, self.lines)],
            edits=edits,
            world=self._ranks(),
            limits=limits,
            all=self.all,
        )

    def _space(self, waits: Sequence[SpaceWait], least: float) -> str:
        """Return which line waits for which buffer (`waiting_for_space`). Return an empty string if
        waits for buffers take less than the fraction `least` of the total time."""
        held = sum(line.held[ON_PATH[SPACE]] for line in self.lines)
        return waiting_for_space(waits) if held >= least * self.total else ""

    def _edits(self, waits: Sequence[SpaceWait]) -> list[Advice]:
        """Return the edits that save time, the best first. If two save the same, the one that needs
        less space comes first."""
        found = candidates(self.search.base, self.timeline, self.lines, waits)
        rounds = min(MOST, int(PART * self.rounds))
        made = [self._advice(one) for one in islice(found, rounds)]
        self.all &= next(found, None) is None
        ranked = sorted(made, key=lambda one: (-round(one.gain, 3), one.sbuf + one.psum))
        return [one for one in ranked if one.gain >= NOTHING]

    def _advice(self, one: Edit) -> Advice:
        timelines = one.change.timelines()
        made = timelines[self.timeline.core]
        ns = self._ns(timelines)
        ratio, margin = ns / self.total, exp(pairs.margin(self.work, pairs.work(made)))
        return Advice(
            what=one.place.short,
            how=one.action,
            ns=ns,
            gain=1 - ratio,
            bound=then_bound_by(made),
            low=1 - ratio * margin,
            high=1 - ratio / margin,
            sbuf=one.sbuf,
            psum=one.psum,
        )

    def _ns(self, timelines: Sequence[Timeline]) -> float:
        """Return the time with a change, in nanoseconds: of the slowest core if there is a world,
        otherwise of this core."""
        if self.world:
            return max(one.total_ns for one in timelines)
        return timelines[self.timeline.core].total_ns

    def _ranks(self) -> list[WhatIf]:
        if self.timeline.world.ranks == 1 or not self.world:
            return []
        changes = changes_of_worlds(self.search.base, self.world)
        return sorted(map(self._what_if, changes), key=lambda one: -one.gain)

    def _what_if(self, change: Change) -> WhatIf:
        timelines = change.timelines()
        ns, made = self._ns(timelines), timelines[self.timeline.core]
        return WhatIf(change.what, change.how, ns, 1 - ns / self.total, then_bound_by(made))

    def _limits(self) -> list[WhatIf]:
        """Return the what-ifs that no edit reaches: more of each resource that may save time, and
        perfect overlap."""
        found, base = parts(self.timeline, steps(self.timeline)), self.search.base
        known = {one.change.what for one in self.search.effects}
        made = [self._effect(one) for one in self.search.effects]
        likely = [r for r in RESOURCES if r.name not in known and self._may_save(r, found)]
        likely.sort(key=lambda resource: -resource.saves(found))
        rounds = max(0, self.rounds - int(PART * self.rounds) - 1)
        self.all &= len(likely) <= rounds
        changes = [resource.change(base) for resource in likely[:rounds]]
        made += map(self._what_if, [*changes, _overlap(base)])
        return sorted(made, key=lambda one: -one.gain)

    def _may_save(self, resource: Any, found: PathParts) -> bool:
        return matters(resource, found, self.timeline.total_ns, NOTHING)

    def _effect(self, one: Effect) -> WhatIf:
        change = one.change
        return WhatIf(change.what, change.how, one.ns, one.gain, one.then)


def _overlap(base: Change) -> Change:
    free = [Variation(loose=np.ones(len(program), np.bool_)) for program in base.programs]
    return replace(base, what="perfect overlap", how="without waits", variations=free)


def _contrast(limit: Bound, limits: Sequence[WhatIf]) -> str:
    """Return a remark if the bottleneck is the number or latency of transfers and more bandwidth
    would not help."""
    helps = any(one.what == "DMA bandwidth" and one.matters for one in limits)
    in_vain = limit.what in ("DMA issue", "DMA latency", "DMA rows") and not helps
    return "more bandwidth would not help" if in_vain else ""


def _first(edits: Sequence[Advice]) -> str:
    """Return the first edit as part of a sentence."""
    if not edits:
        return "none of the edits that were tried saves 1% or more"
    return f"best edit, at {edits[0].what}: {edits[0].how} ({-edits[0].gain:+.0%})"


# --- output ---------------------------------------------------------------------------------------


WIDTH = 64  # characters for the description of a change
WAITS = "waits between instructions"  # a serial chain in a table


def _text(result: Why) -> Iterator[str]:
    yield _head(result)
    if not result.lines:
        yield "no instruction was issued"
        return
    if result.answers is not None:
        yield result.answers.statements
    yield from ("", *_path(result))
    if result.answers is not None:
        yield from ("", *_edits(result.answers, result.top))
        yield from ("", *_limits(result.answers, result.top))
    if result.clock is not None:
        yield f"clock: {result.clock}"


def _head(result: Why) -> str:
    return f"{result.kernel} on {result.target}{_whose(result)}   {result.estimate.time}"


def _html(result: Why) -> Iterator[str]:
    total, found = result.estimate.seconds * 1e9, result.answers
    if found is not None:
        yield display.line(found.sentence)
        edits = [
            (str(one), duration(one.ns), f"{-one.gain:+.0%}", _range(one), one.space)
            for one in found.edits[: result.top]
        ]
        yield display.table(edits, ("edit", "estimate", "change", "range", "takes"))
        others = [one for one in (*found.world, *found.limits) if one.matters][: result.top]
        limits = [(str(one), duration(one.ns), f"{-one.gain:+.0%}") for one in others]
        yield display.table(limits, ("limit", "estimate", "change"))
    shares = ((line, line.ns / total) for line in result.lines[: result.top])
    rows = ((line.name, display.bar(share), f"{share:.0%}") for line, share in shares)
    yield display.table(rows, ("line", "on the critical path", ""))


def _whose(result: Why) -> str:
    """Return a text that names the core if there are several ranks; otherwise an empty string."""
    if result.world.ranks == 1:
        return ""
    return f", {result.world.named(result.number)}, the slowest of {result.world.ranks} ranks"


def _edits(result: Answers, top: int) -> Iterator[str]:
    if not result.edits:
        yield "edits: none that was tried saves 1% or more"
    else:
        head = f"{'edit':<{WIDTH}}{'estimate':>12}{'change':>8}  {'range':<16}{'takes':<16}"
        yield f"{head}then bound by"
    for one in result.edits[:top]:
        yield f"  {one!s:<{WIDTH}}{_change(one)}  {_range(one):<16}{one.space:<16}{_bound(one)}"
    if left := len(result.edits) - top:
        yield from [f"and {left} more"] * (left > 0)
    if result.world:
        yield ""
        yield "with other ranks or collectives"
    for row in result.world:
        yield f"  {row!s:<{WIDTH}}{_change(row)}  then {_bound(row)}"


def _limits(result: Answers, top: int) -> Iterator[str]:
    yield "limits: what ideal hardware would save"
    shown = [one for one in result.limits if one.matters]
    for one in shown[:top]:
        yield f"  {one!s:<{WIDTH}}{_change(one)}"
    if smaller := [f"{one} {-one.gain:+.0%}" for one in shown[top:]]:
        yield f"smaller limits: {', '.join(smaller)}"
    if not result.all:
        yield f"({SOME})"


def _bound(one: WhatIf) -> str:
    return WAITS if one.bound == CHAIN else one.bound


def _change(one: WhatIf) -> str:
    return f"{duration(one.ns):>10}{-one.gain:>+8.0%}"


def _range(one: Advice) -> str:
    return f"{-one.high:+.0%} to {-one.low:+.0%}"


def _path(result: Why) -> Iterator[str]:
    yield "critical path by source line"
    total = result.estimate.seconds * 1e9
    for line in result.lines[: result.top]:
        names = "/".join(sorted({call.name for call in line.calls}))
        parts = line.parts.named if result.answers is not None else {}
        seen = ((name, ns / total) for name, ns in parts.items() if ns > total / 200)
        said = ", ".join(f"{name} {share:.0%}" for name, share in seen)
        held = line.held[ON_PATH[SPACE]] / total
        if result.answers is not None and held >= 0.01:
            said += f"; begins when space is free {held:.0%}"
        yield f"  {line.ns / total:5.0%}  {line.name:<23} {names:<21} {said}".rstrip()
    if (rest := len(result.lines) - result.top) > 0:
        part = sum(line.ns for line in result.lines[result.top :]) / total
        yield f"  {part:5.0%}  {plural(rest, 'other line')}"
