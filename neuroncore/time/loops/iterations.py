"""Bytes that iterations of a loop share: `neuroncore.time.vectorized`."""

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
    """Return whether no iteration uses bytes that another one writes. An iteration has so many of
    the rows; row i reads inputs[i] of its operands; box b shares bytes with
    near[near_start[b]:near_start[b + 1]]; writer is -1 for each box, and is so afterwards."""
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
