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
    instruction is.
    """
    partner = np.full(at[-1], -1, np.int32)
    for meeting in together(programs, meetings, world):
        ring = [int(at[number]) + instruction for number, instruction in meeting.items()]
        partner[ring] = np.roll(ring, -1)
    return partner


def together(
    programs: Sequence[Program], meetings: Sequence[Sequence[int] | Array], world: World
) -> list[dict[int, int]]:
    """Every meeting of several cores: by the numbers of the cores, their instructions.

    The k-th meeting of some cores is the k-th of each. One that not all have come to, because a
    record ended before, is none.
    """
    found: dict[tuple[Members, int], dict[int, int]] = {}
    for number, (program, own) in enumerate(zip(programs, meetings, strict=True)):
        for key, instruction in _keys(program, own, world, number):
            found.setdefault(key, {})[number] = instruction
    return [there for (members, _), there in found.items() if len(there) == len(members) > 1]


def _keys(
    program: Program, own: Sequence[int] | Array, world: World, number: int
) -> Iterator[tuple[tuple[Members, int], int]]:
    """Who meets at each of a core's meetings and how often they have, and the instruction."""
    calls, met = program.columns().call, Counter[Members]()
    members: dict[int, Members] = {}
    for instruction in map(int, own):
        call = int(calls[instruction])
        if call not in members:
            members[call] = _members(program, call, world, number)
        yield (members[call], met[members[call]]), instruction
        met[members[call]] += 1


def _members(program: Program, call: int, world: World, number: int) -> Members:
    distinct = program.calls[call]
    assert distinct.instruction.meets is not None
    return tuple(sorted(distinct.instruction.meets(distinct, world, number)))
