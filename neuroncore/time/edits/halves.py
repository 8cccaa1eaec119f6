"""Tiles that are processed in halves, so that transfers of one half overlap work on the other.

A call is an instruction with its shapes, formats and operators, but without its data. A window is
the set of elements of a tensor that one operand accesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import ON_CHIP, engine, reduce_cmd
from neuroncore.base.source import Place
from neuroncore.clause.instruction import Call
from neuroncore.clause.legality import stays_legal
from neuroncore.memory.geometry import Geometry
from neuroncore.record.columns import Parts, owners
from neuroncore.record.program import Order, Program
from neuroncore.time.changes import Change
from neuroncore.time.edits.edit import Edit, Edited, edit
from neuroncore.time.lines import Line
from neuroncore.time.loops.dependencies import Accesses
from neuroncore.time.loops.halves import put_off
from neuroncore.time.policy import policy_of
from neuroncore.time.variation import AS_IT_IS

Array = npt.NDArray[Any]
LEAST = 128  # elements per partition of a tile that is worth two instructions
AXES = 16  # more axes than a tensor has
NEAR = 8  # comparing this many boxes takes as long as one instruction in `put_off`
WHOLE = -1  # the axis of an operand that both halves use


class Halves(NamedTuple):
    """A call on half of its elements.

    `axes`: the axis along which each operand is halved; WHOLE if both halves use the whole
        operand"""

    call: Call
    axes: tuple[int, ...]


def in_halves(base: Change, lines: Sequence[Line]) -> Iterator[Edit]:
    """Yield one edit for each line that loads or stores tiles: it splits these tiles into halves,
    with all lines that work on them element by element. Other lines wait for both halves."""
    seen = set[bytes]()
    for line in lines:
        if any(_is_transfer(call) and _halved(call) for call in line.calls):
            flags = [_connected(program, line.place) for program in base.programs]
            key = b"".join(row_flags.tobytes() for row_flags in flags)
            if key not in seen:
                seen.add(key)
                action = f"work in halves{_with_lines(base.programs, flags, line)}"
                by_program = dict(zip(base.programs, flags, strict=True))
                make = partial(_split, rows=by_program, order=base.bench.order)
                split = edit(base, line.place, action, make)
                if split is not None:
                    yield split


def _with_lines(programs: Sequence[Program], rows: Sequence[Array], line: Line) -> str:
    """Return a text with the names of the other lines that are split too."""
    places_split = {
        program.place(number)
        for program, flags in zip(programs, rows, strict=True)
        for number in np.unique(program.columns().line[flags]).tolist()
    }
    near = {place.line for place in places_split if place.file == line.place.file} - {
        line.place.line
    }
    words = "line" if len(near) == 1 else "lines"
    return f", with {words} {', '.join(map(str, sorted(near)))}" if near else ""


def _split(program: Program, rows: Mapping[Program, Array], order: Order) -> Edited | None:
    """Return the program with split instructions, or None if they can't be split.

    `rows`: flags the instructions to split, for each program

    The second halves are put as late as possible, because today's compiler does not move them. The
    older API's compiler finds an order itself."""
    if len(program.edges()) or (program.decided() >= 0).any():
        return None
    split = _in_two(program, rows[program]) if rows[program].any() else None
    if split is None:
        return None
    rewrites = policy_of(program, order).rewrites
    return Edited(split[0] if rewrites else _ordered(*split), AS_IT_IS)


def _halved(call: Call) -> Halves | None:
    """Return the call on half of its elements. Return None if the elements depend on each other, or
    if the call is too small."""
    halves: Halves | None = call.derived(__name__, partial(_computed_halves, call))
    return halves


def _computed_halves(call: Call) -> Halves | None:
    traits, names = call.instruction.traits, (*call.reads, *call.writes)
    elementwise = traits.lanewise or _is_transfer(call)
    folds = call.register_command is not reduce_cmd.idle
    if not elementwise or traits.scans or call.transposes or folds:
        return None
    if call.dynamic or call.indices or call.instruction.lists or len(call.writes) != 1:
        return None
    whole = call.view(call.writes[0])
    axis = next((a for a, n in enumerate(whole.shape) if a and n > 1), 0)
    if not axis or whole.shape[axis] % 2 or whole.free_size < LEAST or not call.reads:
        return None
    views = [call.view(name) for name in names]
    if any(view.shape != whole.shape and view.free_size != 1 for view in views):
        return None
    axes = tuple(axis if view.shape == whole.shape else WHOLE for view in views)
    halved_views = {
        name: replace(view, shape=_half(view.shape, at))
        for name, view, at in zip(names, views, axes, strict=True)
    }
    smaller = replace(call, arguments={**call.arguments, **halved_views})
    return Halves(smaller, axes) if stays_legal(smaller) else None


