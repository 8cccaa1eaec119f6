"""Which of two variants of a kernel is faster, and how sure that is.

The error of an estimate is mostly that of its kernel: variants that do the same work err alike, and
a small difference of their estimates is right already. The more of their work differs, the larger
a difference has to be. What measurements say of that is in pairs.toml, which
bench/calibration/pairs.py makes. Of two variants, both on one machine and measured by one harness,
only the order is told: what is said of a single estimate is its range.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from math import exp, inf, log
from pathlib import Path

import numpy as np

from neuroncore.base.structs import dataclass
from neuroncore.time.schedule import Timeline

FILE = Path(__file__).with_name("pairs.toml")
UNCERTAIN = 0.8  # a probability below which the order is not told
# What is tried for the three numbers that pairs choose.
NOISES = (0.02, 0.03, 0.04, 0.05)
UNLIKE = (0.5, 0.7, 1.0, 1.4)
SLOPES = tuple(round(0.2 * 1.1**k, 3) for k in range(40))
FAR = 2.0  # times what may be noise: pairs that far apart show how sure one can be at most


@dataclass(frozen=True)
class Work:
    """What one variant is estimated to take, in nanoseconds, and of that how long each engine and
    DMA work."""

    ns: float
    busy: Mapping[str, float]


@dataclass(frozen=True)
class Variant:
    """An estimate and a measurement of one variant of the kernel that names a chain."""

    chain: str
    source: str
    estimated: Work
    measured: float


@dataclass(frozen=True)
class Sureness:
    """How the probability that the order of two estimates is right rises with their difference.

    The difference is taken as a multiple of what may be noise: `noise`, and `unlike` times the
    part of the work that differs. The probability is logistic in the square of that, with `slope`,
    and `most` where it ends. It was made of so many pairs, of so many chains and sources.
    """

    noise: float
    unlike: float
    slope: float
    most: float
    pairs: int
    chains: int
    sources: int

    def of(self, difference: float, unlike: float) -> float:
        """The probability, for a difference of the logarithms of two estimates."""
        times = difference / (self.noise + self.unlike * unlike)
        return min(self.most, 1 / (1 + exp(-self.slope * min(times, 10.0) ** 2)))


def work(timeline: Timeline) -> Work:
    """That of one core."""
    total = timeline.total_ns
    return Work(total, {name: part * total for name, part in timeline.busy_share.items()})


def difference(one: Work, other: Work) -> float:
    """How far apart two estimates are: of their logarithms."""
    low, high = sorted((one.ns, other.ns))
    return log(high / low) if low > 0 else inf


def unlike(one: Work, other: Work) -> float:
    """The part of the work of two variants that only one of them does, by the time that engines
    and DMA take for it."""
    both = [
        (one.busy.get(name, 0.0), other.busy.get(name, 0.0)) for name in {*one.busy, *other.busy}
    ]
    most = sum(map(max, both))
    return sum(abs(a - b) for a, b in both) / most if most else 0.0


def faster(old: Work, new: Work) -> float:
    """The probability that the new variant is faster than the old one."""
    right = stated().of(difference(old, new), unlike(old, new))
    return right if new.ns <= old.ns else 1 - right


def in_order(one: Variant, other: Variant) -> float:
    """1 if estimates are in the order of measurements, 0 if not, a half if either are equal."""
    both = (one.estimated.ns - other.estimated.ns) * (one.measured - other.measured)
    return 0.5 if both == 0 else float(both > 0)


def fitted(variants: Iterable[Variant]) -> Sureness:
    """The numbers under which the orders of all pairs within chains are the most likely.

    A chain of n variants has (n - 1) / 2 times as many pairs as variants: each pair counts for so
    much less, and each variant as much as any other. How sure one can be at most is the part of
    pairs far apart that are in order, with one more of which half is.
    """
    known = list(variants)
    chains = _chains(known)
    each = [
        (difference(a.estimated, b.estimated), unlike(a.estimated, b.estimated), in_order(a, b),
         2 / len(own))
        for own in chains.values()
        for a, b in combinations(own, 2)
    ]  # fmt: skip
    apart, other, right, weight = np.array(each).reshape(-1, 4).T
    found = []
    for noise, more in product(NOISES, UNLIKE):
        times = apart / (noise + more * other)
        far = times >= FAR
        most = max(0.5, (weight[far] @ right[far] + 0.5) / (weight[far].sum() + 1))
        for slope in SLOPES:
            told = np.clip(1 / (1 + np.exp(-slope * np.minimum(times, 10.0) ** 2)), 0.5, most)
            likely = weight @ (right * np.log(told) + (1 - right) * np.log(1 - told))
            found.append((float(likely), noise, more, slope, float(most)))
    _, noise, more, slope, most = max(found)
    sources = {v.source for own in chains.values() if len(own) > 1 for v in own}
    count = sum(len(own) > 1 for own in chains.values())
    return Sureness(noise, more, slope, most, len(each), count, len(sources))


def left_out(variants: Sequence[Variant]) -> Iterator[tuple[Variant, Variant, float]]:
    """Each pair within a chain, with the probability that the other sources give its order."""
    for source in sorted({v.source for v in variants}):
        others = fitted(v for v in variants if v.source != source)
        for own in _chains(v for v in variants if v.source == source).values():
            for a, b in combinations(own, 2):
                apart = difference(a.estimated, b.estimated)
                yield a, b, others.of(apart, unlike(a.estimated, b.estimated))


def _chains(variants: Iterable[Variant]) -> dict[str, list[Variant]]:
    found: dict[str, list[Variant]] = {}
    for variant in variants:
        found.setdefault(variant.chain, []).append(variant)
    return found


@cache
def stated() -> Sureness:
    """The numbers in use."""
    return Sureness(**tomllib.loads(FILE.read_text("utf-8")))
