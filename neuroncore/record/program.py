"""The record of a run: which instructions were issued, on which windows, from which lines.

It is kept as numbers, in columns: a row is a Call's index, a line's index, the number of a window
for each tile operand and, of a Call that has any, that of its values; a window is an area, a
geometry and an offset. What readers make of that, such as the boxes of bytes, is made when they
ask. A kernel that touches a new tile with every instruction leaves about 100 bytes for each,
others 20.
"""

from __future__ import annotations

import copy
import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore import source
from neuroncore.clause.instruction import Call
from neuroncore.memory.geometry import Geometry, Layout
from neuroncore.memory.register import Load
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.options import Order as Order
from neuroncore.record.boxes import ANYWHERE, Area, Boxes, Windows, boxes
from neuroncore.record.data import Data, Leaf, is_tile, mapped

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Columns:
    """The rows as arrays: `operands[start[i]:start[i + 1]]` are the boxes of instruction i, in
    the order of its Call's `reads + indices + writes`; `values[i]` are its values, -1 if it has
    none."""

    call: Array
    line: Array
    start: Array
    operands: Array
    values: Array


class Program:
    """A record of at most `limit` instructions, of which further ones are only counted."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = sys.maxsize if limit is None else limit
        self.order: Order = "in-order"
        self.left_out = 0  # instructions after the last one that is recorded
        self.calls: list[Call] = []
        self.lines: list[tuple[CodeType, int] | source.Place] = []
        self.areas: dict[int, int] = {}  # by storage, in the order of their first use: which kind
        self.kinds: list[Area] = []
        self.data = Data()
        self._edges = array("i")  # pairs
        self._decisions = array("i")  # pairs: which instruction is the first to wait, and for which
        self.count = 0  # of rows
        # rows one after the other; the first number of each, which alone is less than 0, is ~ that
        # of its Call
        self._rows = array("i")
        self._windows = array("q")  # threes: an area, the number of a geometry, an offset
        self.geometries: list[Geometry] = []  # of windows, by number
        self._numbers: dict[Geometry, int] = {}  # of geometries
        self._kinds: dict[Area, int] = {}  # tensors of a loop have equal ones
        self._alike: dict[tuple[Layout, str, int, int], int] = {}  # by where it is made
        self._line_index: dict[tuple[int, int], int] = {}
        self._read: tuple[Columns, Boxes] | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def full(self) -> bool:
        """Whether the next instruction is left out."""
        return self.count >= self.limit

    @property
    def issued(self) -> int:
        """All instructions, recorded or not."""
        return self.count + self.left_out

    @property
    def ending(self) -> str:
        """What to say of the first instruction that is left out."""
        return (
            f"the record ends before this instruction, at {self.limit}: estimates and profiles "
            "cover only what came before; Options.record_limit sets where it ends"
        )

    @property
    def coverage(self) -> str:
        """What part of the run is recorded, in words; empty if all of it is."""
        if not self.left_out:
            return ""
        return f"the first {len(self)} of {self.issued} instructions, where the record ends"

    # --- writing -------------------------------------------------------------------------------

    def wait(self, consumer: int, producer: int) -> None:
        """Let one instruction begin only after another; -1, and what is left out, is none."""
        if 0 <= producer < consumer < len(self):
            self._edges.extend((consumer, producer))

    def decide(self, load: Load, value: int) -> None:
        """Note that the kernel goes on by what a register holds, and let whatever follows wait for
        the instruction that has loaded it."""
        if load.row < len(self):
            self._decisions.extend((len(self), load.row))
            frame = source.user_frame()
            line = self.line(frame.f_code, source.instruction_of(frame)) if frame else -1
            self.data.branches.extend((len(self), load.number, value, line))

    def derive(self, operation: str, left: int, right: int) -> int:
        """The number of a register, by how it is made (`Data.registers`)."""
        return self.data.derive(operation, left, right)

    def append(self, row: list[int]) -> int:
        """A row of ~ the index of a Call, the index of a line, of the windows of its tiles, and of
        its values if it has any; its number."""
        self._rows.fromlist(row)  # the quickest by far
        number = self.count
        self.count = number + 1
        return number

    def line(self, code: CodeType, instruction: int) -> int:
        """The index of a place in the user's code."""
        key = (id(code), instruction)
        index = self._line_index.get(key)
        if index is None:
            index = self._line_index[key] = len(self.lines)
            self.lines.append((code, instruction))  # keeps the code, and so its id, alive
        return index

    def access(self, tile: Tile) -> int:
        """The number of the window that a tile is; what is picked may be anywhere."""
        if tile._access >= 0:
            return tile._access
        if tile.dynamic or tile.storage.image is not None:
            return self._access_elsewhere(tile)
        storage = tile.storage
        if storage.id not in self.areas:
            self.areas[storage.id] = self._born(storage)
        number = self._numbers.get(tile.geometry)
        if number is None:
            number = self.geometry(tile.geometry)
        windows = self._windows
        tile._access = window = len(windows) // 3
        windows.fromlist([storage.id, number, tile.offset])
        return window

    def _access_elsewhere(self, tile: Tile) -> int:
        """The same of a tile whose place no offset tells."""
        number = self.geometry(tile.geometry)
        if tile.picks is not None:
            tile._access = self.access(tile.picked_from)
        else:
            storage, image = tile.storage, tile.storage.image
            area = storage.id if image is None else image.id
            if area not in self.areas:
                self.areas[area] = self._born(storage)
            tile._access = len(self._windows) // 3
            offset = ANYWHERE if tile.dynamic else tile.offset
            self._windows.fromlist([area, number, offset])
        self.data.lies(tile._access, tile, number)
        return tile._access

    def stands_for(self, copied: Storage, tile: Tile) -> None:
        """Note that the host has copied a tile."""
        self.data.copies[copied.id] = self._leaf(tile)

    def returns(self, result: Any) -> None:
        """Note what the kernel returned, in which tensors are tiles."""
        self.data.results = mapped(result, self._leaf, is_tile)

    def _leaf(self, tile: Tile) -> Leaf:
        if tile.storage.id in self.data.copies:
            return self.data.copies[tile.storage.id]
        if tile.dynamic:
            self.data.skipped += 1
            tile = tile.resolved("the result")
        return Leaf(tile.storage.id, self.geometry(tile.geometry), tile.offset)

    def geometry(self, lies: Geometry) -> int:
        """The number of a geometry."""
        number = self._numbers.get(lies)
        if number is None:
            number = self._numbers[lies] = len(self.geometries)
            self.geometries.append(lies)
        return number

    def _born(self, storage: Storage) -> int:
        """The number of the kind of area that a storage is, or the memory that it is placed in."""
        if storage.image is not None:
            return self._kind(storage)
        code, instruction = storage.born or (None, -1)
        key = storage.layout, storage.name, id(code), instruction
        number = self._alike.get(key)
        if number is None:
            number = self._alike[key] = self._kind(storage)
        return number

    def _kind(self, storage: Storage) -> int:
        region, image = storage.region, storage.image
        if image is not None:
            kind = Area(region, region.value, image.rows, image.row_bytes, True, -1)
        else:
            line = self.line(*storage.born) if storage.born else -1  # keeps the code's id
            name, rows, row_bytes = storage.name, storage.partitions, storage.row_bytes
            kind = Area(region, name, rows, row_bytes, False, line)
        number = self._kinds.get(kind)
        if number is None:
            number = self._kinds[kind] = len(self.kinds)
            self.kinds.append(kind)
        return number

    # --- reading -------------------------------------------------------------------------------

    def edges(self) -> Array:
        """(edges, 2): consumers and their producers, by depends_on and loaded registers."""
        return _values(self._edges).reshape(-1, 2)

    def decided(self) -> Array:
        """What the sequencer has to have done before each instruction may begin; -1 for nothing."""
        last = np.full(len(self), -1, np.int32)
        first, producer = _values(self._decisions).reshape(-1, 2).T
        inside = first < len(self)
        np.maximum.at(last, first[inside], producer[inside])
        return np.maximum.accumulate(last)

    def columns(self) -> Columns:
        return self._reading()[0]

    def box_table(self) -> Array:
        """A row of integers for each Box, with its fields in their order."""
        return self.boxes().table

    def boxes(self) -> Boxes:
        return self._reading()[1]

    def box(self, window: int) -> int:
        """The number of the box that a window is in."""
        return int(self.boxes().of_window[window])

    def raw(self) -> tuple[Array, Array]:
        """The rows one after the other, each with the index of its Call first, and where each
        begins and the last one ends."""
        rows = _values(self._rows)
        begins = np.append(np.flatnonzero(rows < 0), len(rows))
        rows[begins[:-1]] ^= -1
        return rows, begins

    def windows(self) -> Windows:
        return Windows(*_values(self._windows).reshape(-1, 3).T)

    def _reading(self) -> tuple[Columns, Boxes]:
        """What readers make of the rows there are, once."""
        read, size = self._read, (len(self), len(self._windows) // 3)
        if read is None or (len(read[0].call), len(read[1].of_window)) != size:
            found = boxes(self.windows(), self.geometries, self.areas, self.kinds)
            read = _columns(*self.raw(), self._valued(), found.of_window), found
            self._read = read
        return read

    def _valued(self) -> Array:
        """Of each Call whether its rows end with the number of its values."""
        return np.array([call.has_values for call in self.calls], np.bool_)

    def area(self, storage: int) -> Area:
        return self.kinds[self.areas[storage]]

    def with_calls(self, instead: Mapping[tuple[int, int], Call]) -> Program:
        """The same instructions, to be scheduled, of which those of line k and call c make the Call
        at (k, c): it works on the same bytes as before, whatever it takes them for."""
        columns, found = self._reading()
        call = columns.call.copy()
        for number, (line, old) in enumerate(instead, len(self.calls)):
            call[(columns.line == line) & (columns.call == old)] = number
        varied = copy.copy(self)
        varied.calls = [*self.calls, *instead.values()]
        varied._read = replace(columns, call=call), found
        return varied

    def place(self, line: int) -> source.Place:
        site = self.lines[line]
        return site if isinstance(site, source.Place) else source.place(*site)

    # --- saving --------------------------------------------------------------------------------

    def kept(self) -> dict[str, Array]:
        """Its columns of numbers, by name; those of windows are apart."""
        rows, begins = self.raw()
        pairs = {name: _values(getattr(self, f"_{name}")) for name in PAIRS}
        return {"rows": rows, "widths": np.diff(begins), **pairs, **self.windows()._asdict()}

    @classmethod
    def restored(cls, geometries: Iterable[Geometry], kept: Mapping[str, Array]) -> Program:
        """A program to be read: nothing can be appended to it. Its tables are the caller's to
        fill, and then to be held to its columns by `check`. Raises ValueError for rows of other
        lengths than `widths`."""
        rows, widths = kept["rows"].copy(), kept["widths"]
        if (rows < 0).any() or (widths < 2).any() or widths.sum() != len(rows):
            raise ValueError("rows and their widths differ")
        made = cls(limit=len(widths))
        rows[np.cumsum(widths) - widths] ^= -1
        made.count = len(widths)
        made.geometries = list(geometries)  # some may be alike (memory/geometry.py)
        threes = np.column_stack([kept[name] for name in Windows._fields])
        for name, numbers in {
            "rows": rows,
            "windows": threes,
            **{n: kept[n] for n in PAIRS},
        }.items():
            column: array[int] = getattr(made, f"_{name}")
            column.frombytes(numbers.astype(column.typecode).tobytes())
        return made

    def check(self) -> None:
        """Raises ValueError unless rows and windows fit the tables: every row has a Call, a line
        and as many windows as its Call has tiles, and every window is inside its tensor."""
        windows = self.windows()
        columns = _columns(*self.raw(), self._valued(), np.arange(len(windows.area)))
        inside(columns.call, len(self.calls), "calls")
        inside(columns.line, len(self.lines), "lines")
        inside(windows.geometry, len(self.geometries), "geometries")
        tiles = [len(call.reads + call.indices + call.writes) for call in self.calls]
        if (np.array(tiles, np.int64)[columns.call] != np.diff(columns.start)).any():
            raise ValueError("a row has not the windows of its call")
        if not np.isin(windows.area, np.fromiter(self.areas, np.int64, len(self.areas))).all():
            raise ValueError("a window has no area")
        inside(
            np.fromiter(self.areas.values(), np.int64, len(self.areas)), len(self.kinds), "kinds"
        )
        born = np.array([kind.line for kind in self.kinds], np.int64)
        inside(born + 1, len(self.lines) + 1, "lines")  # -1 is unknown
        for number, lies in enumerate(self.geometries):
            offsets = windows.offset[windows.geometry == number]
            if len(offsets) and 0 in lies.shape:  # only a result may be empty
                raise ValueError("a window of no elements")
            if len(offsets) and not lies.has_room(offsets[offsets != ANYWHERE]):
                raise ValueError("a window is outside its tensor")
        pairs = np.concatenate([_values(self._edges), _values(self._decisions)])
        inside(pairs, len(self) + 1, "instructions")
        if (pairs[::2] <= pairs[1::2]).any():
            raise ValueError("an instruction waits for one that is not before it")


# What of a Program is columns of numbers.
PAIRS = "edges", "decisions"
COLUMNS = ("rows", "widths", *PAIRS, *Windows._fields)


def inside(numbers: Any, count: int, what: str) -> None:
    """Raises ValueError for a number that is not one of `count` things, counted from 0."""
    found = np.asarray(numbers)
    if found.size and not (found.min() >= 0 and found.max() < count):
        raise ValueError(f"there are {count} {what}")


def _columns(rows: Array, bounds: Array, has_values: Array, box: Array) -> Columns:
    """The rows apart, with the box of each window in its place; `has_values` is of Calls."""
    begins, ends = bounds[:-1], bounds[1:]
    call = rows[begins]
    valued = has_values[call]
    start = np.zeros(len(ends) + 1, np.int64)
    np.cumsum(ends - begins - 2 - valued, out=start[1:])
    is_operand = np.ones(len(rows), np.bool_)
    is_operand[begins] = is_operand[begins + 1] = is_operand[ends[valued] - 1] = False
    values = np.full(len(call), -1, np.int64)
    values[valued] = rows[ends[valued] - 1]
    return Columns(call, rows[begins + 1], start, box[rows[is_operand]], values)


def _values(column: array[int]) -> Array:
    """A copy: what numpy looks at can't grow."""
    return np.array(column, column.typecode)
