"""Transposed copies, block by block: copying whole columns would use only few sets of the cache."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from numba import types

from neuroncore.base.jit import compiled_once
from neuroncore.numerics.loops.blocks import turned
from neuroncore.numerics.loops.lanes import LANES

Array = npt.NDArray[Any]

BLOCK = max(LANES, 8)  # 16 numbers of 4 bytes are a cache line
_turned = turned(BLOCK)


def turn(source: Array, target: Array) -> None:
    """target[j, i] = source[i, j], for unsigned integers of up to 4 bytes with unit strides along
    rows"""
    _turns[source.itemsize]()(source, target)


def _turn(source: Array, target: Array) -> None:
    rows, columns = source.shape
    whole_rows, whole_columns = rows - rows % BLOCK, columns - columns % BLOCK
    for j in range(0, whole_columns, BLOCK):
        for i in range(0, whole_rows, BLOCK):
            _turned(source[i:, j:], target[j:, i:])
    for i in range(rows):
        for j in range(whole_columns if i < whole_rows else 0, columns):
            target[j, i] = source[i, j]


def _of_any_layout(word: Any) -> Any:
    source, target = (types.Array(word, 2, "A", readonly=r) for r in (True, False))
    return compiled_once(source, target)(_turn)


_turns = {n: _of_any_layout(word) for n, word in {1: types.u1, 2: types.u2, 4: types.u4}.items()}
