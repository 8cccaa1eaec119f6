"""The rows of a record: what the run writes of each instruction, and the columns that readers make
of that.

A row is a line and ~ the number of a Call, a window for each tile, and the number of its values if
the Call has any. A window is a storage, a geometry and an offset in elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.structs import dataclass
from neuroncore.clause.instruction import Call
from neuroncore.record.loops import rows as native
from neuroncore.record.loops.boxes import ANYWHERE as ANYWHERE
from neuroncore.record.loops.boxes import distinct

Array = npt.NDArray[Any]
Pack = Callable[..., bytes]

# A row in words of 64 bits, of which the lower half comes first (`loops.rows`).
BEGIN, WINDOW, VALUES, WORD = "ii", "qqq", "q", "<i8"
MOVING = 1 << 62  # what is added, as an offset, to the number of a window that moves


@dataclass(frozen=True)
class Columns:
    """The rows as arrays: `operands[start[i]:start[i + 1]]` are the windows or boxes of instruction
    i, in the order of its Call's `reads + indices + writes`; `values[i]` are its values, -1 if it
    has none."""

    call: Array
    line: Array
    start: Array
    operands: Array
    values: Array

    def permuted(self, rows: Array) -> Columns:
        """The same rows in another order."""
        widths = np.diff(self.start)[rows]
        start = _starts(widths)
        shift = np.repeat(self.start[rows] - start[:-1], widths)
        operands = self.operands[np.arange(start[-1]) + shift]
        return Columns(self.call[rows], self.line[rows], start, operands, self.values[rows])


class Windows(NamedTuple):
    """Windows on storage, in columns: a storage, the number of a geometry, where it begins, in
    elements, or ANYWHERE, and its number among those that move, -1 if it doesn't."""

    storage: Array
    geometry: Array
    offset: Array
    moving: Array


@cache
def packer(tiles: int, has_values: bool) -> Pack:
    """Return the function that packs numbers into a row, for a Call with this many tiles."""
    return Struct(f"<{BEGIN}{WINDOW * tiles}{VALUES * has_values}").pack


def tiles_of(calls: Sequence[Call]) -> Array:
    """How many windows rows of each Call have."""
    return np.array([len(call.reads + call.indices + call.writes) for call in calls], np.int64)


def valued(calls: Sequence[Call]) -> Array:
    """True for each Call whose rows end with the number of its values."""
    return np.array([call.has_values for call in calls], np.bool_)


def apart(
    written: bytes, count: int, calls: Sequence[Call], moved: Array
) -> tuple[Columns, Windows]:
    """Return rows as they were written, with the numbers of their windows, in the order of first
    use. `moved` has the offsets of windows that move."""
    words = np.frombuffer(written, WORD)
    call, line, values = (np.empty(count, np.int64) for _ in range(3))
    start, found = np.zeros(count + 1, np.int64), np.empty((len(words) // 3, 3), np.int64)
    columns = call, line, start, found, values
    native.apart.over(count)(words, tiles_of(calls), valued(calls), *columns)
    found = found[: start[-1]]
    first, number = distinct(found)
    return Columns(call, line, start, number, values), _windows(found.take(first, axis=0), moved)


def _windows(found: Array, moved: Array) -> Windows:
    storage, geometry, offset = found.T.copy()
    moving = np.where(offset >= MOVING, offset - MOVING, -1)
    offset[moving >= 0] = moved[moving[moving >= 0]]
    return Windows(storage, geometry, offset, moving)


def _starts(widths: Array) -> Array:
    start = np.zeros(len(widths) + 1, np.int64)
    np.cumsum(widths, out=start[1:])
    return start


# --- rows one after the other, as files have them -------------------------------------------------


def joined(columns: Columns) -> tuple[Array, Array]:
    """Rows of a Call, a line, the numbers of windows and that of values if there are any, one after
    the other, and where each begins and the last one ends."""
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
    """The columns of such rows, of these widths. Raises ValueError where they differ, a row has no
    Call, or has not as many windows as its Call has tiles."""
    if (rows < 0).any() or (widths < 2).any() or widths.sum() != len(rows):
        raise ValueError("rows and their widths differ")
    bounds = _starts(widths)
    begins, ends = bounds[:-1], bounds[1:]
    call = rows[begins]
    inside(call, len(calls), "calls")
    has_values = valued(calls)[call]
    tiles = tiles_of(calls)[call]
    if (widths != 2 + tiles + has_values).any():
        raise ValueError("a row has not the windows of its call")
    is_operand = np.ones(len(rows), np.bool_)
    is_operand[begins] = is_operand[begins + 1] = is_operand[ends[has_values] - 1] = False
    values = np.full(len(call), -1, np.int64)
    values[has_values] = rows[ends[has_values] - 1]
    return Columns(call, rows[begins + 1], _starts(tiles), rows[is_operand], values)


def inside(numbers: Any, count: int, what: str) -> None:
    """Raises ValueError for a number that is not one of `count` things, counted from 0."""
    found = np.asarray(numbers)
    if found.size and not (found.min() >= 0 and found.max() < count):
        raise ValueError(f"there are {count} {what}")
