"""The estimate of a launch: how long, within which range, and what keeps it from being faster."""

from __future__ import annotations

from dataclasses import dataclass

from neuroncore.report.ranges import range_of
from neuroncore.report.units import duration
from neuroncore.schedule import Timeline

BUSY_ENOUGH = 0.75  # a resource at work for so much of the time is what bounds a kernel


@dataclass(frozen=True)
class Bound:
    """What keeps a kernel from being faster: a resource, and its share of the time."""

    what: str
    share: float

    def __str__(self) -> str:
        if self.what == "nothing":
            return "nothing: no instruction was issued"
        if self.what == "latency":
            return f"latency ({self.share:.0%} of the critical path waits for results)"
        return f"{self.what} ({self.share:.0%} busy)"


def bound(timeline: Timeline) -> Bound:
    """The busiest resource if it is busy enough, else what the critical path mostly consists of."""
    if not len(timeline.queue):
        return Bound("nothing", 0.0)
    what, share = max(timeline.busy_share.items(), key=lambda item: item[1])
    if share >= BUSY_ENOUGH:
        return Bound(what, share)
    what, part = max(timeline.path_share.items(), key=lambda item: item[1])
    resource = "DMA" if what.startswith("DMA") else what
    return Bound(resource, part if what == "latency" else timeline.busy_share[resource])


@dataclass(frozen=True)
class Estimate:
    """Seconds on the device. Between `low` and `high` 80 % of measurements are expected, as far as
    estimates have been compared with some; None if no instruction was issued."""

    seconds: float
    low: float | None
    high: float | None
    bound: Bound

    def __str__(self) -> str:
        said = duration(self.seconds * 1e9)
        if self.low is not None and self.high is not None:
            low, high = duration(self.low * 1e9), duration(self.high * 1e9)
            said += f" (80 % range {low} to {high})"
        return f"{said}   bound by {self.bound}"


def estimate(timeline: Timeline) -> Estimate:
    """How long one core takes."""
    limit, seconds = bound(timeline), timeline.total_ns / 1e9
    stated = range_of(limit.what)
    if stated is None:
        return Estimate(seconds, None, None, limit)
    return Estimate(seconds, seconds * stated.low, seconds * stated.high, limit)
