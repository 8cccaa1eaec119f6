"""Tables of measurements: the usable rows, their measurements, and the records of their kernels.

A table is a CSV file with the columns in COLUMNS. `est_single_core_us` is the time of one core in
microseconds, `quality` its reliability (A, B, C), and `measured_by` the harness. `chain` is a name
that variants of one kernel share if one harness measured them. There are optional columns:

* `launch` is `standalone` or `framework`.
* `descriptors` is `software` if GpSimd writes the descriptors of DMAs that name no mode.
* `loads` says when loads begin (`Options.loads`).
* `assume` names rules that the estimate also uses (`Options.assume`).
* `clock_phase` is the fraction of a window of the Tensor engine's clock that had passed when the
  first product began.

A folder of records, which are recorded launches of kernels, has an index.json. This file has an
entry for the id of each row: the name of the `record`, or why the record is `missing`."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.base.options import (
    DISABLE_DGE,
    LaunchPath,
    assumptions,
    choices,
    order_of,
    phase,
)
from neuroncore.machine.harness import overheads
from neuroncore.record.program import Program, Record
from neuroncore.record.saved import load
from neuroncore.report.estimate import Kind, kind_of
from neuroncore.time.schedule import Timeline, schedule_cores

Row = Mapping[str, str]

COLUMNS = (
    *("id", "generation", "kernel", "metric", "measured_by", "kernel_source"),
    *("kernel_source_available", "notes", "est_single_core_us", "bound", "family", "chain"),
    *("quality",),
)
INDEX = "index.json"
UNTRIED = "not recorded"  # the reason if nobody has tried to record the kernel
SPILLED = re.compile(r"spill(?:_reload)?[ =](\d+)")


@dataclass(frozen=True)
class Harness:
    """A tool that measures kernels.

    `offset_us`: the microseconds that the tool adds to the span from a kernel's first DMA transfer
        to its last.
    `grade`: how reliable `offset_us` is.
    `flags`: the flags that the tool passes to the device's compiler.
    `launch`: the way in which the tool launches kernels.
    `descriptors` and `loads`: the values for rows whose columns with these names are empty."""

    generation: str
    measured_by: str  # the beginning of the column `measured_by`
    offset_us: float
    grade: str = ""
    flags: str = ""
    launch: LaunchPath = "framework"
    descriptors: str = ""
    loads: str = ""
    kernel_source: str = ""  # the beginning of the column `kernel_source`


class LaunchFacts(NamedTuple):
    """How the kernel of a row was compiled and launched.

    `dge`: whether the compiler of the older API (`neuronxcc.nki`) left DMA descriptors to the
        device.
    `software`: whether the compiler of today's API (`nki`) left DMA descriptors to software.
    `path`: the launch path.
    `clock_phase`: the phase of the Tensor engine's clock, or None if unknown.
    `loads`: when loads begin (`Options.loads`).
    `assume`: the rules that the estimate also uses (`Options.assume`)."""

    dge: bool = False
    path: LaunchPath = "framework"
    software: bool = False
    clock_phase: float | None = None
    loads: str = "ahead"
    assume: tuple[str, ...] = ()


PLAIN = LaunchFacts()


@dataclass(frozen=True)
class Span:
    """An estimated time from a kernel's first DMA transfer to its last one.

    `us`: the time in microseconds.
    `kind`: the class of the estimate, which determines its range."""

    us: float
    kind: Kind


def read(path: Path, columns: Sequence[str] = COLUMNS) -> list[Row]:
    """Return the rows of a table. Raise UsageError if it cannot be read or lacks columns."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows: list[Row] = list(reader)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} can't be read as a table: {reason}") from None
    if missing:
        raise UsageError(f"{path} lacks the columns {', '.join(missing)}")
    return rows


def is_usable(row: Row) -> bool:
    """Return whether a row has a reliable latency of a published kernel."""
    return (
        row["metric"] == "latency_us"
        and row["quality"] in ("A", "B")
        and row["kernel_source_available"] == "yes"
    )


def source(row: Row) -> str:
    """Return the repository of a row's kernel, without its revision."""
    name = row["kernel_source"].removeprefix("github:").partition(":")[0]
    return name.partition(" ")[0].partition("@")[0]


def spilled(row: Row) -> bool:
    """Return whether the measured run spilled tiles."""
    counts = map(int, SPILLED.findall(row["notes"]))
    return "spill" in row["bound"] or any(counts)


def harnesses(path: Path) -> list[Harness]:
    """Return the [[harness]] tables of a TOML file.

    The key `as` of a table names a harness of isa/harnesses.toml that adds the same time. Raise
    UsageError if the file has another form."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))["harness"]
        return [
            Harness(
                table["generation"],
                table["measured_by"],
                _added_us(table),
                str(table.get("grade", "")),
                str(table.get("flags", "")),
                launch=_launch_path(table.get("launch", "framework")),
                descriptors=str(table.get("descriptors", "")),
                loads=str(table.get("loads", "")),
                kernel_source=str(table.get("kernel_source", "")),
            )
            for table in tables
        ]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} is not a list of harnesses: {error!r}") from None


def _launch_path(value: str) -> LaunchPath:
    if value not in get_args(LaunchPath):
        raise ValueError(f"launch is {value!r}, not one of {', '.join(get_args(LaunchPath))}")
    return cast("LaunchPath", value)


def _added_us(table: Mapping[str, Any]) -> float:
    known = overheads(table["generation"])
    return float(known[table["as"]].value if "as" in table else table["offset_us"])


def offset_us(row: Row, known: Sequence[Harness]) -> float:
    """Return the microseconds that a row's harness adds, or 0 if the harness is unknown."""
    harness = harness_of(row, known)
    return harness.offset_us if harness is not None else 0.0


