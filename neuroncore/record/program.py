"""The record of a run: which instructions were issued, on which windows, from which lines.

A row of numbers is one instruction, its Call is the distinct instruction that it repeats, and a
window is some elements of a tensor (`record.columns`). Tables such as the distinct windows and the
boxes of bytes are made when needed. A row takes 60 bytes, or 80 if it touches a new tile. Rows of
loops take 6 in long programs, which are compressed.
"""

from __future__ import annotations

import copy
import re
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import source
from neuroncore.base.options import Order as Order
from neuroncore.base.source import Sites
from neuroncore.clause.instruction import Call
from neuroncore.machine.world import World
from neuroncore.memory.geometry import Geometry
from neuroncore.memory.register import Load
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.record.boxes import Boxes, boxes
from neuroncore.record.columns import (
    ANYWHERE,
    MOVING,
    Area,
    Numbers,
    Storages,
    Windows,
    Written,
    apart,
    copied,
    inside,
    joined,
    owners,
    parted,
    parted_windows,
    restored,
    storages,
)
from neuroncore.record.columns import Columns as Columns
from neuroncore.record.columns import Parts as Parts
from neuroncore.record.inputs import Data, Leaf, Outcome, Setting, is_tile, mapped

Array = npt.NDArray[Any]
ASSIGNED = re.compile(r"\s*(\w+) = ")
PACKED = 1 << 18  # rows that are compressed together


@dataclass(frozen=True, eq=False)
class _Read:
    """Tables that readers derive from the rows."""

    columns: Columns  # their operands are windows
    windows: Windows
    storages: Storages
    geometries: Sequence[Geometry]
    results: dict[str, Any] = field(default_factory=dict, init=False)

    @cached_property
    def users(self) -> Array:
        """The instruction that uses each operand."""
        return owners(self.columns.start)

    @cached_property
    def boxes(self) -> Boxes:
        return boxes(self.windows, self.geometries, self.storages)

    @cached_property
    def boxed(self) -> Columns:
        """The columns, with boxes as operands instead of windows."""
        return replace(self.columns, operands=self.boxes.of_window[self.columns.operands])

    def with_columns(self, columns: Columns) -> _Read:
        """Return the tables for other rows on the same windows, and thus the same boxes."""
        tables = replace(self, columns=columns)
        vars(tables)["boxes"] = self.boxes
        if columns.operands is self.columns.operands:
            vars(tables)["boxed"] = replace(columns, operands=self.boxed.operands)
        return tables

    def copied(self, chosen: Array) -> _Read:
        """Return the tables in which the operands with a flag in `chosen` use copies of their
        tensors."""
        columns, windows = self.columns, self.windows
        moved, of_operand = np.unique(columns.operands[chosen], return_inverse=True)
        operands = columns.operands.copy()
        operands[chosen] = len(windows.storage) + of_operand
        all_windows, all_storages = copied(self.storages, windows, self.geometries, moved)
        columns = replace(columns, operands=operands)
        return replace(self, columns=columns, windows=all_windows, storages=all_storages)

    @cached_property
    def areas(self) -> dict[int, Area]:
        """The Area of each storage, by its number."""
        kinds = map(self.storages.kinds.__getitem__, self.storages.kind.tolist())
        return dict(zip(self.storages.number.tolist(), kinds, strict=True))


