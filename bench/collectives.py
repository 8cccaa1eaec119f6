"""Compare estimates of collectives with published times: python bench/collectives.py CSV [--fit]

CSV has the columns of nccom-test's tables: instance, nodes, ranks, lnc, op, dtype, size_bytes,
time_us. It also has a grade. Grade A is for a whole table of a named instance, and B for a
measurement that is less certain. Grade C is for an old, noisy or incomplete measurement, and X for
a rejected one. All rows but those of grade X are printed. The model is fitted only to the float32
rows of grade A for all_gather and reduce_scatter. The exit code is 0 if the errors of the other
rows of grade A are within the limits. tests/data/collectives.csv has the rows of grade A.

--fit fits the numbers of isa/instances/*.toml again, by least squares of logarithms, and prints
them. It does not fit the time of a launch, because these rows can't distinguish that time from the
time of the steps.
"""

from __future__ import annotations

import argparse
import csv
import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neuroncore.machine import instance as instances
from neuroncore.machine.collective_time import SCALED, CollectiveTime, collective_time
from neuroncore.machine.instance import AlgorithmNumbers, Instance

PATTERNS = {
    "all_gather": "gather",
    "all_gather_v": "gather",
    "reduce_scatter": "scatter",
    "all_reduce": "reduce",
    "all_to_all": "exchange",
    "permute": "shift",
}
FITTED = ("all_gather", "reduce_scatter")
MEDIAN, WORST = 0.08, 0.20  # limits of the error, for rows of grade A that are not in the fit
# By number of ranks: the likely instance, for tables that name none.
LIKELY = {4: "trn2.3xlarge", 8: "trn2.3xlarge", 2: "inf2.xlarge", 16: "trn2.48xlarge"}


class Row(NamedTuple):
    """One published time. `instance` is "" if the table names no instance and no instance is
    likely."""

    op: str
    dtype: str
    size_bytes: int
    microseconds: float
    ranks: int
    lnc: int
    nodes: int
    instance: str
    grade: str

    @property
    def is_fitted(self) -> bool:
        return self.grade == "A" and self.dtype == "fp32" and self.op in FITTED


def rows(path: Path) -> Iterator[Row]:
    """Yield the rows that have a time and a size, except those of grade X."""
    with path.open() as lines:
        for line in csv.DictReader(lines):
            if line["grade"] == "X" or not line["time_us"] or not line["size_bytes"]:
                continue
            named = re.search(r"(trn|inf)\w*\.\w+", line["instance"])
            ranks = int(line["ranks"])
            instance = named.group() if named else LIKELY.get(ranks, "")
            lnc = int(line["lnc"] or _likely_lnc(instance, ranks))
            yield Row(
                op=line["op"],
                dtype=line["dtype"],
                size_bytes=int(line["size_bytes"]),
                microseconds=float(line["time_us"]),
                ranks=ranks,
                lnc=lnc,
                nodes=int(line["nodes"]),
                instance=instance,
                grade=line["grade"],
            )


def _likely_lnc(instance: str, ranks: int) -> int:
    """Return the size of a logical core with which the instance has this number of ranks. If there
    is none, return the default size."""
    if not instance:
        return 1
    one = instances.find(instance)
    sizes = one.chip.logical_core_sizes
    return next((size for size in sizes if one.ranks(size) == ranks), sizes[0])


def estimate(row: Row) -> CollectiveTime | None:
    """Return the estimate for a row. Return None if the instance or the operation is unknown, and
    for collectives between instances over EFA, for which no reliable table is published."""
    if row.nodes > 1 or not row.instance or row.op not in PATTERNS:
        return None
    one = instances.find(row.instance)
    return collective_time(one, row.lnc, PATTERNS[row.op], row.size_bytes, range(row.ranks))


def error(row: Row, found: CollectiveTime) -> float:
    return found.ns / 1e3 / row.microseconds - 1


