"""Which of two variants of a kernel is faster: how often estimates that far apart were in the order
of measurements.

The table is in pairs.toml, which bench/calibration/pairs.py makes from measurements. Of two
variants, both on one machine and measured by one harness, only the order is told: what is said of a
single estimate is its range.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

FILE = Path(__file__).with_name("pairs.toml")
# From how far apart on estimates are counted together: parts of the faster one's time.
STEPS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
UNCERTAIN = 0.8  # a probability below which the order is not told


@dataclass(frozen=True)
class Variant:
    """An estimate and a measurement of one variant of the kernel that names a chain."""

    chain: str
    estimated: float
    measured: float


@dataclass(frozen=True)
class Step:
    """Pairs whose estimates are `apart` or more, up to the next step: the part of them that is in
    the order of measurements, how many there are and of how many chains."""

    apart: float
    right: float
    pairs: int
    chains: int


def apart(one: float, other: float) -> float:
    """How much longer the slower one takes, as a part of the faster one's time."""
    low, high = sorted((one, other))
    return high / low - 1 if low > 0 else float("inf")


def faster(old: float, new: float, steps: Sequence[Step] | None = None) -> float:
    """The probability that what is estimated to take `new` is faster than what is to take `old`,
    by the table that is in use if none is given."""
    right = step_of(apart(old, new), steps).right
    return right if new <= old else 1 - right


def step_of(distance: float, steps: Sequence[Step] | None = None) -> Step:
    """What is known of pairs that are so far apart."""
    return [step for step in steps or stated() if step.apart <= distance][-1]


def fitted(variants: Iterable[Variant]) -> list[Step]:
    """The table of all pairs within chains. A chain of n variants has (n - 1) / 2 times as many
    pairs as variants: each pair counts for so much less, and each variant as much as any other.
    One pair more that is right by chance keeps small numbers from being sure, and steps that would
    be surer than the next are taken together."""
    weights, rights, counts = ([0.0] * len(STEPS) for _ in range(3))
    seen: list[set[str]] = [set() for _ in STEPS]
    for chain, own in _chains(variants).items():
        for one, other in combinations(own, 2):
            step, weight = _number(one, other), 2 / len(own)
            weights[step] += weight
            rights[step] += weight * in_order(one, other)
            counts[step] += 1
            seen[step].add(chain)
    shares = _rising([(r + 0.5, w + 1) for r, w in zip(rights, weights, strict=True)])
    rows = zip(STEPS, shares, counts, seen, strict=True)
    return [Step(at, max(0.5, right), int(count), len(own)) for at, right, count, own in rows]


def left_out(variants: Sequence[Variant]) -> Iterator[tuple[Variant, Variant, float]]:
    """Each pair within a chain, with the probability that the other chains give its order."""
    for chain, own in _chains(variants).items():
        steps = fitted(v for v in variants if v.chain != chain)
        for one, other in combinations(own, 2):
            yield one, other, step_of(apart(one.estimated, other.estimated), steps).right


def in_order(one: Variant, other: Variant) -> float:
    """1 if estimates are in the order of measurements, 0 if not, a half if either are equal."""
    product = (one.estimated - other.estimated) * (one.measured - other.measured)
    return 0.5 if product == 0 else float(product > 0)


def _chains(variants: Iterable[Variant]) -> Mapping[str, list[Variant]]:
    found: dict[str, list[Variant]] = {}
    for variant in variants:
        found.setdefault(variant.chain, []).append(variant)
    return found


def _number(one: Variant, other: Variant) -> int:
    distance = apart(one.estimated, other.estimated)
    return max(k for k, step in enumerate(STEPS) if step <= distance)


def _rising(parts: Sequence[tuple[float, float]]) -> Iterator[float]:
    """Shares right / all, of which none is less than the one before (isotonic regression)."""
    blocks: list[tuple[float, float, int]] = []
    for right, count in parts:
        blocks.append((right, count, 1))
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            (a, b, c), (d, e, f) = blocks.pop(), blocks.pop()
            blocks.append((a + d, b + e, c + f))
    for right, count, steps in blocks:
        yield from [right / count] * steps


@cache
def stated() -> Sequence[Step]:
    """The table in use."""
    return [Step(**table) for table in tomllib.loads(FILE.read_text("utf-8"))["step"]]
