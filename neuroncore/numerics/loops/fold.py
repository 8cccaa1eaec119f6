"""Folds and scans along the rows of float matrices, from the first element to the last.

The order is fixed, because it affects the results of sums and products. The elements of one row
must be added one after the other. So loops work on eight rows at a time, to keep the processor's
adders busy."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from neuroncore.base.jit import compiled, inlined
from neuroncore.numerics.loops.intrinsics import maximum as greater
from neuroncore.numerics.loops.intrinsics import minimum as lesser

Array = npt.NDArray[Any]


@compiled
def add(x: Array, state: Array) -> None:
    """state[p] = (((state[p] + x[p, 0]) + x[p, 1]) + ...)"""
    rows, columns = x.shape
    for p in range(0, rows - 7, 8):
        a, b, c, d = state[p], state[p + 1], state[p + 2], state[p + 3]
        e, f, g, h = state[p + 4], state[p + 5], state[p + 6], state[p + 7]
        for j in range(columns):
            a += x[p, j]
            b += x[p + 1, j]
            c += x[p + 2, j]
            d += x[p + 3, j]
            e += x[p + 4, j]
            f += x[p + 5, j]
            g += x[p + 6, j]
            h += x[p + 7, j]
        state[p], state[p + 1], state[p + 2], state[p + 3] = a, b, c, d
        state[p + 4], state[p + 5], state[p + 6], state[p + 7] = e, f, g, h
    for p in range(rows - rows % 8, rows):
        a = state[p]
        for j in range(columns):
            a += x[p, j]
        state[p] = a


@compiled
def multiply(x: Array, state: Array) -> None:
    for p in range(x.shape[0]):
        a = state[p]
        for j in range(x.shape[1]):
            a *= x[p, j]
        state[p] = a


@compiled
def maximum(x: Array, state: Array) -> None:
    for p in range(x.shape[0]):
        a = state[p]
        for j in range(x.shape[1]):
            a = greater(a, x[p, j])
        state[p] = a


@compiled
def minimum(x: Array, state: Array) -> None:
    for p in range(x.shape[0]):
        a = state[p]
        for j in range(x.shape[1]):
            a = lesser(a, x[p, j])
        state[p] = a


@compiled
def larger_magnitude(x: Array, state: Array) -> None:
    """Fold by the largest magnitude. If magnitudes are equal, the last element wins."""
    for p in range(x.shape[0]):
        a = state[p]
        for j in range(x.shape[1]):
            a = a if abs(a) > abs(x[p, j]) else x[p, j]
        state[p] = a


@compiled
def smaller_magnitude(x: Array, state: Array) -> None:
    for p in range(x.shape[0]):
        a = state[p]
        for j in range(x.shape[1]):
            a = a if abs(a) < abs(x[p, j]) else x[p, j]
        state[p] = a


@compiled
def elementwise_maximum(a: Array, b: Array, out: Array) -> None:
    """out = the maximum of the matrices a and b; `b` may have a single column."""
    for p in range(out.shape[0]):
        if b.shape[1] == 1:
            v = b[p, 0]
            for j in range(out.shape[1]):
                out[p, j] = greater(a[p, j], v)
        else:
            for j in range(out.shape[1]):
                out[p, j] = greater(a[p, j], b[p, j])


@compiled
def elementwise_minimum(a: Array, b: Array, out: Array) -> None:
    for p in range(out.shape[0]):
        if b.shape[1] == 1:
            v = b[p, 0]
            for j in range(out.shape[1]):
                out[p, j] = lesser(a[p, j], v)
        else:
            for j in range(out.shape[1]):
                out[p, j] = lesser(a[p, j], b[p, j])


@inlined
def _apply(op: int, a: Any, b: Any) -> Any:
    """Apply the operator with the number `op` in `SCANNED`."""
    if op == 0:
        return a + b
    if op == 1:
        return a * b
    if op == 2:
        return a - b
    if op == 3:
        return greater(a, b)
    return lesser(a, b)


SCANNED = ("add", "multiply", "subtract", "maximum", "minimum")


@compiled
def cumulate(x: Array, state: Array, out: Array, op: int) -> None:
    """out[p, j] = r = x[p, j] <op> r along each row. `op` is the operator's number in SCANNED.
    state[p] is r before the first and after the last element."""
    for p in range(x.shape[0]):
        r = state[p]
        for j in range(x.shape[1]):
            r = _apply(op, x[p, j], r)
            out[p, j] = r
        state[p] = r


@compiled
def scan(
    first: Array, second: Array, state: Array, out: Array, op0: int, op1: int, swap0: bool,
    swap1: bool,
) -> None:  # fmt: skip
    """out[p, j] = r = op1(op0(first[p, j], r), second[p, j]) along each row

    `swap0` and `swap1` swap the operands of the operators. Operators are numbers in SCANNED.
    `state` is r before the first and after the last element."""
    for p in range(first.shape[0]):
        r = state[p]
        for j in range(first.shape[1]):
            a, b = first[p, j], second[p, j]
            r = _apply(op0, r, a) if swap0 else _apply(op0, a, r)
            r = _apply(op1, b, r) if swap1 else _apply(op1, r, b)
            out[p, j] = r
        state[p] = r
