"""Where cores of a world wait for each other: which instructions are one meeting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from neuroncore.clause.world import World
from neuroncore.record.program import Program

Array = npt.NDArray[np.int64]
Members = tuple[int, ...]


def partners(
    programs: Sequence[Program], meetings: Sequence[Array], at: Array, world: World
) -> npt.NDArray[np.int32]:
    """For each instruction of all cores the next core's of the same meeting, in a ring; -1 where a
    core meets nobody.

    `meetings` are the instructions of each core at which it meets others, `at` where its first
    instruction is. The k-th meeting of some cores is the k-th of each. One that not all have come
    to, because a record ended before, is none.
    """
    found: dict[tuple[Members, int], list[int]] = {}
    for number, (program, own) in enumerate(zip(programs, meetings, strict=True)):
        for key, instruction in _keys(program, own, world, number):
            found.setdefault(key, []).append(int(at[number]) + instruction)
    partner = np.full(at[-1], -1, np.int32)
    for (members, _), instructions in found.items():
        if len(instructions) == len(members) > 1:
            partner[instructions] = np.roll(instructions, -1)
    return partner


def _keys(
    program: Program, own: Array, world: World, number: int
) -> Iterator[tuple[tuple[Members, int], int]]:
    """Who meets at each of a core's meetings and how often they have, and the instruction."""
    calls, met = program.columns().call, Counter[Members]()
    members: dict[int, Members] = {}
    for instruction in own.tolist():
        call = int(calls[instruction])
        if call not in members:
            members[call] = _members(program, call, world, number)
        yield (members[call], met[members[call]]), instruction
        met[members[call]] += 1


def _members(program: Program, call: int, world: World, number: int) -> Members:
    distinct = program.calls[call]
    assert distinct.instruction.meets is not None
    return tuple(sorted(distinct.instruction.meets(distinct, world, number)))
