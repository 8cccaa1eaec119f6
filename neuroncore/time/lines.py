"""The critical path by source line, and what might be different about a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.source import Place
from neuroncore.base.structs import dataclass
from neuroncore.clause.instruction import Call
from neuroncore.record.program import Program
from neuroncore.time import alternatives
from neuroncore.time.changes import Change
from neuroncore.time.path import CriticalSteps, Parts, parts, steps
from neuroncore.time.schedule import Timeline
from neuroncore.time.variation import Variation

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Line:
    """A source line on the critical path: how often it is there and how often it was issued, how
    long it keeps the path, in nanoseconds, and with what."""

    place: Place
    calls: tuple[Call, ...]
    steps: int
    count: int
    ns: float
    parts: Parts

    @property
    def name(self) -> str:
        """As it is called in a report."""
        return self.place.short


def on_the_path(timeline: Timeline) -> list[Line]:
    """Those that keep it longest first."""
    found, program = steps(timeline), timeline.program
    line = timeline.columns.line
    on_path, counts = line[found.instruction], np.bincount(line, minlength=len(program.lines))
    numbers: dict[str, list[int]] = {}
    for number in np.unique(on_path).tolist():
        numbers.setdefault(str(program.place(number)), []).append(number)
    made = [_line(timeline, found, own, np.isin(on_path, own), counts) for own in numbers.values()]
    return sorted(made, key=lambda one: -one.ns)


def _line(
    timeline: Timeline, found: CriticalSteps, own: list[int], here: Array, counts: Array
) -> Line:
    program = timeline.program
    calls = np.unique(timeline.columns.call[found.instruction[here]]).tolist()
    return Line(
        place=program.place(own[0]),
        calls=tuple(program.calls[call] for call in calls),
        steps=int(here.sum()),
        count=int(counts[own].sum()),
        ns=float(found.ns[here].sum()),
        parts=parts(timeline, found, here),
    )


def changes(base: Change, line: Line) -> Iterator[Change]:
    """A line that takes no time; whose data nobody waits for; in a narrower format, and on other
    engines, where its instructions may be."""
    own = [_rows(program, line.place) for program in base.programs]
    free = [Variation(times=np.where(rows, 0.0, 1.0)) for rows in own]
    loose = [Variation(loose=rows) for rows in own]
    yield replace(base, what=line.name, how="at no cost", variations=free)
    yield replace(base, what=line.name, how="without dependencies", variations=loose)
    for how, other in (("in a narrower format", alternatives.narrower), *_elsewhere(line)):
        made = [_instead(program, line.place, other) for program in base.programs]
        if any(made):
            programs = [p.with_calls(m) for p, m in zip(base.programs, made, strict=True)]
            yield replace(base, what=line.name, how=how, programs=programs)


def _elsewhere(line: Line) -> Iterator[tuple[str, alternatives.Other]]:
    for unit in alternatives.engines(line.calls):
        yield f"on {unit.name.capitalize()}", partial(alternatives.on, unit)


def _numbers(program: Program, place: Place) -> list[int]:
    """A source line may have several places in the record."""
    return [n for n in range(len(program.lines)) if str(program.place(n)) == str(place)]


def _rows(program: Program, place: Place) -> Array:
    rows: Array = np.isin(program.columns().line, _numbers(program, place))
    return rows


def _instead(
    program: Program, place: Place, other: alternatives.Other
) -> dict[tuple[int, int], Call]:
    made: dict[tuple[int, int], Call] = {}
    for number in _numbers(program, place):
        made |= alternatives.instead(program, number, other)
    return made
