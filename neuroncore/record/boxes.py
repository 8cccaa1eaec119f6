"""The bytes that instructions touch, made from the windows of a record when a reader asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.enums import MemoryRegion
from neuroncore.memory import access
from neuroncore.memory.geometry import Geometry

Array = npt.NDArray[Any]
Extent = tuple[int, int, int, int, bool]  # a Box without its area
Pattern = tuple[int, tuple[int, ...], tuple[int, ...], int]  # offset, shape, strides, element size
Patterns = list[Pattern | None]  # None of what is dense
ANYWHERE = -1  # in place of an offset that is only known when the instruction runs


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


class Areas(NamedTuple):
    """The areas of a record in the order of their first use: which of `kinds` each is like, and of
    each box which area it is in."""

    kinds: Sequence[Area]
    kind: Array
    of_box: Array

    def each_box(self, of_kinds: Iterable[Any], dtype: npt.DTypeLike) -> Array:
        """Of each box what is said of the kind of its area."""
        said: Array = np.array(list(of_kinds), dtype)
        return said[self.kind][self.of_box]


@dataclass(frozen=True)
class Boxes:
    """The distinct boxes of a record: a row of `table` has the fields of a Box in their order,
    `pattern` says which of the patterns is its own, -1 of what is dense, and `of_window` which
    box a window is in."""

    table: Array
    areas: Areas
    pattern: Array
    patterns: Patterns
    of_window: Array


class Windows(NamedTuple):
    """Windows on storage, in columns: an area, the number of a geometry, and where it begins, in
    elements, or ANYWHERE."""

    area: Array
    geometry: Array
    offset: Array


def boxes(
    windows: Windows,
    geometries: Sequence[Geometry],
    areas: Mapping[int, int],
    kinds_of_areas: Sequence[Area],
) -> Boxes:
    """The boxes of windows, in the order in which they come, on areas that are of some kinds."""
    first, window = _distinct(*windows)
    area, *where = (column[first] for column in windows)
    kinds: dict[tuple[Extent, Pattern | None], int] = {}
    kind = np.zeros(len(first), np.int64)
    each, place = _distinct(*where)
    for i, at in enumerate(each.tolist()):
        lies, offset = geometries[int(where[0][at])], int(where[1][at])
        extent = extent_of(lies, offset)
        pattern = (
            None
            if extent[-1]
            else pattern_of(lies, offset, kinds_of_areas[areas[int(area[at])]].row_bytes)
        )
        kind[i] = kinds.setdefault((extent, pattern), len(kinds))
    kind = kind[place]
    first, box = _distinct(area, kind)
    area, kind = area[first], kind[first]
    extents = np.array([extent for extent, _ in kinds], np.int64).reshape(-1, 5)
    patterns = [pattern for _, pattern in kinds]
    strided = np.array([pattern is not None for pattern in patterns], np.bool_)
    return Boxes(
        table=np.column_stack([area, extents[kind]]),
        areas=_areas(area, areas, kinds_of_areas),
        pattern=np.where(strided[kind], kind, np.int64(-1)),
        patterns=patterns,
        of_window=box[window],
    )


def _areas(area: Array, areas: Mapping[int, int], kinds: Sequence[Area]) -> Areas:
    """`area` is the storage of each box, `areas` which kind each storage is of."""
    storages = np.fromiter(areas, np.int64, len(areas))
    order = np.argsort(storages, kind="stable")
    number = order[np.searchsorted(storages[order], area)]
    return Areas(kinds, np.fromiter(areas.values(), np.int64, len(areas)), number)


def _distinct(*columns: Array) -> tuple[Array, Array]:
    """Where each distinct row of columns is first, in that order, and the number of each row among
    those. The products stay small: a number is below the count of rows."""
    first = number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, within = np.unique(column, return_inverse=True)
        _, first, number = np.unique(
            number * len(values) + within, return_index=True, return_inverse=True
        )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[number]


def pattern_of(lies: Geometry, offset: int, row_bytes: int) -> Pattern:
    """The elements of a window, in bytes of its area, whose rows are `row_bytes` long."""
    layout, item = lies.layout, lies.dtype.itemsize
    start, steps = offset * item, list(lies.bytes_apart)
    if layout.placed:  # the area is a memory, of which the storage is a window with shorter rows
        row, byte = divmod(start, layout.row_bytes)
        start = (layout.partition0 + row) * row_bytes + layout.byte0 + byte
        steps[0] = steps[0] // layout.row_bytes * row_bytes
    return start, lies.shape, tuple(steps), item


def extent_of(lies: Geometry, offset: int) -> Extent:
    """Rows, bytes within each, and whether the window fills that box. It is all of the storage if
    it is nobody knows where in it."""
    layout, item = lies.layout, lies.dtype.itemsize
    if offset == ANYWHERE:
        rows = layout.partition0, layout.partition0 + layout.partitions
        return *rows, layout.byte0, layout.byte0 + layout.row_bytes, True
    # HBM is cut into rows as long as the last axis of the tensor there
    pitch = layout.row_bytes if layout.on_chip else layout.shape[-1] * layout.dtype.itemsize
    row, column = divmod(offset * item, pitch)
    first, last, low, high = row, row, column, column + item
    for size, apart in zip(lies.shape, lies.bytes_apart, strict=True):
        rows_apart, bytes_apart = divmod(apart, pitch)
        if bytes_apart == 0:
            reach = (size - 1) * rows_apart
            first, last = first + min(reach, 0), last + max(reach, 0)
        else:
            reach = (size - 1) * apart
            low, high = low + min(reach, 0), high + max(reach, 0)
    if low < 0 or high > pitch:  # runs on over the ends of rows
        least, greatest = access.extent(lies.shape, lies.strides)
        start = offset * item
        begin, end = start + least * item, start + (greatest + 1) * item
        return begin // pitch, -(-end // pitch), 0, pitch, False
    again = any(n > 1 and not s for n, s in zip(lies.shape, lies.strides, strict=True))
    filled = (last + 1 - first) * (high - low) == prod(lies.shape) * item
    first, last = first + layout.partition0, last + layout.partition0
    return first, last + 1, low + layout.byte0, high + layout.byte0, filled and not again
