"""The boxes of bytes that instructions touch, and the pairs of boxes that overlap.

An area is a storage (the bytes of one tensor), or a whole memory if the kernel chose addresses in
this memory. An area is divided into rows of bytes: on chip a row is a partition, in HBM it is as
long as the last axis of the tensor. A box is a rectangle of bytes: some rows of an area, and the
same range of bytes in each row. A box is dense if the access touches all bytes of the box.
Otherwise the box has a pattern, which describes the exact bytes that the access touches.

An instruction accesses windows. A window is some elements of a storage: a geometry (layout, shape,
strides and format) and the offset of the first element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.enums import MemoryRegion
from neuroncore.memory import access
from neuroncore.memory.geometry import MOST, Geometry
from neuroncore.record import loops as native
from neuroncore.record.columns import Area, Columns, Storages, Windows, copied, owners

Array = npt.NDArray[Any]

EXACT_PAIRS = 2000  # if there are more pairs of strided accesses, none is compared byte by byte
EXACT_BYTES = 1 << 16  # the size of the largest access that is compared byte by byte
LONG = 1 << 22  # programs of this length or more free their tables (`Program.free_tables`)
MANY = 256  # if an area has more boxes than this, their order matters for speed


class Form(NamedTuple):
    """A strided access without its position: sizes of axes (`shape`), strides in bytes (`steps`),
    and bytes per element (`item`)."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    item: int  # bytes of an element


class Patterns(NamedTuple):
    """The exact bytes of boxes that are not dense.

    `form`: forms[form[k]] is the form of pattern k
    `start`: pattern k begins at byte start[k] of its area"""

    start: Array
    form: Array
    forms: list[Form]

    def each(self) -> list[tuple[Any, ...]]:
        """Return (start, shape, steps, item) for each pattern: its first byte, and the fields of
        its Form."""
        pairs = zip(self.start.tolist(), self.form.tolist(), strict=True)
        return [(start, *self.forms[form]) for start, form in pairs]


class AxisSteps(NamedTuple):
    """Patterns that are divided into steps: the elements of the first axis.

    `pitch`: the bytes of a step of each pattern; step 0 begins at the beginning of the area
    `box`: [step, step_end, byte, byte_end]: the steps that each pattern touches, and the bytes that
        it touches in each step
    `whole`: whether these bytes are inside one step"""

    pitch: Array
    box: Array
    whole: Array


def neighbors(area: Array, box: Array, which: Array, patterns: Patterns) -> tuple[Array, Array]:
    """Return the boxes that share bytes, as arrays `near` and `start`. Box b shares bytes with the
    boxes near[start[b]:start[b + 1]], including itself. `box` is overwritten.

    `area`: area[b] is the area of box b
    `box`: box[b] is [row, row_end, byte, byte_end]
    `which`: which[b] is the pattern of box b; -1 if it is dense"""
    if not len(patterns.start):
        near, start = _overlapping(area, box)
    else:
        steps = _steps(patterns)
        _cut_into_steps(area, box, which, steps)
        overlapping = _overlapping(area, box)
        near, start = _without_near_misses(which, patterns, steps.whole, *overlapping)
    return near, start.astype(np.int32 if len(near) < 1 << 31 else np.int64, copy=False)


def _overlapping(area: Array, box: Array) -> tuple[Array, Array]:
    """Return the boxes that overlap, as `near` and `start` (`neighbors`). `box` is overwritten."""
    count = len(box)
    order = np.lexsort((box[:, 0], area)).astype(np.int32)
    areas = area[order]
    begins = np.ones(count + 1, np.bool_)
    begins[1:-1] = areas[1:] != areas[:-1]
    edges = begins.nonzero()[0]
    for a in (edges[1:] - edges[:-1] > MANY).nonzero()[0] if count > MANY else ():
        _sort_by_rows_or_bytes(order[edges[a] : edges[a + 1]], box)
    overlaps, boxes = native.overlaps.over(count), (order, edges[:-1], edges[1:], box)
    start = np.zeros(count + 1, np.int64)
    overlaps(*boxes, start[1:], np.zeros(0, np.int32))
    start.cumsum(out=start)
    near = np.zeros(start[-1], np.int32)
    overlaps(*boxes, start[:-1].copy(), near)
    return near, start


def _steps(patterns: Patterns) -> AxisSteps:
    """Divide each pattern into steps, which are the elements of its first axis."""
    rows = []
    for shape, steps, item in patterns.forms:
        low, high = access.extent(shape[1:], steps[1:])
        rows.append((shape[0], steps[0], low, high + item))
    size, pitch, low, high = np.array(rows, np.int64).reshape(-1, 4)[patterns.form].T
    row, byte = np.divmod(patterns.start, np.maximum(pitch, 1))
    box = np.column_stack([row, row + size, byte + low, byte + high])
    return AxisSteps(pitch, box, (pitch > 0) & (box[:, 2] >= 0) & (box[:, 3] <= pitch))


