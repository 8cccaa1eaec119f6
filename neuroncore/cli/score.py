"""neuroncore score: compare estimates and their ranges with a table of measurements.

neuroncore calibrate: compare the user's own measurements with the estimates."""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import neuroncore
from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.base.options import cache_folder
from neuroncore.base.units import duration, plural
from neuroncore.cli import terminal
from neuroncore.cli.captures import slowest
from neuroncore.cli.run import ESTIMATED, add_launches, clock_phase, kept_run
from neuroncore.machine.harness import overheads
from neuroncore.record.program import Record
from neuroncore.report import measurements
from neuroncore.report.estimate import range_of
from neuroncore.report.measurements import Harness, Row, Span
from neuroncore.report.score import (
    Chain,
    Errors,
    Order,
    ScoredPoint,
    chains,
    errors,
    grouped,
    order,
)

# a source whose latencies are constants in its tests, with a unit that is inferred
ASSERTED = "nki-library"
GROUPS: dict[str, Callable[[ScoredPoint], str]] = {
    "generation": lambda p: p.generation,
    "source": lambda p: p.source,
    "kernel": lambda p: p.family,
    "bound": lambda p: p.bound,
    "limit": lambda p: p.limit,
}
# in a checkout of the repository
CALIBRATION = Path(neuroncore.__file__).parents[1] / "bench/calibration"


