"""Another buffer for a tile whose next contents wait until the ones before have been read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import ON_CHIP, MemoryRegion
from neuroncore.base.source import Place
from neuroncore.record.program import Program
from neuroncore.time.changes import Change
from neuroncore.time.edits.edit import Edit, Edited, accesses_of, edit, successive_contents
from neuroncore.time.path import SPACE, CriticalSteps
from neuroncore.time.schedule import Timeline
from neuroncore.time.variation import AS_IT_IS

Array = npt.NDArray[Any]


class Buffer(NamedTuple):
    """Tiles that one line of a kernel makes, or those at one address: its name, its place, its
    memory and the layout of what is at an address."""

    name: str
    place: Place
    region: MemoryRegion
    address: tuple[Any, ...] | None


class SpaceWait(NamedTuple):
    """A wait for space on the critical path: which buffer, the line that waits, and how often. A
    buffer that is not `reused` waits for other tiles, as its memory is full."""

    buffer: Buffer
    place: Place
    reused: bool
    times: int


def space_waits(timeline: Timeline, found: CriticalSteps) -> list[SpaceWait]:
    """The waits for space on the critical path, the most frequent first."""
    program, accesses = timeline.program, timeline.compiled.accesses
    windows, found_on = program.windows(), program.storages()
    kinds, lines = found_on.kind[found_on.of_window], timeline.columns.line
    counts: dict[tuple[int, int, int, bool], int] = {}
    for k in np.flatnonzero(found.held == SPACE).tolist():
        i, before = found.instruction[k], found.instruction[k - 1]
        first, last = accesses.start[i] + accesses.reads[i], accesses.start[i + 1]
        used = set(accesses.operands[accesses.start[before] : accesses.start[before + 1]].tolist())
        for operand in range(first, last):
            box = accesses.operands[operand]
            near = accesses.near[accesses.near_start[box] : accesses.near_start[box + 1]]
            window = program.operand_windows()[operand]
            kind = int(kinds[window])
            reused = not used.isdisjoint(near.tolist())
            if (reused or operand == last - 1) and found_on.kinds[kind].region in ON_CHIP:
                lies = int(windows.geometry[window]) if found_on.kinds[kind].placed else -1
                key = kind, lies, int(lines[i]), reused
                counts[key] = counts.get(key, 0) + 1
                break
    return _ranked(program, counts)


def _ranked(program: Program, counts: Mapping[tuple[int, int, int, bool], int]) -> list[SpaceWait]:
    """The waits by the kind of a tile, its geometry, the line that waits and whether its buffer is
    reused; waits of the same buffer and line are counted together."""
    waits: dict[SpaceWait, int] = {}
    for (kind, lies, line, reused), times in counts.items():
        user = program.place(line)
        wait = SpaceWait(_buffer(program, kind, lies, user), user, reused, 0)
        waits[wait] = waits.get(wait, 0) + times
    made = [wait._replace(times=times) for wait, times in waits.items()]
    return sorted(made, key=lambda wait: -wait.times)


def _buffer(program: Program, kind: int, lies: int, user: Place) -> Buffer:
    area = program.storages().kinds[kind]
    if area.placed:
        return Buffer("", user, area.region, program.geometries[lies].layout.given)
    place = program.place(area.line) if area.line >= 0 else user
    return Buffer(program.name_of(area), place, area.region, None)


def second_buffer(base: Change, wait: SpaceWait) -> Edit | None:
    """The edit by which the contents of a buffer alternate between two places."""
    buffer = wait.buffer
    name = f"`{buffer.name}`" if buffer.name else "its tile"
    action = f"double-buffer {name} ({buffer.region.value.upper()})"
    return edit(base, buffer.place, action, partial(_doubled, buffer=buffer))


def _doubled(program: Program, buffer: Buffer) -> Edited | None:
    accesses = accesses_of(program)
    chosen, taken = np.zeros(len(accesses.operands), np.bool_), 0
    for uses, number in successive_contents(program, accesses, _uses(program, buffer)):
        alternate = number % 2 == 1
        chosen[uses[alternate]] = True
        if alternate.any():
            taken += _row_bytes(program, int(uses[0]))
    if not chosen.any():
        return None
    size = {"sbuf": taken} if buffer.region is MemoryRegion.sbuf else {"psum": taken}
    return Edited(program.with_copies(chosen), AS_IT_IS, **size)


def _uses(program: Program, buffer: Buffer) -> Array:
    """The operands that are in a buffer, area by area."""
    windows, found = program.windows(), program.storages()
    of_window = found.of_window
    if buffer.address is None:
        lines = set(program.lines_at(buffer.place))
        alike = [
            not kind.placed and kind.region is buffer.region and kind.line in lines
            for kind in found.kinds
        ]
        inside = np.array(alike, np.bool_)[found.kind[of_window]]
    else:
        there = [lies.layout.given == buffer.address for lies in program.geometries]
        inside = np.array(there, np.bool_)[windows.geometry]
    uses = np.flatnonzero(inside[program.operand_windows()])
    area = program.boxes().areas.of_box[program.columns().operands[uses]]
    return uses[np.argsort(area, kind="stable")]


def _row_bytes(program: Program, operand: int) -> int:
    window = program.operand_windows()[operand]
    layout = program.geometries[int(program.windows().geometry[window])].layout
    return layout.row_bytes