def _cut_into_steps(area: Array, box: Array, which: Array, steps: AxisSteps) -> None:
    """Change boxes so that the boxes of interleaved accesses do not overlap.

    In a changed box, steps of the pattern replace rows (`AxisSteps.box`). An example is a tensor in
    HBM whose rows are accessed in parts. An area is changed if all its boxes have patterns, with
    steps of equal length that contain their bytes (`AxisSteps.whole`)."""
    pitch = np.where(which >= 0, np.where(steps.whole, steps.pitch, 0)[which], 0)
    count = area.max() + 1
    least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(least, area, pitch)
    np.maximum.at(most, area, pitch)
    alike = ((least == most) & (most > 0))[area]
    box[alike] = steps.box[which[alike]]


def _sort_by_rows_or_bytes(order: Array, box: Array) -> None:
    """Sort boxes so that fewer pairs of boxes must be compared.

    `order`: the boxes of one area, sorted by rows

    If fewer boxes overlap in bytes than in rows, exchange rows and bytes, and sort by bytes."""
    boxes = box[order]
    if _reached(boxes[:, 2], boxes[:, 3]) < _reached(boxes[:, 0], boxes[:, 1]):
        box[order] = boxes[:, [2, 3, 0, 1]]
        order[:] = order[np.argsort(boxes[:, 2], kind="stable")]


def _reached(begin: Array, end: Array) -> int:
    """Count, for each interval, the intervals that begin before its end. Return the sum of the
    counts. Interval k is from begin[k] to end[k]."""
    return int(np.searchsorted(np.sort(begin), end).sum())


def _without_near_misses(
    which: Array, patterns: Patterns, in_steps: Array, near: Array, start: Array
) -> tuple[Array, Array]:
    """Return `near` and `start` (`neighbors`) without pairs of strided accesses that share no
    bytes.

    `in_steps`: whether the bytes of pattern k stay within its steps (`AxisSteps.whole`)

    If there are too many pairs, none is removed."""
    count = len(patterns.start)
    owner = owners(start)
    suspects = np.flatnonzero((which[owner] >= 0) & (which[near] >= 0) & (owner != near))
    owner_pattern, near_pattern = which[owner[suspects]], which[near[suspects]]
    least, most = np.minimum(owner_pattern, near_pattern), np.maximum(owner_pattern, near_pattern)
    key = least * np.int64(count) + most
    pairs, pair = np.unique(key, return_inverse=True)
    if not 0 < len(pairs) <= EXACT_PAIRS:
        return near, start
    meet = cache(_meet)  # iterations of a loop repeat the same distances
    both = (divmod(k, count) for k in pairs.tolist())
    share = np.array([meet(*_form_pair(a, b, patterns, in_steps)) for a, b in both], np.bool_)
    keep = np.ones(len(near), np.bool_)
    keep[suspects] = share[pair]
    counts = np.bincount(owner[keep], minlength=len(start) - 1)
    return near[keep], np.concatenate([[0], np.cumsum(counts)])


def _form_pair(
    pattern: int, other: int, patterns: Patterns, in_steps: Array
) -> tuple[Form, int, Form]:
    """Return (form of `pattern`, distance in bytes, form of `other`). The distance is between their
    first bytes.

    If both first axes have equal strides, and all bytes stay within their steps, the first axes are
    left out. The distance is then within a step."""
    first, second = patterns.forms[patterns.form[pattern]], patterns.forms[patterns.form[other]]
    start, following = int(patterns.start[pattern]), int(patterns.start[other])
    pitch = first.steps[0]
    if second.steps[0] == pitch and in_steps[pattern] and in_steps[other]:
        first, second = (Form(f.shape[1:], f.steps[1:], f.item) for f in (first, second))
        start, following = start % pitch, following % pitch
    return first, following - start, second


def _meet(form_a: Form, distance: int, form_b: Form) -> bool:
    """Return whether two strided accesses share a byte. The second begins `distance` bytes after
    the first. Large accesses are not searched: the result is True."""
    if max(prod(form.shape) * form.item for form in (form_a, form_b)) > EXACT_BYTES:
        return True
    return bool(np.isin(_bytes(form_a), _bytes(form_b) + distance).any())


def _bytes(form: Form) -> Array:
    places = np.zeros(1, np.int64)
    for size, step in zip((*form.shape, form.item), (*form.steps, 1), strict=True):
        places = (places[:, None] + np.arange(size) * step).reshape(-1)
    return places


SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum


class Box(NamedTuple):
    """The bytes of an access in an area: rows row:row_end (partitions on chip), bytes byte:byte_end
    of each row.

    If the box is `dense`, the access touches all these bytes. Otherwise `Boxes.patterns` describes
    the exact bytes."""

    area: int
    row: int
    row_end: int
    byte: int
    byte_end: int
    dense: bool


class Areas(NamedTuple):
    """The areas of a record, in the order of first use. An area is a storage, or a whole memory in
    which the kernel chose addresses.

    `kinds`, `kind`: kinds[kind[a]] describes area a
    `of_box`: of_box[b] is the area of box b"""

    kinds: Sequence[Area]
    kind: Array
    of_box: Array

    def each_box(self, of_kinds: Iterable[Any], dtype: npt.DTypeLike) -> Array:
        """Return a value for each box, from `of_kinds`, the values of `kinds`."""
        by_kind: Array = np.array(list(of_kinds), dtype)
        return by_kind[self.kind][self.of_box]


@dataclass(frozen=True)
class Pieces:
    """The pieces of storages. Each access is inside one piece, so pieces can be moved separately. A
    tensor in HBM is one piece.

    `of_box`: the piece that contains each box
    `whole`: whether each box fills its piece
    `extents`: [row, row_end, byte, byte_end] of each piece
    `on_chip`: whether each piece is on chip
    `movable`: whether each piece is in SBUF, at an address that the compiler chooses
    `width`, `nbytes`: the size of each piece in bytes per partition, and in bytes"""

    of_box: Array
    whole: Array
    extents: Array
    on_chip: Array
    movable: Array
    width: Array
    nbytes: Array


@dataclass(frozen=True)
class Boxes:
    """The distinct boxes of a record, in the order of their first use.

    `table`: a row has the fields of a Box, in order
    `pattern`: pattern[b] is the pattern of box b; -1 if the box is dense
    `of_window`: of_window[w] is the box of window w"""

    table: Array
    areas: Areas
    pattern: Array
    patterns: Patterns
    of_window: Array

    @cached_property
    def near(self) -> tuple[Array, Array]:
        """The boxes that share bytes, as `near` and `start`: near[start[b]:start[b + 1]] for box
        b."""
        return neighbors(self.areas.of_box, self.table[:, 1:5].copy(), self.pattern, self.patterns)

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces into which storages are divided. Each access is inside one piece."""
        return _pieces(self.table, self.areas)


def boxes(windows: Windows, geometries: Sequence[Geometry], storages: Storages) -> Boxes:
    """Return the distinct boxes (ranges of rows and bytes) that `windows` cover. The column
    `windows.geometry` has indices into `geometries`."""
    count = len(windows.storage)
    memories = {kind.region: kind.row_bytes for kind in storages.kinds if kind.placed}
    forms: dict[Form, int] = {}
    rows = [_row(geometry, memories, forms) for geometry in geometries]
    table = np.array(rows, np.int64).reshape(-1, native.FORM + 1)
    largest = max((geometry.layout.nbytes for geometry in geometries), default=0)
    small = max(largest, storages.number.max(initial=0)) < 1 << 31
    kind = np.int32 if small else np.int64
    fields, exact = np.empty((count, len(Box._fields)), kind), np.empty((count, 2), kind)
    fields[:, 0] = storages.areas()[storages.of_window]
    geometry = windows.geometry.astype(np.int32, copy=False)  # a file has other types of numbers
    native.extents.over(count)(geometry, windows.offset, table, fields, exact)
    all_dense = bool((exact[:, 1] < 0).all())
    shown, of_window = native.distinct(fields if all_dense else np.hstack((fields, exact)))
    if len(shown) < count:
        fields, exact = fields.take(shown, axis=0), exact.take(shown, axis=0)
    pattern = buffers.filled((len(fields),), -1, np.int32)
    first = strided = (exact[:, 1] >= 0).nonzero()[0]
    if len(strided):
        patterns = np.hstack((fields[strided, 1:], exact[strided]))
        first, pattern[strided] = native.distinct(patterns)
    start, form = exact[strided[first]].T
    return Boxes(
        table=fields,
        areas=_areas(fields[:, 0], storages, storages.of_window[shown]),
        pattern=pattern,
        patterns=Patterns(start, form, list(forms)),
        of_window=of_window,
    )


def _row(
    geometry: Geometry, memories: Mapping[MemoryRegion, int], forms: dict[Form, int]
) -> tuple[int, ...]:
    """Return a geometry as a row of the table for `native.extents`.

    `memories`: the bytes per row of each memory in which the kernel chose addresses
    `forms`: gets the geometry's form if it is new"""
    layout = geometry.layout
    area_row_bytes = 0
    if layout.placed:  # the area is the memory that contains the storage
        area_row_bytes = memories.get(layout.region, layout.row_bytes)
    properties, form = _extent(geometry, area_row_bytes)
    return *properties, area_row_bytes, forms.setdefault(form, len(forms))


