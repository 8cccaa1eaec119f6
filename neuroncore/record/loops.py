"""Compiled loops over the columns of a record: hashes, rows, and the boxes that they touch.

A row is one instruction of the record. A window is some elements of a tensor, and a box is the
rectangle of bytes in which a window lies: [row, row_end, byte, byte_end]. An area is the bytes of a
tensor, or a whole memory if the kernel chose addresses in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.jit import compiled, inlined

MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a 64-bit hash


def no_slots(count: int) -> npt.NDArray[Any]:
    """Return the empty slots of a hash table for `count` things. The number of slots is a power of
    2."""
    return buffers.filled((1 << (2 * count).bit_length(),), -1, np.int32)


@inlined
def mixed(key: Any, value: Any) -> Any:
    """Return a hash of 30 bits, which is the same in plain Python and in compiled loops. The
    product spreads small numbers; without it, rows of small numbers share slots by the thousand."""
    low = ((key << 5) ^ (key >> 25) ^ value ^ (value >> 30)) & 0x3FFFFFFF
    spread = (low * 0x2C1B3C6D) & 0x3FFFFFFF
    return spread ^ (spread >> 15)


@inlined
def slot_of(key: Any, slots: int) -> Any:
    """Return the slot in which to look first for `key`. `slots` is the number of slots, a power of
    2."""
    return (key ^ (key >> 15)) & (slots - 1)


@inlined
def next_slot(slot: Any, slots: int) -> Any:
    return (slot + 1) & (slots - 1)


Array = npt.NDArray[Any]
LOWER = (1 << 32) - 1


@compiled
def apart(
    words: Array,
    tiles: Array,
    has_values: Array,
    call: Array,
    line: Array,
    start: Array,
    windows: Array,
    values: Array,
) -> None:
    """Split rows, which are in `words` one after the other, into the columns `call` to `values`
    (`record.columns.Columns`). A row has one word of 64 bits with ~ its Call in the upper half and
    its line in the lower half, three words for each window, and, if it has values, one word with
    their index. `tiles` and `has_values` have, for each Call, its number of windows and whether it
    has values."""
    at, operand = 0, 0
    for i in range(call.shape[0]):
        call[i], line[i] = ~(words[at] >> 32), words[at] & LOWER
        at += 1
        for _ in range(tiles[call[i]]):
            windows[operand, 0] = words[at]
            windows[operand, 1] = words[at + 1]
            windows[operand, 2] = words[at + 2]
            at, operand = at + 3, operand + 1
        start[i + 1] = operand
        values[i] = -1
        if has_values[call[i]]:
            values[i] = words[at]
            at += 1


FEW = 64  # most rows for which a dict is faster than the loop in plain Python
ANYWHERE = -1  # an offset that is only known when the instruction runs
# Columns of a table of geometries: bytes of an element (ITEM) and of a row (PITCH); how many rows
# a window reaches before (UP) and behind (DOWN) the row of its first element, and how many bytes
# within a row (LEFT, RIGHT); the first row and byte of the storage; whether the window fills its
# box; its least and greatest element; the rows of the storage, and their bytes; the bytes of a row
# of the area, if the area is a whole memory, else 0; and the form.
ITEM, PITCH, UP, DOWN, LEFT, RIGHT, ROW0, BYTE0, FILLED = range(9)
LEAST, GREATEST, ROWS, ROW_BYTES, AREA_ROW_BYTES, FORM = range(9, 15)
# Columns of the result of `extents`, after the area.
ROW, ROW_END, BYTE, BYTE_END, DENSE, START, OWN_FORM = range(1, 8)


@compiled
def extents(geometry: Array, offset: Array, table: Array, boxes: Array) -> None:
    """Set boxes[w] for each window w, from the column ROW on: the box of the window, and whether
    the window fills the box (DENSE). If it does not, also set the beginning of its pattern in the
    area (START) and its form (OWN_FORM); otherwise both are -1. Window w has the geometry
    table[geometry[w]] and begins at element offset[w]. A window at an unknown position has the box
    of the whole storage."""
    for w in range(geometry.shape[0]):
        g = geometry[w]
        boxes[w, START], boxes[w, OWN_FORM] = -1, -1
        if offset[w] == ANYWHERE:
            row, byte, pitch = table[g, ROW0], table[g, BYTE0], table[g, PITCH]
            rows = -(-table[g, ROWS] * table[g, ROW_BYTES] // pitch)
            boxes[w, ROW], boxes[w, ROW_END] = row, row + rows
            boxes[w, BYTE], boxes[w, BYTE_END] = byte, byte + pitch
            boxes[w, DENSE] = 1
            continue
        item, pitch = table[g, ITEM], table[g, PITCH]
        start = offset[w] * item
        row, byte = start // pitch, start % pitch
        low, high = byte + table[g, LEFT], byte + item + table[g, RIGHT]
        if low < 0 or high > pitch:  # the window continues beyond the ends of rows
            boxes[w, ROW] = (start + table[g, LEAST] * item) // pitch
            boxes[w, ROW_END] = -(-(start + (table[g, GREATEST] + 1) * item) // pitch)
            boxes[w, BYTE], boxes[w, BYTE_END], boxes[w, DENSE] = 0, pitch, 0
        else:
            row0, byte0 = table[g, ROW0], table[g, BYTE0]
            boxes[w, ROW], boxes[w, ROW_END] = (
                row0 + row + table[g, UP],
                row0 + row + table[g, DOWN],
            )
            boxes[w, BYTE], boxes[w, BYTE_END] = byte0 + low, byte0 + high
            boxes[w, DENSE] = table[g, FILLED]
        if not boxes[w, DENSE]:
            if table[g, AREA_ROW_BYTES] > 0:  # the area is a memory, whose rows are longer
                row, byte = start // table[g, ROW_BYTES], start % table[g, ROW_BYTES]
                start = (table[g, ROW0] + row) * table[g, AREA_ROW_BYTES] + table[g, BYTE0] + byte
            boxes[w, START], boxes[w, OWN_FORM] = start, table[g, FORM]


def distinct(rows: Array) -> tuple[Array, Array]:
    """Return two arrays: the index at which each distinct row of integers is first, and for each
    row its number among the distinct rows."""
    if len(rows) <= FEW:
        return _few_distinct(rows)
    count, rows = len(rows), np.ascontiguousarray(rows)
    first, number = np.empty(count, np.int64), np.empty(count, np.int64)
    slots = no_slots(count)
    different = _distinct.over(count)(rows, slots, first, number)
    return first[:different], number


def _few_distinct(rows: Array) -> tuple[Array, Array]:
    numbers: dict[tuple[int, ...], int] = {}
    number = [numbers.setdefault(row, len(numbers)) for row in map(tuple, rows.tolist())]
    first = dict(zip(reversed(number), range(len(number) - 1, -1, -1), strict=True))
    return np.array([first[n] for n in range(len(numbers))], np.int64), np.array(number, np.int64)


@compiled
def _distinct(rows: Array, slots: Array, first: Array, number: Array) -> int:
    """Find the distinct rows with a hash table, and return how many there are. `first` and `number`
    are set as `distinct` returns them. `slots` has the number of each distinct row, at the slot of
    its hash or the next free one. If hashes differ, each row takes one step."""
    different, width = 0, rows.shape[1]
    for i in range(rows.shape[0]):
        key = 0
        for k in range(width):
            key = mixed(key, rows[i, k])
        slot = slot_of(key, slots.shape[0])
        while slots[slot] >= 0:
            other = first[slots[slot]]
            k = 0
            while k < width and rows[i, k] == rows[other, k]:
                k += 1
            if k == width:
                break
            slot = next_slot(slot, slots.shape[0])
        if slots[slot] < 0:
            slots[slot], first[different] = different, i
            different += 1
        number[i] = slots[slot]
    return different


@compiled
def overlap_counts(order: Array, start: Array, end: Array, box: Array, counts: Array) -> None:
    """Set counts[p] to the number of boxes of the same area that box p overlaps, itself
    included.

    `order` sorts boxes by area and first row, and order[start[a]:end[a]] are the boxes of area a. A
    box is [row, row_end, byte, byte_end].
    """
    for a in range(start.shape[0]):
        for i in range(start[a], end[a]):
            p = order[i]
            counts[p] += 1
            for j in range(i + 1, end[a]):
                q = order[j]
                if box[q, 0] >= box[p, 1]:
                    break
                if box[q, 2] < box[p, 3] and box[p, 2] < box[q, 3]:
                    counts[p] += 1
                    counts[q] += 1


@compiled
def overlap_pairs(
    order: Array, start: Array, end: Array, box: Array, place: Array, neighbors: Array
) -> None:
    """Collect the boxes that each box overlaps, itself included. The boxes that box p overlaps are
    written to `neighbors` from place[p] on, and place[p] moves to the end of them. `order`,
    `start`, `end` and `box` are those of `overlap_counts`."""
    for a in range(start.shape[0]):
        for i in range(start[a], end[a]):
            p = order[i]
            neighbors[place[p]] = p
            place[p] += 1
            for j in range(i + 1, end[a]):
                q = order[j]
                if box[q, 0] >= box[p, 1]:
                    break
                if box[q, 2] < box[p, 3] and box[p, 2] < box[q, 3]:
                    neighbors[place[p]] = q
                    place[p] += 1
                    neighbors[place[q]] = p
                    place[q] += 1


@compiled
def pieces(boxes: Array, in_order: Array, on_chip: Array) -> Any:
    """Return four arrays. For each box: its piece, and whether the box fills the piece. For each
    piece: its first box, and its extents [row, row_end, byte, byte_end]. A piece is a part of an
    area that no box shares with another part.

    A box is [area, row, row_end, byte, byte_end, dense]; `in_order` sorts boxes by area and first
    byte. On chip, a box that begins after the end of all earlier boxes of a piece begins a new
    piece; elsewhere, an area is one piece.
    """
    of_box, first = np.zeros(boxes.shape[0], np.int64), np.zeros(boxes.shape[0], np.int64)
    extents = np.zeros((boxes.shape[0], 4), np.int64)
    last = -1
    for b in in_order:
        same_area = last >= 0 and boxes[b, 0] == boxes[first[last], 0]
        if not same_area or (on_chip[b] and boxes[b, 3] >= extents[last, 3]):
            last += 1
            first[last] = b
            for k in range(4):
                extents[last, k] = boxes[b, 1 + k]
        of_box[b] = last
        extents[last, 0] = min(extents[last, 0], boxes[b, 1])
        extents[last, 1] = max(extents[last, 1], boxes[b, 2])
        extents[last, 3] = max(extents[last, 3], boxes[b, 4])
    whole = np.zeros(boxes.shape[0], np.bool_)
    for b in range(boxes.shape[0]):
        whole[b] = boxes[b, 5] > 0
        for k in range(4):
            whole[b] &= boxes[b, 1 + k] == extents[of_box[b], k]
    return of_box, whole, first[: last + 1].copy(), extents[: last + 1].copy()