class Program:
    """A record of the first `limit` instructions; all others are only counted."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = sys.maxsize if limit is None else limit
        self.order: Order = "in-order"
        self.dge = False  # whether hardware writes descriptors while the older API's kernel runs
        self.software = False  # whether software writes descriptors of DMAs that name no mode
        self.loads = "ahead"  # the loads that wait for their turn: `Options.loads`
        self.assume: tuple[str, ...] = ()  # further rules of the estimate: `Options.assume`
        self.clock_phase: float | None = None  # of the Tensor engine; None: as the machine assumes
        self.flags: tuple[str, ...] = ()  # of the kernel's compiler
        self.left_out = 0  # instructions after the last one that is recorded
        self.calls: list[Call] = []
        self.lines: list[tuple[CodeType, int] | source.Place] = []
        self.data = Data()
        self._edges = array("i")  # pairs: an instruction, and an earlier one that it waits for
        # pairs: an instruction, and an earlier one for which it and all later instructions wait
        self._decisions = array("i")
        self.origin: Array | None = None  # the number of each row before the rows were permuted
        self.count = 0  # the number of rows
        self.room = min(self.limit, PACKED)  # rows before the next call of `make_room`
        self.rows = Written()  # `count` rows in the format of `record.columns`
        self.births = Written()  # of storages that the kernel allocates
        self.names: dict[int, str] = {}  # of storages that have one
        self.geometries: list[Geometry] = []  # of windows, by number
        self.numbers = Numbers(self.geometries)
        self._line_index: Sites[int] = Sites(sys.maxsize)
        self._read: _Read | None = None
        self._lines_at: dict[str, list[int]] = {}  # the first `_lines_known` lines, by source line
        self._lines_known = 0

    def __len__(self) -> int:
        return self.count

    def make_room(self) -> bool:
        """Return whether the next instruction is recorded: the record has fewer than `limit`.
        Compress the rows first if there are `PACKED` more than the last time."""
        if self.room <= self.count < self.limit:
            self.rows.pack()
            self.births.pack()
            self.data.iterations.pack()
            self.room = min(self.limit, self.count + PACKED)
        return self.count < self.limit

    @property
    def issued(self) -> int:
        """The number of instructions, recorded or not."""
        return self.count + self.left_out

    @property
    def ending(self) -> str:
        """The message for the first instruction that is left out."""
        return (
            f"the record ends before this instruction, after {self.limit} instructions: estimates "
            "and profiles cover only these; Options.record_limit sets the limit"
        )

    @property
    def coverage(self) -> str:
        """The part of the run that is recorded, in words; "" if it is the whole run."""
        if not self.left_out:
            return ""
        return f"the first {len(self)} of {self.issued} instructions, where the record ends"

    # --- writing -------------------------------------------------------------------------------

    def wait(self, consumer: int, producer: int) -> None:
        """Let instruction `consumer` begin only after instruction `producer`. A pair is ignored if
        one of the two is -1 or is not recorded."""
        if 0 <= producer < consumer < len(self):
            self._edges.extend((consumer, producer))

    def decide(self, load: Load, value: int) -> None:
        """Record that the kernel branches on a register with this value, which `load` has loaded.
        All later instructions wait for that load."""
        if load.row < len(self):
            self._decisions.extend((len(self), load.row))
            frame = source.user_frame()
            line = self.line(frame.f_code, source.instruction_of(frame)) if frame else -1
            self.data.branches.extend((len(self), load.number, value, line))

    def derive(self, operation: str, left: int, right: int) -> int:
        """Add a register that an operation computes from others (`Data.registers`), and return its
        number."""
        return self.data.derive(operation, left, right)

    def append(self, row: bytes) -> int:
        """Append a row that a `packer` has made, and return its number."""
        self.rows.extend(row)
        self.count += 1
        return self.count - 1

    def line_of_row(self, code: CodeType, instruction: int) -> int:
        """Return the index in `lines` of the place of the next row. It is called once per row."""
        return self.line(code, instruction)

    def line(self, code: CodeType, instruction: int) -> int:
        """Return the index in `lines` of a place in the user's code."""
        index = self._line_index.at(code, instruction)
        if index is None:
            index = self._line_index.keep(code, instruction, len(self.lines))
            self.lines.append((code, instruction))
        return index

    def window(self, tile: Tile) -> tuple[int, int, int]:
        """Return the window of a tile: the number of its storage, the number of its geometry, and
        its offset in elements. If the position is only known at run time, the offset is MOVING plus
        the window's number among such windows."""
        if not tile.dynamic:
            return tile.storage.id, self.numbers[tile.geometry], tile.offset
        geometry = tile.geometry if tile.picks is None else tile.picked_from.geometry
        moving = self.data.moving(tile, self.numbers[tile.geometry])
        return tile.storage.id, self.numbers[geometry], MOVING + moving

    def stands_for(self, copied: Storage, tile: Tile) -> None:
        """Record that the host has copied a tile to a new storage."""
        self.data.copies[copied.id] = self._leaf(tile)

    def returns(self, result: Any) -> None:
        """Record the results of the kernel, in which tensors are tiles."""
        self.data.results = mapped(result, self._leaf, is_tile)

    def _leaf(self, tile: Tile) -> Leaf:
        if tile.storage.id in self.data.copies:
            return self.data.copies[tile.storage.id]
        if tile.dynamic:
            self.data.skipped += 1
            tile = tile.resolved("the result")
        return Leaf(tile.storage.id, self.numbers[tile.geometry], tile.offset)

    # --- reading -------------------------------------------------------------------------------

    def edges(self) -> Array:
        """Return pairs, [edges, 2]: an instruction, and an earlier instruction for which it waits
        because of depends_on or a loaded register."""
        return _values(self._edges).reshape(-1, 2)

    def decided(self) -> Array:
        """Return, for each instruction, the last load that the sequencer must finish before the
        instruction may begin; -1 for none."""
        last = np.full(len(self), -1, np.int32)
        if not self._decisions:
            return last
        first, producer = _values(self._decisions).reshape(-1, 2).T
        inside = first < len(self)
        np.maximum.at(last, first[inside], producer[inside])
        return np.maximum.accumulate(last)

    def columns(self) -> Columns:
        """Return the rows, with boxes as operands."""
        return self._reading().boxed

    def box_table(self) -> Array:
        """Return the table of distinct boxes: a row has the fields of a Box in their order."""
        return self.boxes().table

    def boxes(self) -> Boxes:
        return self._reading().boxes

    def raw(self) -> tuple[Array, Array]:
        """Return the rows one after the other in one array of integers, and the beginning of each
        row followed by the end of the last row (`record.columns.joined`)."""
        return joined(self._reading().columns)

    def operand_windows(self) -> Array:
        """Return the window of each operand, in the order of `Columns.operands`."""
        return self._reading().columns.operands

    def users(self) -> Array:
        """Return the instruction that uses each operand."""
        return self._reading().users

    def is_read(self) -> Array:
        """Return, for each operand, whether its instruction reads it."""
        columns = self._reading().columns
        inputs = np.array([call.inputs for call in self.calls], np.int64)
        first = columns.start[:-1] + inputs[columns.call]
        read: Array = np.arange(len(columns.operands)) < np.repeat(first, np.diff(columns.start))
        return read

    def operand_storages(self) -> Array:
        """Return the number of the storage of each operand."""
        storages: Array = self.windows().storage[self.operand_windows()]
        return storages

    def windows(self) -> Windows:
        return self._reading().windows

    def storages(self) -> Storages:
        return self._reading().storages

    def same_operands(self, other: Program) -> bool:
        """Return whether two programs have the same operands, because `with_rows` made one from the
        other."""
        mine, theirs = self._reading(), other._reading()
        return mine.columns.operands is theirs.columns.operands and mine.boxes is theirs.boxes

    def last_writer(self, storage: int) -> Call | None:
        """Return the Call that wrote to a tensor last, or None."""
        writes = np.flatnonzero(~self.is_read() & (self.operand_storages() == storage))
        if not len(writes):
            return None
        return self.calls[int(self._reading().columns.call[self.users()[writes[-1]]])]

    def derived(self, key: str, make: Callable[[], Any]) -> Any:
        """Return make(), which depends on this program only; it is computed once for each `key`."""
        results = self._reading().results
        return results[key] if key in results else results.setdefault(key, make())

    @property
    def kinds(self) -> Sequence[Area]:
        return self.storages().kinds

    def area(self, storage: int) -> Area:
        return self._reading().areas[storage]

    @property
    def areas(self) -> Mapping[int, Area]:
        """The Area of each storage, by its number."""
        return self._reading().areas

    def _reading(self) -> _Read:
        """Return the tables that readers derive from the rows. They are made once."""
        if self._read is None or len(self._read.columns.call) != len(self):
            moved, births = self.data.offsets(), self.births.since()
            columns, windows = apart(self.rows.since(), self.count, self.calls, moved)
            storages_used = storages(windows, self.geometries, births, self.names, self.calls)
            self._read = _Read(columns, windows, storages_used, self.geometries)
        return self._read

    def with_rows(self, rows: Array, instead: Sequence[Call]) -> Program:
        """Return the program in which instruction i has the Call instead[rows[i]] on the same
        windows, or keeps its Call if rows[i] is -1. It can be scheduled, but not executed."""
        read = self._reading()
        call = np.where(rows >= 0, len(self.calls) + rows, read.columns.call)
        varied = copy.copy(self)
        varied.calls = [*self.calls, *instead]
        varied._read = read.with_columns(replace(read.columns, call=call))
        return varied

    def with_copies(self, chosen: Array) -> Program:
        """Return the program in which the operands with a flag in `chosen` are on copies of their
        tensors, which the compiler places. The program can be scheduled, but not executed."""
        varied = copy.copy(self)
        varied._read = self._reading().copied(chosen)
        return varied

    def with_parts(
        self, columns: Columns, parts: Parts, calls: Sequence[Call], begin: Array
    ) -> Program:
        """Return a program with the rows `columns`, which can be scheduled, but not executed.
        `columns` numbers calls and windows as this program does; higher numbers mean the entries of
        `calls` and `parts`. Row i of this program becomes row begin[i], and possibly rows after it.
        This program must have no `edges`, because their row numbers stay unchanged."""
        read, varied = self._reading(), copy.copy(self)
        windows, storages_used, geometries = parted_windows(
            read.storages, read.windows, read.geometries, parts
        )
        varied.calls, varied.geometries = [*self.calls, *calls], geometries
        varied.count = len(columns.call)
        varied._read = _Read(columns, windows, storages_used, geometries)
        varied.data = copy.copy(self.data)
        marks = self.data.marks()
        marks[:, 0] = begin[marks[:, 0]]
        varied.data.iterations = Written(marks.tobytes())
        varied.data.loop_ends = _at_other_rows(self.data.loop_ends, 1, begin)
        varied.data.programs = _at_other_rows(self.data.programs, 2, begin)
        return varied

    def permuted(self, rows: Array) -> Program:
        """Return the program whose row k is row rows[k] of this program. The result can also be
        executed. The program must have no registers, and each row must stay within its program of
        the grid."""
        read = self._reading()
        varied = copy.copy(self)
        varied.origin = rows if self.origin is None else self.origin[rows]
        varied._read = read.with_columns(read.columns.permuted(rows))
        return varied

    def lines_at(self, place: source.Place) -> list[int]:
        """Return the indices in `lines` of all places in the source line of `place`."""
        if self._lines_known != len(self.lines):
            self._lines_at, self._lines_known = {}, len(self.lines)
            for number in range(len(self.lines)):
                self._lines_at.setdefault(self.place(number).short, []).append(number)
        return self._lines_at.get(place.short, [])

    def at(self, place: source.Place) -> Array:
        """Return, for each instruction, whether it is in the source line of `place`."""
        there = np.zeros(len(self.lines), np.bool_)
        there[self.lines_at(place)] = True
        is_there: Array = there[self._reading().columns.line]
        return is_there

    def place(self, line: int) -> source.Place:
        site = self.lines[line]
        return site if isinstance(site, source.Place) else source.place(*site)

    def name_of(self, kind: Area) -> str:
        """Return the name of a tensor. If it has none, return the variable that its line assigns,
        or ""."""
        born = self.place(kind.line).text if kind.line >= 0 else ""
        variable = ASSIGNED.match(born)
        return kind.name or (variable[1] if variable else "")

    # --- saving --------------------------------------------------------------------------------

    def kept(self) -> dict[str, Array]:
        """Return the columns of numbers that the file of a record has, by name, except the columns
        of storages."""
        rows, begins = self.raw()
        pairs = {name: _values(getattr(self, f"_{name}")) for name in PAIRS}
        return {"rows": rows, "widths": np.diff(begins), **pairs, **self.windows()._asdict()}

    def restore(
        self, saved: Mapping[str, Array], number: Array, kind: Array, kinds: Sequence[Area]
    ) -> None:
        """Restore the columns that `kept` returned, on storages with these numbers and kinds. The
        Calls and geometries must be there already, and nothing can be appended afterwards. Raise
        ValueError if rows don't fit the Calls, or if a window has no storage."""
        columns = parted(saved["rows"], saved["widths"], self.calls)
        windows = Windows(*(saved[name] for name in Windows._fields))
        storages_used = restored(number, kind, kinds, windows)
        self.count = self.limit = self.room = len(columns.call)
        self._read = _Read(columns, windows, storages_used, self.geometries)
        for name in PAIRS:
            column: array[int] = getattr(self, f"_{name}")
            column.frombytes(saved[name].astype(column.typecode).tobytes())

    def check(self) -> None:
        """Raise ValueError unless rows and windows fit the tables: every row has a line and windows
        that exist, and every window is inside its tensor."""
        read = self._reading()
        columns, windows = read.columns, read.windows
        inside(columns.operands, len(windows.storage), "windows")
        inside(columns.line, len(self.lines), "lines")
        inside(windows.geometry, len(self.geometries), "geometries")
        inside(read.storages.kind, len(self.kinds), "kinds")
        born = np.array([kind.line for kind in self.kinds], np.int64)
        inside(born + 1, len(self.lines) + 1, "lines")  # -1 is unknown
        for number, geometry in enumerate(self.geometries):
            offsets = windows.offset[windows.geometry == number]
            if len(offsets) and 0 in geometry.shape:  # only a result may be empty
                raise ValueError("a window has no elements")
            if len(offsets) and not geometry.has_room(offsets[offsets != ANYWHERE]):
                raise ValueError("a window is outside its tensor")
        pairs = np.concatenate([_values(self._edges), _values(self._decisions)])
        inside(pairs, len(self) + 1, "instructions")
        if (pairs[::2] <= pairs[1::2]).any():
            raise ValueError("an instruction waits for an instruction that is not before it")


