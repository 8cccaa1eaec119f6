"""Another buffer for a tile whose next contents wait until the ones before have been read."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import ON_CHIP, MemoryRegion
from neuroncore.base.source import Place
from neuroncore.record.program import Program
from neuroncore.time.changes import Change
from neuroncore.time.edits.edit import Edit, Edited, accesses_of, edit, successive_contents
from neuroncore.time.loops.flow import waiting_operands
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
    program, steps = timeline.program, np.flatnonzero(found.held == SPACE)
    path = found.instruction
    operand, reused = _waiting_operands(timeline, path[steps], path[steps - 1])
    windows, areas = program.windows(), program.storages()
    window = program.operand_windows()[operand]
    kind = areas.kind[areas.of_window[window]]
    on_chip = np.array([area.region in ON_CHIP for area in areas.kinds], np.bool_)[kind]
    lies = np.where(areas.is_placed()[areas.of_window[window]], windows.geometry[window], -1)
    keys = np.column_stack((kind, lies, timeline.columns.line[path[steps]], reused))
    return _ranked(program, keys[(operand >= 0) & on_chip])


def _waiting_operands(timeline: Timeline, waiting: Array, before: Array) -> tuple[Array, Array]:
    """Return the result that each instruction waits to write (-1 for none), and whether the other
    instruction uses the same bytes."""
    boxes = timeline.program.boxes()
    areas = boxes.areas
    on_chip = areas.each_box((kind.region in ON_CHIP for kind in areas.kinds), np.bool_)
    operand, reused = np.full(len(waiting), -1), np.zeros(len(waiting), np.bool_)
    find = waiting_operands.over(len(waiting))
    accesses = timeline.compiled.accesses
    find(accesses, boxes.table, on_chip, waiting, before, operand, reused)
    return operand, reused


def _ranked(program: Program, keys: Array) -> list[SpaceWait]:
    """The waits by the kind of a tile, its geometry, the line that waits and whether its buffer is
    reused; waits of the same buffer and line are counted together."""
    waits: dict[SpaceWait, int] = {}
    distinct, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    for k in np.argsort(first).tolist():
        kind, lies, line, reused = distinct[k].tolist()
        user = program.place(line)
        wait = SpaceWait(_buffer(program, kind, lies, user), user, bool(reused), 0)
        waits[wait] = waits.get(wait, 0) + int(counts[k])
    made = [wait._replace(times=times) for wait, times in waits.items()]
    return sorted(made, key=lambda wait: -wait.times)


def _buffer(program: Program, kind: int, lies: int, user: Place) -> Buffer:
    area = program.storages().kinds[kind]
    if area.placed:
        return Buffer("", user, area.region, program.geometries[lies].layout.given)
    place = program.place(area.line) if area.line >= 0 else user
    return Buffer(program.name_of(area), place, area.region, None)


def second_buffer(base: Change, buffer: Buffer) -> Edit | None:
    """The edit by which the contents of a buffer alternate between two places."""
    name = f"`{buffer.name}`" if buffer.name else "its tile"
    action = f"double-buffer {name} ({buffer.region.value.upper()})"
    return edit(base, buffer.place, action, partial(_doubled, buffer=buffer))


def _doubled(program: Program, buffer: Buffer) -> Edited | None:
    found = successive_contents(program, accesses_of(program), _uses(program, buffer))
    alternate = found.number % 2 == 1
    if not alternate.any():
        return None
    chosen = np.zeros(len(program.columns().operands), np.bool_)
    chosen[found.uses[alternate]] = True
    areas = np.logical_or.reduceat(alternate, found.ends[:-1])
    taken = _row_bytes(program, found.uses[found.ends[:-1][areas]])
    size = {"sbuf": taken} if buffer.region is MemoryRegion.sbuf else {"psum": taken}
    return Edited(program.with_copies(chosen), AS_IT_IS, **size)


def _uses(program: Program, buffer: Buffer) -> Array:
    """The operands that are in a buffer."""
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
    return np.flatnonzero(inside[program.operand_windows()])


def _row_bytes(program: Program, operands: Array) -> int:
    """The bytes per partition of the tiles that these operands are in, in total."""
    each = np.array([lies.layout.row_bytes for lies in program.geometries])
    return int(each[program.windows().geometry[program.operand_windows()[operands]]].sum())
