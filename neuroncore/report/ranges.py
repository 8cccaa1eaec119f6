"""The range of an estimate, from how far estimates of the same class were from measurements: what
they are mostly spent on, and which compiler's order they are of.

A range is two factors of the estimate, between which 80 % of measurements are expected. They are
in ranges.toml, which bench/calibration/ranges.py makes from a table of measurements.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, floor
from pathlib import Path
from statistics import median

import numpy as np

from neuroncore.analysis.path import steps
from neuroncore.schedule import LOADS, QUEUES, Timeline

FILE = Path(__file__).with_name("ranges.toml")
TAIL = 0.1  # of the measurements are expected below a range, and as many above
LEAST_POINTS = 15  # that a range is made of, where there is a wider class to fall back on
LEAST_SOURCES = 3  # and who measured: kernels of one source err alike
ALL = "all"
BUSY_ENOUGH = 0.75  # a resource at work for so much of the time is what it is spent on


@dataclass(frozen=True)
class Range:
    """Factors of an estimate, and of how many measurements and sources they were made."""

    low: float
    high: float
    points: int
    sources: int


@dataclass(frozen=True)
class Residual:
    """A measurement over its estimate, the limit of the estimate and its order, and the source of
    the kernel."""

    ratio: float
    limit: str
    order: str
    source: str


@dataclass(frozen=True)
class Coverage:
    """The share of measurements in their ranges, and the median half-width of these as a part of
    the estimate."""

    share: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.share:.1%} covered, median half-width {self.half_width:.1%}"


def limit_of(timeline: Timeline) -> str:
    """What a core's time is mostly spent on: the busiest engine, or DMA, if it is busy enough, else
    what has most of the critical path, which may be latency."""
    if not len(timeline.queue):
        return "nothing"
    busiest, share = max(timeline.busy_share.items(), key=lambda item: item[1])
    if share >= BUSY_ENOUGH:
        return busiest
    found = steps(timeline)
    queue = timeline.queue[found.instruction]
    kept = np.bincount(queue, found.working + found.issuing, len(QUEUES))
    spent: dict[str, float] = dict(zip(QUEUES[:LOADS], kept.tolist(), strict=False))
    spent["DMA"] = float(kept[LOADS:].sum() + found.moving.sum())
    spent["latency"] = float(found.waiting.sum())
    return max(spent, key=lambda name: spent[name])


def range_of(limit: str, order: str) -> Range | None:
    """The range of estimates with that limit and order; None if nothing was issued."""
    return None if limit == "nothing" else chosen(_stated(), limit, order)


def chosen(ranges: Mapping[str, Range], limit: str, order: str) -> Range:
    """The range of the narrowest class that there is."""
    return next(ranges[name] for name in classes(limit, order) if name in ranges)


def classes(limit: str, order: str) -> Iterator[str]:
    """What such an estimate is counted among, from the narrowest class to the widest. What today's
    compiler does to a program is little, what the older one does much, and known less well."""
    yield f"{order}, {limit}"
    if limit in QUEUES[:LOADS]:
        yield f"{order}, engine"
    yield order
    yield ALL


def fitted(residuals: Iterable[Residual]) -> dict[str, Range]:
    """The range of each class that has enough measurements; the widest has a range anyway."""
    members: dict[str, list[Residual]] = {}
    for residual in residuals:
        for name in classes(residual.limit, residual.order):
            members.setdefault(name, []).append(residual)
    ranges = {name: _range(own) for name, own in sorted(members.items())}
    return {
        name: r
        for name, r in ranges.items()
        if name == ALL or (r.points >= LEAST_POINTS and r.sources >= LEAST_SOURCES)
    }


def left_out(residuals: Sequence[Residual]) -> Iterator[tuple[Residual, Range]]:
    """Each residual with the range that all other sources give it."""
    for name in sorted({r.source for r in residuals}):
        stated = fitted(r for r in residuals if r.source != name)
        own = (r for r in residuals if r.source == name)
        yield from ((r, chosen(stated, r.limit, r.order)) for r in own)


def coverage(pairs: Iterable[tuple[Residual, Range]]) -> Coverage:
    held, widths = zip(
        *((s.low <= r.ratio <= s.high, (s.high - s.low) / 2) for r, s in pairs), strict=True
    )
    return Coverage(sum(held) / len(held), median(widths))


def _range(own: list[Residual]) -> Range:
    """Between the order statistics that leave a tenth of *further* measurements out on either side,
    if these are like the ones at hand: of n, number (n + 1) / 10 from below and from above, rounded
    outwards."""
    ratios, count = sorted(r.ratio for r in own), len(own)
    low = max(1, floor(TAIL * (count + 1)))
    high = min(count, ceil((1 - TAIL) * (count + 1)))
    return Range(ratios[low - 1], ratios[high - 1], count, len({r.source for r in own}))


@cache
def _stated() -> dict[str, Range]:
    tables = tomllib.loads(FILE.read_text("utf-8"))["range"]
    return {t.pop("of"): Range(**t) for t in tables}
