"""Loops over elements that take several times as long in numpy: choices and sums of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from neuroncore.base.jit import compiled_once

Array = npt.NDArray[Any]


def choose(chosen: Array, source: Array, out: Array) -> None:
    """out[i] = source[i] where chosen[i] is true, for unsigned integers of up to 4 bytes."""
    _choices[out.itemsize]()(chosen, source, out)


def _choose(chosen: Array, source: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        out[i] = source[i] if chosen[i] else out[i]


def _of(word: Any) -> Any:
    signature = types.boolean[::1], types.Array(word, 1, "C", readonly=True), word[::1]
    return compiled_once(*signature)(_choose)


_choices = {n: _of(word) for n, word in {1: types.u1, 2: types.u2, 4: types.u4}.items()}


@compiled_once(types.i8, types.i8, types.i8[::1], types.i4[:, ::1])
def lattice(offset: int, per_row: int, along: Array, out: Array) -> None:
    """out[p, j] = offset + p * per_row + along[j], in 32 bits that wrap around."""
    for p in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[p, j] = np.int32(offset + p * per_row + along[j])


_matrix = types.Array(types.f4, 2, "C", readonly=True)
_column = types.Array(types.f4, 1, "A", readonly=True)


@compiled_once(_matrix, types.f4, _column, types.f4[:, ::1])
def affine(x: Array, scale: Any, terms: Array, out: Array) -> None:
    """out[p, j] = x[p, j] * scale + terms[p], rounded after each operation."""
    for p in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[p, j] = x[p, j] * scale + terms[p]


@compiled_once(_matrix, _column, types.f4[:, ::1])
def _multiply(x: Array, column: Array, out: Array) -> None:
    for p in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[p, j] = x[p, j] * column[p]


@compiled_once(_matrix, _column, types.f4[:, ::1])
def _add(x: Array, column: Array, out: Array) -> None:
    for p in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[p, j] = x[p, j] + column[p]


@compiled_once(_matrix, _column, types.f4[:, ::1])
def _subtract(x: Array, column: Array, out: Array) -> None:
    for p in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[p, j] = x[p, j] - column[p]


by_column: dict[Any, Any] = {np.multiply: _multiply, np.add: _add, np.subtract: _subtract}
"""For each of these numpy functions, a loop for a matrix, a vector with one number per row, and the
result, all float32. A loop takes a third of numpy's time. The result must not share memory with the
operands."""
