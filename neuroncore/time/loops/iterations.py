"""Bytes that iterations of a loop share, for `neuroncore.time.vectorized`. A box is a rectangle of
bytes in a memory (`record.boxes`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import borrowing, compiled
from neuroncore.time.loops.dependencies import Accesses

Array = npt.NDArray[Any]


@compiled
def independent(rows: Array, segment: Array, accesses: Accesses, writer: Array) -> Array:
    """Return, for each loop, whether it may run segment by segment: segment 0 of all iterations,
    then segment 1 of all, and so on.

    If an iteration uses bytes that another iteration writes, the user and the writer must be in the
    same segment, because a segment keeps the order of its iterations.

    `rows`: rows[n] are the instructions of loop n, iteration by iteration
    `segment`: segment[j] is the segment of instruction j of an iteration; -1 for an instruction
        that is merged over all iterations. The iterations may share no bytes that such an
        instruction writes.
    `accesses`: the boxes that instructions read and write
    `writer`: one entry for each box, which is -1 before and after the call"""
    start, operands, inputs, near, near_start = accesses
    apart = np.ones(rows.shape[0], np.bool_)
    for loop in range(rows.shape[0]):
        for r in range(rows.shape[1]):
            i = rows[loop, r]
            for n in range(start[i] + inputs[i], start[i + 1]):
                apart[loop] &= _in_order(writer[operands[n]], r, segment)
                writer[operands[n]] = r
        for r in range(rows.shape[1]):
            i = rows[loop, r]
            for n in range(start[i], start[i + 1]):
                for m in range(near_start[operands[n]], near_start[operands[n] + 1]):
                    apart[loop] &= _in_order(writer[near[m]], r, segment)
        for r in range(rows.shape[1]):
            i = rows[loop, r]
            for n in range(start[i] + inputs[i], start[i + 1]):
                writer[operands[n]] = -1
    return apart


@borrowing
def _in_order(writer: Any, r: int, segment: Array) -> Any:
    """Return whether instructions `writer` (-1: none) and `r` stay in order: they are in one
    iteration, or in the same segment and not merged."""
    width = segment.shape[0]
    current = segment[r % width]
    return (
        writer < 0
        or writer // width == r // width
        or (current >= 0 and segment[writer % width] == current)
    )