def table(every: list[Row]) -> Iterator[str]:
    yield f"{'op':15}{'dtype':6}{'bytes':>11}{'ranks':>6} {'instance':14} g {'us':>9}{'ours':>9}"
    for row in every:
        found = estimate(row)
        head = f"{row.op:15}{row.dtype:6}{row.size_bytes:11}{row.ranks:6} {row.instance:14}"
        if found is None:
            yield f"{head} {row.grade} {row.microseconds:9.1f}        -  no estimate"
            continue
        basis = "fitted" if row.is_fitted else "scaled" if found.basis == SCALED else "held out"
        yield (
            f"{head} {row.grade} {row.microseconds:9.1f}{found.ns / 1e3:9.1f}"
            f" {error(row, found):+7.1%} {found.algorithm}, {basis}"
        )


def errors(every: list[Row], fitted: bool, grade: str) -> list[float]:
    chosen = [row for row in every if row.grade == grade and row.is_fitted == fitted]
    pairs = ((row, estimate(row)) for row in chosen)
    return sorted(abs(error(row, found)) for row, found in pairs if found is not None)


def summary(every: list[Row]) -> Iterator[str]:
    for name, fitted, grade in (
        ("A, fitted", True, "A"),
        ("A, not fitted", False, "A"),
        ("B, scaled", False, "B"),
        ("C, scaled", False, "C"),
    ):
        if found := errors(every, fitted, grade):
            yield (
                f"{name:14} {len(found):3} rows: median {statistics.median(found):6.1%}, "
                f"worst {found[-1]:.1%}"
            )


def within_limits(every: list[Row]) -> bool:
    """Return whether the errors of the rows of grade A that are not in the fit are within the
    limits."""
    found = errors(every, False, "A")
    return bool(found) and statistics.median(found) <= MEDIAN and found[-1] <= WORST


def with_numbers(one: Instance, numbers: np.ndarray) -> Instance:
    """Return the instance with other numbers. The vector `numbers` has the time of a step, the
    gather bandwidth and the scatter bandwidth of each algorithm."""
    rest = [float(number) for number in numbers]
    algorithms = {}
    for place, (name, own) in enumerate(one.collectives.algorithms.items()):
        step, gather, scatter = rest[3 * place : 3 * place + 3]
        algorithms[name] = AlgorithmNumbers(own.most_bytes, step, gather, scatter)
    return replace(one, collectives=replace(one.collectives, algorithms=algorithms))


def fit(every: list[Row]) -> Iterator[str]:
    """Yield the fitted numbers of each algorithm as text. They minimize the sum of the squares of
    log(estimate / measured) over the rows of the fit. The search begins with the numbers in the
    instance's file."""
    from scipy.optimize import least_squares

    chosen = [row for row in every if row.is_fitted]
    one = instances.find(chosen[0].instance)
    first: list[float] = []
    for own in one.collectives.algorithms.values():
        first += [own.step_us, own.gather_gigabytes_per_s, own.scatter_gigabytes_per_s]

    def residuals(logarithms: np.ndarray) -> list[float]:
        other = with_numbers(one, np.exp(logarithms))
        estimates = (
            collective_time(other, row.lnc, PATTERNS[row.op], row.size_bytes, range(row.ranks))
            for row in chosen
        )
        return [np.log(e.ns / 1e3 / row.microseconds) for e, row in zip(estimates, chosen)]

    found = with_numbers(one, np.exp(least_squares(residuals, np.log(first)).x)).collectives
    for name, own in found.algorithms.items():
        yield (
            f"{name}: step_us {own.step_us:.2f}, gather {own.gather_gigabytes_per_s:.0f}, "
            f"scatter {own.scatter_gigabytes_per_s:.0f} GB/s"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--fit", action="store_true", help="fit again, and print the numbers")
    arguments = parser.parse_args()
    every = list(rows(arguments.csv))
    if arguments.fit:
        print("\n".join(fit(every)))
        return 0
    print("\n".join([*table(every), "", *summary(every)]))
    return int(not within_limits(every))


if __name__ == "__main__":
    raise SystemExit(main())
