"""The columns of a record: instructions, windows of tensors, and the storages of these windows.

A Call is a distinct instruction without data, which equal instructions share. A storage is the
bytes of one tensor. A window is some elements of a storage: a geometry (layout, shape, strides and
format) and the offset of the first element. A window moves if its position is only known at run
time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.enums import MemoryRegion
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.memory.geometry import Geometry, Layout
from neuroncore.record import loops as native
from neuroncore.record.loops import ANYWHERE as ANYWHERE
from neuroncore.record.loops import distinct

Array = npt.NDArray[Any]
Pack = Callable[..., bytes]

# The parts of an instruction for `struct`. `loops.apart` reads them as little-endian words of 64
# bits.
BEGIN, WINDOW, VALUES, WORD = "ii", "qqq", "q", "<i8"
INT32 = np.dtype(np.int32)
MOVING = 1 << 62  # the offset of a window that moves is MOVING plus the window's number


@dataclass(frozen=True)
class Columns:
    """The instructions of a record as arrays.

    `call`, `line`: the numbers of the Call and of the source line of instruction i
    `start`, `operands`: its operands are operands[start[i]:start[i + 1]], in the order `reads +
        indices + writes` of the Call. They are windows, or boxes where a function says so.
    `values`: the index in `Data.values` of its numbers and registers; -1 for none"""

    call: Array
    line: Array
    start: Array
    operands: Array
    values: Array

    def __post_init__(self) -> None:
        """Convert numbers to 32 bits, so that loops are compiled for one type. Raises OverflowError
        for larger numbers, which no record has."""
        for name in ("call", "line", "start", "operands", "values"):
            column = getattr(self, name)
            if column.dtype is not INT32:
                narrow = column.astype(INT32)
                if (narrow != column).any():
                    raise OverflowError(f"{name} has a number of more than 32 bits")
                object.__setattr__(self, name, narrow)

    def permuted(self, rows: Array) -> Columns:
        """Return the instructions in another order: instruction k of the result is instruction
        rows[k]."""
        widths = np.diff(self.start)[rows]
        start = _starts(widths)
        shift = np.repeat(self.start[rows] - start[:-1], widths)
        operands = self.operands[np.arange(start[-1]) + shift]
        return Columns(self.call[rows], self.line[rows], start, operands, self.values[rows])


class Numbers(dict[Geometry, int]):
    """The numbers of geometries. A new geometry gets the next number, and is appended to
    `listed`."""

    def __init__(self, listed: list[Geometry]) -> None:
        super().__init__()
        self.listed = listed

    def __missing__(self, geometry: Geometry) -> int:
        number = self[geometry] = len(self.listed)
        self.listed.append(geometry)
        return number


class Written(bytearray):
    """Bytes to which a run appends. `pack` compresses the new bytes and removes them; `since`
    returns them."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(content)
        self._packed: list[
            tuple[int, bytes]
        ] = []  # compressed bytes, and the position of their end
        self._before = 0  # the number of bytes that were compressed

    @property
    def size(self) -> int:
        """The number of all bytes, including the compressed bytes."""
        return self._before + len(self)

    @property
    def words(self) -> int:
        """The number of all words of 64 bits, including compressed words."""
        return self.size // 8

    def pack(self) -> None:
        """Compress the new bytes: instructions of loops shrink to a tenth. This takes 0.2 us per
        instruction."""
        self._before += len(self)
        self._packed.append((self._before, zlib.compress(self, 1)))
        self.clear()

    def blocks(self) -> Iterator[bytes | bytearray]:
        """Yield all bytes, in parts that end where `pack` was called."""
        begin = 0
        for end, packed in self._packed:
            yield zlib.decompress(packed, bufsize=end - begin)
            begin = end
        yield self[:]

    def since(self, begin: int = 0) -> bytearray:
        """Return all bytes from position `begin` on, including compressed bytes."""
        if begin >= self._before:
            return self[begin - self._before :]
        found = bytearray()
        for end, packed in self._packed:
            if end > begin:
                found += zlib.decompress(packed)
        found += self
        del found[: len(found) - (self.size - begin)]
        return found


class Windows(NamedTuple):
    """Windows as columns: the storage, the geometry and the offset of each.

    `offset`: the position of the first element, in elements; ANYWHERE if only known at run time
    `moving`: numbers the windows that move, from 0; -1 for all others"""

    storage: Array
    geometry: Array
    offset: Array
    moving: Array


