"""Dependencies: waits for data and waits for space, and the successive contents of a tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.record.boxes import Box
from neuroncore.time.loops.dependencies import Accesses

Array = npt.NDArray[Any]
MOST_USES = 20_000  # of a tile that is looked at use by use


def flow_of_data(first: Array, needs: Array, accesses: Accesses) -> tuple[Array, Array]:
    """The dependencies of each instruction on writers of its inputs, and on earlier writers of the
    same bytes that were not read since: it adds to their result."""
    waiting = np.repeat(np.arange(len(first) - 1), np.diff(first))
    reads = read_of(accesses, waiting, needs)
    overwrites = read_of(accesses, needs, waiting) & ~reads
    latest = np.full(len(first) - 1, -1, needs.dtype)
    np.maximum.at(latest, waiting[overwrites], needs[overwrites])
    return kept_waits(first, needs, reads | (~overwrites & (needs > latest[waiting])))


def read_of(accesses: Accesses, reader: Array, writer: Array) -> Array:
    """Return for each `reader` whether it reads bytes of the `writer` at the same index."""
    start, operands, reads, near, near_start = accesses
    inputs, outputs = reads[reader], (np.diff(start) - reads)[writer]
    count = inputs * outputs
    pair = np.repeat(np.arange(len(reader)), count)
    k = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    read = operands[start[reader[pair]] + k // outputs[pair]]
    written = operands[(start[:-1] + reads)[writer[pair]] + k % outputs[pair]]
    boxes = len(near_start) - 1
    both = np.repeat(np.arange(boxes), np.diff(near_start)) * boxes + near
    touches = np.isin(read * boxes + written, both)
    found: Array = np.bincount(pair[touches], minlength=len(reader)) > 0
    return found


def kept_waits(first: Array, needs: Array, kept: Array) -> tuple[Array, Array]:
    """Return `first` and `needs` for the dependencies that are kept."""
    count = np.concatenate([[0], np.cumsum(kept)])
    return count[first], needs[kept]


def contents(accesses: Accesses, boxes: Array, uses: Array) -> Array:
    """Return the number of the contents that a tile has at each of its `uses`, which are sorted
    indices of operands. The number increases with each write after which no earlier contents are
    read. `boxes` are those of the record (`Boxes.table`)."""
    user, writes = accesses.user[uses], ~accesses.is_read[uses]
    box = accesses.operands[uses]
    rows, row = np.unique(user, return_inverse=True)
    kept = np.zeros(len(rows) + 1, np.int64)  # how many values stay from before a row to it
    last: dict[int, int] = {}
    for each, b, write in zip(row.tolist(), box.tolist(), writes.tolist(), strict=True):
        if write:
            last[b] = each
        else:
            begin = _oldest(b, accesses, boxes, last)
            if begin < each:
                kept[begin + 1] += 1
                kept[each + 1] -= 1
    wrote = np.bincount(row, writes, len(rows)) > 0
    fresh = wrote & (np.cumsum(kept)[:-1] == 0)
    number = np.cumsum(fresh)
    found: Array = np.maximum(number - 1, 0)[row]
    return found


def _oldest(box: int, accesses: Accesses, boxes: Array, last: dict[int, int]) -> int:
    """Return the first row that wrote the current contents of a box; a write of the whole box
    replaces earlier writes. The result is -1 if the box was never written."""
    near, start = accesses.near, accesses.near_start
    writers = [(last[b], b) for b in near[start[box] : start[box + 1]].tolist() if b in last]
    if not writers:
        return -1
    latest, b = max(writers)
    (_, row, row_end, byte, byte_end, _), outer = boxes[box].tolist(), Box(*boxes[b].tolist())
    whole = outer.dense and outer.row <= row and row_end <= outer.row_end
    whole = whole and outer.byte <= byte and byte_end <= outer.byte_end
    return latest if whole else min(writers)[0]
