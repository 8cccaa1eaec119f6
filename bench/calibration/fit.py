"""Fit the numbers of the cycle model that documents do not give, and leave each source out in turn.

    python bench/calibration/fit.py CSV --records FOLDER [--offsets FILE.toml] [--json OUT.json]

Every fitted number is a physical quantity with a few plausible values. All combinations are tried;
the best has the most kernels within 25 %, of equal ones the smallest mean error. Kernels of
either API are fitted by themselves, for they share no number. Then the fit is made again without
each source of kernels, and that source's error is taken with what the others chose: what a new
kernel has to expect. Nothing is changed: numbers in use are in neuroncore/compiler/policy.py,
isa/machines/trn1.toml and offsets.toml, and are reported beside the best. No kernel is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from neuroncore import machine
from neuroncore.cli.score import ASSERTED
from neuroncore.compiler.policy import POLICIES
from neuroncore.machine import Machine
from neuroncore.record.program import Order
from neuroncore.record.saved import Record
from neuroncore.report import measurements
from neuroncore.report.measurements import Harness, Row, leaves_descriptors, offset_us, span_ns
from neuroncore.report.score import CLOSE
from neuroncore.schedule import schedule_cores

HERE = Path(__file__).parent


class Setting(NamedTuple):
    """A value of each fitted number; all but the windows are trn1's."""

    window: int  # instructions among which an engine takes the first that is ready
    transfers: int = 1  # the same of rings
    transfer_ns: float = 0.0  # what a DMA engine takes for a transfer beside moving its bytes
    reciprocal: float = 0.0  # elements per lane and cycle of the Vector engine's reciprocal
    offset_us: float = 0.0  # what a harness adds to the span from the first DMA to the last


# Windows on either side of those in use. A transfer: nothing, and up to half of a DMA's fixed cost.
# A reciprocal: the 8 cycles that the older documentation prints, and the rate that fits a profile.
# What harnesses add: around the 14 to 15.4 that four vector additions show.
GRID: Mapping[Order, Sequence[Setting]] = {
    "scheduled": [Setting(*windows) for windows in product((1, 2, 8, 32, 128, 512), (1, 128))],
    "compiled": [
        Setting(window, 128, *numbers)
        for window, *numbers in product(
            (32, 128), (0.0, 60.0, 120.0), (0.125, 0.42), (10.0, 15.0, 20.0)
        )
    ],
}


@dataclass(frozen=True)
class Kernel:
    """A measurement, and its error with each setting."""

    name: str
    source: str
    error: Mapping[Setting, float]


@dataclass(frozen=True)
class Quality:
    median: float
    close: float

    def __str__(self) -> str:
        return f"median error {self.median:.1%}, within 25 % {self.close:.1%}"


@dataclass(frozen=True)
class Fit:
    """The best of the settings for kernels of one order, the one in use, and the errors: with
    these two, and of every source with what the others choose."""

    order: Order
    sources: int
    best: Setting
    fitted: Sequence[float]
    used: Setting
    in_use: Sequence[float]
    left_out: Sequence[float]
    chosen: Mapping[Setting, int]  # how many times the others chose each setting


def quality(errors: Sequence[float]) -> Quality:
    return Quality(median(errors), sum(e <= CLOSE for e in errors) / len(errors))


def best(kernels: Sequence[Kernel], settings: Sequence[Setting]) -> Setting:
    """The first of the best: a setting that changes nothing is no better.

    Of those with as many close kernels it has the smallest mean error: the median does not see the
    few kernels that a window matters to.
    """

    def badness(setting: Setting) -> tuple[float, float]:
        errors = [k.error[setting] for k in kernels]
        return -quality(errors).close, round(mean(errors), 4)

    return min(settings, key=badness)


def left_out(
    kernels: Sequence[Kernel], settings: Sequence[Setting]
) -> tuple[list[float], Counter[Setting]]:
    """The errors of each source with the setting that the other sources choose, and these."""
    errors: list[float] = []
    chosen: Counter[Setting] = Counter()
    for source in sorted({k.source for k in kernels}):
        setting = best([k for k in kernels if k.source != source], settings)
        chosen[setting] += 1
        errors += (k.error[setting] for k in kernels if k.source == source)
    return errors, chosen


# --- predictions ----------------------------------------------------------------------------------


def kernels(
    rows: Sequence[Row], folder: Path, known: Sequence[Harness]
) -> Iterator[tuple[Order, Kernel]]:
    """Every kernel that has a record, with the order it is estimated in."""
    spans: dict[tuple[Any, ...], float] = {}
    last: Record | None = None
    for row, record in measurements.recorded(rows, folder):
        if isinstance(record, str) or not record.programs:
            continue
        if record is not last:
            last = record
            spans.clear()
        order = record.programs[0].order
        if order not in GRID:
            continue
        measured, dge = float(row["est_single_core_us"]), leaves_descriptors(row, known)
        error = {
            s: abs((span_us(record, row, dge, s, spans) + added_us(row, s, known)) / measured - 1)
            for s in GRID[order]
        }
        yield order, Kernel(f"{row['id']} {row['kernel']}", measurements.source(row), error)