@lru_cache(maxsize=MOST)
def _extent(geometry: Geometry, area_row_bytes: int) -> tuple[tuple[int, ...], Form]:
    """Return the numbers of `_row` except the last two, and the form of the geometry.

    `area_row_bytes`: the bytes per row of the whole memory; 0 if the area is a storage

    A row of HBM is as long as the tensor's last axis."""
    layout, item, steps = geometry.layout, geometry.dtype.itemsize, list(geometry.bytes_apart)
    pitch = layout.row_bytes if layout.on_chip else layout.shape[-1] * layout.dtype.itemsize
    pitch = pitch or 1  # a result without elements has no boxes
    rows, within = [0], [0]  # how far each axis reaches
    for size, apart in zip(geometry.shape, geometry.bytes_apart, strict=True):
        rows_apart, bytes_apart = divmod(apart, pitch)
        if bytes_apart == 0:
            rows.append((size - 1) * rows_apart)
        else:
            within.append((size - 1) * apart)
    (up, down), (left, right) = (
        (sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)) for reach in (rows, within)
    )
    again = any(n > 1 and not s for n, s in zip(geometry.shape, geometry.strides, strict=True))
    filled = (1 + down - up) * (item + right - left) == prod(geometry.shape) * item
    if layout.placed:
        steps[0] = steps[0] // layout.row_bytes * area_row_bytes
    properties = (
        *(item, pitch, up, 1 + down, left, right, layout.partition0, layout.byte0),
        *(filled and not again, *access.extent(geometry.shape, geometry.strides)),
        *(layout.partitions, layout.row_bytes),
    )
    return properties, Form(geometry.shape, tuple(steps), item)


def _areas(area: Array, storages: Storages, on: Array) -> Areas:
    """Return the Areas of all boxes. Box b is in area area[b], which contains the storage on[b]."""
    first, of_box = native.distinct(area[:, np.newaxis])
    return Areas(storages.kinds, storages.kind[on[first]], of_box)


def _pieces(boxes: Array, areas: Areas) -> Pieces:
    """Return the pieces of storages. `boxes` is the table of all boxes."""
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


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a program that are derived from its instructions."""

    columns: Columns  # their operands are windows
    windows: Windows
    storages: Storages
    geometries: Sequence[Geometry]
    from_rows: bool = False  # whether the instructions have these windows and no others
    moved: bool = False  # whether the columns differ from the instructions of the program
    results: dict[str, Any] = field(default_factory=dict, init=False)

    @cached_property
    def users(self) -> Array:
        """The number of the instruction that uses each operand."""
        return owners(self.columns.start)

    @cached_property
    def boxes(self) -> Boxes:
        return boxes(self.windows, self.geometries, self.storages)

    @cached_property
    def boxed(self) -> Columns:
        """The columns, with boxes as operands instead of windows."""
        if len(self.boxes.table) == len(self.windows.storage):
            return self.columns  # window n is box n, because boxes have the order of windows
        return replace(self.columns, operands=self.boxes.of_window[self.columns.operands])

    def with_columns(self, columns: Columns) -> Tables:
        """Return the tables for other instructions with the same windows and boxes."""
        tables = replace(self, columns=columns, moved=True)
        vars(tables)["boxes"] = self.boxes
        if columns.operands is self.columns.operands:
            vars(tables)["boxed"] = replace(columns, operands=self.boxed.operands)
        return tables

    def copied(self, chosen: Array) -> Tables:
        """Return the tables with copied tensors for the operands that `chosen` flags."""
        columns, windows = self.columns, self.windows
        moved, of_operand = np.unique(columns.operands[chosen], return_inverse=True)
        operands = columns.operands.copy()
        operands[chosen] = len(windows.storage) + of_operand
        all_windows, all_storages = copied(self.storages, windows, self.geometries, moved)
        columns = replace(columns, operands=operands)
        return Tables(columns, all_windows, all_storages, self.geometries)

    @cached_property
    def areas(self) -> dict[int, Area]:
        """The Area of each storage, by its number."""
        kinds = map(self.storages.kinds.__getitem__, self.storages.kind.tolist())
        return dict(zip(self.storages.number.tolist(), kinds, strict=True))


class KeptTables(NamedTuple):
    """The columns that remain when all tables are freed."""

    columns: Columns
    boxed: Columns
