"""Copies of arrays, those that transpose by compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.numerics.loops import transpose as native

Array = npt.NDArray[Any]


WORDS = {n: np.dtype(f"u{n}") for n in (1, 2, 4)}  # by their bytes
LEAST = 1 << 11  # elements of a matrix for which compiled code is worth its call


def copy(source: Array, target: Array) -> None:
    """target[...] = source, of equal shapes.

    Elements that lie one after the other along different axes of the two are taken as matrices.
    """
    axes = _dense(source, target)
    if axes is None or np.may_share_memory(source, target):
        target[...] = source
        return
    rows, columns = axes
    source, target = source.view(WORDS[source.itemsize]), target.view(WORDS[target.itemsize])
    if source.ndim == 2:
        native.turn(*(source.T, target) if rows == 0 else (source, target.T))
        return
    order = [axis for axis in range(source.ndim) if axis not in axes]
    matrices, into = (
        source.transpose(*order, columns, rows),
        target.transpose(*order, rows, columns),
    )
    for place in np.ndindex(into.shape[:-2]):
        native.turn(matrices[place], into[place])


def _dense(source: Array, target: Array) -> tuple[int, int] | None:
    """The axes along which source and target are dense, if elements of the two are alike and a
    matrix of these axes is large; else None."""
    steps, others, item = source.strides, target.strides, target.itemsize
    if steps[-1:] == others[-1:] or item not in WORDS or source.dtype != target.dtype:
        return None
    if item not in steps or item not in others:
        return None
    rows, columns = steps.index(item), others.index(item)
    if rows == columns or source.shape[rows] * source.shape[columns] < LEAST:
        return None
    return rows, columns