@dataclass(frozen=True)
class TableScore:
    """The comparison of a table with estimates.

    `asserted`: the rows of the source ASSERTED. Their latencies are constants in the tests of this
        source.
    `points`: all other rows.
    `missing`: the id, the kernel and the reason for each row without an estimate."""

    points: Sequence[ScoredPoint]
    asserted: Sequence[ScoredPoint]
    missing: Sequence[tuple[str, str, str]]


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Estimate the latency of every kernel in a table of measurements, from the recorded "
        "instructions of a run (its record), and compare it with the measurement. With --sources, "
        "kernels without a record are first run from these checkouts, which can take an hour."
    )
    parser.add_argument("table", type=Path, metavar="CSV", help="the table of measurements")
    parser.add_argument(
        "--sources",
        nargs="+",
        default=[],
        metavar="[NAME=]PATH",
        help="checkouts of the repositories of the kernels, named as in the table, or folders that "
        "contain such checkouts",
    )
    parser.add_argument(
        "--records",
        type=Path,
        default=cache_folder() / "records",
        metavar="FOLDER",
        help="the folder of the records (default: %(default)s)",
    )
    parser.add_argument(
        "--recorder",
        type=Path,
        default=CALIBRATION / "record.py",
        metavar="FILE.py",
        help="a program that writes records to the folder of --records. It is called as FILE.py "
        "CSV FOLDER --sources ... (default: bench/calibration/record.py in a checkout of "
        "neuroncore)",
    )
    parser.add_argument(
        "--offsets",
        type=Path,
        metavar="FILE.toml",
        help="a file with the overhead of each harness (default: offsets.toml next to the "
        "recorder)",
    )
    parser.add_argument(
        "--by",
        choices=GROUPS,
        action="append",
        help="group the errors by this property; repeatable (default: "
        f"{' and '.join(list(GROUPS)[:2])}); `bound` is the bottleneck that the table "
        "names, `limit` the resource on which most of the estimate is spent",
    )
    parser.add_argument(
        "--clock-phase",
        type=clock_phase,
        metavar="PART",
        help="the phase of the Tensor engine's clock for rows without a value in the column "
        "`clock_phase` (see neuroncore run --help)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.set_defaults(command=score)


def score(arguments: argparse.Namespace) -> int:
    rows = [row for row in measurements.read(arguments.table) if measurements.is_usable(row)]
    if arguments.sources:
        _record(arguments)
    offsets = arguments.offsets or arguments.recorder.parent / "offsets.toml"
    known = measurements.harnesses(offsets) if arguments.offsets or offsets.is_file() else []
    if arguments.clock_phase is not None:
        default = {"clock_phase": str(arguments.clock_phase)}
        rows = [row if row.get("clock_phase") else {**row, **default} for row in rows]
    scored = compared(rows, arguments.records, known)
    by = arguments.by or ["generation", "source"]
    if arguments.json:
        terminal.write_json(_document(scored, by))
    else:
        print("\n".join(_text(scored, by)))
    return 0


def _record(arguments: argparse.Namespace) -> None:
    if not arguments.recorder.is_file():
        raise UsageError(
            f"there is no {arguments.recorder}: give the program that records the kernels with "
            "--recorder"
        )
    command = [sys.executable, str(arguments.recorder), str(arguments.table)]
    command += [str(arguments.records), "--sources", *arguments.sources]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", file=sys.stderr, flush=True)


def compared(rows: Sequence[Row], folder: Path, known: Sequence[Harness]) -> TableScore:
    """Compare the rows of a table with the estimates of their kernels.

    `folder` contains the records of the kernels. The points are in the order of the table."""
    points: dict[str, ScoredPoint] = {}
    missing: list[tuple[str, str, str]] = []
    estimate = cache(measurements.estimate)
    for row, record in measurements.recorded(rows, folder):
        if isinstance(record, Record):
            facts = measurements.launch_of(row, known)
            points[row["id"]] = _point(row, estimate(record, row["generation"], facts), known)
        else:
            missing.append((row["id"], row["kernel"], record))
    ordered = [points[row["id"]] for row in rows if row["id"] in points]
    return TableScore(
        [p for p in ordered if p.source != ASSERTED],
        [p for p in ordered if p.source == ASSERTED],
        missing,
    )


def _point(row: Row, estimate: Span, known: Sequence[Harness]) -> ScoredPoint:
    stated = range_of(estimate.kind)
    return ScoredPoint(
        id=row["id"],
        kernel=row["kernel"],
        generation=row["generation"],
        source=measurements.source(row),
        family=row["family"],
        bound=row["bound"],
        limit=estimate.kind.limit,
        order=estimate.kind.order,
        doubt=estimate.kind.doubt,
        chain=row["chain"],
        spilled=measurements.spilled(row),
        measured_us=float(row["est_single_core_us"]),
        estimated_us=estimate.us + measurements.offset_us(row, known),
        low=stated.low if stated else 1.0,
        high=stated.high if stated else 1.0,
        descriptors=estimate.kind.descriptors,
    )


def _groups(scored: TableScore, by: Sequence[str]) -> Iterator[tuple[str, Errors | None]]:
    """Yield the name of each group of rows, and its errors; None for a group without rows.

    `by` lists the properties by which rows are grouped (keys of GROUPS)."""
    yield "all", errors(scored.points)
    yield "without runs that spilled", errors([p for p in scored.points if not p.spilled])
    for name in by:
        for value, points in grouped(scored.points, GROUPS[name]):
            yield f"{name} {value}", errors(points)
    yield f"{ASSERTED}, not included in all", errors(scored.asserted)


# --- output ---------------------------------------------------------------------------------------


def _text(scored: TableScore, by: Sequence[str]) -> Iterator[str]:
    yield f"{'estimate, us':>12} {'measured, us':>12} {'ratio':>6}"
    for p in (*scored.points, *scored.asserted):
        yield f"{p.estimated_us:12.2f} {p.measured_us:12.2f} {p.ratio:6.2f}   {_named(p)}"
    yield ""
    columns = f"{'median error':>13} {'within 20%':>12} {'in range':>9} {'half-width':>11}"
    yield f"{'kernels':>8} {columns}"
    for name, figures in _groups(scored, by):
        if figures is not None:
            shares = f"{figures.close:12.1%} {figures.covered:9.1%} {figures.half_width:11.1%}"
            yield f"{figures.count:8} {figures.median:13.1%} {shares}   {name}"
    yield ""
    yield f"{'variants':>8} {'Spearman':>13} {'pairs in order':>14}"
    scored_chains = chains(scored.points)
    for c in scored_chains:
        yield f"{c.count:8} {_number(c.spearman):>13} {f'{c.right} of {c.pairs}':>12}   {c.name}"
    yield _order_text(order(scored_chains))
    if scored.missing:
        yield ""
        yield f"{plural(len(scored.missing), 'row')} without a record"
        yield from (f"    {id_} {kernel}: {why}" for id_, kernel, why in scored.missing)


def _named(point: ScoredPoint) -> str:
    marks = " (spilled)" if point.spilled else ""
    return f"{point.id} {point.generation} {point.kernel}{marks}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _order_text(total: Order) -> str:
    accuracy = "-" if total.accuracy is None else f"{total.accuracy:.1%}"
    return (
        f"{plural(total.chains, 'chain')}: median Spearman {_number(total.spearman)}; of the pairs "
        f"that differ by more than 10%, {accuracy} are in the right order ({total.right} of "
        f"{total.pairs})"
    )


def _document(scored: TableScore, by: Sequence[str]) -> dict[str, Any]:
    def rows(points: Sequence[ScoredPoint]) -> list[dict[str, Any]]:
        return [{**asdict(p), "ratio": p.ratio} for p in points]

    scored_chains: list[Chain] = chains(scored.points)
    total = order(scored_chains)
    return {
        "schema": SCORE_SCHEMA,
        "rows": rows(scored.points),
        "asserted": rows(scored.asserted),
        "errors": {name: asdict(e) for name, e in _groups(scored, by) if e is not None},
        "chains": [asdict(c) for c in scored_chains],
        "order": {**asdict(total), "accuracy": total.accuracy},
        "missing": [dict(zip(("id", "kernel", "why"), m, strict=True)) for m in scored.missing],
    }


COLUMNS = ("kernel", "arguments", "machine", "harness", "microseconds")
FACTS = ESTIMATED  # columns of a table that are options of `run`
SCORE_SCHEMA = "neuroncore.score/1"
SCHEMA = "neuroncore.calibrate/1"
NEAR = 0.2  # as a fraction of the measured time


class MeasuredRow(NamedTuple):
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
    """The rows of one harness and machine.

    The fields are the number of rows, the median error, and the number of rows within 20 %.
    `offset` is the median of measurement minus estimate, in nanoseconds. `factor` is the median of
    measurement divided by estimate."""

    harness: str
    machine: str
    number: int
    error: float
    near: int
    offset: float
    factor: float


def add_calibrate(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the kernels of a table of your measurements. Report how good the estimates are, and "
        "the offset and the factor by which the measurements differ from the estimates. The "
        f"estimates of neuroncore do not change. Columns: {', '.join(COLUMNS)}. The column "
        "`arguments` is as for --args, separated by spaces. A table may also have the columns "
        f"{', '.join(FACTS)}, with the meaning of the options of these names. "
        "docs/capture.md explains the output."
    )
    parser.allow_abbrev = False
    parser.add_argument("rows", metavar="ROWS.csv")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    add_launches(parser, named=False)
    parser.set_defaults(command=calibrate, is_script=lambda _: False)


def calibrate(arguments: argparse.Namespace) -> int:
    table = measurements.read(Path(arguments.rows), COLUMNS)
    if not table:
        raise UsageError(f"{arguments.rows} has no rows")
    rows = []
    for number, row in enumerate(table, 2):
        if None in row.values():
            raise UsageError(f"line {number} of {arguments.rows} has too few columns")
        measured = _microseconds(row["microseconds"], number) * 1e3
        options = {**vars(arguments), "args": row["arguments"].split(), "target": row["machine"]}
        options |= {name: row[name] for name in FACTS if row.get(name)}
        if "clock_phase" in row:
            options["clock_phase"] = measurements.phase_of(row, f"line {number}")
        estimate = slowest(kept_run(argparse.Namespace(**options), row["kernel"])).total_ns
        rows.append(MeasuredRow(row["kernel"], row["machine"], row["harness"], measured, estimate))
    groups = summaries(rows)
    document: dict[str, Any] = {"schema": SCHEMA, "rows": [row._asdict() for row in rows]}
    document["harnesses"] = [group._asdict() for group in groups]
    terminal.answer(arguments, document, _calibrated(rows, groups))
    return 0


def _microseconds(text: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"line {line}: {text!r} is not a time in microseconds")
    return value


def summaries(rows: Sequence[MeasuredRow]) -> list[Summary]:
    """Return a summary of the rows of each harness and machine.

    `error`, `offset` and `factor` are medians, so that one outlier does not determine them."""
    groups: dict[tuple[str, str], list[MeasuredRow]] = defaultdict(list)
    for row in rows:
        groups[row.harness, row.machine].append(row)
    return [
        Summary(
            harness=harness,
            machine=target,
            number=len(each),
            error=statistics.median(abs(row.ratio - 1) for row in each),
            near=sum(abs(row.ratio - 1) <= NEAR for row in each),
            offset=statistics.median(row.measured - row.estimate for row in each),
            factor=statistics.median(1 / row.ratio for row in each),
        )
        for (harness, target), each in groups.items()
    ]


def _calibrated(rows: Sequence[MeasuredRow], groups: Sequence[Summary]) -> Iterator[str]:
    yield f"{'measured':>10}{'estimate':>10}{'ratio':>8}   kernel"
    for row in rows:
        times = "".join(f"{duration(ns):>10}" for ns in (row.measured, row.estimate))
        yield f"{times}{row.ratio:>8.2f}   {row.kernel} on {row.machine}, {row.harness}"
    for group in groups:
        yield ""
        yield f"{group.harness} on {group.machine}: {plural(group.number, 'row')}"
        yield f"  median error {group.error:.1%}, {group.near} within {NEAR:.0%}"
        sign = "more" if group.offset >= 0 else "less"
        difference = f"{duration(abs(group.offset))} {sign}"
        yield (
            f"  measurements are {difference} than the estimates, or {group.factor:.2f} times as "
            "long"
        )
        known = overheads(machine.load(group.machine).name).get(group.harness)
        if known is not None:
            overhead = f"the overhead of {group.harness}, as in isa/harnesses.toml"
            yield f"  of this difference, {known.value:g} us are {overhead}"