# The parts of a Program that are columns of numbers.
PAIRS = "edges", "decisions"
COLUMNS = ("rows", "widths", *PAIRS, *Windows._fields)


def _values(column: array[int]) -> Array:
    """Return a copy, because an array that numpy refers to cannot grow."""
    return np.array(column, column.typecode)


def _at_other_rows(table: array[int], width: int, begin: Array) -> array[int]:
    """Return the table with other row numbers. An entry has `width` numbers. The first of them is
    the number of a row of the record: i becomes begin[i]."""
    entries = np.array(table, np.int64).reshape(-1, width)
    entries[:, 0] = begin[entries[:, 0]]
    return array("q", entries.reshape(-1).tolist())


@dataclass(frozen=True, eq=False)
class Record:
    """The programs of one launch, one for each core. `about` has notes of the caller that made the
    record: text, numbers, and lists and dicts of these. `setting` has the settings of the launch;
    without them, the programs can be timed but not executed again. `outcome` has the results of the
    launch."""

    programs: Sequence[Program]
    about: Mapping[str, Any] = field(default_factory=dict)
    setting: Setting | None = None
    outcome: Outcome | None = None

    @property
    def world(self) -> World:
        """The ranks and cores of the programs; one rank if the record has no setting."""
        return World(1, len(self.programs)) if self.setting is None else self.setting.world
