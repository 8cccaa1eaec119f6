"""Loops over elements that numpy takes several times as long for: choices and sums of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from neuroncore.base.jit import compiled_once

Array = npt.NDArray[Any]


def choose(chosen: Array, source: Array, out: Array) -> None:
    """out[i] = source[i] where chosen[i], of vectors of unsigned integers of up to 4 bytes."""
    _choices[out.itemsize]()(chosen, source, out)


def _choose(chosen: Array, source: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        out[i] = source[i] if chosen[i] else out[i]


def _of(word: Any) -> Any:
    given = types.boolean[::1], types.Array(word, 1, "C", readonly=True), word[::1]
    return compiled_once(*given)(_choose)


_choices = {n: _of(word) for n, word in {1: types.u1, 2: types.u2, 4: types.u4}.items()}


@compiled_once(types.i8, types.i8, types.i8[::1], types.i4[:, ::1])
def lattice(offset: int, per_row: int, along: Array, out: Array) -> None:
    """out[p, j] = offset + p * per_row + along[j], in 32 bits that wrap around."""
    for p in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[p, j] = np.int32(offset + p * per_row + along[j])
