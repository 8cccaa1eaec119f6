"""Transposed copies, block by block: a column of a matrix shares few sets of the cache."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from neuroncore.native.blocks import turned
from neuroncore.native.jit import compiled

Array = npt.NDArray[Any]

BLOCK = 8
_turned = turned(BLOCK)


@compiled
def turn(source: Array, target: Array) -> None:
    """target[j, i] = source[i, j], of unsigned integers with unit strides along rows."""
    rows, columns = source.shape
    whole_rows, whole_columns = rows - rows % BLOCK, columns - columns % BLOCK
    for j in range(0, whole_columns, BLOCK):
        for i in range(0, whole_rows, BLOCK):
            _turned(source[i:, j:], target[j:, i:])
    for i in range(rows):
        for j in range(whole_columns if i < whole_rows else 0, columns):
            target[j, i] = source[i, j]
