"""The edit that gives a tile a second buffer. With only one buffer, a write waits until the
previous contents have been read."""

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
    """The buffer of the tiles that one line makes, or of the tiles at one address.

    `region`: the memory of the tiles
    `name`: the name of the tile; empty for tiles at an address
    `place`: the line that makes the tiles; for tiles at an address, a line that waits
    `address`: the layout of a tile at an address (`Layout.arguments`); otherwise None"""

    name: str
    place: Place
    region: MemoryRegion
    address: tuple[Any, ...] | None


class SpaceWait(NamedTuple):
    """Waits for space on the critical path.

    `buffer`: the buffer that is written
    `place`: the line that waits
    `times`: how often the line waits
    `reused`: True if the line waits until the previous contents of the buffer have been read; False
        if it waits for other tiles because the memory is full"""

    buffer: Buffer
    place: Place
    reused: bool
    times: int


def space_waits(timeline: Timeline, path_steps: CriticalSteps) -> list[SpaceWait]:
    """Return the waits for space on the critical path, the most frequent first."""
    program, steps = timeline.program, np.flatnonzero(path_steps.held == SPACE)
    path = path_steps.instruction
    operand, reused = _waiting_operands(timeline, path[steps], path[steps - 1])
    windows, areas = program.windows(), program.storages()
    window = program.operand_windows()[operand]
    kind = areas.kind[areas.of_window[window]]
    on_chip = np.array([area.region in ON_CHIP for area in areas.kinds], np.bool_)[kind]
    geometry = np.where(areas.is_placed()[areas.of_window[window]], windows.geometry[window], -1)
    keys = np.column_stack((kind, geometry, timeline.columns.line[path[steps]], reused))
    return _ranked(program, keys[(operand >= 0) & on_chip])


def _waiting_operands(timeline: Timeline, waiting: Array, before: Array) -> tuple[Array, Array]:
    """Return two arrays with one element k for each instruction of `waiting`:

    * the operand that it waits to write; -1 for none,
    * whether instruction before[k], for which it waits, uses the same bytes."""
    boxes = timeline.program.boxes()
    areas = boxes.areas
    on_chip = areas.each_box((kind.region in ON_CHIP for kind in areas.kinds), np.bool_)
    operand, reused = np.full(len(waiting), -1), np.zeros(len(waiting), np.bool_)
    find = waiting_operands.over(len(waiting))
    accesses = timeline.compiled.accesses
    find(accesses, boxes.table, on_chip, waiting, before, operand, reused)
    return operand, reused


def _ranked(program: Program, keys: Array) -> list[SpaceWait]:
    """Return the waits, the most frequent first. Waits of the same buffer and line are counted
    together.

    `keys`: shape (waits, 4): the index of the tile's Area in `Storages.kinds`; the tile's geometry,
        or -1 without an address; the line that waits; whether the buffer is reused"""
    waits: dict[SpaceWait, int] = {}
    distinct, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    for k in np.argsort(first).tolist():
        kind, geometry, line, reused = distinct[k].tolist()
        user = program.place(line)
        wait = SpaceWait(_buffer(program, kind, geometry, user), user, bool(reused), 0)
        waits[wait] = waits.get(wait, 0) + int(counts[k])
    ranked = [wait._replace(times=times) for wait, times in waits.items()]
    return sorted(ranked, key=lambda wait: -wait.times)


def _buffer(program: Program, kind: int, geometry: int, user: Place) -> Buffer:
    area = program.storages().kinds[kind]
    if area.placed:
        return Buffer("", user, area.region, program.geometries[geometry].layout.arguments)
    place = program.place(area.line) if area.line >= 0 else user
    return Buffer(program.name_of(area), place, area.region, None)


def second_buffer(base: Change, buffer: Buffer) -> Edit | None:
    """Return the edit that gives a buffer a second place for every second contents; None if the
    contents never change."""
    name = f"`{buffer.name}`" if buffer.name else "its tile"
    action = f"double-buffer {name} ({buffer.region.value.upper()})"
    return edit(base, buffer.place, action, partial(_doubled, buffer=buffer))


def _doubled(program: Program, buffer: Buffer) -> Edited | None:
    """Return the program with every second contents of a buffer in a second buffer; None if the
    contents never change."""
    contents = successive_contents(program, accesses_of(program), _uses(program, buffer))
    alternate = contents.number % 2 == 1
    if not alternate.any():
        return None
    chosen = np.zeros(len(program.columns().operands), np.bool_)
    chosen[contents.uses[alternate]] = True
    areas = np.logical_or.reduceat(alternate, contents.ends[:-1])
    extra_bytes = _row_bytes(program, contents.uses[contents.ends[:-1][areas]])
    size = {"sbuf": extra_bytes} if buffer.region is MemoryRegion.sbuf else {"psum": extra_bytes}
    return Edited(program.with_copies(chosen), AS_IT_IS, **size)


def _uses(program: Program, buffer: Buffer) -> Array:
    """Return the indices of the operands that are in a buffer."""
    windows, storages = program.windows(), program.storages()
    of_window = storages.of_window
    if buffer.address is None:
        lines = set(program.lines_at(buffer.place))
        alike = [
            not kind.placed and kind.region is buffer.region and kind.line in lines
            for kind in storages.kinds
        ]
        inside = np.array(alike, np.bool_)[storages.kind[of_window]]
    else:
        there = [geometry.layout.arguments == buffer.address for geometry in program.geometries]
        inside = np.array(there, np.bool_)[windows.geometry]
    return np.flatnonzero(inside[program.operand_windows()])


def _row_bytes(program: Program, operands: Array) -> int:
    """Return the total bytes per partition of the tiles of these operands."""
    each = np.array([geometry.layout.row_bytes for geometry in program.geometries])
    return int(each[program.windows().geometry[program.operand_windows()[operands]]].sum())
