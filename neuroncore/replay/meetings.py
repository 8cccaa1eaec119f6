"""How cores of a replay wait for each other: as in the run (`core.system`), where a program goes on
until it meets the others and they are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.core.core import CarryOut


class Waits(Exception):
    """The instruction has to begin anew, when the other core is there too."""


class Meetings:
    """Who has come to which point, with what. `waiting` are the cores in the order in which they
    came."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, frozenset[int]], dict[int, Any]] = {}
        self.complete: dict[int, dict[int, Any]] = {}  # what a core that waited will be given
        self.waiting: dict[int, None] = {}

    def copy(self) -> Meetings:
        """The same, but for what those who wait have brought: they will bring it again."""
        made = Meetings()
        made.complete, made.waiting = dict(self.complete), dict(self.waiting)
        return made

    def meet(
        self,
        number: int,
        point: str,
        cores: Sequence[int],
        bring: Any,
        carry_out: CarryOut | None = None,
    ) -> dict[int, Any]:
        """What each of the cores brought; the last to come does what is to be carried out. Raises
        Waits where they are not all there."""
        if number in self.complete:
            return self.complete.pop(number)
        key = point, frozenset(cores)
        brought = self.open.setdefault(key, {})
        brought[number] = bring
        if len(brought) < len(key[1]):
            self.waiting[number] = None
            raise Waits
        del self.open[key]
        if carry_out is not None:
            carry_out(brought)
        for other in brought.keys() - {number}:
            self.complete[other] = brought
            self.waiting.pop(other, None)
        return brought
