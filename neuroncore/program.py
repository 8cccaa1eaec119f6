"""The record of a run: which instructions were issued, on which bytes, from which lines.

It is kept in columns. A row is a Call's index, a line's index and one access per tile operand;
Calls, lines and accesses are tables of what is distinct.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore import source
from neuroncore.access import extent, is_dense
from neuroncore.enums import MemoryRegion
from neuroncore.instruction import Call
from neuroncore.memory import Image, Storage
from neuroncore.tile import Tile

Array = npt.NDArray[Any]
FLUSH = 1 << 16  # rows kept as tuples before they are packed


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
    the order of its Call's `reads + writes`."""

    call: Array
    line: Array
    start: Array
    operands: Array


class Program:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.lines: list[tuple[CodeType, int]] = []
        self.areas: dict[int, Area] = {}
        self.boxes: list[Box] = []
        self.patterns: dict[int, tuple[int, tuple[int, ...], tuple[int, ...], int]] = {}
        self.rows: list[tuple[int, ...]] = []
        self._packed: list[Array] = []
        self._widths: list[Array] = []
        self._count = 0
        self._box_index: dict[Box, int] = {}
        self._line_index: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return self._count + len(self.rows)

    # --- writing -------------------------------------------------------------------------------

    def append(self, row: tuple[int, ...]) -> None:
        self.rows.append(row)
        if len(self.rows) >= FLUSH:
            self._pack()

    def _pack(self) -> None:
        self._packed.append(np.fromiter(chain.from_iterable(self.rows), np.int32))
        self._widths.append(np.fromiter(map(len, self.rows), np.int64, len(self.rows)))
        self._count += len(self.rows)
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
        """The index of the box of bytes that a tile touches."""
        box = self._box(tile)
        index = self._box_index.get(box) if box.dense else None
        if index is None:
            index = len(self.boxes)
            self.boxes.append(box)
            if box.dense:
                self._box_index[box] = index
            else:
                item = tile.dtype.itemsize
                steps = tuple(s * item for s in tile.strides)
                self.patterns[index] = (tile.offset * item, tile.shape, steps, item)
        tile._access = index
        return index

    def _box(self, tile: Tile) -> Box:
        storage, item = tile.storage, tile.dtype.itemsize
        area = self._area(storage)
        if tile.dynamic:
            rows = storage.partition0, storage.partition0 + storage.partitions
            return Box(area, *rows, storage.byte0, storage.byte0 + storage.row_bytes, True)
        shape, strides = tile.shape, tile.strides
        if not storage.on_chip:
            return self._hbm_box(tile, area)
        low, high = extent(shape[1:], strides[1:])
        start, row = tile.byte, tile.start_partition
        dense = is_dense(shape[1:], strides[1:])
        return Box(
            area, row, row + shape[0], start + low * item, start + (high + 1) * item, dense
        )

    def _hbm_box(self, tile: Tile, area: int) -> Box:
        """HBM is cut into rows as long as the last axis of the tensor there."""
        storage, item = tile.storage, tile.dtype.itemsize
        pitch = storage.shape[-1] * storage.dtype.itemsize
        steps = [s * item for s in tile.strides]
        across = [(n, s) for n, s in zip(tile.shape, steps, strict=True) if s % pitch]
        down = [(n, s // pitch) for n, s in zip(tile.shape, steps, strict=True) if not s % pitch]
        row, column = divmod(tile.offset * item, pitch)
        low, high = extent(*_unzipped(across))
        above, below = extent(*_unzipped(down))
        if column + low >= 0 and column + high + item <= pitch:
            dense = _packed(across, item) and _packed(down, 1)
            rows = row + above, row + below + 1
            return Box(area, *rows, column + low, column + high + item, dense)
        low, high = extent(tile.shape, steps)
        start = tile.offset * item
        return Box(area, (start + low) // pitch, (start + high) // pitch + 1, 0, pitch, False)

    def _area(self, storage: Storage) -> int:
        if storage.image is not None:
            return self._image(storage.image, storage.region)
        if storage.id not in self.areas:
            line = self.line(*storage.born) if storage.born else -1
            name, rows = storage.name, storage.partitions
            self.areas[storage.id] = Area(
                storage.region, name, rows, storage.row_bytes, False, line
            )
        return storage.id

    def _image(self, image: Image, region: MemoryRegion) -> int:
        if image.id not in self.areas:
            self.areas[image.id] = Area(region, region.value, image.rows, image.row_bytes, True, -1)
        return image.id

    # --- reading -------------------------------------------------------------------------------

    def columns(self) -> Columns:
        if self.rows:
            self._pack()
        if not self._packed:
            nothing = np.zeros(0, np.int32)
            return Columns(nothing, nothing, np.zeros(1, np.int64), nothing)
        flat, widths = np.concatenate(self._packed), np.concatenate(self._widths)
        ends = np.cumsum(widths)
        begins = ends - widths
        keep = np.ones(len(flat), np.bool_)
        keep[begins] = keep[begins + 1] = False
        start = np.concatenate([[0], np.cumsum(widths - 2)])
        return Columns(flat[begins], flat[begins + 1], start, flat[keep])

    def place(self, line: int) -> source.Place:
        return source.place(*self.lines[line])


def _unzipped(axes: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [n for n, _ in axes], [s for _, s in axes]


def _packed(axes: list[tuple[int, int]], unit: int) -> bool:
    """Whether the axes, in whatever order, cover one run of units without a gap."""
    step = unit
    for size, stride in sorted(axes, key=lambda axis: abs(axis[1])):
        if size > 1 and abs(stride) != step:
            return False
        step *= size
    return True
