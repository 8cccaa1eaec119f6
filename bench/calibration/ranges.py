"""Compute the ranges of estimates from the errors of estimates of measured kernels.

    python bench/calibration/ranges.py CSV ... --records FOLDER [--offsets FILE.toml] [--check]

Writes neuroncore/report/ranges.toml; with --check it only compares the file. It prints the fraction
of the measurements that the ranges cover. A second figure is for ranges that are computed without
the source of each measurement.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from neuroncore.cli.score import compared
from neuroncore.report import estimate, measurements
from neuroncore.report.estimate import Kind, Range, Residual
from neuroncore.report.score import ScoredPoint

HERE = Path(__file__).parent
HEADER = """\
# The range of each class of estimates (`of`): 80 % of measurements are expected between `low` and
# `high` times the estimate. `points` and `sources` are the numbers of measurements and of sources
# in the class. neuroncore/report/estimate.py explains the classes. Written by
# bench/calibration/ranges.py; see docs/calibration.md.
"""


def kind(point: ScoredPoint) -> Kind:
    return Kind(point.limit, point.order, point.descriptors, point.doubt)


def document(stated: Mapping[str, Range]) -> str:
    return HEADER + "".join(
        f'\n[[range]]\nof = "{name}"\n'
        f"low = {r.low}\nhigh = {r.high}\n"
        f"points = {r.points}\nsources = {r.sources}\n"
        for name, r in stated.items()
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", type=Path, nargs="+", metavar="CSV")
    parser.add_argument("--records", type=Path, metavar="FOLDER", required=True)
    parser.add_argument("--offsets", type=Path, metavar="FILE", default=HERE / "offsets.toml")
    parser.add_argument(
        "--check", action="store_true", help="only compare the file; fail if it is out of date"
    )
    given = parser.parse_args()
    read = (row for table in given.tables for row in measurements.read(table))
    rows = [row for row in read if measurements.is_usable(row)]
    points = compared(rows, given.records, measurements.harnesses(given.offsets)).points
    every = [Residual(1 / p.ratio, kind(p), p.source) for p in points]
    stated = estimate.fitted(every)
    own = [(r, estimate.chosen(stated, r.kind)) for r in every]
    print(f"{len(every)} measurements: {estimate.coverage(own)}")
    print(f"sources left out one at a time: {estimate.coverage(estimate.left_out(every))}")
    text = document(stated)
    print(text.removeprefix(HEADER))
    if given.check:
        return int(estimate.FILE.read_text("utf-8") != text)
    estimate.FILE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
