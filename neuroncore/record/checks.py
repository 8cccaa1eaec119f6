"""Checks that a program from a file can be executed: its windows, values and registers fit its
Calls, and its windows are inside its tensors.

A Call is a distinct instruction without data, which equal instructions share. The values of an
instruction are the numbers and registers that its Call leaves open. A
window is some elements of a tensor: a geometry (layout, shape, strides and format) and the offset
of the first element. If the offset depends on indices that are only known at run time, the window
has a Move for each index, and an entry in the table of places (`Data.places`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.clause.immediate import Immediate, Register
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.memory.geometry import Geometry, Layout, View
from neuroncore.memory.geometry import view as view_of
from neuroncore.memory.register import OPERATIONS, VirtualRegister
from neuroncore.record.columns import Area, area, inside
from neuroncore.record.inputs import leaves, value_of
from neuroncore.record.loops import distinct
from neuroncore.record.program import Program

Array = npt.NDArray[Any]
Move = tuple[int, int, int, int]  # kind, step, limit, by register: see `Data.moves`


def check(program: Program) -> None:
    """Raise ValueError if windows, values or registers do not fit their Calls and tensors. Call
    `Program.check` first."""
    known = _tensors(program)
    _registers(program)
    _results(program, known)
    places = _places(program)
    _views(program, places)
    _values(program, places)


# --- tensors and windows --------------------------------------------------------------------------


def _tensors(program: Program) -> dict[int, int]:
    """Check that all windows of a storage have one layout, which fits its area. Return the number
    of the layout (`_layouts`) of each storage."""
    windows, kinds = program.windows(), program.storages()
    if len(np.unique(kinds.number)) < len(kinds.number):
        raise ValueError("a tensor is listed twice")
    if len(set(program.kinds)) < len(program.kinds):
        raise ValueError("an area is listed twice")
    layouts = _layouts(program)
    layout = np.array(layouts, np.int64)[windows.geometry]
    columns = windows.storage, layout, kinds.kind[kinds.of_window]
    pairs = np.column_stack(columns)[distinct(np.column_stack(columns[:2]))[0]]
    numbers, order, count = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    if len(numbers) < len(pairs):
        raise ValueError(f"tensor {numbers[count > 1][0]} has two layouts")
    for number, layout_number, kind in pairs[distinct(pairs[:, 1:])[0]].tolist():
        geometry = program.geometries[layouts.index(layout_number)]
        _fits(number, geometry.layout, program.kinds[kind], program.calls[0].machine)
    return dict(zip(numbers.tolist(), pairs[order, 1].tolist(), strict=True))


def _layouts(program: Program) -> list[int]:
    """Return a number for the layout of each geometry, equal for equal layouts."""
    numbers: dict[tuple[Any, ...], int] = {}
    return [
        numbers.setdefault(geometry.layout.arguments, len(numbers))
        for geometry in program.geometries
    ]


def _fits(number: int, layout: Layout, kind: Area, machine: Machine) -> None:
    """Check that the layout of tensor `number` fits `kind`, its area in the record."""
    if (kind.region, kind.placed) != (layout.region, layout.placed):
        raise ValueError(f"tensor {number} and its area are in different memories")
    if kind.placed and kind != area(layout, -1, "", machine):
        raise ValueError(
            f"tensor {number} has an address, but its area is not all of {layout.region.value}"
        )
    whole = kind.partitions, kind.row_bytes
    if not kind.placed and whole != (layout.partitions, layout.row_bytes):
        raise ValueError(f"tensor {number} and its area differ in size")


def _places(program: Program) -> dict[int, tuple[Geometry, int, list[Move]]]:
    """Check that moving windows are inside their tensors for all legal indices.

    Return (geometry, offset in elements without moves, moves) for each moving window, by number."""
    windows, data = program.windows(), program.data
    pairs = _table(data.places, 2)
    moves: dict[int, list[Move]] = {}
    for number, *move in _table(data.moves, 5, len(pairs)).tolist():
        moves.setdefault(number, []).append(tuple(move))
    moving = np.flatnonzero(windows.moving >= 0)
    all_there = np.array_equal(windows.moving[moving], np.arange(len(pairs)))
    if not all_there or len(moves) < len(pairs):
        raise ValueError("the table of places lacks an operand whose position depends on an index")
    if (windows.offset[windows.moving < 0] < 0).any():
        raise ValueError("the offset of an operand is negative")
    if (windows.offset[moving] != data.offsets()).any():
        raise ValueError("the offset of an operand differs from its entry in the table of places")
    inside(pairs[:, 0], len(program.geometries), "geometries")
    places: dict[int, tuple[Geometry, int, list[Move]]] = {}
    for window, (number, offset) in zip(moving.tolist(), pairs.tolist(), strict=True):
        geometry, whole = program.geometries[number], program.geometries[windows.geometry[window]]
        window_moves = moves[len(places)]
        if geometry.layout.arguments != whole.layout.arguments:
            raise ValueError(
                "the layout of an operand differs from its entry in the table of places"
            )
        _stays_inside(geometry, whole, offset, window_moves)
        places[window] = geometry, offset, window_moves
    return places


def _stays_inside(geometry: Geometry, whole: Geometry, offset: int, moves: list[Move]) -> None:
    """Check that a window is inside its tensor for every index that `moves` allow.

    `whole`: the window's geometry, or that of all elements from which an index picks"""
    kinds = [kind for kind, *_ in moves]
    registers = [by_register for *_, by_register in moves]
    if min(kinds) < 0 or max(kinds) > 2 or set(registers) - {0, 1}:
        raise ValueError("an index moves an operand in an unknown way")
    if max(kinds) and (len(moves) > 1 or registers[0]):
        raise ValueError("rows or elements are picked by a register or by several index tiles")
    low = high = offset
    for kind, step, limit, _ in moves:
        if limit < 0:
            raise ValueError("the largest index of an operand is negative")
        reach = step * limit
        if kind == 1:
            shape, strides = (limit + 1, *geometry.shape[1:]), (step, *geometry.strides[1:])
            geometry = geometry.layout.geometry(shape, strides, geometry.dtype)
        elif kind == 2:
            if len(geometry.shape) != 2 or (limit + 1, geometry.strides) != (
                whole.shape[-1],
                whole.strides,
            ):
                raise ValueError("elements are picked from a view that is not the whole tensor")
            geometry = whole
        else:
            low, high = low + min(reach, 0), high + max(reach, 0)
    if not geometry.has_room(np.array([low, high], np.int64)):
        raise ValueError("an index can move an operand out of its tensor")