def owners(start: Array) -> Array:
    """Return the row of each element. Row i has the elements start[i]:start[i + 1]."""
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


@cache
def packer(tiles: int, has_values: bool) -> Pack:
    """Return the function that packs the numbers of an instruction with `tiles` windows into
    bytes."""
    return Struct(f"<{BEGIN}{WINDOW * tiles}{VALUES * has_values}").pack


def tiles_of(calls: Sequence[Call]) -> Array:
    """Return for each Call the number of windows of its instructions."""
    return np.array([len(call.reads + call.indices + call.writes) for call in calls], np.int64)


def valued(calls: Sequence[Call]) -> Array:
    """Return for each Call whether its instructions have values: numbers and registers."""
    return np.array([call.has_values for call in calls], np.bool_)


def apart(
    written: Written, count: int, calls: Sequence[Call], moved: Array
) -> tuple[Columns, Windows]:
    """Return the columns and the distinct windows of `count` instructions that `packer` has
    written.

    `moved`: the offsets of windows whose position is only known at run time (`Data.offsets`)"""
    call, line, values = np.empty((3, count), INT32)
    operands = np.empty((written.words - count) // 3, INT32)  # at least all operands
    start, windows, parts = np.zeros(count + 1, INT32), list[Array](), list[Array]()
    kinds, row, known = (tiles_of(calls), valued(calls)), 0, 0
    for block in written.blocks():
        words = np.frombuffer(block, WORD)
        used = np.empty((len(words) // 3, 3), np.int64)
        columns = call, line, start, used, values
        end = native.apart.over(count)(words, *kinds, row, *columns)
        first, number = distinct(used[: start[end] - start[row]])
        parts.append(np.add(number, known, out=operands[start[row] : start[end]]))
        windows.append(used.take(first, axis=0))
        row, known = end, known + len(first)
    operands, table = operands[: start[-1]], windows[0]
    if len(windows) > 1:  # blocks use windows of earlier blocks
        table = np.concatenate(windows)
        windows.clear()
        first, number = distinct(table)
        for part in parts:
            part[:] = number[part]
        table = table.take(first, axis=0)
    return Columns(call, line, start, operands, values), _windows(table, moved)


def _windows(fields: Array, moved: Array) -> Windows:
    (storage, offset), geometry = fields.T[::2].copy(), fields[:, 1].astype(INT32)
    moving = buffers.filled(offset.shape, -1, INT32)
    if len(moved):
        moves = (offset >= MOVING).nonzero()[0]
        moving[moves] = offset[moves] - MOVING
        offset[moves] = moved[moving[moves]]
    return Windows(storage, geometry, offset, moving)


def _starts(widths: Array) -> Array:
    start = np.zeros(len(widths) + 1, np.int64)
    np.cumsum(widths, out=start[1:])
    return start


# --- instructions one after the other, as files have them -----------------------------------------


def joined(columns: Columns) -> tuple[Array, Array]:
    """Return (all instructions as one array, bounds). Instruction i is numbers bounds[i]:bounds[i +
    1] of the array.

    An instruction consists of its Call, its line, its windows, and the index of its values if it
    has any."""
    has_values = columns.values >= 0
    tiles = np.diff(columns.start)
    bounds = _starts(2 + tiles + has_values)
    begins, ends = bounds[:-1], bounds[1:]
    rows = np.empty(bounds[-1], np.int64)
    rows[begins], rows[begins + 1] = columns.call, columns.line
    rows[np.repeat(begins + 2 - columns.start[:-1], tiles) + np.arange(columns.start[-1])] = (
        columns.operands
    )
    rows[ends[has_values] - 1] = columns.values[has_values]
    return rows, bounds


def parted(rows: Array, widths: Array, calls: Sequence[Call]) -> Columns:
    """Return the columns for `rows`, one instruction after the other (the inverse of `joined`).

    `widths`: the number of integers in each instruction

    Raise ValueError if widths and `rows` disagree, or if an instruction does not fit its Call."""
    narrow = rows.astype(np.int32)
    if (
        (narrow != rows).any()
        or (rows < 0).any()
        or (widths < 2).any()
        or widths.sum() != len(rows)
    ):
        raise ValueError("the rows do not fit their widths")
    bounds = _starts(widths)
    begins, ends = bounds[:-1], bounds[1:]
    call = rows[begins]
    inside(call, len(calls), "calls")
    has_values = valued(calls)[call]
    tiles = tiles_of(calls)[call]
    if (widths != 2 + tiles + has_values).any():
        raise ValueError("a row has too few or too many numbers for its instruction")
    is_operand = np.ones(len(rows), np.bool_)
    is_operand[begins] = is_operand[begins + 1] = is_operand[ends[has_values] - 1] = False
    values = np.full(len(call), -1, np.int64)
    values[has_values] = rows[ends[has_values] - 1]
    return Columns(call, rows[begins + 1], _starts(tiles), rows[is_operand], values)


def inside(numbers: Any, count: int, things: str) -> None:
    """Raise ValueError unless all numbers are indices of `count` things. `things` is the word for
    them in the message."""
    array = np.asarray(numbers)
    if array.size and not (array.min() >= 0 and array.max() < count):
        raise ValueError(f"a row refers to {things} that do not exist: there are {count} {things}")


birth = Struct("<qq").pack  # packs a storage and the line of its allocation
mark = Struct("<qqq").pack  # packs an entry of `Data.iterations`


class Area(NamedTuple):
    """One storage, or a whole memory in which the kernel chose an address (`placed`)."""

    region: MemoryRegion
    name: str
    partitions: int
    row_bytes: int
    placed: bool
    line: int  # the index in `Program.lines` of its allocation; -1 if unknown


class Storages(NamedTuple):
    """The storages of a record, in the order of their first use.

    `number`: the number of each storage
    `kinds`, `kind`: kinds[kind[s]] are the properties of storage s
    `of_window`: of_window[w] is the storage s of window w"""

    number: Array
    kind: Array
    of_window: Array
    kinds: Sequence[Area]

    def is_placed(self) -> Array:
        """Return a flag for each storage: whether the kernel chose its address."""
        placed: Array = np.array([kind.placed for kind in self.kinds], np.bool_)[self.kind]
        return placed

    def areas(self) -> Array:
        """For each storage, the number that identifies its area (`record.boxes`). Storages at
        addresses that the kernel chose share one area in each memory, with the number of the first
        of them."""
        if not any(kind.placed for kind in self.kinds):
            return self.number
        placed = self.is_placed()
        kinds, first = np.unique(self.kind[placed], return_index=True)
        area = self.number.copy()
        area[placed] = area[placed][first][np.searchsorted(kinds, self.kind[placed])]
        return area


def storages(
    windows: Windows,
    geometries: Sequence[Geometry],
    births: bytearray,
    names: Mapping[int, str],
    calls: Sequence[Call],
) -> Storages:
    """Return the storages of a run's windows.

    `births`: packed integers (storage, line) for each allocation of the kernel
    `names`: the names of some storages, by number
    `calls`: the machine of the first Call has the sizes of memories"""
    first, of_window = distinct(windows.storage[:, np.newaxis])
    number = windows.storage[first]
    lines = np.frombuffer(births, "<i8").reshape(-1, 2)
    if len(lines) + len(names) + len(number) <= native.FEW:
        return _few_storages(
            number, of_window, windows.geometry[first], geometries, lines, names, calls
        )
    layouts: dict[Layout, int] = {}
    layout = [layouts.setdefault(geometry.layout, len(layouts)) for geometry in geometries]
    texts: dict[str, int] = {"": 0}
    named = [texts.setdefault(name, len(texts)) for name in names.values()]
    fields = np.empty((len(number), 3), INT32)
    fields[:, 0] = np.array(layout, INT32)[windows.geometry[first]]
    fields[:, 1] = _last_values(lines, number, -1)
    fields[:, 2] = _last_values(np.array([[*names], named], np.int64).T, number, 0)
    first, alike = distinct(fields)
    all_layouts, all_names = list(layouts), list(texts)
    kinds: dict[Area, int] = {}  # tensors of one loop have equal kinds
    which = [
        kinds.setdefault(
            area(all_layouts[layout], line, all_names[name], calls[0].machine), len(kinds)
        )
        for layout, line, name in fields[first].tolist()
    ]
    return Storages(number, np.array(which, INT32)[alike], of_window, list(kinds))


def _few_storages(
    number: Array,
    of_window: Array,
    geometry: Array,
    geometries: Sequence[Geometry],
    lines: Array,
    names: Mapping[int, str],
    calls: Sequence[Call],
) -> Storages:
    """Return `storages` for a small program, with Python objects, which are faster than small
    arrays.

    `number`, `of_window`: fields of the result
    `geometry`: a geometry of each storage
    `lines`: the numbers in `births`"""
    born, kinds = dict(lines.tolist()), dict[Area, int]()
    kind = [
        kinds.setdefault(
            area(geometries[g].layout, born.get(n, -1), names.get(n, ""), calls[0].machine),
            len(kinds),
        )
        for n, g in zip(number.tolist(), geometry.tolist(), strict=True)
    ]
    return Storages(number, np.array(kind, INT32), of_window, list(kinds))


def copied(
    storages: Storages, windows: Windows, geometries: Sequence[Geometry], moved: Array
) -> tuple[Windows, Storages]:
    """Copy the windows `moved` to new storages. Return all windows and storages, with the copies at
    the end.

    The copies have no address. They share a storage if their windows are on one storage, or at one
    address."""
    copies: dict[tuple[Any, ...], int] = {}
    on, kinds = np.empty(len(moved), np.int64), list[Area]()
    for n, window in enumerate(moved.tolist()):
        layout = geometries[int(windows.geometry[window])].layout
        storage = int(storages.of_window[window])
        key = layout.arguments if layout.placed else (storages.number[storage],)
        on[n] = copies.setdefault(key, len(copies))
        if on[n] == len(kinds):
            kind = storages.kinds[int(storages.kind[storage])]
            kinds.append(kind._replace(placed=False, row_bytes=layout.row_bytes))
    first = int(storages.number.max()) + 1
    more = Windows(
        np.concatenate((windows.storage, first + on)),
        *(np.concatenate((column, column[moved])) for column in windows[1:]),
    )
    return more, Storages(
        number=np.concatenate((storages.number, first + np.arange(len(copies)))),
        kind=np.concatenate((storages.kind, len(storages.kinds) + np.arange(len(copies)))),
        of_window=np.concatenate((storages.of_window, len(storages.number) + on)),
        kinds=[*storages.kinds, *kinds],
    )


class Parts(NamedTuple):
    """Parts of windows. Part k belongs to window of[k], has the geometry geometries[number[k]], and
    begins at element offset[k] of the storage."""

    of: Array
    geometries: Sequence[Geometry]
    number: Array
    offset: Array


def parted_windows(
    storages: Storages, windows: Windows, geometries: Sequence[Geometry], parts: Parts
) -> tuple[Windows, Storages, list[Geometry]]:
    """Return windows, storages and geometries with `parts` as new windows at the end. Storages
    change only in `of_window`."""
    storage, fixed = windows.storage[parts.of], np.full(len(parts.of), -1)
    columns = storage, len(geometries) + parts.number, parts.offset, fixed
    more = Windows(*map(np.concatenate, zip(windows, columns, strict=True)))
    of_window = np.concatenate((storages.of_window, storages.of_window[parts.of]))
    return more, storages._replace(of_window=of_window), [*geometries, *parts.geometries]


def restored(number: Array, kind: Array, kinds: Sequence[Area], windows: Windows) -> Storages:
    """Return the Storages with these columns. Raise ValueError if a window has no storage."""
    order = np.argsort(number, kind="stable")
    at = np.searchsorted(number[order], windows.storage)
    if (at == len(number)).any() or (number[order[at]] != windows.storage).any():
        raise ValueError("an operand has no storage")
    return Storages(number, kind, order[at], kinds)


def _last_values(pairs: Array, numbers: Array, default: int) -> Array:
    """Return, for each storage in `numbers`, the value of its last pair (storage, value); `default`
    without one."""
    if not len(pairs):
        return np.full(len(numbers), default)
    number, value = pairs.T
    if (number[1:] < number[:-1]).any():
        order = number.argsort(kind="stable")
        number, value = number[order], value[order]
    at = np.searchsorted(number, numbers, side="right") - 1
    values: Array = np.where(number[at] == numbers, value[at], default)
    return values


def area(layout: Layout, line: int, name: str, machine: Machine) -> Area:
    """Return the Area of a storage, or of the whole memory if the kernel chose the address."""
    region = layout.region
    if not layout.placed:
        return Area(region, name, layout.partitions, layout.row_bytes, False, line)
    memory = machine.sbuf if region is MemoryRegion.sbuf else machine.psum
    return Area(region, region.value, memory.partitions, memory.partition_bytes, True, -1)
