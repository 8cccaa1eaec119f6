"""The record of a run: which instructions were issued, on which bytes, from which lines.

It is kept in columns. A row is a Call's index, a line's index and one box per tile operand; Calls,
lines, boxes and their geometries are tables of what is distinct. A kernel that touches a new tile
with every instruction leaves about 200 bytes for each, others 20.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore import source
from neuroncore.clause.instruction import Call
from neuroncore.enums import MemoryRegion
from neuroncore.memory import access
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.options import Order as Order

Array = npt.NDArray[Any]
Extent = tuple[int, int, int, int, bool]  # a Box without its area
Pattern = tuple[int, tuple[int, ...], tuple[int, ...], int]  # offset, shape, strides, element size
Patterns = list[Pattern | None]
Geometry = tuple[Extent, Pattern | None]  # the pattern of what isn't dense
AREA_BITS = 48  # of a key that a geometry shares with an area
FLUSH = 1 << 16  # rows kept in lists, which grow faster than arrays, before they are packed


class Area(NamedTuple):
    """What the record keeps of a storage, or of a whole memory that tensors were placed in."""

    region: MemoryRegion
    name: str
    partitions: int
    row_bytes: int
    placed: bool
    line: int  # of its birth; -1 unknown


class Box(NamedTuple):
    """The bytes of an access: partitions or rows, times bytes within each, half open.

    `dense` says that all bytes in it belong to the access; otherwise `Program.patterns` has
    its exact one.
    """

    area: int
    row: int
    row_end: int
    byte: int
    byte_end: int
    dense: bool


@dataclass(frozen=True)
class Columns:
    """The rows as arrays: `operands[start[i]:start[i + 1]]` are the boxes of instruction i, in
    the order of its Call's `reads + indices + writes`."""

    call: Array
    line: Array
    start: Array
    operands: Array


