"""What the page shows, as JSON: `neuroncore.view/1`.

Every number on the screen is one of the document, or follows from some by adding, subtracting and
counting. Times of instructions are integers, of `tick_ns` nanoseconds each; columns have a row for
each instruction, box or tensor, as `columns.packed` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.analysis.path import parts, steps
from neuroncore.clause.instruction import Call
from neuroncore.core.core import Finding
from neuroncore.enums import MemoryRegion
from neuroncore.errors import UsageError
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View
from neuroncore.precision.findings import Precision
from neuroncore.record.boxes import Area, Box
from neuroncore.record.program import Program
from neuroncore.report import precision
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.report.perfetto import RINGS, ROWS
from neuroncore.report.summary import summary
from neuroncore.schedule import QUEUES, Timeline
from neuroncore.schedule.reordering import POLICIES
from neuroncore.schedule.timeline import before_in_queue
from neuroncore.view import sources
from neuroncore.view.columns import Packed, differences, packed, signed
from neuroncore.view.placement import addresses
from neuroncore.view.values import Steps, array, values

Array = npt.NDArray[Any]
SCHEMA = "neuroncore.view/1"
TICK_NS = 0.1
TICKS = 1 << 31  # which a run has at most
ASSIGNED = re.compile(r"\s*(\w+) = ")
CRITICAL, IN_TURN, TRANSFER = 1, 2, 4  # flags of an instruction


@dataclass(frozen=True)
class Shown:
    """A launch to be shown: the kernel's name, the timelines of its cores, what was found.

    Values are those of `steps`, if it can be executed again; all of those of the instructions
    `wanted`, if they are named.
    """

    kernel: str
    timelines: Sequence[Timeline]
    findings: Sequence[Finding]
    steps: Callable[[], Steps] | None = None
    wanted: range | None = None
    precision: Precision | None = None


def document(launches: Iterable[Shown]) -> dict[str, Any]:
    """The document of some launches, one core of one launch after the other."""
    texts = sources.Texts()
    cores = [
        {
            "kernel": launch.kernel,
            "core": core,
            "cores": len(launch.timelines),
            "findings": [_finding(found, texts) for found in launch.findings],
            "precision": launch.precision and precision.document(launch.precision),
            **_core(timeline, texts),
            "values": of_core,
        }
        for launch in launches
        for core, (timeline, of_core) in enumerate(
            zip(launch.timelines, _values(launch), strict=True)
        )
    ]
    return {
        "schema": SCHEMA,
        "version": version("neuroncore"),
        "cores": cores,
        "files": texts.table(),
    }


def _values(launch: Shown) -> list[dict[str, Any]]:
    """What tiles held, of each core, or why that is not known."""
    if launch.steps is None:
        return [{"reason": "the page was written without values"} for _ in launch.timelines]
    try:
        steps = launch.steps()
        return [
            values(timeline.program, steps, core, launch.wanted)
            for core, timeline in enumerate(launch.timelines)
        ]
    except UsageError as error:
        return [{"reason": str(error)} for _ in launch.timelines]


def _finding(found: Finding, texts: sources.Texts) -> dict[str, Any]:
    place = found.place
    where = {"file": texts.number(place.file), "line": place.line} if place else {}
    return {"code": found.code, "message": found.message, **where}


def _core(timeline: Timeline, texts: sources.Texts) -> dict[str, Any]:
    """One timeline, and the record that it is of."""
    program, machine = timeline.program, timeline.machine
    tick = max(TICK_NS, timeline.total_ns / TICKS)
    times, accesses = Times(timeline, tick), Accesses(timeline)
    on_path = parts(timeline, steps(timeline)).named
    return {
        "machine": machine.name,
        "order": POLICIES[timeline.order].said,
        "coverage": program.coverage,
        "verdict": _verdict(estimate(timeline)),
        "what_if": [],
        "figures": summary(timeline),
        "busy_share": timeline.busy_share,
        "path_share": {name: ns / (timeline.total_ns or 1.0) for name, ns in on_path.items()},
        "tick_ns": tick,
        "total_ns": timeline.total_ns,
        "count": len(timeline.begin),
        "queues": QUEUES,
        "rows": {"queues": ROWS, "rings": list(RINGS.items())},
        "memories": _memories(timeline),
        "roofline": sources.roofline(timeline),
        "calls": [_call(call, machine) for call in program.calls],
        "sites": [texts.site(program.place(i)) for i in range(len(program.lines))],
        "lines": list(sources.lines(timeline, texts)),
        "columns": {
            **times.columns(),
            **accesses.columns(program),
            "area_at": differences(_addresses(timeline, accesses, times)),
        },
        "kinds": [_kind(kind, program) for kind in program.kinds],
        "patterns": program.boxes().patterns.each(),
    }


def _verdict(found: Estimate) -> dict[str, Any]:
    bound = {"what": found.bound.what, "gain": found.bound.gain}
    range_s = {"low": found.low, "high": found.high}
    return {"text": str(found), "seconds": found.seconds, **range_s, "bound": bound}


def _memories(timeline: Timeline) -> dict[str, Any]:
    machine = timeline.machine
    sbuf = {"bytes": machine.sbuf.partition_bytes, "bank": 0, "peak": timeline.peak_sbuf}
    psum = {"bytes": machine.psum.partition_bytes, "bank": machine.psum.bank_bytes}
    return {"sbuf": sbuf, "psum": {**psum, "peak": timeline.peak_psum}}


def _call(call: Call, machine: Machine) -> dict[str, Any]:
    given = {
        name: str(value)
        for name, value in call.arguments.items()
        if isinstance(value, View) or (value is not None and value is not False)
    }
    names = {"reads": call.reads, "indices": call.indices, "writes": call.writes}
    writes = call.views(*call.writes)
    size = max((view.nbytes for view in writes), default=0)
    return {
        "name": call.name,
        "opcode": call.instruction.opcode,
        "arguments": given,
        "bytes": size,
        "array": array(call, machine),
        **names,
    }


class Times:
    """When the instructions of a timeline happened, in ticks."""

    def __init__(self, timeline: Timeline, tick_ns: float) -> None:
        self.timeline = timeline
        self.begin, self.until, self.end = (
            np.rint(when / tick_ns).astype(np.int64)
            for when in (timeline.begin, timeline.begin + timeline.busy, timeline.end)
        )

    def columns(self) -> dict[str, Packed]:
        """`begin` is counted from that of the instruction before it in its queue, in order of the
        program; `busy` and `taken` from `begin`; `cause` back from the instruction."""
        timeline, begin = self.timeline, self.begin
        since = np.empty_like(begin)
        for q in range(len(QUEUES)):
            own = np.flatnonzero(timeline.queue == q)
            since[own] = np.diff(begin[own], prepend=0)
        in_turn = before_in_queue(timeline.queue, timeline.begin)
        cause = np.where(timeline.cause == -2, in_turn, timeline.cause)
        back = np.where(cause >= 0, signed(np.arange(len(cause)) - cause), 0)
        flags = np.where(timeline.cause == -2, IN_TURN, 0) + np.where(timeline.moves, TRANSFER, 0)
        flags[timeline.critical_path] += CRITICAL
        return {
            "call": packed(timeline.columns.call),
            "site": packed(timeline.columns.line),
            "queue": packed(timeline.queue),
            "begin": packed(since),
            "busy": packed(self.until - begin),
            "taken": packed(signed(self.end - begin)),
            "cause": packed(back),
            "flags": packed(flags),
        }


class Accesses:
    """The boxes and tensors that the operands of a timeline are, numbered as they come."""

    def __init__(self, timeline: Timeline) -> None:
        program, columns = timeline.program, timeline.columns
        table, areas = program.box_table(), program.boxes().areas
        self.boxes, self.operand = _in_order(columns.operands, len(table))
        self.table = table[self.boxes]
        self.areas, self.area = _in_order(areas.of_box[self.boxes], len(areas.kind))
        self.kind = areas.kind[self.areas]
        self.user = np.repeat(np.arange(len(columns.call)), np.diff(columns.start))

    def columns(self, program: Program) -> dict[str, Packed]:
        """The box of each operand, as many as its call has; the fields of a Box, where `pattern`
        is one more than its pattern's number, 0 of what is dense; and the kinds of the areas.

        A box is how far it is behind the next new one, and an area twice that, or one more than
        twice its number if that is less.
        """
        table = dict(zip(Box._fields, self.table.T, strict=True))
        back = _back(self.area)
        return {
            "operand": packed(_back(self.operand)),
            "box_area": packed(np.where(back <= self.area, 2 * back, 2 * self.area + 1)),
            "box_row": differences(table["row"]),
            "box_rows": packed(table["row_end"] - table["row"]),
            "box_byte": differences(table["byte"]),
            "box_bytes": packed(table["byte_end"] - table["byte"]),
            "box_pattern": packed(program.boxes().pattern[self.boxes] + 1),
            "area_kind": packed(self.kind),
        }


def _in_order(values: Array, count: int) -> tuple[Array, Array]:
    """Which numbers below `count` there are, in the order in which they come, and the place of each
    value among those."""
    first = np.full(count, len(values), np.int64)
    first[values[::-1]] = np.arange(len(values))[::-1]  # of several the last assignment stays
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(values))]
    place = np.empty(count, np.int64)
    place[order] = np.arange(len(order))
    return order, place[values]


def _back(numbers: Array) -> Array:
    """Of numbers that count up where they are new, how far behind the next new one each is."""
    known = np.maximum.accumulate(np.concatenate([[-1], numbers]))[:-1]
    back: Array = known + 1 - numbers
    return back


def _addresses(timeline: Timeline, accesses: Accesses, times: Times) -> Array:
    """Where on chip each tensor could lie that the system places, in bytes of a partition."""
    area, kinds = accesses.area[accesses.operand], timeline.program.kinds
    count = len(accesses.areas)
    first, last = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(first, area, times.begin[accesses.user])
    np.maximum.at(last, area, times.end[accesses.user])
    at = np.zeros(count, np.int64)
    size = np.array([kind.row_bytes for kind in kinds], np.int64)[accesses.kind]
    bank = timeline.machine.psum.bank_bytes
    for region, within in ((MemoryRegion.sbuf, 0), (MemoryRegion.psum, bank)):
        free = np.array([k.region is region and not k.placed for k in kinds], np.bool_)
        own = np.flatnonzero(free[accesses.kind])
        at[own] = addresses(first[own], last[own], size[own], within)
    return at


def _kind(kind: Area, program: Program) -> dict[str, Any]:
    """What tensors have in common. One without a name is called what the line that made it assigns
    it to."""
    born = program.place(kind.line).text if kind.line >= 0 else ""
    variable = ASSIGNED.match(born)
    return {
        "memory": kind.region.value,
        "name": kind.name or (variable[1] if variable else ""),
        "partitions": kind.partitions,
        "row_bytes": kind.row_bytes,
        "placed": kind.placed,
        "site": kind.line,
    }
