"""Compute the numbers that give the probability that two variants of a kernel are in the right
order by their estimates.

    python bench/calibration/pairs.py CSV ... --records FOLDER [--offsets FILE.toml] [--check]

Writes neuroncore/report/pairs.toml; with --check it only compares the file. A chain is a sequence
of variants in a table. The script prints how often the order of the estimates is right for
neighbors in a chain whose measurements differ by more than 10 %. It also prints this share for all
pairs of variants of one source, grouped by the probability that a pair gets when this source is
left out of the fit. Constants that nki-library's tests assert are left out, because they are not
measurements.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from math import floor, log
from pathlib import Path

from neuroncore.cli.score import ASSERTED
from neuroncore.record.program import Record
from neuroncore.report import measurements, pairs
from neuroncore.report.measurements import Harness, LaunchFacts
from neuroncore.report.pairs import PairWork, Sureness, Variant
from neuroncore.report.score import DIFFERENT

HERE = Path(__file__).parent
BANDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
HEADER = """\
# The fields of Sureness in neuroncore/report/pairs.py, which give the probability that the order of
# two estimates is right. Written by bench/calibration/pairs.py; docs/diff.md explains the numbers.

"""


def variants(tables: Iterable[Path], folder: Path, known: Sequence[Harness]) -> list[Variant]:
    """Return the measured kernels that are in chains (published sequences of variants), in the
    order of the rows of the tables."""
    found: dict[str, Variant] = {}
    rows = [row for table in tables for row in measurements.read(table)]
    wanted = [
        row
        for row in rows
        if measurements.is_usable(row) and row["chain"] and measurements.source(row) != ASSERTED
    ]
    estimate = cache(_work)
    for row, record in measurements.recorded(wanted, folder):
        if isinstance(record, Record):
            facts = measurements.launch_of(row, known)
            estimated = estimate(record, row["generation"], facts)
            measured = float(row["est_single_core_us"])
            source = measurements.source(row)
            found[row["id"]] = Variant(row["chain"], source, estimated, measured)
    return [found[row["id"]] for row in wanted if row["id"] in found]


def _work(record: Record, generation: str, facts: LaunchFacts) -> PairWork:
    slowest = measurements.slowest_core(record, generation, facts)
    if slowest is None:
        return PairWork(0.0, {})
    return replace(pairs.work(slowest), ns=measurements.span_ns(slowest))


def neighbors(known: Sequence[Variant]) -> Iterator[tuple[Variant, Variant]]:
    """Yield the pairs of variants that are next to each other in a chain."""
    for chain in dict.fromkeys(v.chain for v in known):
        yield from pairwise(v for v in known if v.chain == chain)


def _right(found: Sequence[tuple[Variant, Variant]]) -> str:
    return f"{sum(pairs.in_order(*pair) == 1 for pair in found)} of {len(found)}"


def bands(told: Iterable[tuple[float, float]]) -> Iterator[str]:
    """Yield a line of text for each band of probabilities. `told` has, for each pair of variants,
    its probability and whether the order is right (1, 0, or 0.5 for equal values). A line has the
    number of pairs, their mean probability, and the share in the right order."""
    each = list(told)
    for low, high in pairwise(BANDS):
        own = [(p, held) for p, held in each if low <= p < high or p == high == 1.0]
        if own:
            said, held = (sum(column) / len(own) for column in zip(*own, strict=True))
            shares = f"expected {said:.0%}, right {held:.0%}"
            yield f"  {low:.0%} to {high:.0%}: {len(own):4} pairs, {shares}"


def document(found: Sureness) -> str:
    rounded = {**asdict(found), "most": floor(found.most * 1000) / 1000}
    return HEADER + "".join(f"{name} = {value}\n" for name, value in rounded.items())


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
    known = variants(given.tables, given.records, measurements.harnesses(given.offsets))
    every = [(a, b, p, pairs.in_order(a, b)) for a, b, p in pairs.left_out(known)]
    beside = {(id(a), id(b)) for a, b in neighbors(known)}
    near = [one for one in every if (id(one[0]), id(one[1])) in beside]
    differ = [
        one for one in near if abs(log(one[0].measured / one[1].measured)) > log(1 + DIFFERENT)
    ]
    told = [(a, b) for a, b, p, _ in differ if p >= pairs.UNCERTAIN]
    right = _right([d[:2] for d in differ])
    print(f"neighbors that differ by more than {DIFFERENT:.0%}: {right} in order")
    print(f"those with a certain order, without their source in the fit: {_right(told)} in order")
    print("all pairs of variants, without their source in the fit:")
    print("\n".join(bands((p, held) for *_, p, held in every)))
    print("neighbors among them:")
    print("\n".join(bands((p, held) for *_, p, held in near)))
    text = document(pairs.fitted(known))
    print(text.removeprefix(HEADER))
    if given.check:
        return int(pairs.FILE.read_text("utf-8") != text)
    pairs.FILE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
