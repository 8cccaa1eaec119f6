"""The bytes that instructions touch, made from the windows of a record when a reader asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.structs import dataclass
from neuroncore.memory import access
from neuroncore.memory.geometry import Geometry
from neuroncore.record.columns import Windows
from neuroncore.record.loops import boxes as native
from neuroncore.record.overlap import Form, Patterns, neighbors
from neuroncore.record.storages import Area, Storages

Array = npt.NDArray[Any]
SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum


class Box(NamedTuple):
    """The bytes of an access: partitions or rows, times bytes within each, half open.

    `dense` says that all bytes in it belong to the access; otherwise `Boxes.patterns` has its exact
    one.
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
        """The value of the kind of its area, for each box."""
        said: Array = np.array(list(of_kinds), dtype)
        return said[self.kind][self.of_box]


@dataclass(frozen=True)
class Pieces:
    """Parts of storages that no access shares with the rest, so that each can be moved alone. A
    tensor in HBM is one.

    For each box of the record: its piece, and whether it is the whole piece. For each piece: its
    ends in rows and bytes, whether it is on chip, whether it is `movable` (in SBUF, placed by the
    compiler), and its bytes, per partition and in total.
    """

    of_box: Array
    whole: Array
    extents: Array
    on_chip: Array
    movable: Array
    width: Array
    nbytes: Array


@dataclass(frozen=True)
class Boxes:
    """The distinct boxes of a record, in the order in which its windows first use them.

    A row of `table` has the fields of a Box in their order. `pattern` is the number of each box's
    pattern, or -1 for a dense box. `of_window` is the number of each window's box.
    """

    table: Array
    areas: Areas
    pattern: Array
    patterns: Patterns
    of_window: Array

    @cached_property
    def near(self) -> tuple[Array, Array]:
        """The boxes that each box shares bytes with, itself among them: box b has those from
        the first array, from the b-th entry of the second one on."""
        return neighbors(self.areas.of_box, self.table[:, 1:5].copy(), self.pattern, self.patterns)

    @cached_property
    def pieces(self) -> Pieces:
        """The parts of storages that no box shares with the rest."""
        return _pieces(self.table, self.areas)


def boxes(windows: Windows, geometries: Sequence[Geometry], storages: Storages) -> Boxes:
    """The boxes of windows on storages."""
    count = len(windows.storage)
    memories = {kind.region: kind.row_bytes for kind in storages.kinds if kind.placed}
    forms: dict[Form, int] = {}
    rows = [_row(lies, memories, forms) for lies in geometries]
    lies = np.array(rows, np.int64).reshape(-1, native.FORM + 1)
    each = np.empty((count, native.OWN_FORM + 1), np.int64)
    each[:, 0] = storages.areas()[storages.of_window]
    native.extents.over(count)(windows.geometry, windows.offset, lies, each)
    shown, of_window = native.distinct(each)
    each = each.take(shown, axis=0)
    strided = np.flatnonzero(each[:, native.OWN_FORM] >= 0)
    pattern = np.full(len(each), -1, np.int64)
    first, pattern[strided] = native.distinct(each[strided, 1:])
    start, form = each[strided[first], native.START :].T
    return Boxes(
        table=each[:, : native.START],
        areas=_areas(each[:, 0], storages, storages.of_window[shown]),
        pattern=pattern,
        patterns=Patterns(start, form, list(forms)),
        of_window=of_window,
    )


def _row(
    lies: Geometry, memories: Mapping[MemoryRegion, int], forms: dict[Form, int]
) -> tuple[int, ...]:
    """The properties of a geometry for `native.extents`. HBM is cut into rows as long as the last
    axis of the tensor there."""
    layout, item, steps = lies.layout, lies.dtype.itemsize, list(lies.bytes_apart)
    pitch = layout.row_bytes if layout.on_chip else layout.shape[-1] * layout.dtype.itemsize
    pitch = pitch or 1  # of a result without elements, which no box is of
    rows, within = [0], [0]  # how far each axis reaches
    for size, apart in zip(lies.shape, lies.bytes_apart, strict=True):
        rows_apart, bytes_apart = divmod(apart, pitch)
        if bytes_apart == 0:
            rows.append((size - 1) * rows_apart)
        else:
            within.append((size - 1) * apart)
    (up, down), (left, right) = (
        (sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)) for reach in (rows, within)
    )
    again = any(n > 1 and not s for n, s in zip(lies.shape, lies.strides, strict=True))
    filled = (1 + down - up) * (item + right - left) == prod(lies.shape) * item
    area_row_bytes = 0
    if layout.placed:  # the area is a memory, of which the storage is a window
        area_row_bytes = memories.get(layout.region, layout.row_bytes)
        steps[0] = steps[0] // layout.row_bytes * area_row_bytes
    form = forms.setdefault(Form(lies.shape, tuple(steps), item), len(forms))
    return (
        *(item, pitch, up, 1 + down, left, right, layout.partition0, layout.byte0),
        *(filled and not again, *access.extent(lies.shape, lies.strides)),
        *(layout.partitions, layout.row_bytes, area_row_bytes, form),
    )


def _areas(area: Array, storages: Storages, on: Array) -> Areas:
    """The pieces of boxes in these areas; a window on one of its storages shows each area."""
    first, of_box = native.distinct(area[:, np.newaxis])
    return Areas(storages.kinds, storages.kind[on[first]], of_box)


def _pieces(boxes: Array, areas: Areas) -> Pieces:
    """The pieces of a table of boxes, in these areas."""
    on_chip = areas.each_box((k.region in (SBUF, PSUM) for k in areas.kinds), np.bool_)
    movable = areas.each_box((k.region is SBUF and not k.placed for k in areas.kinds), np.bool_)
    in_order = np.lexsort((boxes[:, 3], boxes[:, 0]))  # by the first byte, area by area
    of_box, whole, first, extents = native.pieces.over(len(boxes))(boxes, in_order, on_chip)
    row, row_end, byte, byte_end = extents.T
    return Pieces(
        of_box=of_box,
        whole=whole,
        extents=extents,
        on_chip=on_chip[first],
        movable=movable[first],
        width=byte_end - byte,
        nbytes=(byte_end - byte) * (row_end - row),
    )
