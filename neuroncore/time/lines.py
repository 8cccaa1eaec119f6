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
    """A source line on the critical path.

    `steps`: the number of instructions of the line that are on the path
    `count`: the number of all instructions of the line
    `ns`: how many nanoseconds the line occupies the path
    `parts`: `ns` by activity (working, issuing, moving, waiting)
    `held`: `ns` by the reason why instructions had to wait before they began (a key of
        `path.ON_PATH`)
    `first`: the time in nanoseconds at which the first step of the line begins"""

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
    """Return the lines on the critical path. Lines that occupy the path longest come first.

    `world`: the timelines of all cores of a launch, if the path goes through several cores"""
    paths = across(world) if len(world) > 1 else [(timeline, steps(timeline))]
    by_place: dict[str, Line] = {}
    for core_timeline, core_steps in paths:
        for line in _lines(core_timeline, core_steps):
            known = by_place.get(str(line.place))
            by_place[str(line.place)] = line if known is None else _sum(known, line)
    return sorted(by_place.values(), key=lambda line: -line.ns)


def _lines(timeline: Timeline, path_steps: CriticalSteps) -> list[Line]:
    program, line = timeline.program, timeline.columns.line
    on_path, counts = line[path_steps.instruction], np.bincount(line, minlength=len(program.lines))
    numbers: dict[str, list[int]] = {}
    for number in np.unique(on_path).tolist():
        numbers.setdefault(str(program.place(number)), []).append(number)
    group_of = np.full(len(program.lines), -1)
    for number, lines_at_place in enumerate(numbers.values()):
        group_of[lines_at_place] = number
    group, count = group_of[on_path], len(numbers)
    kinds = len(ON_PATH)
    held = np.bincount(group * kinds + path_steps.held, path_steps.ns, count * kinds).reshape(
        count, kinds
    )
    ns, times = np.bincount(group, path_steps.ns, count), np.bincount(group, minlength=count)
    sums = parts_of_groups(timeline, path_steps, group, count)
    calls = _calls(timeline, path_steps.instruction, group, count)
    _, first = np.unique(group, return_index=True)
    return [
        Line(
            place=program.place(lines_at_place[0]),
            calls=calls[k],
            steps=int(times[k]),
            count=int(counts[lines_at_place].sum()),
            ns=float(ns[k]),
            parts=sums[k],
            held=dict(zip(ON_PATH, held[k].tolist(), strict=True)),
            first=float(timeline.begin[path_steps.instruction[first[k]]]),
        )
        for k, lines_at_place in enumerate(numbers.values())
    ]


def _calls(timeline: Timeline, rows: Array, group: Array, count: int) -> list[tuple[Call, ...]]:
    """Return the distinct calls of each of `count` groups of instructions. Instruction rows[k] is
    in group group[k]."""
    calls = timeline.program.calls
    keys = np.unique(group * len(calls) + timeline.columns.call[rows])
    return [
        tuple(calls[n % len(calls)] for n in keys[keys // len(calls) == k].tolist())
        for k in range(count)
    ]


def _sum(first: Line, second: Line) -> Line:
    """Return a Line with the sums of the figures of one source line on two cores."""
    return Line(
        place=first.place,
        calls=tuple(dict.fromkeys((*first.calls, *second.calls))),
        steps=first.steps + second.steps,
        count=first.count + second.count,
        ns=first.ns + second.ns,
        parts=first.parts + second.parts,
        held={name: ns + second.held[name] for name, ns in first.held.items()},
        first=min(first.first, second.first),
    )
