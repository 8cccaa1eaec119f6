"""Results that are read in part, or together with other bytes. A box is a rectangle of bytes in a
memory (`record.boxes`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import borrowing, compiled
from neuroncore.time.loops.dependencies import Accesses

Array = npt.NDArray[Any]


class Results(NamedTuple):
    """The last result in each box.

    `writer`: the instruction that wrote the result; -1 for none
    `cut`: whether some of its bytes were overwritten
    `begin`, `end`: the bytes per partition that are left, from `begin` to before `end`. A write to
        the middle of these bytes changes neither."""

    writer: Array
    cut: Array
    begin: Array
    end: Array


def partial_reads(accesses: Accesses, boxes: Array, among: Array, at_index: Array) -> Array:
    """Return, for each instruction that `among` flags, whether a read covers other bytes than it
    wrote: a part, more, or overwritten bytes.

    Each flagged instruction must have one result. `boxes` is `Boxes.table` of the record.
    at_index[i] is True if instruction i writes to addresses that depend on an index at run time: it
    may leave any bytes of its boxes unchanged."""
    count = len(accesses.near_start) - 1
    results = Results(
        writer=np.full(count, -1, np.int32),
        cut=np.zeros(count, np.bool_),
        begin=np.zeros(count, np.int64),
        end=np.zeros(count, np.int64),
    )
    partly = np.zeros(len(among), np.bool_)
    _partial_reads.over(len(among))(accesses, boxes, among, at_index, results, partly)
    return partly


@compiled
def _partial_reads(
    accesses: Accesses, boxes: Array, among: Array, at_index: Array, results: Results, partly: Array
) -> None:
    start, operands, near, near_start = (
        accesses.start,
        accesses.operands,
        accesses.near,
        accesses.near_start,
    )
    for i in range(among.shape[0]):
        first_write = start[i] + accesses.reads[i]
        for k in range(start[i], start[i + 1]):
            box = operands[k]
            for n in range(near_start[box], near_start[box + 1]):
                b = near[n]
                w = results.writer[b]
                if w < 0 or boxes[box, 3] >= results.end[b] or boxes[box, 4] <= results.begin[b]:
                    continue
                if k >= first_write:
                    results.cut[b] = True
                    if not at_index[i]:
                        _overwrite(box, b, boxes, results)
                elif box != b or results.cut[b]:
                    partly[w] = True
        if at_index[i]:  # earlier results remain, in part
            partly[i] = True
            continue
        for k in range(first_write, start[i + 1]):
            box = operands[k]
            results.writer[box] = i if among[i] else -1
            results.cut[box] = False
            results.begin[box], results.end[box] = boxes[box, 3], boxes[box, 4]


@borrowing
def _overwrite(box: Any, b: Any, boxes: Array, results: Results) -> None:
    """Record which bytes of the last result in box b are left after a write to `box`."""
    if not boxes[box, 5] or boxes[box, 1] > boxes[b, 1] or boxes[box, 2] < boxes[b, 2]:
        return
    if boxes[box, 3] <= results.begin[b]:
        results.begin[b] = boxes[box, 4]
    elif boxes[box, 4] >= results.end[b]:
        results.end[b] = boxes[box, 3]
    if results.begin[b] >= results.end[b]:
        results.writer[b] = -1
