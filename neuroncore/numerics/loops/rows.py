"""Loops along the rows of float32 matrices: means and variances, in float64 and rounded once, and
searches for values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled

Array = npt.NDArray[Any]


@compiled
def moments(x: Array, out: Array) -> None:
    """out[p] = (count, mean, sum of (x - mean)^2) of the even elements of row p, then of the odd
    elements."""
    rows, columns = x.shape
    for p in range(rows):
        for parity in range(2):
            count = (columns + 1 - parity) // 2
            total, spread = 0.0, 0.0
            for j in range(parity, columns, 2):
                total += x[p, j]
            mean = total / count if count else 0.0
            for j in range(parity, columns, 2):
                spread += (x[p, j] - mean) ** 2
            out[p, 3 * parity] = count
            out[p, 3 * parity + 1] = mean
            out[p, 3 * parity + 2] = spread


@compiled
def aggregate(x: Array, out: Array) -> None:
    """out[p] = mean and variance of the data that the triples in x[p, :] describe: (count, mean,
    sum of squared differences from the mean)."""
    for p in range(x.shape[0]):
        count, total, spread = 0.0, 0.0, 0.0
        for j in range(0, x.shape[1], 3):
            count += x[p, j]
            total += np.float64(x[p, j]) * x[p, j + 1]
        mean = total / count
        for j in range(0, x.shape[1], 3):
            spread += x[p, j + 2] + np.float64(x[p, j]) * (x[p, j + 1] - mean) ** 2
        out[p, 0] = mean
        out[p, 1] = spread / count


MISSING = 0xFFFFFFFF


@compiled
def largest(ranks: Array, out: Array) -> None:
    """out[p, :] = the greatest of the integers ranks[p, :], in descending order."""
    last = out.shape[1] - 1
    for p in range(ranks.shape[0]):
        out[p, :] = np.iinfo(out.dtype).min
        for j in range(ranks.shape[1]):
            r = ranks[p, j]
            if r > out[p, last]:
                i = last
                while i > 0 and out[p, i - 1] < r:
                    out[p, i] = out[p, i - 1]
                    i -= 1
                out[p, i] = r


@compiled
def occurrences(data: Array, wanted: Array, out: Array, backwards: bool) -> None:
    """out[p, i] = the position of wanted[p, i] in data[p, :], or MISSING. If wanted[p, :] has a
    value several times, the first i gets the first position, and so on. With `backwards` the last i
    gets the first position."""
    count = wanted.shape[1]
    for p in range(data.shape[0]):
        for i in range(count):
            value, taken = wanted[p, i], 0
            for k in range(count):
                if (k > i if backwards else k < i) and wanted[p, k] == value:
                    taken += 1
            out[p, i] = MISSING
            for j in range(data.shape[1]):
                if data[p, j] == value:
                    if taken == 0:
                        out[p, i] = j
                        break
                    taken -= 1
