"""Which instructions of a run a page has, where it can't have all."""

from __future__ import annotations

import numpy as np

from neuroncore.base.errors import UsageError
from neuroncore.base.structs import dataclass
from neuroncore.time.schedule import Timeline

MOST = 1_000_000  # instructions that a page has


@dataclass(frozen=True)
class Window:
    """From one instruction to before another or, if it counts `ns`, from one time to another: all
    from the first that is under way then to the last, in order of the program."""

    first: float
    last: float
    ns: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.last:
            raise UsageError(
                f"a window is from A to B, which is more: {self.first:g}:{self.last:g}"
            )

    def of(self, timeline: Timeline) -> range:
        """The instructions, at most `MOST`."""
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


def shown(timeline: Timeline, window: Window | None) -> range:
    """The instructions that a page has: those of the window, else all, or the first `MOST`."""
    if window is None:
        return range(min(len(timeline.begin), MOST))
    return window.of(timeline)
