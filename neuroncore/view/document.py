"""The document of a page as JSON: `neuroncore.view/1`.

Every number on the screen is in the document, or follows from it by adding, subtracting and
counting. Times of instructions are integers in units of `tick_ns` nanoseconds. A column contains
one number for each instruction, box or tensor, and is written by `columns.packed`. A call
represents all instructions with the same function and equal arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding, without_advice
from neuroncore.base.lazy import version
from neuroncore.base.source import Place
from neuroncore.clause.instruction import Call
from neuroncore.core.precision.findings import Precision
from neuroncore.machine import Machine
from neuroncore.machine.world import ALONE, World
from neuroncore.record.columns import Area
from neuroncore.record.program import Program
from neuroncore.report import clock, precision
from neuroncore.report.collectives import CollectiveOperation, slowest
from neuroncore.report.compare import Agreement, ErrorMap
from neuroncore.report.perfetto import COLLECTIVES, RINGS, ROWS
from neuroncore.report.summary import bound_by, summary
from neuroncore.time.policy import POLICIES
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.syncs import collectives
from neuroncore.view import sources
from neuroncore.view.card import answers, verdict
from neuroncore.view.columns import AccessTable, PageTimes, differences, places
from neuroncore.view.columns import text as columns_text
from neuroncore.view.elements import Steps, array, values

MOST = 1_000_000  # instructions on a page


@dataclass(frozen=True)
class PageWindow:
    """The part of a run that a page shows: the instructions from `first` to `last` (exclusive).

    If `ns` is True, these are times in nanoseconds: the part contains all instructions from the
    first to the last that runs between them."""

    first: float
    last: float
    ns: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.last:
            raise UsageError(f"a window A:B needs B greater than A: {self.first:g}:{self.last:g}")

    def of(self, timeline: Timeline) -> range:
        """Return the instructions in the window, at most `MOST`."""
        count, first, last = len(timeline.begin), int(self.first), int(self.last)
        if self.ns:
            under_way = (timeline.begin < self.last) & (timeline.end > self.first)
            positions = np.flatnonzero(under_way)
            first, last = (
                (int(positions[0]), int(positions[-1]) + 1) if len(positions) else (count, count)
            )
        first = min(first, count)
        return range(first, min(last, count, first + MOST))

    def __str__(self) -> str:
        unit = "ns" if self.ns else ""
        return f"{self.first:g}{unit}:{self.last:g}{unit}"


def shown(timeline: Timeline, window: PageWindow | None) -> range:
    """Return the positions of the instructions on a page: those of the window, or the first `MOST`
    without a window."""
    if window is None:
        return range(min(len(timeline.begin), MOST))
    return window.of(timeline)


@dataclass(frozen=True)
class PageOutcome:
    """The outcome of a run.

    `text`: describes it
    `place`: the line of the error in the user's code, if `kind` is "failed"
    `maps`: if `kind` is "wrong", the number of each wrong result and the map of its differences"""

    kind: Literal["right", "wrong", "failed"]
    text: str
    place: Place | None = None
    maps: Sequence[tuple[int, ErrorMap]] = ()


def compared(agreement: Agreement) -> PageOutcome:
    """Return the outcome of a comparison with a reference. The text names the worst element of each
    result that differs."""
    if agreement:
        limits = ", ".join(f"{allowed:.3g}" for allowed in agreement.tolerances)
        return PageOutcome(
            "right", f"the results agree with the reference (allowed relative L2 error: {limits})"
        )
    maps = [(n, error_map) for n, error_map in enumerate(agreement.maps) if error_map is not None]
    return PageOutcome("wrong", "\n".join(_differing(agreement)), maps=maps)


def _differing(agreement: Agreement) -> Iterator[str]:
    for number, (comparison, allowed) in enumerate(
        zip(agreement.comparisons, agreement.tolerances, strict=True)
    ):
        if not comparison.rel_l2 <= allowed:
            at = ", ".join(map(str, comparison.worst))
            error = f"relative L2 error {comparison.rel_l2:.3g}, allowed {allowed:.3g}"
            yield (
                f"result {number} differs: worst element at ({at}): got {comparison.got:.9g}, "
                f"expected {comparison.want:.9g}; {error}"
            )


Array = npt.NDArray[Any]
SCHEMA = "neuroncore.view/1"
TICK_NS = 0.1
TICKS = 1 << 31  # most ticks of a run


@dataclass(frozen=True)
class Shown:
    """A launch to show: the name of the kernel, the timelines of its cores, and the findings.

    `timelines`: empty if an error occurred before the first instruction
    `steps`: a function that returns the record in a form that can be executed again, to compute the
        values of tiles; None for a page without values
    `wanted`: the instructions whose operands have all elements on the page
    `answers`: False for a page without bottleneck and advice
    `window`: the instructions of the page, by default as many as fit
    `outcome`: a text at the top of the page
    `collectives`: the collectives of the ranks"""

    kernel: str
    timelines: Sequence[Timeline]
    findings: Sequence[Finding]
    steps: Callable[[], Steps] | None = None
    wanted: range | None = None
    precision: Precision | None = None
    answers: bool = True
    window: PageWindow | None = None
    world: World = ALONE
    outcome: PageOutcome | None = None
    collectives: Sequence[CollectiveOperation] = ()

    @property
    def reported(self) -> Sequence[Finding]:
        """Return the findings on the page."""
        return self.findings if self.answers else without_advice(self.findings)

    @property
    def parts(self) -> list[range]:
        """Return the positions of the instructions on the page, for each core."""
        return [shown(timeline, self.window) for timeline in self.timelines]


@dataclass(frozen=True)
class Opening:
    """How a page opens.

    `file`, `line`: the line that it shows; by default in the file of the first instruction. Without
        an instruction at or after the line, it has no effect.
    `at`: the selection: the part of an address after #, such as "step=60&pane=memory"
    `watched`: whether the page is loaded again when its reader returns, because the file may be
        new"""

    line: int | None = None
    file: str | None = None
    watched: bool = False
    at: str = ""


USUAL = Opening()


def document(
    launches: Iterable[Shown], opening: Opening = USUAL, served: bool = False
) -> dict[str, Any]:
    """Return the document of launches, core by core. A `served` page requests values step by step.
    Raises UsageError if a window has no instruction."""
    launches, texts = list(launches), sources.Texts()
    for window in {launch.window for launch in launches if launch.window is not None}:
        if not any(map(len, (part for launch in launches for part in launch.parts))):
            raise UsageError(f"the window {window} has no instructions")
    cores = [
        {
            "kernel": launch.kernel,
            **_number(launch, core),
            "outcome": launch.outcome and _outcome(launch.outcome, texts),
            "findings": [_finding(finding, texts) for finding in launch.reported],
            "precision": launch.precision and precision.document(launch.precision),
            **_core(timeline, texts, part),
            **_answers(launch, timeline),
            "values": of_core,
        }
        for launch in launches
        for core, (timeline, part, of_core) in enumerate(
            zip(launch.timelines, launch.parts, _values(launch, served), strict=True)
        )
    ]
    outcomes = [launch.outcome for launch in launches if launch.outcome is not None]
    errors = [_outcome(outcome, texts) for outcome in outcomes if outcome.kind == "failed"]
    return {
        "schema": SCHEMA,
        "version": version("neuroncore"),
        "served": served,
        "opens": vars(opening) | {"file": texts.found(opening.file)},
        "error": errors[-1] if errors else None,
        "meetings": [*map(_collective, launches[0].collectives)] if len(launches) == 1 else [],
        "sides": None,
        "first": _first(launches),
        "cores": cores,
        "files": texts.table(),
    }


def _first(launches: Sequence[Shown]) -> int:
    """Return the core that the page shows first, usually core 0. For one launch on several ranks,
    it is a core of the rank for which other ranks waited most: the slowest core of this rank, as in
    `neuroncore why`."""
    if len(launches) != 1 or launches[0].world.ranks == 1 or not launches[0].timelines:
        return 0
    (launch,) = launches
    rank, _ = slowest(launch.timelines, launch.collectives)
    return max(launch.world.cores_of(rank), key=lambda core: launch.timelines[core].total_ns)


def _collective(operation: CollectiveOperation) -> dict[str, Any]:
    """Return a collective with its times in nanoseconds."""
    return {
        "operation": operation.name,
        "ranks": list(operation.ranks),
        "arrived": list(operation.arrived_ns),
        "waited": list(operation.waited_ns),
        "last": operation.last,
        "end": operation.end_ns,
    }


def _number(launch: Shown, core: int) -> dict[str, int]:
    """Return the number of a core within its rank, and the number of its rank in the launch."""
    if launch.world.ranks == 1:
        return {"core": core, "cores": len(launch.timelines)}
    rank, number = divmod(core, launch.world.cores)
    return {"core": number, "cores": launch.world.cores, "rank": rank, "ranks": launch.world.ranks}


def _values(launch: Shown, served: bool) -> list[dict[str, Any]]:
    """Return the values of each core, or the reason why there are none."""
    if launch.steps is None:
        failed = launch.outcome is not None and launch.outcome.kind == "failed"
        reason = (
            "a run that fails has no values" if failed else "the page was written without values"
        )
        return [{"reason": reason} for _ in launch.timelines]
    if served:
        return [{"served": True} for _ in launch.timelines]
    try:
        steps = launch.steps()
        return [
            values(timeline.program, steps, core, part, launch.wanted)
            for core, (timeline, part) in enumerate(
                zip(launch.timelines, launch.parts, strict=True)
            )
        ]
    except UsageError as error:
        return [{"reason": str(error)} for _ in launch.timelines]


def _answers(launch: Shown, timeline: Timeline) -> dict[str, Any]:
    figures = {**summary(timeline), **clock.fields(timeline)}
    if launch.answers:
        figures = {**figures, **bound_by(timeline)}
        return {"figures": figures, **answers(launch.kernel, timeline)}
    return {"figures": figures}


def _finding(finding: Finding, texts: sources.Texts) -> dict[str, Any]:
    return {"code": finding.code, "message": finding.message, **_where(finding.place, texts)}


def _outcome(outcome: PageOutcome, texts: sources.Texts) -> dict[str, Any]:
    maps = [_map(number, error_map) for number, error_map in outcome.maps]
    return {"kind": outcome.kind, "text": outcome.text, "maps": maps} | _where(outcome.place, texts)


def _map(number: int, error_map: ErrorMap) -> dict[str, Any]:
    """Return the heat map of the differences between a result and its reference, for JSON. Its
    levels are stored row by row."""
    return {
        "result": number,
        "shape": [error_map.rows, error_map.columns],
        "largest": error_map.largest,
        "levels": list(error_map.levels.shape),
        "data": columns_text(error_map.levels.tobytes()),
    }


def _where(place: Place | None, texts: sources.Texts) -> dict[str, int]:
    return {"file": texts.number(place.file), "line": place.line} if place else {}


def _core(timeline: Timeline, texts: sources.Texts, part: range) -> dict[str, Any]:
    """Return the document of one core, with the times and accesses of the instructions `part`."""
    program, machine = timeline.program, timeline.machine
    tick = max(TICK_NS, timeline.total_ns / TICKS)
    times, accesses = PageTimes(timeline, tick), AccessTable(timeline, part)
    moving = set(timeline.columns.call[timeline.moves].tolist())
    return {
        "machine": machine.name,
        "order": POLICIES[timeline.order].description,
        "coverage": program.coverage,
        "verdict": verdict(timeline),
        "busy_share": timeline.busy_share,
        "tick_ns": tick,
        "total_ns": timeline.total_ns,
        "first": part.start,
        "count": len(part),
        "instructions": len(timeline.begin),
        "queues": QUEUES,
        "rows": {
            "queues": ROWS,
            "collectives": [COLLECTIVES, _together(timeline)],
            "rings": list(RINGS.items()),
        },
        "memories": _memories(timeline),
        "cells": {"rows": machine.limits.partitions, "columns": machine.limits.stationary_free},
        "roofline": sources.roofline(timeline),
        "calls": [_call(call, machine, n in moving) for n, call in enumerate(program.calls)],
        "sites": [texts.site(program.place(i)) for i in range(len(program.lines))],
        "lines": list(sources.lines(timeline, texts)),
        "stacks": sources.stacks(program, texts, part),
        "columns": {
            **times.columns(part),
            **accesses.columns(program),
            "area_at": differences(places(timeline, accesses, times)),
        },
        "kinds": [_kind(kind, program) for kind in program.kinds],
        "patterns": program.boxes().patterns.each(),
    }


def _together(timeline: Timeline) -> list[int]:
    """Return the numbers of the calls that are collectives, in ascending order."""
    rows = [row for row, _ in collectives(timeline.compiled)]
    return sorted({*timeline.columns.call[rows].tolist()})


def _memories(timeline: Timeline) -> dict[str, Any]:
    machine = timeline.machine
    sbuf = {"bytes": machine.sbuf.partition_bytes, "bank": 0, "peak": timeline.peak_sbuf}
    psum = {"bytes": machine.psum.partition_bytes, "bank": machine.psum.bank_bytes}
    return {"sbuf": sbuf, "psum": {**psum, "peak": timeline.peak_psum}}


def _call(call: Call, machine: Machine, moves: bool) -> dict[str, Any]:
    """Return the fields of a call. `bytes` is the number of bytes of a transfer (`moves`),
    otherwise 0."""
    arguments = {name: str(value) for name, value in call.shown_arguments.items()}
    names = {"reads": call.reads, "indices": call.indices, "writes": call.writes}
    writes = call.views(*call.writes)
    size = max((view.nbytes for view in writes), default=0)
    return {
        "name": call.name,
        "opcode": call.instruction.opcode,
        "arguments": arguments,
        "bytes": size if moves else 0,
        "array": array(call, machine),
        **names,
    }


def _kind(kind: Area, program: Program) -> dict[str, Any]:
    """Return the properties of an area (`columns`). Tensors with equal properties share one entry
    of the document."""
    return {
        "memory": kind.region.value,
        "name": program.name_of(kind),
        "partitions": kind.partitions,
        "row_bytes": kind.row_bytes,
        "placed": kind.placed,
        "site": kind.line,
    }