def added_us(row: Row, setting: Setting, known: Sequence[Harness]) -> float:
    added = offset_us(row, known)
    fitted = row["generation"] == "trn1" and added and setting.offset_us
    return setting.offset_us if fitted else added


def span_us(
    record: Record, row: Row, dge: bool, setting: Setting, spans: dict[tuple[Any, ...], float]
) -> float:
    """The estimate without the harness, which is made once for settings that don't differ in what
    the kernel uses."""
    generation, order = row["generation"], record.programs[0].order
    key: tuple[Any, ...] = generation, dge, setting.window, setting.transfers
    target = machine.load(generation)
    if generation == "trn1":
        divides = any(call.name == "reciprocal" for p in record.programs for call in p.calls)
        key += setting.transfer_ns, divides and setting.reciprocal
        target = with_numbers(target, setting)
    if key not in spans:
        before = POLICIES[order]
        reach = max(setting.window, before.reach)
        POLICIES[order] = replace(
            before, window=setting.window, reach=reach, transfers=setting.transfers
        )
        try:
            timelines = schedule_cores(measurements.programs(record, dge), target)
        finally:
            POLICIES[order] = before
        spans[key] = max(map(span_ns, timelines)) / 1000
    return spans[key]


def with_numbers(target: Machine, setting: Setting) -> Machine:
    vector = target.engines["vector"]
    vector = replace(vector, rate={**vector.rate, "reciprocal": setting.reciprocal})
    return replace(
        target,
        engines={**target.engines, "vector": vector},
        dma=replace(target.dma, transfer_ns=setting.transfer_ns),
    )


def in_use(order: Order, known: Sequence[Harness]) -> Setting:
    """The setting that estimates are made with."""
    windows = POLICIES[order].window, POLICIES[order].transfers
    if order != "compiled":
        return Setting(*windows)
    trn1 = machine.load("trn1")
    offset = offset_us({"generation": "trn1", "measured_by": "nki.benchmark"}, known)
    reciprocal = trn1.engines["vector"].rate["reciprocal"]
    return Setting(*windows, trn1.dma.transfer_ns, reciprocal, offset)


# --- what is said ---------------------------------------------------------------------------------


def fit(order: Order, own: Sequence[Kernel], known: Sequence[Harness]) -> Fit:
    settings, used = GRID[order], in_use(order, known)
    chosen = best(own, settings)
    errors, choices = left_out(own, settings)
    return Fit(
        order,
        choices.total(),
        chosen,
        [k.error[chosen] for k in own],
        used,
        [k.error[used] for k in own],
        errors,
        choices,
    )


def said(setting: Setting, order: Order) -> str:
    fields = list(setting._asdict().items())
    return ", ".join(f"{n} {v:g}" for n, v in (fields if order == "compiled" else fields[:2]))


def text(found: Fit) -> Iterator[str]:
    yield f"{found.order}: {len(found.fitted)} kernels of {found.sources} sources"
    yield f"    best       {quality(found.fitted)}: {said(found.best, found.order)}"
    yield f"    in use     {quality(found.in_use)}: {said(found.used, found.order)}"
    yield f"    left out   {quality(found.left_out)}"
    for setting, count in found.chosen.items():
        yield f"        {count} sources with {said(setting, found.order)}"


def together(fits: Sequence[Fit]) -> dict[str, Quality]:
    """All kernels, by what their estimates were made with."""
    return {
        "best": quality([e for found in fits for e in found.fitted]),
        "in use": quality([e for found in fits for e in found.in_use]),
        "left out": quality([e for found in fits for e in found.left_out]),
    }


def document(fits: Sequence[Fit]) -> dict[str, Any]:
    orders = {
        found.order: {
            "kernels": len(found.fitted),
            "sources": found.sources,
            "best": {**found.best._asdict(), **asdict(quality(found.fitted))},
            "in use": {**found.used._asdict(), **asdict(quality(found.in_use))},
            "left out": asdict(quality(found.left_out)),
            "chosen": [{**s._asdict(), "sources": n} for s, n in found.chosen.items()],
        }
        for found in fits
    }
    return {"orders": orders, "all": {n: asdict(q) for n, q in together(fits).items()}}


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
    groups: dict[Order, list[Kernel]] = {}
    for order, kernel in kernels(rows, given.records, known):
        groups.setdefault(order, []).append(kernel)
        print(f"\r{sum(map(len, groups.values()))} kernels", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    fits = [fit(order, own, known) for order, own in sorted(groups.items())]
    for found in fits:
        print("\n".join(text(found)))
    print("all kernels")
    for name, found_quality in together(fits).items():
        print(f"    {name:10} {found_quality}")
    if given.json:
        given.json.write_text(json.dumps(document(fits), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
