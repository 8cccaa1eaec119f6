"""The layout of tiles in their storage, and the properties of tiles that calls depend on.

Equal layouts are the same object, so data about a layout is found by identity. Nearly every new
tile has a known layout. A table that grows too long is cleared. Then two equal objects may exist,
and data about them is computed twice."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import ON_CHIP, MemoryRegion
from neuroncore.base.units import dimensions
from neuroncore.memory import access
from neuroncore.memory.access import Dims, Footprint, Gaps, footprint
from neuroncore.numerics.formats import Format

MOST = 1 << 12  # entries of a table


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class View:
    """The properties of a tile, without contents, that decide about the legality and cost of an
    instruction. The function `view` returns the same object for equal Views."""

    shape: Dims
    strides: Dims
    dtype: Format
    region: MemoryRegion
    partition: int
    byte: int  # the first byte within its partition, in PSUM; otherwise 0
    # the kind of run-time offset: 0 none, 1 scalar, 2 vector, 3 an index that chooses elements
    dynamic: int
    stepped: bool = False  # leaves out partitions
    # the number of partitions of its storage if the system places the storage; 0 if the kernel
    # chose the address
    home: int = 0
    picked_by: View | None = None  # the index that chooses its elements, or None
    indices: int = 0  # the number of tiles from which its run-time offsets are read

    @property
    def partitions(self) -> int:
        return self.shape[0]

    @property
    def free_size(self) -> int:
        return prod(self.shape[1:])

    @property
    def distinct_free_size(self) -> int:
        """The number of elements per partition; an axis with stride 0 counts as one."""
        return prod(n for n, s in zip(self.shape[1:], self.strides[1:], strict=True) if s)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def on_chip(self) -> bool:
        return self.region in ON_CHIP

    @property
    def is_contiguous(self) -> bool:
        """True if the elements are contiguous. On the chip only the free axes count, because
        partitions are separate memories."""
        if self.on_chip:
            return access.is_dense(self.shape[1:], self.strides[1:])
        return access.is_dense(self.shape, self.strides)

    def __str__(self) -> str:
        shape = dimensions(self.shape)
        return f"{shape} {self.dtype} in {self.region.value}"


# an entry lives as long as a Call or a geometry uses the View
_views: WeakValueDictionary[tuple[Any, ...], View] = WeakValueDictionary()


def view(*arguments: Any) -> View:
    """Return the View with these fields, in their order."""
    known = _views.get(arguments)
    return _views.setdefault(arguments, View(*arguments)) if known is None else known


def make_room(table: dict[Any, Any]) -> None:
    """Clear a table if it is full."""
    if len(table) >= MOST:
        table.clear()


class Layout:
    """The layout of a storage.

    `partitions`, `row_bytes`: on the chip, the number and the bytes of its rows; in HBM it is one
        row
    `partition0`, `byte0`: the partition of the first row, and the first byte of each row there
    `spread`, `pitch`: in the emulator's memory, elements are `spread` times as far apart as on the
        chip, and rows `pitch` bytes"""

    __slots__ = (
        *("region", "shape", "dtype", "spread", "pitch", "partition0", "byte0", "placed"),
        *("on_chip", "partitions", "row_bytes", "nbytes", "in_rows", "geometries", "whole"),
        "untouched",
    )

    def __init__(
        self,
        region: MemoryRegion,
        shape: Dims,
        dtype: Format,
        spread: int,
        pitch: int,
        place: tuple[int, int],
        placed: bool,
    ) -> None:
        self.region, self.shape, self.dtype = region, shape, dtype
        self.spread, self.pitch, self.placed = spread, pitch, placed
        self.partition0, self.byte0 = place
        self.on_chip = region in ON_CHIP
        self.partitions = shape[0] if self.on_chip else 1
        self.row_bytes = prod(shape[1:] if self.on_chip else shape) * dtype.itemsize
        self.nbytes = self.partitions * self.row_bytes
        self.in_rows = pitch != self.row_bytes * spread  # whether there are gaps between rows
        # the Gaps of all storages that were never written
        self.untouched = Gaps(self.nbytes, shared=True)
        self.geometries: dict[tuple[Dims, Dims, Format], Geometry] = {}
        # the geometry of a tile that is the whole storage
        self.whole = self.geometry(self.shape, access.dense(self.shape), self.dtype)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments from which `layout` made this layout."""
        place = self.partition0, self.byte0
        return self.region, self.shape, self.dtype, self.spread, self.pitch, place, self.placed

    def geometry(self, shape: Dims, strides: Dims, dtype: Format) -> Geometry:
        """Return the geometry of tiles with this shape, these strides and this format."""
        key = shape, strides, dtype
        known = self.geometries.get(key)
        if known is None:
            make_room(self.geometries)
            known = self.geometries.setdefault(key, Geometry(self, *key))
        return known


