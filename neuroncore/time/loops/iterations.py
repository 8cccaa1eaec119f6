"""Bytes that iterations of a loop share, for `neuroncore.time.vectorized`."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from neuroncore.base.jit import compiled

Array = npt.NDArray[Any]


@compiled
def independent(
    rows: Array,
    width: int,
    start: Array,
    operands: Array,
    inputs: Array,
    near: Array,
    near_start: Array,
    writer: Array,
) -> bool:
    """Return whether no iteration uses bytes that another iteration writes. Each iteration has
    `width` of the rows. Row i reads the first inputs[i] of its operands, and writes the others. Box
    b shares bytes with near[near_start[b]:near_start[b + 1]]. `writer` has an entry for each box,
    which is -1 before and after the call."""
    apart = True
    for r in range(rows.shape[0]):
        i, k = rows[r], r // width
        for n in range(start[i] + inputs[i], start[i + 1]):
            if writer[operands[n]] >= 0 and writer[operands[n]] != k:
                apart = False
            writer[operands[n]] = k
    for r in range(rows.shape[0]):
        i, k = rows[r], r // width
        for n in range(start[i], start[i + 1]):
            for m in range(near_start[operands[n]], near_start[operands[n] + 1]):
                if writer[near[m]] >= 0 and writer[near[m]] != k:
                    apart = False
    for r in range(rows.shape[0]):
        i = rows[r]
        for n in range(start[i] + inputs[i], start[i + 1]):
            writer[operands[n]] = -1
    return apart
