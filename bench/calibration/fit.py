"""Cross-validate the estimates: estimate the kernels of each source with a model that was chosen
without the measurements of this source.

    python bench/calibration/fit.py CSV --records FOLDER [--offsets FILE.toml] [--json OUT.json]

The choices of the model (`choices.py`) are numbers, limits on how far compilers reorder, rules
about instructions that compilers leave out, and the times that harnesses add. The value in use of
each choice is compared with other values, one choice at a time. The kernels of each source are then
estimated with the values that are best for the kernels of all other sources. These estimates show
which errors to expect for a new kernel.

The value that needs no evidence is chosen unless another value is better. So if only one source is
evidence for a value, the estimates of this source do not use it. A rule that public programs,
traces or logs of two other authors show is always used, whatever the measurements are. The script
changes no file. It uses all kernels except those whose latencies are constants that tests of
nki-library assert, because such constants are not measurements.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from pathlib import Path
from statistics import mean
from typing import Any

import choices
from choices import DGE, FITTED, Choice, Setting

from neuroncore import machine
from neuroncore.cli.score import ASSERTED, compared
from neuroncore.record.program import Record
from neuroncore.report import measurements
from neuroncore.report.measurements import (
    Harness,
    Row,
    harness_of,
    launch_of,
    offset_us,
    span_ns,
)
from neuroncore.report.score import Errors, Order, ScoredPoint, chains, errors, order
from neuroncore.time.schedule import schedule_cores

HERE = Path(__file__).parent
MOST = 1.0  # limit of the badness |ln(estimate / measurement)|, so that no outlier decides
BETTER = 1e-4  # a value is better if it lowers the mean badness by more than this
SHOWN = 0.003  # a source shows a value that lowers its mean badness by more than this


@dataclass(frozen=True)
class Kernel:
    """A measurement with its estimate in use, and the `badness` of that estimate. `other` has the
    badness of the estimates with each other value of the choices on which the estimate can
    depend."""

    point: ScoredPoint
    badness: float
    other: Mapping[tuple[Choice, Any], float]

    def with_value(self, choice: Choice, value: Any) -> float:
        return self.other.get((choice, value), self.badness)


def badness(estimated: float, measured: float) -> float:
    return min(MOST, abs(log(estimated / measured))) if estimated > 0 else MOST


def chosen(kernels: Sequence[Kernel], choice: Choice) -> Any:
    """Return the value of a choice that makes the mean badness smallest. Values whose badness
    differs by at most BETTER count as equal, and the first of them is returned."""

    def bad(value: Any) -> float:
        return mean(k.with_value(choice, value) for k in kernels)

    least = min(map(bad, choice.values))
    return next(v for v in choice.values if bad(v) <= least + BETTER)


def settings(kernels: Sequence[Kernel], every: Sequence[Choice]) -> dict[str, Setting]:
    """Return, for each source, the values that the kernels of the other sources choose, if they
    differ from the values in use. Rules that programs of other authors show keep their value."""
    found: dict[str, Setting] = {}
    for source in sorted({k.point.source for k in kernels}):
        others = [k for k in kernels if k.point.source != source]
        open_ = [choice for choice in every if not choice.is_shown_without(source)]
        values = {choice: chosen(others, choice) for choice in open_}
        found[source] = {c: value for c, value in values.items() if value != c.in_use}
    return found


def shown_by(kernels: Sequence[Kernel], choice: Choice) -> dict[str, float]:
    """Return, for each source, by how much the mean badness of its estimates is lower with the
    value in use than with the value `without`."""
    gains: dict[str, list[float]] = {}
    for k in kernels:
        gains.setdefault(k.point.source, []).append(
            k.with_value(choice, choice.without) - k.badness
        )
    return {source: mean(each) for source, each in sorted(gains.items())}


# --- estimates ------------------------------------------------------------------------------------


class Estimates:
    """Estimates the times of records with different settings. `known` has the harnesses, and the
    time that each of them adds. Rows with the same record must follow one another, so that equal
    schedules are computed once."""

    def __init__(self, known: Sequence[Harness]) -> None:
        self.known = known
        self._spans: dict[Any, float] = {}
        self._last: Record | None = None

    def us(self, row: Row, record: Record, setting: Setting) -> float:
        """Return the estimated microseconds of the slowest core, with the time that the harness
        adds."""
        facts = launch_of(row, self.known)
        without_dge = any(c.name == DGE and not value for c, value in setting.items())
        if record is not self._last:
            self._last = record
            self._spans.clear()
        scheduled = frozenset((c, value) for c, value in setting.items() if c.kind != "offset")
        key = row["generation"], facts, scheduled
        if key not in self._spans:
            dge = facts.dge and not without_dge
            programs = measurements.programs(record, facts._replace(dge=dge))
            with choices.applied(setting, machine.load(row["generation"])) as target:
                timelines = schedule_cores(programs, target, world=record.world)
            self._spans[key] = max(map(span_ns, timelines), default=0.0) / 1000
        return self._spans[key] + self.added_us(row, setting)

    def added_us(self, row: Row, setting: Setting) -> float:
        """Return the microseconds that the harness adds. If the value in use was fitted, the
        setting may have another value."""
        harness = harness_of(row, self.known)
        if harness is None or harness.grade != FITTED:
            return offset_us(row, self.known)
        fitted = (c for c in setting if c.kind == "offset" and c.of == harness.generation)
        choice = next(fitted, None)
        return harness.offset_us if choice is None else float(setting[choice])


def kernels(
    points: Mapping[str, ScoredPoint], found: Iterator[tuple[Row, Record | str]],
    every: Sequence[Choice], estimates: Estimates,
) -> Iterator[Kernel]:  # fmt: skip
    """Yield each measured kernel that has a record, with its estimates."""
    for row, record in found:
        if isinstance(record, str) or row["id"] not in points:
            continue
        point, other = points[row["id"]], {}
        for choice in every:
            if choice.concerns(row["generation"], point.order):
                for value in choice.values:
                    if value != choice.in_use:
                        us = estimates.us(row, record, {choice: value})
                        other[choice, value] = badness(us, point.measured_us)
        yield Kernel(point, badness(point.estimated_us, point.measured_us), other)


def left_out(
    points: Mapping[str, ScoredPoint], found: Iterator[tuple[Row, Record | str]],
    of_source: Mapping[str, Setting], estimates: Estimates,
) -> Iterator[ScoredPoint]:  # fmt: skip
    """Yield the point of each measured kernel that has a record. The estimate of the point uses no
    measurement of the kernel's own source: `of_source[source]` has the values of the model's
    choices that are best for the kernels of all other sources."""
    for row, record in found:
        if isinstance(record, str) or row["id"] not in points:
            continue
        point = points[row["id"]]
        setting = {
            c: value
            for c, value in of_source[point.source].items()
            if c.concerns(row["generation"], point.order)
        }
        if setting:
            point = replace(point, estimated_us=estimates.us(row, record, setting))
        yield point


# --- output ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """The estimates in use (`in_use`), and the estimates of each source with the values that the
    other sources chose (`left_out`). For each choice, `shown` has the result of `shown_by`, and
    `chosen` counts how many sources' settings have each value."""

    in_use: Sequence[ScoredPoint]
    left_out: Sequence[ScoredPoint]
    shown: Mapping[Choice, Mapping[str, float]]
    chosen: Mapping[Choice, Counter[Any]]