_layouts: dict[tuple[Any, ...], Layout] = {}


def layout(*arguments: Any) -> Layout:
    """Return the Layout with these arguments, in their order."""
    known = _layouts.get(arguments)
    if known is None:
        make_room(_layouts)
        known = _layouts.setdefault(arguments, Layout(*arguments))
    return known


def unplaced(
    region: MemoryRegion,
    shape: Dims,
    dtype: Format,
    held: Format,
    place: tuple[int, int] = (0, 0),
) -> Layout:
    """Return the layout of a storage without an address of the kernel.

    `held`: the format in memory, whose width is a multiple of the width of `dtype`
    `place`: (first partition, first byte in each partition)"""
    spread = held.itemsize // dtype.itemsize
    row = prod(shape[1:] if region in ON_CHIP else shape)
    return layout(region, shape, dtype, spread, row * dtype.itemsize * spread, place, False)


class Geometry:
    """The form of a window on a storage: everything but the position of the first element.

    `shape`, `strides`: in elements of the format
    `bytes_apart`, `steps`: the strides in bytes, on the chip and in the emulator's memory"""

    __slots__ = (
        *("layout", "shape", "strides", "dtype", "bytes_apart", "steps", "fills", "stepped"),
        *("is_empty", "element", "apart", "views", "parts", "footprint"),
    )

    def __init__(self, layout: Layout, shape: Dims, strides: Dims, dtype: Format) -> None:
        item = dtype.itemsize
        self.layout, self.dtype = layout, dtype
        self.shape, self.strides = tuple(map(int, shape)), tuple(map(int, strides))
        self.bytes_apart = tuple(s * item for s in self.strides)
        steps = [s * layout.spread for s in self.bytes_apart]
        if layout.in_rows and steps:
            steps[0] = self.bytes_apart[0] // layout.row_bytes * layout.pitch
        self.steps = tuple(steps)
        once = access.is_dense(shape, strides) or 0 not in strides
        # whether it covers the whole storage
        self.fills = once and prod(shape) * item == layout.nbytes
        several = layout.on_chip and shape[:1] > (1,)
        self.stepped = several and self.bytes_apart[0] != layout.row_bytes
        self.is_empty = 0 in self.shape
        # bytes between adjacent elements in the emulator's memory; 0 if there are gaps between rows
        self.element = 0 if layout.in_rows else item * layout.spread
        self.apart = _alike(layout, item)
        self.views: dict[int, View] = {}
        # geometries of parts, by the properties that their indices share
        self.parts: dict[Any, Geometry] = {}
        # the bytes on the chip that it covers
        self.footprint: Footprint = footprint(self.shape, self.bytes_apart, item)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The tuple (arguments of the layout, shape, strides, format), which can make this geometry
        again."""
        return self.layout.arguments, self.shape, self.strides, self.dtype

    def note_part(self, alike: Any, part: Geometry) -> None:
        """Cache the geometry of a part of a tile. The key `alike` describes the indices that select
        it."""
        make_room(self.parts)
        self.parts[alike] = part

    def has_room(self, offsets: npt.NDArray[np.int64]) -> bool:
        """Return whether windows of this form at all these offsets (in elements) are inside the
        storage."""
        low, high = access.extent(self.shape, self.strides)
        room = self.layout.nbytes // self.dtype.itemsize
        return not len(offsets) or bool(offsets.min() + low >= 0 and offsets.max() + high < room)

    def start(self, offset: int) -> int:
        """Return the position in bytes, in the emulator's memory, of the element at `offset`."""
        layout = self.layout
        if not layout.in_rows:
            return offset * self.element
        row, column = divmod(offset * self.dtype.itemsize, layout.row_bytes)
        return row * layout.pitch + column * layout.spread

    def view(self, offset: int) -> View:
        """Return the View of a tile whose first element is at `offset`, in elements."""
        place = offset // self.apart
        known = self.views.get(place)
        if known is None:
            known = self.views[place] = self._view(offset)
        return known

    def _view(self, offset: int) -> View:
        layout = self.layout
        partition, byte = 0, 0
        if layout.on_chip:
            row, column = divmod(offset * self.dtype.itemsize, layout.row_bytes)
            partition = layout.partition0 + row
            byte = layout.byte0 + column if layout.region is MemoryRegion.psum else 0
        home = 0 if layout.placed else layout.partitions
        return view(
            *(self.shape, self.strides, self.dtype, layout.region),
            *(partition, byte, 0, self.stepped, home, None, 0),
        )


def _alike(layout: Layout, item: int) -> int:
    """Return how many successive offsets have the same View, for elements of `item` bytes.

    In PSUM this is 1, in SBUF the elements of a partition, and in HBM the elements of the
    storage."""
    if layout.region is MemoryRegion.psum:
        return 1
    return max(1, (layout.row_bytes if layout.on_chip else layout.nbytes) // item)
