"""The estimate of a launch: its time, its range, and its bottleneck."""

from __future__ import annotations

from dataclasses import field

from neuroncore.base.structs import dataclass
from neuroncore.base.units import duration
from neuroncore.report.ranges import Kind, kind_of, range_of
from neuroncore.time.schedule import Timeline
from neuroncore.time.verdict import Bound, bound


@dataclass(frozen=True)
class Estimate:
    """Seconds on the device. 80 % of measurements are expected between `low` and `high`, judging by
    published measurements; both are None if no instruction was issued."""

    seconds: float
    low: float | None
    high: float | None
    kind: Kind
    timeline: Timeline = field(repr=False, compare=False)

    @property
    def bound(self) -> Bound:
        """Return the bottleneck; computed on demand, because it needs more schedules."""
        return bound(self.timeline)

    @property
    def time(self) -> str:
        """Return the time and its range in words."""
        said = duration(self.seconds * 1e9)
        if self.low is not None and self.high is not None:
            low, high = duration(self.low * 1e9), duration(self.high * 1e9)
            doubt = f"; low confidence: {self.kind.doubt}" if self.kind.doubt else ""
            said += f" (80 % range {low} to {high}{doubt})"
        return said

    def __str__(self) -> str:
        return f"{self.time}   bound by {self.bound}"


def estimate(timeline: Timeline) -> Estimate:
    """Return the estimate of one core."""
    seconds, kind = timeline.total_ns / 1e9, kind_of(timeline)
    stated = range_of(kind)
    if stated is None:
        return Estimate(seconds, None, None, kind, timeline)
    return Estimate(seconds, seconds * stated.low, seconds * stated.high, kind, timeline)
