"""The record of a run: its instructions with their windows and lines.

An instruction refers to its Call, which equal instructions share. A window is some elements of a
tensor (`record.columns`). Tables such as the boxes of bytes are made when needed. An instruction
takes 60 bytes, or 80 bytes with a new tile. Long programs are compressed: an instruction of a loop
then takes 6 bytes."""

from __future__ import annotations

import copy
import re
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers, source
from neuroncore.base.options import Order as Order
from neuroncore.base.source import Sites
from neuroncore.clause.instruction import Call
from neuroncore.machine.world import World
from neuroncore.memory.geometry import Geometry
from neuroncore.memory.register import Load
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.record.boxes import LONG, Boxes, KeptTables, Tables
from neuroncore.record.columns import (
    ANYWHERE,
    MOVING,
    Area,
    Numbers,
    Storages,
    Windows,
    Written,
    apart,
    inside,
    joined,
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
NO_LOAD = np.int32(-1)
PACKED = 1 << 18  # instructions that are compressed together


class Program:
    """A record of the first `limit` instructions. Later instructions are only counted."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = sys.maxsize if limit is None else limit
        self.order: Order = "in-order"
        self.dge = False  # whether hardware writes descriptors while the older API's kernel runs
        self.software = False  # whether software writes descriptors of DMAs that name no mode
        self.loads = "ahead"  # the loads that wait for their turn: `Options.loads`
        self.assume: tuple[str, ...] = ()  # further rules of the estimate: `Options.assume`
        self.clock_phase: float | None = None  # `Options.clock_phase`; None: the machine's value
        self.flags: tuple[str, ...] = ()  # flags of the kernel's compiler
        self.left_out = 0  # instructions after the last one that is recorded
        self.calls: list[Call] = []
        self.lines: list[source.Site] = []
        self.data = Data()
        # pairs: an instruction, and an earlier instruction for which it waits
        self._edges = array("i")
        # pairs: an instruction, and an earlier load; all instructions from this one on wait for it
        self._decisions = array("i")
        self.origin: Array | None = None  # the number of each instruction before the permutation
        self.count = 0  # the number of instructions
        self.room = min(self.limit, PACKED)  # `make_room` must be called at this `count`
        self.rows = Written()  # `count` instructions in the format of `record.columns`
        self.births = Written()  # the storages that the kernel allocates, each with its line
        self.names: dict[int, str] = {}  # the names of storages that have a name
        self.geometries: list[Geometry] = []  # the geometries of windows, by number
        self.numbers = Numbers(self.geometries)
        self._line_index: Sites[int] = Sites(sys.maxsize)
        self._read: Tables | None = None
        self._kept: KeptTables | None = None
        self._lines_at: dict[str, list[int]] = {}  # the first `_lines_known` lines, by source line
        self._lines_known = 0

    def __len__(self) -> int:
        return self.count

    def make_room(self) -> bool:
        """Return whether the record has room for more instructions. Compress the new instructions
        first, if there are PACKED of them."""
        if self.room <= self.count < self.limit:
            self.rows.pack()
            self.births.pack()
            self.data.iterations.pack()
            self.room = min(self.limit, self.count + PACKED)
        return self.count < self.limit

    @property
    def issued(self) -> int:
        """The number of instructions that the run issued, recorded or not."""
        return self.count + self.left_out

    @property
    def ending(self) -> str:
        """The message at the first instruction that is not recorded."""
        return (
            f"the record ends before this instruction, after {self.limit} instructions: estimates "
            "and profiles cover only these; Options.record_limit sets the limit"
        )

    @property
    def coverage(self) -> str:
        """A phrase that states which part of the run is recorded; "" for the whole run."""
        if not self.left_out:
            return ""
        return f"the first {len(self)} of {self.issued} instructions, where the record ends"

    # --- writing -------------------------------------------------------------------------------

    def wait(self, consumer: int, producer: int) -> None:
        """Let instruction `consumer` begin only after instruction `producer`. Instructions that are
        not recorded (-1) are ignored."""
        if 0 <= producer < consumer < len(self):
            self._edges.extend((consumer, producer))

    def decide(self, load: Load, value: int) -> None:
        """Record that the kernel branches on `value` from `load`. All later instructions wait for
        this load."""
        if load.row < len(self):
            self._decisions.extend((len(self), load.row))
            frame = source.user_frame()
            line = self.line(frame.f_code, source.instruction_of(frame)) if frame else -1
            self.data.branches.extend((len(self), load.number, value, line))

    def derive(self, operation: str, left: int, right: int) -> int:
        """Add a register that an operation computes from other registers (`Data.registers`), and
        return its number."""
        return self.data.derive(operation, left, right)

    def append(self, row: bytes) -> int:
        """Append the bytes of an instruction (`record.columns.packer`), and return its number."""
        self.rows.extend(row)
        self.count += 1
        return self.count - 1

    def line_of_row(self, code: CodeType, instruction: int) -> int:
        """Return the index in `lines` of the place that issues the next instruction. Call this once
        per instruction."""
        return self.line(code, instruction)

    def line(self, code: CodeType, instruction: int) -> int:
        """Return the index in `lines` of a place in the user's code."""
        index = self._line_index.at(code, instruction)
        if index is None:
            index = self._line_index.keep(code, instruction, len(self.lines))
            self.lines.append((code, instruction))
        return index

    def window(self, tile: Tile) -> tuple[int, int, int]:
        """Return the window of a tile: (storage, geometry, offset in elements).

        The offset of a window that moves at run time is MOVING plus its position in
        `Data.places`."""
        if not tile.dynamic:
            return tile.storage.id, self.numbers[tile.geometry], tile.offset
        geometry = tile.geometry if tile.picks is None else tile.picked_from.geometry
        moving = self.data.moving(tile, self.numbers[tile.geometry])
        return tile.storage.id, self.numbers[geometry], MOVING + moving

    def stands_for(self, copied: Storage, tile: Tile) -> None:
        """Record that the host has copied a tile to the storage `copied`."""
        self.data.copies[copied.id] = self._leaf(tile)

    def returns(self, result: Any) -> None:
        """Record the results of the kernel. The tensors in `result` are Tiles."""
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
        """Return pairs of instructions, shape [edges, 2]. The first waits for the second because of
        depends_on or a loaded register."""
        return _values(self._edges).reshape(-1, 2)

    def decided(self) -> Array:
        """Return, for each instruction, the last load before it that decided a branch; -1 for none.
        The instruction must wait for this load."""
        if not self._decisions:
            return buffers.repeated(NO_LOAD, len(self))
        last = np.full(len(self), -1, np.int32)
        first, producer = _values(self._decisions).reshape(-1, 2).T
        inside = first < len(self)
        np.maximum.at(last, first[inside], producer[inside])
        return np.maximum.accumulate(last)

    def columns(self) -> Columns:
        """Return the instructions as columns, with boxes as operands."""
        kept = self._kept_tables() if self._read is None else None
        return kept.boxed if kept else self._reading().boxed

    def box_table(self) -> Array:
        """Return the table of distinct boxes. Each row has the fields of a Box, in order."""
        return self.boxes().table

    def boxes(self) -> Boxes:
        return self._reading().boxes

    def raw(self) -> tuple[Array, Array]:
        """Return (all instructions as one array of integers, bounds of the instructions), as
        `record.columns.joined` does."""
        return joined(self._reading().columns)

    def operand_windows(self) -> Array:
        """Return the number of each operand's window, in the order of `Columns.operands`."""
        return self._reading().columns.operands

    def users(self) -> Array:
        """Return the number of the instruction that uses each operand."""
        return self._reading().users

    def is_read(self) -> Array:
        """Return a flag for each operand: whether its instruction reads it."""
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
        """Return whether `with_rows` made one program from the other, so that they share
        operands."""
        mine, theirs = self._reading(), other._reading()
        return mine.columns.operands is theirs.columns.operands and mine.boxes is theirs.boxes

    def last_writer(self, storage: int) -> Call | None:
        """Return the Call of the last instruction that wrote to a tensor, or None."""
        writes = np.flatnonzero(~self.is_read() & (self.operand_storages() == storage))
        if not len(writes):
            return None
        return self.calls[int(self._reading().columns.call[self.users()[writes[-1]]])]

    def derived(self, key: str, make: Callable[[], Any]) -> Any:
        """Return make(), called once per `key`. The result must depend only on this program."""
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

    def _reading(self) -> Tables:
        """Return the tables that are derived from the instructions. They are made again after
        changes."""
        read = self._read  # another thread may free the tables
        if read is None or len(read.columns.call) != len(self):
            columns, windows = apart(self.rows, self.count, self.calls, self.data.offsets())
            used = storages(windows, self.geometries, self.births.since(), self.names, self.calls)
            read = Tables(columns, windows, used, self.geometries, from_rows=True)
            if kept := self._kept_tables():
                read = replace(read, columns=kept.columns, moved=True)
                vars(read)["boxed"] = kept.boxed
            self._read = read
        return read

    def _kept_tables(self) -> KeptTables | None:
        """Return the tables that `free_tables` has kept; None if instructions were added since
        then."""
        kept = self._kept
        return kept if kept and len(kept.columns.call) == len(self) else None

    def free_tables(self) -> None:
        """Free the memory of columns and boxes if the record is long. They are made again when
        needed. Columns that differ from the instructions are kept."""
        read = self._read
        if read is not None and read.from_rows and self.is_long:
            self._kept = KeptTables(read.columns, read.boxed) if read.moved else None
            self._read = None
            buffers.release()

    @property
    def is_long(self) -> bool:
        """Return whether a schedule frees the tables that it no longer needs."""
        return len(self) >= LONG

    def with_rows(self, rows: Array, instead: Sequence[Call]) -> Program:
        """Return a program with the Call instead[rows[i]] for instruction i, or its old Call if
        rows[i] is -1.

        It has the same windows. It can be scheduled, but not executed."""
        read = self._reading()
        call = np.where(rows >= 0, len(self.calls) + rows, read.columns.call)
        varied = copy.copy(self)
        varied.calls = [*self.calls, *instead]
        varied._read = read.with_columns(replace(read.columns, call=call))
        return varied

    def with_copies(self, chosen: Array) -> Program:
        """Return a program with copied tensors for the operands that `chosen` flags. The compiler
        places the copies. The program can be scheduled, but not executed."""
        varied = copy.copy(self)
        varied._read = self._reading().copied(chosen)
        return varied

    def with_parts(
        self, columns: Columns, parts: Parts, calls: Sequence[Call], begin: Array
    ) -> Program:
        """Return a program with the instructions `columns`. It can be scheduled, but not executed.

        `calls`, `parts`: new Calls and windows, numbered after this program's
        `begin`: instruction i becomes the instructions from begin[i] on

        This program must have no `edges`, because their instructions are not changed."""
        read, varied = self._reading(), copy.copy(self)
        windows, storages_used, geometries = parted_windows(
            read.storages, read.windows, read.geometries, parts
        )
        varied.calls, varied.geometries = [*self.calls, *calls], geometries
        varied.count = len(columns.call)
        varied._read = Tables(columns, windows, storages_used, geometries)
        varied.data = copy.copy(self.data)
        marks = self.data.marks()
        marks[:, 0] = begin[marks[:, 0]]
        varied.data.iterations = Written(marks.tobytes())
        varied.data.loop_ends = _at_other_rows(self.data.loop_ends, 1, begin)
        varied.data.programs = _at_other_rows(self.data.programs, 2, begin)
        return varied

    def permuted(self, rows: Array) -> Program:
        """Return a program whose instruction k is instruction rows[k]. It can also be executed.

        There must be no registers. Each instruction must stay within its program of the grid."""
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
        """Return a flag for each instruction: whether the source line of `place` issued it."""
        there = np.zeros(len(self.lines), np.bool_)
        there[self.lines_at(place)] = True
        is_there: Array = there[self._reading().columns.line]
        return is_there

    def place(self, line: int) -> source.Place:
        return source.place_of(self.lines[line])

    def name_of(self, kind: Area) -> str:
        """Return the name of a tensor. Without a name, return the variable to which the line of its
        allocation assigns, or ""."""
        born = self.place(kind.line).text if kind.line >= 0 else ""
        variable = ASSIGNED.match(born)
        return kind.name or (variable[1] if variable else "")

    # --- saving --------------------------------------------------------------------------------

    def kept(self) -> dict[str, Array]:
        """Return, by name, the columns to save in a file, except the columns of storages."""
        rows, begins = self.raw()
        pairs = {name: _values(getattr(self, f"_{name}")) for name in PAIRS}
        return {"rows": rows, "widths": np.diff(begins), **pairs, **self.windows()._asdict()}

    def restore(
        self, saved: Mapping[str, Array], number: Array, kind: Array, kinds: Sequence[Area]
    ) -> None:
        """Restore the columns of `kept`, with storages of these numbers and kinds. Calls and
        geometries must exist. No instruction can be appended afterwards.

        Raise ValueError if instructions don't fit the Calls, or if a window has no storage."""
        columns = parted(saved["rows"], saved["widths"], self.calls)
        windows = Windows(*(saved[name] for name in Windows._fields))
        storages_used = restored(number, kind, kinds, windows)
        self.count = self.limit = self.room = len(columns.call)
        self._read = Tables(columns, windows, storages_used, self.geometries)
        for name in PAIRS:
            column: array[int] = getattr(self, f"_{name}")
            column.frombytes(saved[name].astype(column.typecode).tobytes())

    def check(self) -> None:
        """Raise ValueError if an instruction refers to a line or window that does not exist, or if
        a window is outside of its tensor."""
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
                raise ValueError("an operand has no elements")
            if len(offsets) and not geometry.has_room(offsets[offsets != ANYWHERE]):
                raise ValueError("an operand is outside its tensor")
        pairs = np.concatenate([_values(self._edges), _values(self._decisions)])
        inside(pairs, len(self) + 1, "instructions")
        if (pairs[::2] <= pairs[1::2]).any():
            raise ValueError("an instruction waits for an instruction that is not before it")


# The names of the columns of numbers in a saved Program.
PAIRS = "edges", "decisions"
COLUMNS = ("rows", "widths", *PAIRS, *Windows._fields)


def _values(column: array[int]) -> Array:
    """Return a copy of a column as a numpy array: a column can't grow while numpy uses its
    memory."""
    return np.array(column, column.typecode)


def _at_other_rows(table: array[int], width: int, begin: Array) -> array[int]:
    """Return `table` with new instruction numbers: instruction i, the first of the `width` numbers
    of an entry, becomes begin[i]."""
    entries = np.array(table, np.int64).reshape(-1, width)
    entries[:, 0] = begin[entries[:, 0]]
    return array("q", entries.reshape(-1).tolist())


@dataclass(frozen=True, eq=False)
class Record:
    """The programs of one launch, one for each core.

    `about`: notes of the caller: text, numbers, lists and dicts
    `setting`: the settings of the launch; without them, programs can only be timed
    `outcome`: the results of the launch"""

    programs: Sequence[Program]
    about: Mapping[str, Any] = field(default_factory=dict)
    setting: Setting | None = None
    outcome: Outcome | None = None

    @property
    def world(self) -> World:
        """The ranks and cores of the programs; one rank if the record has no setting."""
        return World(1, len(self.programs)) if self.setting is None else self.setting.world
