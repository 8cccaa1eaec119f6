"""The happens-before order between cores of the same rank or of different ranks: vector clocks.

A thread is one program of the launch grid on its core. Its instructions are in segments, which end
where it meets others. After a meeting, all that happened before it in any of its threads has
happened before the rest of each of them. A meeting may join any set of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.structs import dataclass
from neuroncore.clause.instruction import Call
from neuroncore.machine.world import World
from neuroncore.record.program import Program
from neuroncore.time.meetings import together

Array = npt.NDArray[Any]
Meeting = Mapping[int, int]  # the instruction of each thread that takes part, by its number


@dataclass(frozen=True)
class Thread:
    """The instructions `first` to `last` (exclusive) of a core: one program of the grid."""

    core: int
    number: int  # in the grid
    first: int
    last: int


def threads(programs: Sequence[Program]) -> list[Thread]:
    """Return the threads of a launch, core by core, in the order in which each core ran them."""
    listed = []
    for core, program in enumerate(programs):
        begun = np.array(program.data.programs, np.int64).reshape(-1, 2).tolist() or [[0, core]]
        for (first, number), (last, _) in pairwise([*begun, [len(program), -1]]):
            listed.append(Thread(core, number, first, last))
    return listed


def meetings(programs: Sequence[Program], among: Sequence[Thread], world: World) -> list[Meeting]:
    """Return the meetings of the cores of a world, each of some set of cores, in an order in which
    they may have happened. A collective that moves data is two meetings, one at its start and one
    at its end."""
    if len(programs) != len(among):
        return []
    listed: list[Meeting] = []
    for at in _in_order(together(programs, world)):
        number, row = next(iter(at.items()))
        if _moves(programs[number], row):
            listed.append({n: row - 1 for n, row in at.items()})
        listed.append(at)
    return listed


def _in_order(met: Sequence[Meeting]) -> list[Meeting]:
    """Sort meetings so that each follows the earlier meetings of its cores."""
    of_core: dict[int, list[tuple[int, int]]] = {}
    for number, meeting in enumerate(met):
        for core, row in meeting.items():
            of_core.setdefault(core, []).append((row, number))
    before = TopologicalSorter[int]({number: () for number in range(len(met))})
    for rows in of_core.values():
        for (_, first), (_, second) in pairwise(sorted(rows)):
            before.add(second, first)
    return [met[number] for number in before.static_order()]


def _moves(program: Program, row: int) -> bool:
    call: Call = program.calls[program.columns().call[row]]
    return call.instruction.traits.exchanges


class HappensBefore:
    """The order that meetings impose on the instructions of several threads."""

    def __init__(self, count: int, met: Sequence[Meeting]) -> None:
        """Order `count` threads by their meetings, which are in order."""
        self._ends: list[list[int]] = [[] for _ in range(count)]  # the last row of each segment
        self._behind = [[np.zeros(count, np.int32)] for _ in range(count)]
        for meeting in met:
            known = np.zeros(count, np.int32)
            for thread, row in meeting.items():
                self._ends[thread].append(row)
                np.maximum(known, self._behind[thread][-1], out=known)
                known[thread] = max(known[thread], len(self._ends[thread]))
            for thread in meeting:
                self._behind[thread].append(known)

    def segment(self, thread: int, rows: Array) -> Array:
        """Return the segment of each instruction of a thread; a meeting is the last of its
        segment."""
        numbers: Array = np.searchsorted(self._ends[thread], rows)
        return numbers

    def are_concurrent(self, one: int, segment: int, other: int, others: int) -> bool:
        """Return whether segments of two threads are not ordered."""
        behind_other = self._behind[other][others][one] <= segment
        return bool(behind_other and self._behind[one][segment][other] <= others)
