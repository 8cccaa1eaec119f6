"""Looking for values along the rows of float32 matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import compiled

Array = npt.NDArray[Any]

MISSING = 0xFFFFFFFF


@compiled
def largest(ranks: Array, out: Array) -> None:
    """out[p] = the greatest of the integers ranks[p, :], in descending order."""
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
    """out[p, i] = where in data[p, :] wanted[p, i] is, MISSING if nowhere. Equal values take one
    occurrence after the other, in the order of i, or the last i first."""
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