def _views(program: Program, places: dict[int, tuple[Geometry, int, list[Move]]]) -> None:
    """Check that each window has the View of its Call: shape, strides, format, memory and first
    partition."""
    windows = program.windows()
    for call, operands in _operands(program):
        names = [*call.reads, *call.writes]
        read = len(call.reads)
        columns = [*range(read), *range(read + len(call.indices), operands.shape[1])]
        moved = [columns[names.index(name)] for name in call.dynamic]
        for name, column in zip(names, columns, strict=True):
            if name not in call.dynamic:
                _seen(program, call.view(name), np.unique(operands[:, column]))
        indices = [*range(read, read + len(call.indices))]
        moving = operands[:, [*moved, *indices]]
        for row in moving[distinct(moving)[0]].tolist():
            rest = iter(row[len(moved) :])
            for name, window in zip(call.dynamic, row, strict=False):
                if window not in places:
                    raise ValueError(
                        f"{name} of {call.name} is at a fixed position, but its call "
                        "expects a position that is only known at run time"
                    )
                _moves(program, call.view(name), *places[window], rest)
    inside(windows.geometry, len(program.geometries), "geometries")


def _operands(program: Program) -> Iterator[tuple[Call, Array]]:
    """Yield each Call with the windows of its instructions, shape [instructions, operands]."""
    rows, begins = program.raw()
    numbers = rows[begins[:-1]]
    for number in np.unique(numbers).tolist():
        call = program.calls[number]
        count = len(call.reads + call.indices + call.writes)
        begin = begins[:-1][numbers == number]
        yield call, rows[begin[:, np.newaxis] + 2 + np.arange(count)]


