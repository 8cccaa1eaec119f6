"""The critical path by source line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.source import Place
from neuroncore.clause.instruction import Call
from neuroncore.time.path import (
    ON_PATH,
    CriticalSteps,
    PathParts,
    across,
    parts_of_groups,
    steps,
)
from neuroncore.time.schedule import Timeline

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Line:
    """A source line on the critical path. `steps` is the number of its instructions on the path,
    `count` the number of all its instructions. The line occupies the path for `ns` nanoseconds. Two
    fields split this time: `parts` by activity (working, issuing, moving, waiting), and `held` by
    the reason why its instructions had waited before they began (a key of `path.ON_PATH`). `first`
    is the time in nanoseconds at which its first instruction on the path begins."""

    place: Place
    calls: tuple[Call, ...]
    steps: int
    count: int
    ns: float
    parts: PathParts
    held: dict[str, float]
    first: float

    @property
    def name(self) -> str:
        """Return the line as reports show it."""
        return self.place.short


def on_the_path(timeline: Timeline, world: Sequence[Timeline] = ()) -> list[Line]:
    """Return the lines on the critical path, those that occupy it longest first. If `world` has the
    timelines of all cores of a launch, the path goes through all of these cores."""
    found = across(world) if len(world) > 1 else [(timeline, steps(timeline))]
    made: dict[str, Line] = {}
    for own, each in found:
        for line in _lines(own, each):
            known = made.get(str(line.place))
            made[str(line.place)] = line if known is None else _sum(known, line)
    return sorted(made.values(), key=lambda one: -one.ns)


def _lines(timeline: Timeline, found: CriticalSteps) -> list[Line]:
    program, line = timeline.program, timeline.columns.line
    on_path, counts = line[found.instruction], np.bincount(line, minlength=len(program.lines))
    numbers: dict[str, list[int]] = {}
    for number in np.unique(on_path).tolist():
        numbers.setdefault(str(program.place(number)), []).append(number)
    group_of = np.full(len(program.lines), -1)
    for number, own in enumerate(numbers.values()):
        group_of[own] = number
    group, count = group_of[on_path], len(numbers)
    kinds = len(ON_PATH)
    held = np.bincount(group * kinds + found.held, found.ns, count * kinds).reshape(count, kinds)
    ns, times = np.bincount(group, found.ns, count), np.bincount(group, minlength=count)
    sums = parts_of_groups(timeline, found, group, count)
    calls = _calls(timeline, found.instruction, group, count)
    _, first = np.unique(group, return_index=True)
    return [
        Line(
            place=program.place(own[0]),
            calls=calls[k],
            steps=int(times[k]),
            count=int(counts[own].sum()),
            ns=float(ns[k]),
            parts=sums[k],
            held=dict(zip(ON_PATH, held[k].tolist(), strict=True)),
            first=float(timeline.begin[found.instruction[first[k]]]),
        )
        for k, own in enumerate(numbers.values())
    ]


def _calls(timeline: Timeline, at: Array, group: Array, count: int) -> list[tuple[Call, ...]]:
    """Return the distinct calls of each of `count` groups of instructions. Instruction at[k] is in
    group[k]."""
    calls = timeline.program.calls
    found = np.unique(group * len(calls) + timeline.columns.call[at])
    return [
        tuple(calls[n % len(calls)] for n in found[found // len(calls) == k].tolist())
        for k in range(count)
    ]


def _sum(one: Line, other: Line) -> Line:
    """Return the sum of the figures of one source line, which two cores have on the critical
    path."""
    return Line(
        place=one.place,
        calls=tuple(dict.fromkeys((*one.calls, *other.calls))),
        steps=one.steps + other.steps,
        count=one.count + other.count,
        ns=one.ns + other.ns,
        parts=one.parts + other.parts,
        held={name: ns + other.held[name] for name, ns in one.held.items()},
        first=min(one.first, other.first),
    )
