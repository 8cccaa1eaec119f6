"""Edits with fewer transfers: several tiles per transfer, and loads whose data are kept.

A window is the set of elements of a tensor that a transfer reads or writes. The geometry of a
window is its layout, shape, strides and format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import engine
from neuroncore.base.source import Place
from neuroncore.clause.instruction import Call
from neuroncore.clause.legality import stays_legal
from neuroncore.memory.geometry import View
from neuroncore.record.program import Program
from neuroncore.time.changes import Change
from neuroncore.time.edits.edit import (
    Edit,
    Edited,
    accesses_of,
    edit,
    rows_by_call,
    successive_contents,
    with_calls,
)
from neuroncore.time.lines import Line
from neuroncore.time.variation import Variation

Array = npt.NDArray[Any]
TOGETHER = 2, 4  # how many transfers become one


class TransferSide(NamedTuple):
    """The windows of one call's transfers in HBM, or in SBUF: for each transfer, the storage, the
    geometry and the offset in elements."""

    storage: Array
    geometry: Array
    offset: Array


def fewer_transfers(base: Change, line: Line) -> Iterator[Edit]:
    """Yield the edits that reduce the transfers of a line to a half or a quarter."""
    if not any(map(_is_plain_transfer, line.calls)):
        return
    for several in TOGETHER:
        action = f"move {several} tiles per transfer"
        make = partial(_merged, place=line.place, several=several)
        merged = edit(base, line.place, action, make)
        if merged is not None:
            yield merged


def loaded_once(base: Change, line: Line, room: int) -> Edit | None:
    """Return the edit that keeps data that a line loads repeatedly. Return None if there are none,
    or if they take more than `room` bytes per partition of SBUF."""
    if not any(map(_is_plain_transfer, line.calls)):
        return None
    make = partial(_with_loads_kept, place=line.place, room=room)
    return edit(base, line.place, "load each tile once and keep it", make)


def _is_plain_transfer(call: Call) -> bool:
    """Return whether the call moves one tile between HBM and SBUF, element by element."""
    if call.engine is not engine.dma or call.dynamic or call.indices or call.transposes:
        return False
    if len(call.reads) != 1 or len(call.writes) != 1:
        return False
    src, dst = call.view(call.reads[0]), call.view(call.writes[0])
    alike = [n for n in src.shape if n > 1] == [n for n in dst.shape if n > 1]
    return alike and src.shape[0] == dst.shape[0] and src.on_chip != dst.on_chip


def _merged(program: Program, place: Place, several: int) -> Edited | None:
    """Return the program in which one transfer of a line does the work of `several`. Return None if
    none can be merged."""
    joined, apart = np.full(len(program), -1), program
    instead, extra_bytes = [], 0
    for call, rows in rows_by_call(program, place):
        if not _is_plain_transfer(call):
            continue
        loads = call.view(call.writes[0]).on_chip
        side = _side(program, rows, not loads)
        step, groups = _groups(side, several)
        key = f"{__name__} {several} {step}"
        make = partial(_larger, call, several, step)
        larger: Call | None = call.derived(key, make) if len(groups) else None
        if larger is None or not _stays_unchanged(program, side.storage, loads):
            continue
        merged_rows = rows[groups]
        heads = merged_rows[:, 0] if loads else merged_rows[:, -1]
        joined[merged_rows] = heads[:, None]
        joined[heads] = -1
        instead.append((heads, larger))
        tile_view = call.view(call.writes[0] if loads else call.reads[0])
        apart, tiles = _with_buffers(apart, merged_rows.reshape(-1), loads, several)
        extra_bytes += (
            (several - 1) * max(1, tiles) * tile_view.free_size * tile_view.dtype.itemsize
        )
    if not instead:
        return None
    return Edited(with_calls(apart, instead), Variation(joined=joined), sbuf=extra_bytes)


def _with_buffers(program: Program, rows: Array, loads: bool, several: int) -> tuple[Program, int]:
    """Return the program with more buffers for merged transfers, and how many tiles get buffers.

    A tile gets `several` buffers if the transfers in `rows` use it repeatedly: they write it if
    `loads` is True, and otherwise read it."""
    accesses = accesses_of(program)
    tiles = accesses.operands[accesses.start[rows + 1] - 1 if loads else accesses.start[rows]]
    distinct, counts = np.unique(tiles, return_counts=True)
    areas = program.boxes().areas.of_box
    reused, area = np.unique(areas[distinct[counts > 1]]), areas[accesses.operands]
    contents = successive_contents(program, accesses, np.flatnonzero(np.isin(area, reused)))
    place = np.zeros(len(area), np.int64)
    place[contents.uses] = contents.number % several
    for n in np.unique(place[place > 0]).tolist():
        program = program.with_copies(place == n)
    return program, len(reused)


def _side(program: Program, rows: Array, writes: bool) -> TransferSide:
    """Return the windows that the transfers in `rows` write, or read if `writes` is False."""
    start, windows = program.columns().start, program.windows()
    window = program.operand_windows()[start[rows + 1] - 1 if writes else start[rows]]
    return TransferSide(windows.storage[window], windows.geometry[window], windows.offset[window])


def _groups(side: TransferSide, several: int) -> tuple[int, Array]:
    """Return two results about the transfers of `side` in HBM.

    1. The most frequent distance between successive transfers, in elements.
    2. The transfers that each larger transfer replaces, shape (larger transfers, several). They are
       this distance apart."""
    same = (np.diff(side.storage) == 0) & (np.diff(side.geometry) == 0)
    apart = np.where(same, np.diff(side.offset), 0)
    steps, counts = np.unique(apart[apart != 0], return_counts=True)
    if not len(steps):
        return 0, np.zeros((0, several), np.int64)
    step = int(steps[np.argmax(counts)])
    follows = np.append(False, apart == step)
    runs = np.cumsum(~follows)
    place = np.arange(len(runs)) - np.flatnonzero(~follows)[runs - 1]
    length = np.bincount(runs)[runs]
    kept = place < length // several * several
    return step, np.flatnonzero(kept).reshape(-1, several)


def _larger(call: Call, several: int, step: int) -> Call | None:
    """Return one transfer of `several` tiles, or None if the machine refuses it. The tiles are
    `step` elements apart in HBM, and adjacent in SBUF."""
    views = {name: _longer(call.view(name), several, step) for name in call.reads + call.writes}
    larger = replace(call, arguments={**call.arguments, **views})
    return larger if stays_legal(larger) else None


def _longer(view: View, several: int, step: int) -> View:
    """Return a view of `several` tiles: `step` elements apart in HBM, or adjacent on the chip."""
    width = view.strides[0] if view.on_chip else step
    rows = several * view.strides[0] if view.on_chip else view.strides[0]
    return replace(
        view,
        shape=(view.shape[0], several, *view.shape[1:]),
        strides=(rows, width, *view.strides[1:]),
    )


def _stays_unchanged(program: Program, storages: Array, loads: bool) -> bool:
    """Return whether no instruction writes these tensors, or reads them if `loads` is False."""
    there = np.isin(program.operand_storages(), np.unique(storages))
    return not (there & (program.is_read() != loads)).any()


def _with_loads_kept(program: Program, place: Place, room: int) -> Edited | None:
    """Return the program in which a line loads each tile once. Return None if no tile is loaded
    twice, or if the tiles take more than `room` bytes per partition."""
    joined, extra_bytes = np.full(len(program), -1), 0
    for call, rows in rows_by_call(program, place):
        if not (_is_plain_transfer(call) and call.view(call.writes[0]).on_chip):
            continue
        source, target = _side(program, rows, False), _side(program, rows, True)
        columns = np.column_stack(source)
        _, first, which = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        again = first[which.reshape(-1)] != np.arange(len(rows))
        tile_view = call.view(call.writes[0])
        size = len(first) * tile_view.free_size * tile_view.dtype.itemsize
        keeps = _stays_unchanged(program, source.storage, True) and _only_loaded(
            program, rows, target
        )
        if again.any() and keeps and size + extra_bytes <= room:
            joined[rows[again]] = rows[first[which.reshape(-1)][again]]
            extra_bytes += size
    if not (joined >= 0).any():
        return None
    return Edited(program, Variation(joined=joined), sbuf=extra_bytes)


def _only_loaded(program: Program, rows: Array, target: TransferSide) -> bool:
    """Return whether only the instructions in `rows` write the tiles of `target`."""
    there = np.isin(program.operand_storages(), np.unique(target.storage))
    return bool(np.isin(program.users()[~program.is_read() & there], rows).all())
