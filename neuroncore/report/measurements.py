"""Tables of measurements: which rows can be compared with, what they measured, and the records of
their kernels.

A table is a CSV file with the columns in COLUMNS. `est_single_core_us` is the time that one core
took, in microseconds, `quality` how well that is known (A, B, C), `chain` names variants of one
kernel that one harness measured, `measured_by` the harness. A folder of records has an index.json:
for each row's id the name of its `record` there, or why it is `missing`.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.base.options import DISABLE_DGE
from neuroncore.base.structs import dataclass
from neuroncore.record.program import Program
from neuroncore.record.saved import Record, load
from neuroncore.report.ranges import Kind, kind_of
from neuroncore.time.schedule import Timeline, schedule_cores

Row = Mapping[str, str]

COLUMNS = (
    *("id", "generation", "kernel", "metric", "measured_by", "kernel_source"),
    *("kernel_source_available", "notes", "est_single_core_us", "bound", "family", "chain"),
    *("quality",),
)
INDEX = "index.json"
SPILLED = re.compile(r"spill(?:_reload)?[ =](\d+)")


@dataclass(frozen=True)
class Harness:
    """What a way to measure adds to the span from the first DMA of a kernel to the last one, how
    that is known, and the flags that it gives to the device's compiler."""

    generation: str
    measured_by: str  # how that column begins
    offset_us: float
    grade: str = ""
    flags: str = ""


@dataclass(frozen=True)
class Span:
    """The span from the first DMA of a kernel to the last one, and what the estimate is of."""

    us: float
    kind: Kind


def read(path: Path) -> list[Row]:
    """The rows of a table. Raises UsageError if it can't be read or lacks columns."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            rows: list[Row] = list(reader)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} can't be read as a table: {error}") from None
    if missing:
        raise UsageError(f"{path} lacks the columns {', '.join(missing)}")
    return rows


def is_usable(row: Row) -> bool:
    """Whether a row is a latency that is well enough known, of a kernel that is published."""
    return (
        row["metric"] == "latency_us"
        and row["quality"] in ("A", "B")
        and row["kernel_source_available"] == "yes"
    )


def source(row: Row) -> str:
    """The repository that a row's kernel is from, whatever its revision."""
    name = row["kernel_source"].removeprefix("github:").partition(":")[0]
    return name.partition(" ")[0].partition("@")[0]


def spilled(row: Row) -> bool:
    """Whether the run that was measured had to move tiles out of SBUF and back."""
    counts = map(int, SPILLED.findall(row["notes"]))
    return "spill" in row["bound"] or any(counts)


def harnesses(path: Path) -> list[Harness]:
    """The [[harness]] tables of a TOML file. Raises UsageError if it is something else."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))["harness"]
        return [
            Harness(
                table["generation"],
                table["measured_by"],
                float(table["offset_us"]),
                str(table.get("grade", "")),
                str(table.get("flags", "")),
            )
            for table in tables
        ]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} is no list of harnesses: {error!r}") from None


def offset_us(row: Row, known: Sequence[Harness]) -> float:
    """What the harness of a row adds; 0 if it isn't known."""
    harness = harness_of(row, known)
    return harness.offset_us if harness is not None else 0.0


def leaves_descriptors(row: Row, known: Sequence[Harness]) -> bool:
    """Whether the row's kernel was compiled without --disable-dge."""
    harness = harness_of(row, known)
    flags = f"{row['measured_by']} {harness.flags if harness is not None else ''}"
    return DISABLE_DGE not in flags


def harness_of(row: Row, known: Sequence[Harness]) -> Harness | None:
    """The way that a row was measured; None if it isn't known."""
    for harness in known:
        same = harness.generation == row["generation"]
        if same and row["measured_by"].startswith(harness.measured_by):
            return harness
    return None


def recorded(rows: Sequence[Row], folder: Path) -> Iterator[tuple[Row, Record | str]]:
    """Each row with the record of its kernel, or why there is none. Rows of one kernel follow one
    another, and its record is read once."""
    index = _index(folder)
    last: tuple[str, Record] | None = None
    for row in sorted(rows, key=lambda row: index.get(row["id"], {}).get("record", "")):
        entry = index.get(row["id"], {"missing": "not recorded"})
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
        raise UsageError(f"{folder} is no folder of records: {error}") from None


def programs(record: Record, dge: bool) -> list[Program]:
    """Those of a record, compiled with descriptors left to hardware or without."""
    again = [copy(program) for program in record.programs]
    for program in again:
        program.dge = dge
    return again


def estimate(record: Record, generation: str, dge: bool = False) -> Span:
    """Of the core that takes longest from its first DMA to its last one."""
    slowest = slowest_core(record, generation, dge)
    if slowest is None:
        return Span(0.0, Kind("nothing", "", generation))
    return Span(span_ns(slowest) / 1000, kind_of(slowest))


def slowest_core(record: Record, generation: str, dge: bool) -> Timeline | None:
    """The one with that span; None of a record of no cores."""
    timelines = schedule_cores(programs(record, dge), machine.load(generation), world=record.world)
    return max(timelines, key=span_ns, default=None)


def span_ns(timeline: Timeline) -> float:
    """From when the first DMA begins to when the last one has ended, and what spills add; all of
    it without any DMA."""
    moving = timeline.moves
    if not moving.any():
        return timeline.total_ns
    span = float(timeline.end[moving].max() - timeline.begin[moving].min())
    return span + timeline.spill_ns
