"""The part of a run on a page."""

from __future__ import annotations

import numpy as np

from neuroncore.base.errors import UsageError
from neuroncore.base.structs import dataclass
from neuroncore.time.schedule import Timeline

MOST = 1_000_000  # instructions on a page


@dataclass(frozen=True)
class PageWindow:
    """An interval of instructions, or if it counts `ns`, of times: all instructions from the first
    to the last that are executing in it, in program order."""

    first: float
    last: float
    ns: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.last:
            raise UsageError(f"a window A:B needs B greater than A: {self.first:g}:{self.last:g}")

    def of(self, timeline: Timeline) -> range:
        """Return the instructions, at most `MOST`."""
        count, first, last = len(timeline.begin), int(self.first), int(self.last)
        if self.ns:
            under_way = (timeline.begin < self.last) & (timeline.end > self.first)
            own = np.flatnonzero(under_way)
            first, last = (int(own[0]), int(own[-1]) + 1) if len(own) else (count, count)
        first = min(first, count)
        return range(first, min(last, count, first + MOST))

    def __str__(self) -> str:
        unit = "ns" if self.ns else ""
        return f"{self.first:g}{unit}:{self.last:g}{unit}"


def shown(timeline: Timeline, window: PageWindow | None) -> range:
    """Return the instructions on a page: those of the window, or else the first `MOST`."""
    if window is None:
        return range(min(len(timeline.begin), MOST))
    return window.of(timeline)
