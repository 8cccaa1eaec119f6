"""The record of a run: which instructions were issued, on which bytes, from which lines.

It is kept in columns. A row is a Call's index, a line's index and one access per tile operand;
Calls, lines and accesses are tables of what is distinct. A kernel that touches a new tile with
every instruction leaves about 200 bytes for each, others 30.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore import access, source
from neuroncore.enums import MemoryRegion
from neuroncore.instruction import Call
from neuroncore.memory import Image, Storage
from neuroncore.options import Order as Order
from neuroncore.tile import Tile

Array = npt.NDArray[Any]
Extent = tuple[int, int, int, int, bool]  # a Box without its area
Pattern = tuple[int, tuple[int, ...], tuple[int, ...], int]  # offset, shape, strides, element size
FLUSH = 1 << 16  # rows kept as lists before they are packed


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

    `dense` says that all bytes in it belong to the access; otherwise its exact pattern is in
    `Program.patterns`.
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
        self.boxes: list[Box] = []
        self.patterns: dict[int, Pattern] = {}
        self.edges: list[tuple[int, int]] = []  # (consumer, producer), as the kernel asked for
        self.rows: list[list[int]] = []
        self._packed: list[Array] = []
        self._widths: list[Array] = []
        self._whole: Columns | None = None  # of a program that was saved
        self.packed = 0  # rows that are in arrays already
        self._room = min(FLUSH, self.limit)  # rows until they are packed
        self._box_index: dict[Box | tuple[Box, Pattern], int] = {}
        self._area_rows: dict[Area, Area] = {}  # tensors of a loop have equal ones
        self._extents: dict[tuple[Any, ...], Extent] = {}
        self._line_index: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return self.packed + len(self.rows)

    @property
    def issued(self) -> int:
        """All instructions, recorded or not."""
        return len(self) + self.left_out

    @property
    def full(self) -> bool:
        """Whether the next instruction is left out."""
        return self.packed >= self.limit

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

    def append(self, row: list[int]) -> None:
        self.rows.append(row)
        if len(self.rows) >= self._room:
            self._pack()

    def _pack(self) -> None:
        self._packed.append(np.fromiter(chain.from_iterable(self.rows), np.int32))
        self._widths.append(np.fromiter(map(len, self.rows), np.uint16, len(self.rows)))
        self.packed += len(self.rows)
        self._room = min(FLUSH, self.limit - self.packed)
        self.rows.clear()

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
        storage, item = tile.storage, tile.dtype.itemsize
        area = self._area(storage)
        # the same geometry comes back with every new tile of a loop
        shape = (tile.offset, tile.shape, tile.strides, item, bool(tile.dynamic))
        place = (
            *(storage.on_chip, storage.partition0, storage.partitions),
            *(storage.byte0, storage.row_bytes, storage.shape[-1] * storage.dtype.itemsize),
        )
        extent = self._extents.get((shape, place))
        if extent is None:
            extent = self._extents[shape, place] = _extent(tile)
        box = Box(area, *extent)
        pattern = None if box.dense else _pattern(tile)
        key = box if pattern is None else (box, pattern)
        index = self._box_index.get(key)
        if index is None:
            index = self._box_index[key] = len(self.boxes)
            self.boxes.append(box)
            if pattern is not None:
                self.patterns[index] = pattern
        tile._access = index
        return index

    def _area(self, storage: Storage) -> int:
        if storage.image is not None:
            return self._image(storage.image, storage.region)
        if storage.id not in self.areas:
            line = self.line(*storage.born) if storage.born else -1
            name, rows = storage.name, storage.partitions
            row = Area(storage.region, name, rows, storage.row_bytes, False, line)
            self.areas[storage.id] = self._area_rows.setdefault(row, row)
        return storage.id

    def _image(self, image: Image, region: MemoryRegion) -> int:
        if image.id not in self.areas:
            self.areas[image.id] = Area(region, region.value, image.rows, image.row_bytes, True, -1)
        return image.id

    # --- reading -------------------------------------------------------------------------------

    def columns(self) -> Columns:
        if self._whole is not None:
            return self._whole
        if self.rows:
            self._pack()
        if not self._packed:
            nothing = np.zeros(0, np.int32)
            return Columns(nothing, nothing, np.zeros(1, np.int64), nothing)
        flat, widths = np.concatenate(self._packed), np.concatenate(self._widths).astype(np.int64)
        ends = np.cumsum(widths)
        begins = ends - widths
        keep = np.ones(len(flat), np.bool_)
        keep[begins] = keep[begins + 1] = False
        start = np.concatenate([[0], np.cumsum(widths - 2)])
        return Columns(flat[begins], flat[begins + 1], start, flat[keep])

    def box_table(self) -> Array:
        """A row of integers for each box, with its fields in their order."""
        return _table(self.boxes, len(Box._fields))

    def place(self, line: int) -> source.Place:
        site = self.lines[line]
        return site if isinstance(site, source.Place) else source.place(*site)

    # --- saving --------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What a reader needs, in arrays where there is much of it; places in the source stand in
        for code objects."""
        columns = self.columns()
        kinds = {area: index for index, area in enumerate(dict.fromkeys(self.areas.values()))}
        return {
            "order": self.order,
            "left_out": self.left_out,
            "calls": self.calls,
            "lines": [self.place(line) for line in range(len(self.lines))],
            "area_kinds": list(kinds),
            "areas": _table([(area, kinds[info]) for area, info in self.areas.items()], 2),
            "boxes": self.box_table(),
            "patterns": self.patterns,
            "edges": self.edges,
            "columns": columns,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A program to be read: nothing can be appended to it."""
        columns: Columns = state["columns"]
        Program.__init__(self, limit=len(columns.call))
        self.order = state.get("order", "in-order")
        for name in ("left_out", "calls", "lines", "patterns", "edges"):
            setattr(self, name, state[name])
        kinds = state["area_kinds"]
        self.areas = {i: kinds[kind] for i, kind in state["areas"].tolist()}
        *places, dense = state["boxes"].T.tolist()
        self.boxes = list(map(Box, *places, map(bool, dense)))
        self._whole, self.packed = columns, len(columns.call)


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
        ends = (start + least * item) // pitch, (start + greatest * item) // pitch + 1
        return *ends, 0, pitch, False
    dense = (last + 1 - first) * (high - low) == tile.size * item and 0 not in tile.strides
    first, last = first + storage.partition0, last + storage.partition0
    return first, last + 1, low + storage.byte0, high + storage.byte0, dense
