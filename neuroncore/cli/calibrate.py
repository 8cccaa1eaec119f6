"""neuroncore calibrate: the user's own measurements next to the estimates."""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from neuroncore.base.errors import UsageError
from neuroncore.base.units import duration
from neuroncore.cli import session
from neuroncore.cli.captures import slowest
from neuroncore.cli.run import add_launches, kept_run

COLUMNS = ("kernel", "arguments", "machine", "harness", "microseconds")
SCHEMA = "neuroncore.calibrate/1"
NEAR = 0.2  # a part of the measured time


class Row(NamedTuple):
    """A measurement and the estimate of the same kernel, in nanoseconds."""

    kernel: str
    machine: str
    harness: str
    measured: float
    estimate: float

    @property
    def ratio(self) -> float:
        return self.estimate / self.measured


class Summary(NamedTuple):
    """The rows of one harness and machine: the median error, how many are within 20 %, and the
    offset in nanoseconds and the factor that the measurements show over the estimates."""

    harness: str
    machine: str
    number: int
    error: float
    near: int
    offset: float
    factor: float


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the kernels of a table of your measurements, and report how good the estimates are, "
        "and which offset or factor they show. The estimates of neuroncore stay as they are. "
        f"Columns: {', '.join(COLUMNS)}; arguments as for --args, separated by spaces. "
        "docs/capture.md explains it."
    )
    parser.allow_abbrev = False
    parser.add_argument("rows", metavar="ROWS.csv")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    add_launches(parser, named=False)
    parser.set_defaults(command=calibrate, is_script=lambda _: False)


def calibrate(arguments: argparse.Namespace) -> int:
    rows = []
    for number, row in enumerate(_read(Path(arguments.rows)), 2):
        measured = _microseconds(row["microseconds"], number) * 1e3
        own = {**vars(arguments), "args": row["arguments"].split(), "target": row["machine"]}
        kept = kept_run(argparse.Namespace(**own), row["kernel"])
        failed: int = session.exit_code(kept.failure)
        if failed:
            return failed
        estimate = slowest(kept.runs[0]).total_ns
        rows.append(Row(row["kernel"], row["machine"], row["harness"], measured, estimate))
    found = summaries(rows)
    told: dict[str, Any] = {"schema": SCHEMA, "rows": [row._asdict() for row in rows]}
    told["harnesses"] = [one._asdict() for one in found]
    lines = [json.dumps(told, indent=2)] if arguments.json else _text(rows, found)
    for line in lines:
        session.write(line)
    return 0


def _read(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} can't be read: {error}") from None
    missing = [name for name in COLUMNS if not rows or rows[0].get(name) is None]
    if missing:
        raise UsageError(f"{path} has no column {', '.join(missing)}, or no rows")
    return rows


def _microseconds(text: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"line {line}: {text!r} is not a time in microseconds")
    return value


def summaries(rows: Sequence[Row]) -> list[Summary]:
    """By harness and machine. The offset and the factor are medians, so that one row that is off
    does not decide them."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.harness, row.machine].append(row)
    return [
        Summary(
            harness=harness,
            machine=machine,
            number=len(each),
            error=statistics.median(abs(row.ratio - 1) for row in each),
            near=sum(abs(row.ratio - 1) <= NEAR for row in each),
            offset=statistics.median(row.measured - row.estimate for row in each),
            factor=statistics.median(1 / row.ratio for row in each),
        )
        for (harness, machine), each in groups.items()
    ]


def _text(rows: Sequence[Row], found: Sequence[Summary]) -> Iterator[str]:
    yield f"{'measured':>10}{'estimate':>10}{'ratio':>8}   kernel"
    for row in rows:
        times = "".join(f"{duration(ns):>10}" for ns in (row.measured, row.estimate))
        yield f"{times}{row.ratio:>8.2f}   {row.kernel} on {row.machine}, {row.harness}"
    for one in found:
        yield ""
        yield f"{one.harness} on {one.machine}: {one.number} rows"
        yield f"  median error {one.error:.1%}, {one.near} within {NEAR:.0%}"
        sign = "more" if one.offset >= 0 else "less"
        yield f"  measurements are {duration(abs(one.offset))} {sign}, or {one.factor:.2f} times"
