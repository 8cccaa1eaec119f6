"""How cores of a replay wait for each other: as in the run (`core.system`), where a program goes on
until it meets the others and they are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Waits(Exception):
    """The instruction has to begin anew, when the other core is there too."""


class Meetings:
    """Who has come to which point, with what."""

    def __init__(self) -> None:
        self.open: dict[str, dict[int, Any]] = {}
        self.complete: dict[int, dict[int, Any]] = {}  # what a core that waited will be given
        self.waiting: set[int] = set()

    def copy(self) -> Meetings:
        made = Meetings()
        made.open = {point: dict(brought) for point, brought in self.open.items()}
        made.complete, made.waiting = dict(self.complete), set(self.waiting)
        return made

    def meet(self, rank: int, point: str, cores: Sequence[int], bring: Any) -> dict[int, Any]:
        """What each of the cores brought. Raises Waits where they are not all there."""
        if rank in self.complete:
            return self.complete.pop(rank)
        brought = self.open.setdefault(point, {})
        brought[rank] = bring
        if brought.keys() != set(cores):
            self.waiting.add(rank)
            raise Waits
        del self.open[point]
        for other in brought.keys() - {rank}:
            self.complete[other] = brought
            self.waiting.discard(other)
        return brought