def launch_of(row: Row, known: Sequence[Harness]) -> LaunchFacts:
    """Return how a row's kernel was compiled and launched.

    The columns `launch`, `descriptors` and `loads` override the values of the harness."""
    harness = harness_of(row, known) or Harness("", "", 0.0)
    return LaunchFacts(
        leaves_descriptors(row, known),
        _launch_path(row.get("launch") or harness.launch),
        (row.get("descriptors") or harness.descriptors) == "software",
        phase_of(row, f"row {row['id']}"),
        _loads_of(row, harness),
        _assumed_by(row),
    )


def _loads_of(row: Row, harness: Harness) -> str:
    """Return the column `loads`; if it is empty, the harness's value, or "ahead".

    Raise UsageError if `Options.loads` does not allow the value."""
    loads = row.get("loads") or harness.loads or "ahead"
    if loads not in choices()["loads"]:
        raise UsageError(f"row {row['id']}: {loads!r} in `loads` is not a value of Options.loads")
    return loads


def _assumed_by(row: Row) -> tuple[str, ...]:
    """Return the rules in the column `assume`. Raise UsageError if `Options.assume` does not allow
    them."""
    try:
        return assumptions(row.get("assume") or "")
    except UsageError as error:
        raise UsageError(f"row {row['id']}: {error}") from None


def phase_of(row: Row, name: str) -> float | None:
    """Return the column `clock_phase`, or None if it is empty or missing.

    Raise UsageError if it is not a fraction of a window. `name` names the row in the message."""
    text = row.get("clock_phase")
    try:
        return phase(text) if text else None
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def leaves_descriptors(row: Row, known: Sequence[Harness]) -> bool:
    """Return whether the row's kernel was compiled without --disable-dge."""
    harness = harness_of(row, known)
    flags = f"{row['measured_by']} {harness.flags if harness is not None else ''}"
    return DISABLE_DGE not in flags


def harness_of(row: Row, known: Sequence[Harness]) -> Harness | None:
    """Return the harness of a row, or None if it is unknown."""
    for harness in known:
        same = harness.generation == row["generation"]
        measured = row["measured_by"].startswith(harness.measured_by)
        if same and measured and row.get("kernel_source", "").startswith(harness.kernel_source):
            return harness
    return None


def recorded(rows: Sequence[Row], folder: Path) -> Iterator[tuple[Row, Record | str]]:
    """Yield each row with the record of its kernel, or with the reason why there is no record.

    Rows with the same record are yielded together, so that each record is read only once."""
    index = _index(folder)
    last: tuple[str, Record] | None = None
    for row in sorted(rows, key=lambda row: index.get(row["id"], {}).get("record", "")):
        entry = index.get(row["id"], {"missing": UNTRIED})
        name = entry.get("record")
        if name is None:
            yield row, entry["missing"]
            continue
        if last is None or last[0] != name:
            last = name, load(folder / name)
        yield row, last[1]


def _index(folder: Path) -> dict[str, dict[str, str]]:
    try:
        return dict(json.loads((folder / INDEX).read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{folder} is not a folder of records: {error}") from None


def programs(record: Record, facts: LaunchFacts) -> list[Program]:
    """Return copies of the programs of a record, compiled and launched as `facts` describe."""
    again = [copy(program) for program in record.programs]
    for program in again:
        program.dge, program.software = facts.dge, facts.software
        program.clock_phase, program.loads = facts.clock_phase, facts.loads
        program.assume = facts.assume
        program.order = order_of(program.order, facts.path)
    return again


def estimate(record: Record, generation: str, facts: LaunchFacts = PLAIN) -> Span:
    """Return the longest span of any core of a record."""
    slowest = slowest_core(record, generation, facts)
    if slowest is None:
        return Span(0.0, Kind("nothing", "", ""))
    return Span(span_ns(slowest) / 1000, kind_of(slowest))


def slowest_core(record: Record, generation: str, facts: LaunchFacts) -> Timeline | None:
    """Return the timeline with the longest span, or None for a record without cores."""
    target = machine.load(generation)
    timelines = schedule_cores(programs(record, facts), target, world=record.world)
    return max(timelines, key=span_ns, default=None)


def span_ns(timeline: Timeline) -> float:
    """Return the nanoseconds from the begin of the first DMA transfer to the end of the last
    transfer.

    The time of spills is added. If there is no transfer, return the time of the whole run."""
    moving = timeline.moves
    if not moving.any():
        return timeline.total_ns
    span = float(timeline.end[moving].max() - timeline.begin[moving].min())
    return span + timeline.spill_ns
