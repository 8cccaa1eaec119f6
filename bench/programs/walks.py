"""Replays that go to instructions in random order, and return their results."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

from bench.programs.views import Array
from neuroncore.plain.memory import Operand
from neuroncore.record.instructions import Recorded
from neuroncore.record.program import Record
from neuroncore.replay.cursor import Replay

MOST = 6  # operands that are compared
Place = tuple[int, int, str]  # (core, instruction, name of a result)


class Shown:
    """The results of a few random instructions, by the plain reading."""

    def __init__(self, steps: int) -> None:
        self._random, self._share = Random(steps), MOST / max(1, steps)
        self.codes: dict[Place, Array] = {}

    def note(self, core: int, number: int, row: Recorded, given: Mapping[str, Any]) -> None:
        """Note the results of an instruction, if the instruction is randomly drawn."""
        if row.call.dynamic or self._random.random() > self._share:
            return
        for name in row.call.writes:
            operand = given[name]
            if isinstance(operand, Operand) and not operand.missing().any():
                self.codes[core, number, name] = operand.codes().copy()

    def wrong(self, record: Record) -> str:
        """Replay a record to the noted instructions in random order. Return a text about the first
        result that differs from the noted one, or ""."""
        replay, places = Replay(record), [*self.codes]
        self._random.shuffle(places)
        for core, number, name in places:
            found = replay.tile(number, name, core, after=True).elements
            wanted = self.codes[core, number, name]
            if np.ascontiguousarray(found).tobytes() != np.ascontiguousarray(wanted).tobytes():
                return f"{name} of instruction {number} of core {core}"
        return ""