def _seen(program: Program, expected: View, used: Array) -> None:
    """Check that the windows `used` have fixed positions and the View `expected`."""
    windows = program.windows()
    if (windows.moving[used] >= 0).any():
        raise ValueError(
            "the position of an operand is only known at run time, but its call expects a fixed one"
        )
    for number in {*windows.geometry[used].tolist()}:
        geometry = program.geometries[number]
        offsets = windows.offset[used][windows.geometry[used] == number]
        layout = geometry.layout
        if layout.region is MemoryRegion.sbuf:  # a View has only the partition of the position
            rows = offsets * geometry.dtype.itemsize // layout.row_bytes
            offsets = offsets[np.unique(rows, return_index=True)[1]]
        elif not layout.on_chip:
            offsets = offsets[:1]
        if any(geometry.view(offset) != expected for offset in {*offsets.tolist()}):
            raise ValueError(
                f"an operand does not have the view {expected}, which its call expects"
            )


def _moves(
    program: Program,
    expected: View,
    geometry: Geometry,
    offset: int,
    moves: list[Move],
    indices: Iterator[int],
) -> None:
    """Check that a moving window has the View `expected`.

    `offset`: the fixed part of its position
    `moves`: the parts that indices add at run time
    `indices`: yields the window of the next index tile"""
    windows = program.windows()
    by_tiles = [next(indices, -1) for *_, by_register in moves if not by_register]
    inside(by_tiles, len(windows.offset), "windows")
    views = []
    for window in by_tiles:
        if windows.moving[window] >= 0:
            raise ValueError("the position of an index is only known at run time")
        views.append(program.geometries[windows.geometry[window]].view(int(windows.offset[window])))
    kind = max(kind for kind, *_ in moves) + 1
    fixed = geometry.view(offset)
    where = fixed.partition, fixed.byte
    picked_by = views[0] if kind == 3 else None
    view = view_of(
        *(fixed.shape, fixed.strides, fixed.dtype, fixed.region, *where, kind, fixed.stepped),
        *(fixed.home, picked_by, len(by_tiles)),
    )
    if view != expected:
        raise ValueError(
            "an operand whose position is only known at run time does not have the view "
            f"{expected}, which its call expects"
        )


# --- values and registers -------------------------------------------------------------------------


def _registers(program: Program) -> None:
    """Check that registers are computed from earlier ones, that branches depend on existing
    registers, and that programs of the grid and iterations begin at instructions that exist."""
    data = program.data
    table = _table(data.registers, 3)
    operation, left, right = table.T
    inside(operation, len(OPERATIONS), "operations")
    number, computed = np.arange(len(table)), operation >= OPERATIONS.index("load") + 1
    for operand in (left[computed], right[computed]):
        if len(operand) and not ((operand >= 0) & (operand < number[computed])).all():
            raise ValueError("a register is computed from itself or from a later register")
    inside(left[operation == OPERATIONS.index("load")], len(program) + 1, "instructions")
    branches = _table(data.branches, 4)
    inside(branches[:, 0], len(program) + 1, "instructions")
    inside(branches[:, 1], len(table), "registers")
    inside(branches[:, 3] + 1, len(program.lines) + 1, "lines")
    programs = _table(data.programs, 2)
    inside(programs[:, 0], len(program) + 1, "instructions")
    if len(programs) and programs[:, 1].min() < 0:
        raise ValueError("a program_id is negative")
    _iterations(program)


def _iterations(program: Program) -> None:
    """Check that iterations begin and end in program order, and that parallel loops begin before
    they end."""
    ends = _table(program.data.loop_ends, 1)
    inside(ends[:, 0], len(program) + 1, "instructions")
    if (np.diff(ends[:, 0]) < 0).any():
        raise ValueError("the ends of iterations are not in the order of the instructions")
    marks = program.data.marks()
    inside(marks[:, 0], len(program) + 1, "instructions")
    if (np.diff(marks[:, 0]) < 0).any():
        raise ValueError("the iterations are not in the order of the instructions")
    under_way: set[int] = set()
    for loop in marks[:, 1].tolist():
        if loop >= 0:
            under_way.add(loop)
        elif ~loop in under_way:
            under_way.remove(~loop)
        else:
            raise ValueError("a loop ends, but has not begun")