class Program:
    """A record of at most `limit` instructions, of which further ones are only counted."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = sys.maxsize if limit is None else limit
        self.order: Order = "in-order"
        self.left_out = 0  # instructions after the last one that is recorded
        self.calls: list[Call] = []
        self.lines: list[tuple[CodeType, int] | source.Place] = []
        self.areas: dict[int, Area] = {}
        self._edges = array("i")  # pairs
        self._decisions = array("i")  # pairs: which instruction is the first to wait, and for which
        self.full = self.limit == 0  # whether the next instruction is left out
        self._rows: list[int] = []  # one after the other
        self._widths: list[int] = []  # and how long each is
        self._packed: list[tuple[Array, Array]] = []  # the same, of those before
        self._room = min(FLUSH, self.limit)  # rows until they are packed
        self._count = 0  # of those that are
        self._whole: Columns | None = None  # of a program that was saved
        self._box_area, self._box_geometry = array("q"), array("i")
        self._geometries: list[Geometry] = []
        self._box_index: dict[int, int] = {}
        self._geometry_index: dict[Geometry, int] = {}
        self._seen: dict[tuple[Any, ...], int] = {}  # tiles alike -> their geometry
        self._kinds: dict[tuple[Any, ...], Area] = {}  # tensors of a loop have equal ones
        self._line_index: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return self._count + len(self._widths)

    @property
    def issued(self) -> int:
        """All instructions, recorded or not."""
        return self._count + len(self._widths) + self.left_out

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

    def decide(self, producer: int) -> None:
        """Let whatever follows wait for an instruction of the sequencer."""
        if producer < len(self):
            self._decisions.extend((len(self), producer))

    def append(self, row: list[int]) -> int:
        """A row of the indices of a Call, a line and boxes; its number."""
        self._rows += row
        self._widths.append(len(row))
        number = self._count + len(self._widths) - 1
        if len(self._widths) >= self._room:
            self._pack()
        return number

    def _pack(self) -> None:
        count = len(self._widths)
        rows, widths = np.array(self._rows, np.int32), np.array(self._widths, np.uint16)
        self._packed.append((rows, widths))
        self._rows, self._widths, self._count = [], [], self._count + count
        self._room = min(FLUSH, self.limit - self._count)
        self.full = self._room == 0

    def line(self, code: CodeType, instruction: int) -> int:
        """The index of a place in the user's code."""
        key = (id(code), instruction)
        index = self._line_index.get(key)
        if index is None:
            index = self._line_index[key] = len(self.lines)
            self.lines.append((code, instruction))  # keeps the code, and so its id, alive
        return index

    def access(self, tile: Tile) -> int:
        """The index of the box of bytes that a tile touches; what is picked may be anywhere."""
        if tile.picks is not None:
            tile._access = self.access(tile.picked_from)
            return tile._access
        storage, image = tile.storage, tile.storage.image
        area = storage.id if image is None else image.id
        if area not in self.areas:
            self.areas[area] = self._area(storage)
        # the same geometry comes back with every new tile of a loop
        alike = (
            tile.offset, tile.shape, tile.strides, tile.dtype, bool(tile.dynamic), storage.shape,
            storage.dtype, storage.region, storage.partition0, storage.byte0, image is None,
        )  # fmt: skip
        geometry = self._seen.get(alike)
        if geometry is None:
            geometry = self._seen[alike] = self._geometry(tile)
        key = geometry << AREA_BITS | area
        index = self._box_index.get(key)
        if index is None:
            index = self._box_index[key] = len(self._box_area)
            self._box_area.append(area)
            self._box_geometry.append(geometry)
        tile._access = index
        return index

    def _geometry(self, tile: Tile) -> int:
        extent = _extent(tile)
        *_, dense = extent
        return self._geometry_number((extent, None if dense else _pattern(tile)))

    def _geometry_number(self, geometry: Geometry) -> int:
        number = self._geometry_index.setdefault(geometry, len(self._geometries))
        if number == len(self._geometries):
            self._geometries.append(geometry)
        return number

    def _area(self, storage: Storage) -> Area:
        region, image = storage.region, storage.image
        if image is not None:
            return Area(region, region.value, image.rows, image.row_bytes, True, -1)
        line = self.line(*storage.born) if storage.born else -1
        kind = region, storage.name, storage.partitions, storage.row_bytes, False, line
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = Area(*kind)
        return found

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
        if self._whole is not None:
            return self._whole
        if self._widths:
            self._pack()
        if not self._packed:
            nothing = np.zeros(0, np.int32)
            return Columns(nothing, nothing, np.zeros(1, np.int64), nothing)
        rows, widths = map(np.concatenate, zip(*self._packed, strict=True))
        begins = np.zeros(len(widths) + 1, np.int64)
        np.cumsum(widths, out=begins[1:])
        start, begins = begins - 2 * np.arange(len(begins)), begins[:-1]
        is_operand = np.ones(len(rows), np.bool_)
        is_operand[begins] = is_operand[begins + 1] = False
        return Columns(rows[begins], rows[begins + 1], start, rows[is_operand])

    def box_table(self) -> Array:
        """A row of integers for each Box, with its fields in their order."""
        extents = np.array([extent for extent, _ in self._geometries], np.int64).reshape(-1, 5)
        area, geometry = _values(self._box_area), _values(self._box_geometry)
        return np.column_stack([area, extents[geometry]])

    def area_kinds(self) -> tuple[Array, list[Area], Array]:
        """The areas by number, their kinds, and which kind each is of. Those alike share one
        object."""
        count, areas = len(self.areas), list(self.areas.values())
        same = np.fromiter(map(id, areas), np.int64, count)
        _, first, kind = np.unique(same, return_index=True, return_inverse=True)
        return np.fromiter(self.areas, np.int64, count), [areas[i] for i in first], kind

    def patterns(self) -> tuple[Array, Patterns]:
        """The number of each box's pattern, -1 of what is dense, and the patterns by number."""
        patterns = [pattern for _, pattern in self._geometries]
        strided = np.array([pattern is not None for pattern in patterns], np.bool_)
        geometry = _values(self._box_geometry)
        return np.where(strided[geometry], geometry, np.int64(-1)), patterns

    def place(self, line: int) -> source.Place:
        site = self.lines[line]
        return site if isinstance(site, source.Place) else source.place(*site)

    # --- saving --------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What a reader needs, in arrays where there is much of it; places in the source stand in
        for code objects."""
        columns, (which, patterns) = self.columns(), self.patterns()
        kinds = {area: index for index, area in enumerate(dict.fromkeys(self.areas.values()))}
        return {
            "order": self.order,
            "left_out": self.left_out,
            "calls": self.calls,
            "lines": [self.place(line) for line in range(len(self.lines))],
            "area_kinds": list(kinds),
            "areas": _table([(area, kinds[info]) for area, info in self.areas.items()], 2),
            "boxes": self.box_table(),
            "patterns": {int(box): patterns[which[box]] for box in np.flatnonzero(which >= 0)},
            "edges": self.edges(),
            "decisions": _values(self._decisions),
            "columns": columns,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A program to be read: nothing can be appended to it."""
        columns: Columns = state["columns"]
        Program.__init__(self, limit=len(columns.call))
        self.order = state.get("order", "in-order")
        for name in ("left_out", "calls", "lines"):
            setattr(self, name, state[name])
        self._edges.frombytes(np.asarray(state["edges"], np.intc).tobytes())
        self._decisions.frombytes(np.asarray(state.get("decisions", []), np.intc).tobytes())
        kinds = state["area_kinds"]
        self.areas = {i: kinds[kind] for i, kind in state["areas"].tolist()}
        table, patterns = state["boxes"], state["patterns"]
        self._box_area.frombytes(table[:, 0].tobytes())
        for box, (*extent, dense) in enumerate(table[:, 1:].tolist()):
            geometry = (*extent, dense > 0), patterns.get(box)
            self._box_geometry.append(self._geometry_number(geometry))
        self._whole, self._count, self.full = columns, len(columns.call), True


