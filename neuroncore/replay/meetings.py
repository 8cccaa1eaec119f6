"""How cores of a replay wait for each other: as in the run (`core.system`), where a program goes on
until it meets the others and they are not there yet."""

from __future__ import annotations

from typing import Any

from neuroncore.core.core import Brought, CarryOut, Point, nothing


class Waits(Exception):
    """The instruction has to start again when the other core has arrived."""


class Meetings:
    """The cores at each point, with their data. `waiting` are the cores in order of arrival."""

    def __init__(self) -> None:
        self.open: dict[Point, Brought] = {}
        self.complete: dict[int, Brought] = {}  # what a core that waited will be given
        self.waiting: dict[int, None] = {}

    def copy(self) -> Meetings:
        """The meetings without the data of waiting cores, which will bring it again."""
        made = Meetings()
        made.complete, made.waiting = dict(self.complete), dict(self.waiting)
        return made

    def meet(self, number: int, point: Point, bring: Any, then: CarryOut = nothing) -> Brought:
        """Return the data of each of the point's cores; the last to arrive calls `then`. Raises
        Waits until all have arrived."""
        if number in self.complete:
            return self.complete.pop(number)
        brought = self.open.setdefault(point, {})
        brought[number] = bring
        if len(brought) < len(point.cores):
            self.waiting[number] = None
            raise Waits
        del self.open[point]
        then(brought)
        for other in brought.keys() - {number}:
            self.complete[other] = brought
            self.waiting.pop(other, None)
        return brought
