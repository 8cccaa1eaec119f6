"""The estimate of a launch: its time, its bottleneck, and its range.

A range has two factors: 80 % of measurements are expected to be between these multiples of the
estimate. The range comes from the errors of other estimates in the same class. A class has four
properties:

* whether the compiled program, which is the program after the compiler's changes, is certain;
* the order in which the compiler issues instructions: one for the older API (`neuronxcc.nki`), and
  one for each launch path of today's API (`nki`);
* the writer of DMA descriptors (which depends on the compiler's release and flags);
* the limit: the engine or DMA that takes most of the time, or latency.

The ranges are in ranges.toml, which bench/calibration/ranges.py computes from a table of
measurements.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.lazy import Lazy
from neuroncore.base.units import duration
from neuroncore.time.compiled import REPEATED
from neuroncore.time.loops.work import RELOADED, SAVED
from neuroncore.time.path import step_times
from neuroncore.time.queues import LOADS, QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.verdict import Bound, bound

if TYPE_CHECKING:
    from neuroncore.base import display
else:
    display = Lazy("neuroncore.base.display")

Array = npt.NDArray[Any]
statistics: Any = Lazy("statistics")

FILE = Path(__file__).with_name("ranges.toml")
# TAIL is the fraction of measurements below a range, and also the fraction above it. BORROWED is
# the greatest total weight that `fitted` gives to the rest of the next wider class; a source with
# one measurement has the weight 1. With these numbers, ranges cover 83 % in cross-validation.
TAIL = 0.095
BORROWED = 30.0
BUSY_ENOUGH = 0.75  # a resource that works for this fraction of the time is the limit
# The compiled program is uncertain if the older API's compiler is assumed to omit at least this
# fraction of the instructions, or if there are more instructions than this.
LEFT_OUT = 0.1
MANY = 50_000
NOT_KNOWN = 2.0  # a range whose ends differ by this factor or more is reported as not known
ALL, KNOWN, IN_DOUBT = "all", "certain", "uncertain"  # classes


class Kind(NamedTuple):
    """The class of an estimate: the limit, the order in which the compiler issues instructions, the
    writer of descriptors (`Policy.writer`), and the reason why the compiled program is uncertain,
    or ""."""

    limit: str
    order: str
    descriptors: str
    doubt: str = ""


@dataclass(frozen=True)
class Range:
    """The ends of a range, as factors of the estimate.

    Also counts the measurements and the sources in the class."""

    low: float
    high: float
    points: int
    sources: int


@dataclass(frozen=True)
class Residual:
    """The ratio of a measurement to its estimate, the estimate's class, and the kernel's
    repository."""

    ratio: float
    kind: Kind
    source: str


@dataclass(frozen=True)
class Coverage:
    """The fraction of measurements in their ranges, and the median half-width of the ranges.

    The half-width is relative to the estimate."""

    share: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.share:.1%} covered, median half-width {self.half_width:.1%}"


def kind_of(timeline: Timeline) -> Kind:
    """Return the class of the estimate of one core."""
    writer = timeline.compiled.policy.writer(timeline.machine)
    return Kind(limit_of(timeline), timeline.order, writer, doubt_of(timeline))


def limit_of(timeline: Timeline) -> str:
    """Return the limit of a core: the resource that takes most of its time.

    The limit is the busiest of the engines and DMA if it works for at least BUSY_ENOUGH of the
    time. Otherwise it is the engine, "DMA" or "latency" that takes most of the critical path. If no
    instruction was issued, the limit is "nothing"."""
    if not len(timeline.queue):
        return "nothing"
    busiest, share = max(timeline.busy_share.items(), key=lambda item: item[1])
    if share >= BUSY_ENOUGH:
        return busiest
    path_steps = step_times(timeline)
    queue = timeline.queue[path_steps.instruction]
    work_ns = np.bincount(queue, path_steps.working + path_steps.issuing, len(QUEUES))
    path_ns: dict[str, float] = dict(zip(QUEUES[:LOADS], work_ns.tolist(), strict=False))
    path_ns["DMA"] = float(work_ns[LOADS:].sum() + path_steps.moving.sum())
    path_ns["latency"] = float(path_steps.waiting.sum())
    return max(path_ns, key=lambda name: path_ns[name])


def doubt_of(timeline: Timeline) -> str:
    """Return the reason why the compiled program of a core is uncertain, or "".

    Estimates with such a reason had errors two to three times as large as other estimates."""
    compiled = timeline.compiled
    if not compiled.policy.rewrites or not len(timeline.queue):
        return ""
    if compiled.moves.bytes_of(SAVED) or compiled.moves.bytes_of(RELOADED):
        return "tiles are spilled"
    # Copies out of PSUM that readers bypass are certain: profiles show them.
    left_out = float(np.mean(compiled.fate == REPEATED))
    if left_out >= LEFT_OUT:
        return f"the compiler is assumed to omit {left_out:.0%} of the instructions"
    if len(timeline.queue) >= MANY:
        return f"over {MANY:,} instructions"
    return ""


def range_of(kind: Kind) -> Range | None:
    """Return the range for a class, or None if no instruction was issued."""
    return None if kind.limit == "nothing" else chosen(_file_ranges(), kind)


def chosen(ranges: Mapping[str, Range], kind: Kind) -> Range:
    """Return the range of the narrowest class in `ranges` to which an estimate belongs.

    `ranges` always contains the widest class, to which all estimates belong."""
    return next(ranges[name] for name in reversed(classes(kind)) if name in ranges)


def classes(kind: Kind) -> Sequence[str]:
    """Return the names of the five classes of an estimate, from all estimates to the narrowest
    class.

    In each class, one more property is the same: whether the compiled program is certain, the order
    of the compiler, the writer of descriptors, and the limit."""
    form = IN_DOUBT if kind.doubt else KNOWN
    ordered = f"{kind.order} {form}"
    written = f"{ordered}, descriptors by {kind.descriptors}"
    return ALL, form, ordered, written, f"{written}, {kind.limit}"


def fitted(residuals: Iterable[Residual]) -> dict[str, Range]:
    """Return the range of each class that has measurements, rounded outward to thousandths.

    The ends of a range are two weighted quantiles of the ratios in its class. The other ratios of
    the next wider class are added, with a total weight of at most BORROWED, so a small class has
    nearly the range of the wider class. KNOWN and IN_DOUBT get no ratios of ALL, which would mix
    small and large errors. A measurement among n of one source has the weight 1 / sqrt(n), because
    their errors are similar, but not identical."""
    known = list(residuals)
    source_counts = Counter(r.source for r in known)
    ratios = np.array([r.ratio for r in known])
    source_weights = np.array([source_counts[r.source] ** -0.5 for r in known])
    classes_of = [classes(r.kind) for r in known]
    ranges: dict[str, Range] = {}
    for path in dict.fromkeys(classes_of):
        weights = np.zeros(len(known))
        for depth, name in enumerate(path):
            inside = np.array([names[depth] == name for names in classes_of])
            outside = weights * ~inside
            borrowed = outside * (BORROWED / max(outside.sum(), BORROWED)) if depth > 1 else 0.0
            weights = borrowed + source_weights * inside
            if name not in ranges:
                sources = {
                    r.source for r, is_inside in zip(known, inside, strict=True) if is_inside
                }
                low, high = (_quantile(ratios, weights, part) for part in (TAIL, 1 - TAIL))
                low, high = floor(low * 1000) / 1000, ceil(high * 1000) / 1000
                ranges[name] = Range(low, high, int(inside.sum()), len(sources))
    return dict(sorted(ranges.items()))


def left_out(residuals: Sequence[Residual]) -> Iterator[tuple[Residual, Range]]:
    """Yield each residual with the range that is fitted to the residuals of all other sources."""
    for name in sorted({r.source for r in residuals}):
        stated = fitted(r for r in residuals if r.source != name)
        held_out = (r for r in residuals if r.source == name)
        yield from ((r, chosen(stated, r.kind)) for r in held_out)


def coverage(pairs: Iterable[tuple[Residual, Range]]) -> Coverage:
    """Return the coverage of pairs of a residual and its range; there must be at least one pair."""
    covered, widths = zip(
        *((s.low <= r.ratio <= s.high, (s.high - s.low) / 2) for r, s in pairs), strict=True
    )
    return Coverage(sum(covered) / len(covered), statistics.median(widths))


def _quantile(values: Array, weights: Array, part: float) -> float:
    """Return the weighted quantile `part` (a fraction), with linear interpolation.

    For n values of equal weight, it is number (n + 1) * part in ascending order, counted from 1."""
    order = np.argsort(values)
    order = order[weights[order] > 0]
    sorted_weights = weights[order]
    places = (np.cumsum(sorted_weights) - sorted_weights / 2 + 0.5) / (sorted_weights.sum() + 1)
    return float(np.interp(part, places, values[order]))


@cache
def _file_ranges() -> dict[str, Range]:
    tables = tomllib.loads(FILE.read_text("utf-8"))["range"]
    return {t.pop("of"): Range(**t) for t in tables}


@dataclass(frozen=True)
class Estimate:
    """The estimated `seconds` of a launch on the device, and a range.

    80 % of measurements are expected between `low` and `high`, judging by published measurements.
    `low` and `high` are None if no instruction was issued. The class and the range are computed on
    demand, because a search over variants asks only for the time."""

    seconds: float
    timeline: Timeline = field(repr=False, compare=False)

    @cached_property
    def kind(self) -> Kind:
        """Return the class of the estimate."""
        return kind_of(self.timeline)

    @cached_property
    def _range(self) -> Range | None:
        return range_of(self.kind)

    @property
    def low(self) -> float | None:
        return None if self._range is None else self.seconds * self._range.low

    @property
    def high(self) -> float | None:
        return None if self._range is None else self.seconds * self._range.high

    @property
    def bound(self) -> Bound:
        """Return the bottleneck.

        The bottleneck is computed on demand, because the computation takes long: the program is
        scheduled again with each change that may save time, such as an engine that is twice as
        fast."""
        return bound(self.timeline)

    @property
    def is_known(self) -> bool:
        """Return whether the range is narrow enough to say something about the kernel.

        The ends of a narrow range differ by less than a factor of NOT_KNOWN."""
        if self.low is None or self.high is None:
            return False
        return self.high < NOT_KNOWN * self.low

    @property
    def time(self) -> str:
        """Return the time and its range in words."""
        text = duration(self.seconds * 1e9)
        if self.low is None or self.high is None:
            return text
        ends = f"{duration(self.low * 1e9)} to {duration(self.high * 1e9)}"
        words = "80% range " if self.is_known else "range not known, similar kernels took "
        doubt = f"; low confidence: {self.kind.doubt}" if self.kind.doubt else ""
        return f"{text} ({words}{ends}{doubt})"

    def __str__(self) -> str:
        return f"{self.time}   bound by {self.bound}"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        return display.block(self.time, display.line(f"bound by {self.bound}"))


def estimate(timeline: Timeline) -> Estimate:
    """Return the estimate of one core."""
    return Estimate(timeline.total_ns / 1e9, timeline)