def _values(column: array[int]) -> Array:
    """A copy: what numpy looks at can't grow."""
    return np.array(column, column.typecode)


def _table(rows: Sequence[Sequence[int]], width: int) -> Array:
    flat = np.fromiter(chain.from_iterable(rows), np.int64, width * len(rows))
    return flat.reshape(-1, width)


def _pattern(tile: Tile) -> Pattern:
    """The elements of a tile, in bytes of its area."""
    storage, item = tile.storage, tile.dtype.itemsize
    start, steps = tile.offset * item, [s * item for s in tile.strides]
    if storage.image is not None:  # of which the storage is a window with shorter rows
        row, byte = divmod(start, storage.row_bytes)
        pitch = storage.image.row_bytes
        start = (storage.partition0 + row) * pitch + storage.byte0 + byte
        steps[0] = steps[0] // storage.row_bytes * pitch
    return start, tile.shape, tuple(steps), item


def _extent(tile: Tile) -> Extent:
    """Rows, bytes within each, and whether the tile fills that box."""
    storage, item = tile.storage, tile.dtype.itemsize
    if tile.dynamic:
        rows = storage.partition0, storage.partition0 + storage.partitions
        return *rows, storage.byte0, storage.byte0 + storage.row_bytes, True
    # HBM is cut into rows as long as the last axis of the tensor there
    pitch = storage.row_bytes if storage.on_chip else storage.shape[-1] * storage.dtype.itemsize
    row, column = divmod(tile.offset * item, pitch)
    first, last, low, high = row, row, column, column + item
    for size, stride in zip(tile.shape, tile.strides, strict=True):
        rows_apart, bytes_apart = divmod(stride * item, pitch)
        if bytes_apart == 0:
            reach = (size - 1) * rows_apart
            first, last = first + min(reach, 0), last + max(reach, 0)
        else:
            reach = (size - 1) * stride * item
            low, high = low + min(reach, 0), high + max(reach, 0)
    if low < 0 or high > pitch:  # runs on over the ends of rows
        least, greatest = access.extent(tile.shape, tile.strides)
        start = tile.offset * item
        begin, end = start + least * item, start + (greatest + 1) * item
        return begin // pitch, -(-end // pitch), 0, pitch, False
    again = any(n > 1 and not stride for n, stride in zip(tile.shape, tile.strides, strict=True))
    dense = (last + 1 - first) * (high - low) == tile.size * item and not again
    first, last = first + storage.partition0, last + storage.partition0
    return first, last + 1, low + storage.byte0, high + storage.byte0, dense
