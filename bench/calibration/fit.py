"""Leave each source of kernels out in turn, with what the model rests on chosen without it.

    python bench/calibration/fit.py CSV --records FOLDER [--offsets FILE.toml] [--json OUT.json]

choices.toml has what whole kernels have shown: numbers, how far compilers reorder and what they
leave out, what harnesses add. Of each the value in use is compared with others, one choice at a
time. Every source is estimated with what the kernels of all other sources choose: what a new kernel
has to expect. What needs no evidence stands unless another value is better, so that what only one
source shows is not there for that source. Rules that public programs, traces or logs of two other
authors show stand, whatever latencies say. Nothing is changed, and no kernel is left out. Latencies
that nki-library asserts take no part.
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
MOST = 1.0  # of |ln(estimate / measurement)|: a kernel that is not understood decides nothing
BETTER = 1e-4  # by how much the mean of that has to be less for a value to be better
SHOWN = 0.003  # and for a source to show it


@dataclass(frozen=True)
class Kernel:
    """A measurement beside its estimate in use, and how bad the estimate is with each value of the
    choices that it can depend on."""

    point: ScoredPoint
    badness: float
    other: Mapping[tuple[Choice, Any], float]

    def with_value(self, choice: Choice, value: Any) -> float:
        return self.other.get((choice, value), self.badness)


def badness(estimated: float, measured: float) -> float:
    return min(MOST, abs(log(estimated / measured))) if estimated > 0 else MOST


def chosen(kernels: Sequence[Kernel], choice: Choice) -> Any:
    """The value with which estimates are the least bad; of those that are alike the first."""

    def bad(value: Any) -> float:
        return mean(k.with_value(choice, value) for k in kernels)

    least = min(map(bad, choice.values))
    return next(v for v in choice.values if bad(v) <= least + BETTER)


def settings(kernels: Sequence[Kernel], every: Sequence[Choice]) -> dict[str, Setting]:
    """For each source what the others choose, as far as it is not what is in use. What the programs
    of others show stands."""
    found: dict[str, Setting] = {}
    for source in sorted({k.point.source for k in kernels}):
        others = [k for k in kernels if k.point.source != source]
        open_ = [choice for choice in every if not choice.is_shown_without(source)]
        values = {choice: chosen(others, choice) for choice in open_}
        found[source] = {c: value for c, value in values.items() if value != c.in_use}
    return found


def shown_by(kernels: Sequence[Kernel], choice: Choice) -> dict[str, float]:
    """By how much the estimates of each source are better with the value in use than without."""
    gains: dict[str, list[float]] = {}
    for k in kernels:
        gains.setdefault(k.point.source, []).append(
            k.with_value(choice, choice.without) - k.badness
        )
    return {source: mean(each) for source, each in sorted(gains.items())}


# --- estimates ------------------------------------------------------------------------------------


class Estimates:
    """Of records with settings, where `known` says what harnesses add. Rows of one record follow
    one another: what differs in nothing that is scheduled is scheduled once."""

    def __init__(self, known: Sequence[Harness]) -> None:
        self.known = known
        self._spans: dict[Any, float] = {}
        self._last: Record | None = None

    def us(self, row: Row, record: Record, setting: Setting) -> float:
        """Of the core that takes longest, with what the harness adds."""
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
        """What the harness adds: what is fitted, as the setting has it."""
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
    """Every kernel that has a record."""
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
    """Every kernel as it is estimated with what the other sources choose."""
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


# --- what is said ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """Estimates in use, and of every source with what the others choose; the choices, with how
    much better the one in use is than none for each source, and what the others chose."""

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
    """The kernels of the older API and those of today's, which compilers order differently."""
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