def text(found: Fit) -> Iterator[str]:
    for name, points in (("in use", found.in_use), ("left out", found.left_out)):
        yield f"{name:10} {said(*_figures(points))}"
        for api, own in by_api(points).items():
            yield f"    {api}: {said(*_figures(own))}"
    for choice, gains in found.shown.items():
        told = ", ".join(f"{v!r} {n}" for v, n in found.chosen[choice].items())
        yield f"{choice}: {choice.in_use!r} in use, {choice.without!r} without; chosen {told}"
        for verb, sign in (("shown by", 1), ("against", -1)):
            sources = [f"{s} {gain:+.3f}" for s, gain in gains.items() if sign * gain >= SHOWN]
            if sources:
                yield f"    {verb} {', '.join(sources)}"


def by_api(points: Sequence[ScoredPoint]) -> dict[str, list[ScoredPoint]]:
    """Return the kernels of the older API and those of today's API. The compilers of the two
    reorder differently."""
    return {
        "older API": [p for p in points if p.order == "compiled"],
        "today's API": [p for p in points if p.order != "compiled"],
    }


def _figures(points: Sequence[ScoredPoint]) -> tuple[Errors, Order]:
    found = errors(points)
    assert found is not None
    return found, order(chains(points))


def said(found: Errors, pairs: Order) -> str:
    return (
        f"{found.count} kernels, median error {found.median:.1%}, within 20 % {found.close:.1%}, "
        f"pairs in order {pairs.accuracy or 0:.1%}, median Spearman {pairs.spearman or 0:.2f}"
    )


def document(found: Fit) -> dict[str, Any]:
    def figures(points: Sequence[ScoredPoint]) -> dict[str, Any]:
        each, pairs = _figures(points)
        return {"errors": asdict(each), "order": {**asdict(pairs), "accuracy": pairs.accuracy}}

    def quality(points: Sequence[ScoredPoint]) -> dict[str, Any]:
        apis = {api: figures(own) for api, own in by_api(points).items()}
        return {**figures(points), "by API": apis}

    return {
        "schema": "neuroncore.fit/1",
        "shown from": SHOWN,
        "in use": quality(found.in_use),
        "left out": quality(found.left_out),
        "choices": [
            {
                "kind": c.kind, "of": c.of, "name": c.name, "in use": c.in_use,
                "without": c.without, "tried": c.values,
                "shown by": [s for s, gain in gains.items() if gain >= SHOWN],
                "against": [s for s, gain in gains.items() if gain <= -SHOWN],
                "programs": list(c.shown_by),
                "chosen": [[value, count] for value, count in found.chosen[c].items()],
            }
            for c, gains in found.shown.items()
        ],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, metavar="CSV")
    parser.add_argument("--records", type=Path, metavar="FOLDER", required=True)
    parser.add_argument("--offsets", type=Path, metavar="FILE", default=HERE / "offsets.toml")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    given = parser.parse_args()
    known = measurements.harnesses(given.offsets)
    rows = [r for r in measurements.read(given.table) if measurements.is_usable(r)]
    rows = [r for r in rows if measurements.source(r) != ASSERTED]
    every, estimates = choices.choices(known), Estimates(known)
    points = {p.id: p for p in compared(rows, given.records, known).points}
    each: list[Kernel] = []
    recorded = measurements.recorded(rows, given.records)
    for kernel in kernels(points, recorded, every, estimates):
        each.append(kernel)
        print(f"\r{len(each)} kernels", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    of_source = settings(each, every)
    recorded = measurements.recorded(rows, given.records)
    found = Fit(
        [k.point for k in each],
        list(left_out(points, recorded, of_source, estimates)),
        {choice: shown_by(each, choice) for choice in every},
        {c: Counter(s.get(c, c.in_use) for s in of_source.values()) for c in every},
    )
    print("\n".join(text(found)))
    if given.json:
        given.json.write_text(json.dumps(document(found), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
