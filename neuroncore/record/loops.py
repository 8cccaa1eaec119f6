"""Compiled loops over the columns of a record: hashes, and the boxes that instructions touch.

A window is some elements of a tensor. A box is a rectangle
of bytes [row, row_end, byte, byte_end] that contains a window; its rows are partitions on chip. An
area is the bytes of a tensor, or a whole memory if the kernel chose addresses in this memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.jit import compiled, inlined

MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a 64-bit hash


def no_slots(count: int) -> npt.NDArray[Any]:
    """Return an empty hash table for `count` entries. The number of its slots is a power of 2."""
    return buffers.filled((1 << (2 * count).bit_length(),), -1, np.int32)


@inlined
def mixed(key: Any, value: Any) -> Any:
    """Return a 30-bit hash of `value` and of the hash `key`, equal in plain Python and compiled
    loops.

    The multiplication spreads small numbers. Otherwise, thousands of rows would share a slot."""
    low = ((key << 5) ^ (key >> 25) ^ value ^ (value >> 30)) & 0x3FFFFFFF
    spread = (low * 0x2C1B3C6D) & 0x3FFFFFFF
    return spread ^ (spread >> 15)


@inlined
def slot_of(key: Any, slots: int) -> Any:
    """Return the first of `slots` (a power of 2) in which to search for the hash `key`."""
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
    first: int,
    call: Array,
    line: Array,
    start: Array,
    windows: Array,
    values: Array,
) -> int:
    """Split the instructions in `words`, from instruction `first` on, into the columns `call` to
    `values` (`record.columns.Columns`). Return the instruction after the last one.

    An instruction is a 64-bit word (~call in the upper half, line in the lower), three words for
    each window, and, if it has values, a word with their index.

    `tiles`: the number of windows of each Call
    `has_values`: whether each Call has values"""
    at, operand, i = 0, 0, first
    before, count = start[first], words.shape[0]
    while at < count:
        call[i], line[i] = ~(words[at] >> 32), words[at] & LOWER
        at += 1
        for _ in range(tiles[call[i]]):
            windows[operand, 0] = words[at]
            windows[operand, 1] = words[at + 1]
            windows[operand, 2] = words[at + 2]
            at, operand = at + 3, operand + 1
        start[i + 1] = before + operand
        values[i] = -1
        if has_values[call[i]]:
            values[i] = words[at]
            at += 1
        i += 1
    return i


FEW = 64  # up to this many rows, a dict is used instead of the loop, which may run in plain Python
ANYWHERE = -1  # an offset that is only known when the instruction runs
# Columns of a table of geometries: the bytes of an element (ITEM) and of a row (PITCH); the first
# row (UP) and the end of the rows (DOWN) of a window, counted from the row of its first element;
# the bytes that it reaches before (LEFT) and after (RIGHT) its first element within a row; the
# first row and byte of the storage (ROW0, BYTE0); whether the window fills its box (FILLED); its
# least and greatest element, counted from its first element; the rows of the storage, and their
# bytes; the bytes of a row of the area if the area is a whole memory, otherwise 0; and the form.
ITEM, PITCH, UP, DOWN, LEFT, RIGHT, ROW0, BYTE0, FILLED = range(9)
LEAST, GREATEST, ROWS, ROW_BYTES, AREA_ROW_BYTES, FORM = range(9, 15)
# Columns of the result of `extents`. Column 0 is the area.
ROW, ROW_END, BYTE, BYTE_END, DENSE = range(1, 6)


@compiled
def extents(geometry: Array, offset: Array, table: Array, boxes: Array, exact: Array) -> None:
    """Set boxes[w] for each window w, from the column ROW on, and exact[w].

    Window w has the geometry table[geometry[w]] and begins at element offset[w]. If the offset is
    unknown, the box is the whole storage. DENSE is 1 if the window fills its box; then exact[w] is
    (-1, -1). Otherwise exact[w] is the first byte of the window's pattern in the area, and the
    form."""
    for w in range(geometry.shape[0]):
        g = geometry[w]
        exact[w, 0], exact[w, 1] = -1, -1
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
            exact[w, 0], exact[w, 1] = start, table[g, FORM]


def distinct(rows: Array) -> tuple[Array, Array]:
    """Return (the index of each distinct row's first copy, the distinct row of each row) for a
    table of integers."""
    if len(rows) <= FEW or not rows.shape[1]:
        return _few_distinct(rows)
    count, rows = len(rows), np.ascontiguousarray(rows)
    first, number = np.empty(count, np.int32), np.empty(count, np.int32)
    slots = no_slots(count)
    different = _distinct.over(count)(rows, slots, first, number)
    return first[:different], number


def _few_distinct(rows: Array) -> tuple[Array, Array]:
    places: dict[tuple[int, ...], int] = {}
    of_row = [places.setdefault(row, i) for i, row in enumerate(map(tuple, rows.tolist()))]
    first = np.fromiter(places.values(), np.int32, len(places))
    if len(places) == len(of_row):
        return first, first.copy()
    numbers = {place: n for n, place in enumerate(places.values())}
    return first, np.array([numbers[place] for place in of_row], np.int32)


@compiled
def _distinct(rows: Array, slots: Array, first: Array, number: Array) -> int:
    """Find the distinct rows with the hash table `slots`, and return how many there are. Set
    `first` and `number` to the results of `distinct`.

    A slot stores the index of a distinct row. Rows that differ only in the lowest three bits of
    their first number have neighboring slots: new tensors often have such numbers."""
    different, width = 0, rows.shape[1]
    for i in range(rows.shape[0]):
        key = mixed(0, rows[i, 0] >> 3)
        for k in range(1, width):
            key = mixed(key, rows[i, k])
        slot = slot_of(key ^ rows[i, 0] & 7, slots.shape[0])
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
def overlaps(
    order: Array, start: Array, end: Array, box: Array, place: Array, neighbors: Array
) -> None:
    """List the boxes that each box overlaps in its area, including the box itself.

    `order`: the boxes, sorted by area and first row
    `start`, `end`: the boxes of area a are order[start[a]:end[a]]
    `box`: a box is [row, row_end, byte, byte_end]
    `place`: the boxes that box p overlaps are written from neighbors[place[p]] on; then place[p] is
        the index after them
    `neighbors`: if it is empty, the boxes are only counted"""
    lists = neighbors.shape[0] > 0
    for a in range(start.shape[0]):
        for i in range(start[a], end[a]):
            p = order[i]
            if lists:
                neighbors[place[p]] = p
            place[p] += 1
            for j in range(i + 1, end[a]):
                q = order[j]
                if box[q, 0] >= box[p, 1]:
                    break
                if box[q, 2] < box[p, 3] and box[p, 2] < box[q, 3]:
                    if lists:
                        neighbors[place[p]], neighbors[place[q]] = q, p
                    place[p] += 1
                    place[q] += 1


@compiled
def pieces(boxes: Array, in_order: Array, on_chip: Array) -> Any:
    """Divide areas into pieces so that each box is inside one piece.

    Return four arrays:

    1. the piece of each box,
    2. whether each box fills its piece,
    3. the first box of each piece,
    4. the extents [row, row_end, byte, byte_end] of each piece.

    `boxes`: a box is [area, row, row_end, byte, byte_end, dense]
    `in_order`: the boxes, sorted by area and first byte

    On chip, a box that begins after all earlier boxes of a piece begins a new piece. In HBM, an
    area is one piece."""
    of_box, first = np.zeros(boxes.shape[0], np.int32), np.zeros(boxes.shape[0], np.int32)
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
