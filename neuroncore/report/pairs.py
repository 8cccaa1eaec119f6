"""The probability that one of two variants of a kernel is faster.

Estimates of variants with the same work have similar errors, so even a small difference shows which
is faster. If the work differs more, the difference must be larger. The fitted numbers (`Sureness`)
are in pairs.toml, from bench/calibration/pairs.py. A chain is a group of variants of one kernel
that one harness measured on one machine."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import exp, inf, log, sqrt
from pathlib import Path

import numpy as np

from neuroncore.time.schedule import Timeline

FILE = Path(__file__).with_name("pairs.toml")
DOMINATES = 0.99  # the probability of the order if one variant `dominates` the other
UNCERTAIN = 0.8  # a probability below which the order is not reported
# The values among which `fitted` chooses `noise`, `unlike` and `slope`.
NOISES = (0.02, 0.03, 0.04, 0.05)
UNLIKE = (0.5, 0.7, 1.0, 1.4)
SLOPES = tuple(round(0.2 * 1.1**k, 3) for k in range(40))
FAR = 2.0  # pairs that differ by this many times the noise determine the highest probability


@dataclass(frozen=True)
class PairWork:
    """The work of one variant, in nanoseconds.

    `ns`: the estimate.
    `busy`: how long each engine, or DMA, works; by name."""

    ns: float
    busy: Mapping[str, float]


@dataclass(frozen=True)
class Variant:
    """One variant: its estimate, its measured time, its chain, and the repository of the kernel."""

    chain: str
    source: str
    estimated: PairWork
    measured: float


@dataclass(frozen=True)
class Sureness:
    """The probability that the order of two estimates is right.

    Let d be the difference of the logarithms of the estimates, f the fraction of the work that only
    one variant does, and x = d / (`noise` + `unlike` * f). The probability is the logistic function
    of `slope` * x^2, but at most `most`. These numbers were fitted to `pairs` pairs in `chains`
    chains from `sources` sources."""

    noise: float
    unlike: float
    slope: float
    most: float
    pairs: int
    chains: int
    sources: int

    def of(self, difference: float, unlike: float) -> float:
        """Return the probability that the order of two estimates is right.

        `difference`: the difference of the logarithms of the estimates.
        `unlike`: the fraction of the work that only one of the variants does."""
        times = difference / (self.noise + self.unlike * unlike)
        return min(self.most, 1 / (1 + exp(-self.slope * min(times, 10.0) ** 2)))


def work(timeline: Timeline) -> PairWork:
    """Return the work of one core."""
    total = timeline.total_ns
    return PairWork(total, {name: part * total for name, part in timeline.busy_share.items()})


def difference(first: PairWork, second: PairWork) -> float:
    """Return the absolute difference of the logarithms of two estimates.

    Return infinity if an estimate is 0."""
    low, high = sorted((first.ns, second.ns))
    return log(high / low) if low > 0 else inf


def unlike(first: PairWork, second: PairWork) -> float:
    """Return how much the work of two variants differs: 0 for equal work, at most 1. This is the
    sum over engines, and DMA, of the difference of working times, divided by the sum of the larger
    working times."""
    times = [
        (first.busy.get(name, 0.0), second.busy.get(name, 0.0))
        for name in {**first.busy, **second.busy}
    ]
    larger = sum(map(max, times))
    return sum(abs(a - b) for a, b in times) / larger if larger else 0.0


def faster_core(old: Timeline, new: Timeline) -> float:
    """Return the probability that the new variant is faster, from the timelines of two cores."""
    if dominates(new, old):
        return DOMINATES
    return 1 - DOMINATES if dominates(old, new) else faster(work(old), work(new))


def faster(old: PairWork, new: PairWork) -> float:
    """Return the probability that the new variant is faster, from the work of both variants."""
    right = stated().of(difference(old, new), unlike(old, new))
    return right if new.ns <= old.ns else 1 - right


def dominates(new: Timeline, old: Timeline) -> bool:
    """Return whether the new variant is certainly faster, whatever the errors of the estimates are.

    The new variant must issue the same instructions on the same queues as the old variant. No
    instruction may cost more than before, and some must cost less. The estimate may not be
    longer."""
    names = [[c.name for c in timeline.program.calls] for timeline in (new, old)]
    calls = [
        np.array(call_names)[timeline.columns.call]
        for call_names, timeline in zip(names, (new, old), strict=True)
    ]
    if len(new.queue) != len(old.queue) or (new.queue != old.queue).any():
        return False
    costs = [
        np.stack(
            [
                column.take(timeline.compiled.row)
                for column in (table.busy, table.latency, table.lane_ns)
            ]
        )
        for timeline in (new, old)
        for table in (timeline.compiled.table,)
    ]
    is_cheaper = (costs[0] <= costs[1]).all() and (costs[0] < costs[1]).any()
    return bool(is_cheaper and (calls[0] == calls[1]).all() and new.total_ns <= old.total_ns)


def margin(old: PairWork, new: PairWork) -> float:
    """Return the smallest difference of the logarithms of two estimates for which their order is
    certain enough to be reported (UNCERTAIN)."""
    known = stated()
    times = sqrt(log(UNCERTAIN / (1 - UNCERTAIN)) / known.slope)
    return times * (known.noise + known.unlike * unlike(old, new))


def in_order(first: Variant, second: Variant) -> float:
    """Return 1 if two variants have the same order in the estimates and in the measurements.

    Return 0 for the opposite order, and 0.5 if the estimates or the measurements are equal."""
    agreement = (first.estimated.ns - second.estimated.ns) * (first.measured - second.measured)
    return 0.5 if agreement == 0 else float(agreement > 0)


def fitted(variants: Iterable[Variant]) -> Sureness:
    """Return the numbers for which the measured order of all pairs within chains is most likely.

    A chain of n variants has n (n - 1) / 2 pairs of weight 2 / n. `most`, the highest probability,
    is the weighted share of pairs in the right order, among those whose x (`Sureness`) is at least
    FAR, but at least 0.5. One more pair of weight 1 counts as half right."""
    known_variants = list(variants)
    chains = _chains(known_variants)
    rows = [
        (difference(a.estimated, b.estimated), unlike(a.estimated, b.estimated), in_order(a, b),
         2 / len(members))
        for members in chains.values()
        for a, b in combinations(members, 2)
    ]  # fmt: skip
    apart, unlike_work, right, weight = np.array(rows).reshape(-1, 4).T
    candidates = []
    for noise, unlike_factor in product(NOISES, UNLIKE):
        times = apart / (noise + unlike_factor * unlike_work)
        far = times >= FAR
        most = max(0.5, (weight[far] @ right[far] + 0.5) / (weight[far].sum() + 1))
        for slope in SLOPES:
            probability = np.clip(
                1 / (1 + np.exp(-slope * np.minimum(times, 10.0) ** 2)), 0.5, most
            )
            likelihood = weight @ (
                right * np.log(probability) + (1 - right) * np.log(1 - probability)
            )
            candidates.append((float(likelihood), noise, unlike_factor, slope, float(most)))
    _, noise, unlike_factor, slope, most = max(candidates)
    sources = {v.source for members in chains.values() if len(members) > 1 for v in members}
    count = sum(len(members) > 1 for members in chains.values())
    return Sureness(noise, unlike_factor, slope, most, len(rows), count, len(sources))


def left_out(variants: Sequence[Variant]) -> Iterator[tuple[Variant, Variant, float]]:
    """Yield each pair of variants within a chain, with the probability that its order is right.

    The numbers for this probability are fitted without the source of the pair."""
    for source in sorted({v.source for v in variants}):
        others = fitted(v for v in variants if v.source != source)
        for members in _chains(v for v in variants if v.source == source).values():
            for a, b in combinations(members, 2):
                apart = difference(a.estimated, b.estimated)
                yield a, b, others.of(apart, unlike(a.estimated, b.estimated))


def _chains(variants: Iterable[Variant]) -> dict[str, list[Variant]]:
    chains: dict[str, list[Variant]] = {}
    for variant in variants:
        chains.setdefault(variant.chain, []).append(variant)
    return chains


@cache
def stated() -> Sureness:
    """Return the fitted numbers of pairs.toml."""
    return Sureness(**tomllib.loads(FILE.read_text("utf-8")))