def _is_transfer(call: Call) -> bool:
    """Return whether the call moves a tile from or to HBM."""
    moves = call.engine is engine.dma and call.instruction.traits.copies
    return moves and len({view.on_chip for view in call.views(*call.reads, *call.writes)}) == 2


def _half(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape if axis == WHOLE else (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])


def _connected(program: Program, place: Place) -> Array:
    """Return which instructions to split, if they can be halved: those of the line `place`, and
    those of all lines that share tiles on the chip with a split line."""
    columns, kinds = program.columns(), program.storages()
    possible = np.array([_halved(call) is not None for call in program.calls])[columns.call]
    user = program.users()
    storage = kinds.of_window[program.operand_windows()]
    regions = [kind.region in ON_CHIP for kind in kinds.kinds]
    on_chip = np.array(regions)[kinds.kind][storage]
    rows = possible & program.at(place)
    while True:
        shared = np.isin(storage, storage[on_chip & rows[user]]) & on_chip & possible[user]
        lines = np.union1d(columns.line[rows], columns.line[user[shared]])
        grown = possible & np.isin(columns.line, lines)
        if (grown == rows).all():
            return rows
        rows = grown


def _in_two(program: Program, rows: Array) -> tuple[Program, Array] | None:
    """Return the program with split instructions, and for each instruction of it: 0 for a first
    half, 1 for a second half, -1 if not split, -2 if it meets other cores.

    `rows`: flags the instructions to split

    Return None if a window can't be halved along the axis of its call."""
    halves = [_halved(call) for call in program.calls]
    windowed = replace(program.columns(), operands=program.operand_windows())
    columns = windowed.permuted(np.repeat(np.arange(len(program)), 1 + rows))
    meets = np.array([call.instruction.meets is not None for call in program.calls])
    half, second = np.where(meets, -2, -1)[columns.call], np.cumsum(1 + rows)[rows] - 1
    half[second - 1], half[second] = 0, 1
    user = owners(columns.start)
    width = np.diff(columns.start).max()
    axis = _axes(halves, width)[columns.call[user], np.arange(len(user)) - columns.start[user]]
    split = np.flatnonzero((half[user] >= 0) & (axis >= 0))
    keys = 2 * (AXES * columns.operands[split] + axis[split]) + half[user[split]]
    kinds, which = np.unique(keys, return_inverse=True)
    at, second_half = np.divmod(kinds, 2)
    parts = _parts(program, *np.divmod(at, AXES), second_half)
    if parts is None:
        return None
    operands, split_calls = columns.operands.copy(), [half for half in halves if half is not None]
    operands[split] = len(program.windows().storage) + which.reshape(-1)
    number = np.cumsum([half is not None for half in halves]) - 1 + len(halves)
    call = np.where(half >= 0, number[columns.call], columns.call)
    columns = replace(columns, call=call, operands=operands)
    begin = np.append(0, np.cumsum(1 + rows))
    return program.with_parts(columns, parts, [each.call for each in split_calls], begin), half


def _axes(halves: Sequence[Halves | None], width: int) -> Array:
    """Return the axis along which each operand of each call is halved, or WHOLE; shape (calls,
    width)."""
    each = [() if half is None else half.axes for half in halves]
    return np.array([(*axes, *[WHOLE] * (width - len(axes))) for axes in each])


def _parts(program: Program, window: Array, axis: Array, half: Array) -> Parts | None:
    """Return one half of each window, or None if a window can't be halved.

    `axis`: axis[k] is the axis along which window[k] is halved
    `half`: half[k] is 0 for the first half of window[k], and 1 for the second"""
    windows, geometries, apart = program.windows(), list[Geometry](), list[int]()
    keys = windows.geometry[window] * AXES + axis
    kinds, number = np.unique(keys, return_inverse=True)
    for key in kinds.tolist():
        whole, along = program.geometries[key // AXES], key % AXES
        if along >= len(whole.shape) or whole.shape[along] % 2:
            return None
        shape = _half(whole.shape, along)
        geometries.append(whole.layout.geometry(shape, whole.strides, whole.dtype))
        apart.append(whole.strides[along] * shape[along])
    offset = windows.offset[window] + half * np.array(apart)[number]
    return Parts(window, geometries, number, offset)


def _ordered(program: Program, half: Array) -> Program:
    """Return the program with second halves as late as possible: before the next iteration of the
    loop, and before instructions that need the result.

    `half`: the numbers that `_in_two` returns"""
    columns, (near, near_start) = program.columns(), program.boxes().near
    reads = np.array([call.inputs for call in program.calls], np.int32)[columns.call]
    boxes = len(near_start) - 1
    uses = Accesses(columns.start, columns.operands, reads, near, near_start)
    noted = np.full((2, boxes), -1), np.full(len(program.lines), -1)
    order = np.empty(len(half), np.int64)
    put_off.over(len(half) + len(near) // NEAR)(uses, half, columns.line, *noted, order)
    return program.permuted(order)