def _values(program: Program, places: dict[int, tuple[Geometry, int, list[Move]]]) -> None:
    """Check that the values of each instruction are legal for its Call, and that it has as many
    registers as its windows use."""
    keys, columns = list(program.data.values), program.columns()
    registers = len(program.data.registers) // 3
    inside(columns.values[columns.values >= 0], len(keys), "values")
    pairs = np.column_stack([columns.call, columns.values])
    pairs = pairs[distinct(pairs)[0]]
    for number, value in pairs[pairs[:, 1] >= 0].tolist():
        _takes(program.calls[number], keys[value], registers)
    rows, begins = program.raw()
    for row in np.flatnonzero(np.array([bool(c.dynamic) for c in program.calls])[columns.call]):
        call = program.calls[columns.call[row]]
        numbers = rows[begins[row] + 2 : begins[row + 1] - 1].tolist()
        names = dict(zip(call.writes, numbers[len(numbers) - len(call.writes) :], strict=True))
        names |= dict(zip(call.reads, numbers, strict=False))
        moves = [move for name in call.dynamic for move in places[names[name]][2]]
        held = len(keys[rows[begins[row + 1] - 1]]) // 2 - len(call.instruction.values)
        if held != sum(by_register for *_, by_register in moves):
            raise ValueError(
                "the number of registers of an instruction is not the number that its operands use"
            )


def _takes(call: Call, key: tuple[Any, ...], registers: int) -> None:
    """Raise ValueError unless the values of an instruction fit its Call. `key` is the instruction's
    entry of `Data.values`, and `registers` the number of registers in the record."""
    names = call.instruction.values
    pairs = [*zip(key[::2], key[1::2], strict=True)]
    if len(pairs) < len(names) or (len(pairs) > len(names) and not call.dynamic):
        raise ValueError(f"the values do not fit the call of {call.name}")
    inside([v for v, kind in pairs if kind is VirtualRegister], registers, "registers")
    if any(kind is not VirtualRegister for _, kind in pairs[len(names) :]):
        raise ValueError(f"the values do not fit the call of {call.name}")
    declared = {p.name: p.declared for p in call.instruction.parameters}
    for name, (value, kind) in zip(names, pairs, strict=False):
        number = value_of(value, kind)
        declaration = declared[name]
        if isinstance(declaration, Register):
            if kind is not VirtualRegister and not (declaration.number and kind is int):
                raise ValueError(f"{name} of {call.name} is {number!r:.40}, not a register")
            if kind is int:
                declaration.numbers.take(call.name, name, number)
        elif isinstance(declaration, Immediate):
            declaration.take(call.name, name, number)
        elif call[name] == "number" and not isinstance(number, int | float | np.number):
            raise ValueError(f"{name} of {call.name} is {number!r:.40}, not a number")


def _results(program: Program, known: dict[int, int]) -> None:
    layouts = _layouts(program)
    for leaf in leaves(program.data.results):
        inside([leaf.geometry], len(program.geometries), "geometries")
        geometry, layout = program.geometries[leaf.geometry], layouts[leaf.geometry]
        if known.setdefault(leaf.storage, layout) != layout:
            raise ValueError(f"tensor {leaf.storage} has two layouts")
        if not geometry.has_room(np.array([leaf.offset], np.int64)):
            raise ValueError("a result is outside its tensor")


def _table(column: Iterable[int], width: int, first: int | None = None) -> Array:
    """Return a flat list as a table with `width` columns. Raise ValueError unless the first number
    of each row is from 0 to `first` - 1, if `first` is given."""
    rows = np.array(column, np.int64).reshape(-1, width)
    if first is not None:
        inside(rows[:, 0], first, "windows")
    return rows
