"""Finds the lines of a kernel whose instructions, on two cores of a rank, use the same bytes
without a defined order. The byte positions are those of the plain reading. A synchronization is an
instruction, such as a barrier, for which both cores wait; its number on each core gives the order
of the other instructions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np

from bench.programs.hazards import Use, Uses
from neuroncore.base.findings import Finding
from neuroncore.base.source import Place
from neuroncore.machine.world import World
from neuroncore.record.program import Program

Lines = frozenset[Place]
MOST = 20  # findings; if there are more races, some have no finding


def wrong(programs: Sequence[Program], world: World, uses: Uses, found: Sequence[Finding]) -> str:
    """Say how the findings about races differ from the races of a record; "" if they do not. Each
    race between the first uses of bytes after a synchronization must have a finding. Races between
    later uses of the same bytes may have findings."""
    wanted, least = set[Lines](), set[Lines]()
    for rank in range(world.ranks):
        for lines, are_first in _of_rank(programs, world, rank, uses):
            wanted.add(lines)
            least |= {lines} if are_first else set()
    reported = [one.place for one in found if one.code == "RACE"]
    if not min(len(least), MOST) <= len(reported) <= len(wanted):
        lines = [[*map(str, one)] for one in wanted]
        return f"{len(reported)} findings about {len(least)} to {len(wanted)} races: {lines}"
    among = set().union(*wanted)
    return next((f"{place} has no race" for place in reported if place not in among), "")


def _of_rank(
    programs: Sequence[Program], world: World, rank: int, uses: Uses
) -> Iterator[tuple[Lines, bool]]:
    """Yield the lines of each race of the cores of a rank. Also yield whether each of the two
    instructions is the first one of its core, since the last synchronization, that uses these bytes
    in this way (reads or writes them)."""
    for first, second in combinations(world.cores_of(rank), 2):
        one, other = (_between(programs[core], core, uses) for core in (first, second))
        for (met, is_first, a), (other_met, other_is_first, b) in product(one, other):
            if met != other_met or a.memory != b.memory or not (a.writes or b.writes):
                continue
            if np.intersect1d(a.at, b.at).size:
                rows = (programs[first], a.row), (programs[second], b.row)
                lines = frozenset(one.place(int(one.columns().line[row])) for one, row in rows)
                yield lines, is_first and other_is_first


def _between(program: Program, core: int, uses: Uses) -> Iterator[tuple[int, bool, Use]]:
    """Yield a triple for each operand of a core's instructions whose place is known before the run:
    the number of earlier synchronizations with the other core; whether the instruction is the first
    one since the last synchronization that uses these bytes in this way; and the use.
    Synchronizations themselves are left out, because they use bytes while both cores wait."""
    met, known = 0, set[tuple[int, bool, bytes]]()
    for row, number in enumerate(program.columns().call.tolist()):
        call = program.calls[number]
        if call.instruction.meets is not None:
            met += 1
            known.clear()
        elif not call.dynamic:
            for use in uses.rows.get((core, row), []):
                key = use.memory, use.writes, np.sort(use.at).tobytes()
                yield met, key not in known, use
                known.add(key)
