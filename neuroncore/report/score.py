"""Compare estimates with measurements.

The comparison covers errors, the order of variants of a kernel, and the fraction of measurements
inside their ranges. The error of an estimate is |estimate / measurement - 1|. A point is one
measurement with its estimate. A chain is a group of variants of one kernel that one harness
measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import StatisticsError, correlation, median

CLOSE = 0.20  # the largest error of a close estimate
DIFFERENT = 0.10  # variants that differ by more than this should be in order
SHORTEST = 3  # the smallest chain with a meaningful rank correlation


@dataclass(frozen=True)
class ScoredPoint:
    """One measurement and its estimate, both in microseconds.

    `limit`, `order`, `doubt` and `descriptors` are the class of the estimate (`estimate.Kind`).
    `low` and `high` are the ends of its range, as factors of the estimate."""

    id: str
    kernel: str
    generation: str
    source: str
    family: str
    bound: str  # the bottleneck that the table of measurements names
    limit: str  # the limit of the estimate (`estimate.limit_of`)
    order: str  # the order in which the compiler issues instructions
    doubt: str  # the reason why the compiled program is uncertain, or ""
    chain: str
    spilled: bool
    measured_us: float
    estimated_us: float
    low: float  # the ends of the range, relative to the estimate
    high: float
    descriptors: str = ""  # the writer of DMA descriptors

    @property
    def ratio(self) -> float:
        return self.estimated_us / self.measured_us

    @property
    def error(self) -> float:
        return abs(self.ratio - 1)

    @property
    def covered(self) -> bool:
        return self.estimated_us * self.low <= self.measured_us <= self.estimated_us * self.high

    @property
    def half_width(self) -> float:
        """Return the half-width of the range relative to the estimate."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Errors:
    """The errors of `count` points.

    `median`: the median error.
    `close`: the fraction of estimates with an error of at most CLOSE.
    `covered`: the fraction of measurements inside their ranges.
    `half_width`: the median half-width of the ranges, relative to the estimates."""

    count: int
    median: float
    close: float
    covered: float
    half_width: float


@dataclass(frozen=True)
class Chain:
    """The order of the variants of one kernel.

    `spearman`: the rank correlation of estimates and measurements. It is None for too few variants,
        or if all estimates or all measurements are equal.
    `pairs`: the number of pairs whose measurements differ by more than DIFFERENT.
    `right`: the number of these pairs that the estimates put in the right order."""

    name: str
    count: int
    spearman: float | None
    pairs: int
    right: int


@dataclass(frozen=True)
class Order:
    """The order of variants in all chains.

    The fields are the number of chains, the median rank correlation, the number of pairs, and the
    number of pairs in the right order."""

    chains: int
    spearman: float | None
    pairs: int
    right: int

    @property
    def accuracy(self) -> float | None:
        return self.right / self.pairs if self.pairs else None


def errors(points: Sequence[ScoredPoint]) -> Errors | None:
    """Return the errors of points, or None if there are no points."""
    if not points:
        return None
    point_errors, count = [point.error for point in points], len(points)
    return Errors(
        count,
        median(point_errors),
        sum(e <= CLOSE for e in point_errors) / count,
        sum(p.covered for p in points) / count,
        median(p.half_width for p in points),
    )


def grouped(
    points: Iterable[ScoredPoint], key: Callable[[ScoredPoint], str]
) -> Iterator[tuple[str, list[ScoredPoint]]]:
    """Yield each value of the property `key`, in ascending order, with its points."""
    groups: dict[str, list[ScoredPoint]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    yield from sorted(groups.items())


def chains(points: Iterable[ScoredPoint]) -> list[Chain]:
    """Return how well the estimates order the variants of each chain.

    A chain has at least two variants of one kernel that one harness measured. Points without a
    chain are left out."""
    by_chain = (
        chain(name, members) for name, members in grouped(points, lambda p: p.chain) if name
    )
    return [c for c in by_chain if c.count > 1]


def chain(name: str, points: Sequence[ScoredPoint]) -> Chain:
    measured = [p.measured_us for p in points]
    estimated = [p.estimated_us for p in points]
    ranked = spearman(measured, estimated) if len(points) >= SHORTEST else None
    apart = [pair for pair in combinations(points, 2) if _differ(*pair)]
    right = sum(_in_order(*pair) for pair in apart)
    return Chain(name, len(points), ranked, len(apart), right)


def order(chains: Sequence[Chain]) -> Order:
    ranked = [c.spearman for c in chains if c.spearman is not None]
    return Order(
        len(chains),
        median(ranked) if ranked else None,
        sum(c.pairs for c in chains),
        sum(c.right for c in chains),
    )


def _differ(a: ScoredPoint, b: ScoredPoint) -> bool:
    low, high = sorted((a.measured_us, b.measured_us))
    return high > low * (1 + DIFFERENT)


def _in_order(a: ScoredPoint, b: ScoredPoint) -> bool:
    """Return whether two points have the same order in the estimates and in the measurements.

    Return False if the estimates or the measurements are equal."""
    return (a.measured_us - b.measured_us) * (a.estimated_us - b.estimated_us) > 0


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation of two sequences, or None if one sequence is constant.

    Equal values share their mean rank."""
    try:
        return correlation(ranks(first), ranks(second))
    except StatisticsError:
        return None


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values get their mean rank."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]
