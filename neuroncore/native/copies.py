"""Copies of arrays, those that transpose by compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.native.lazy import Lazy

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.transpose")

WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32}  # by their bytes
LEAST = 1 << 11  # elements of a matrix for which compiled code is worth its call


def copy(source: Array, target: Array) -> None:
    """target[...] = source, of equal shapes.

    Elements that lie one after the other along different axes of the two are taken as matrices.
    """
    axes = _axes(source, target)
    if axes is None or np.may_share_memory(source, target):
        target[...] = source
        return
    word = WORDS[source.itemsize]
    into = np.moveaxis(target, axes, (-2, -1)).view(word)
    matrices = np.moveaxis(source, axes, (-1, -2)).view(word)
    if source.ndim == 2:
        native.turn(matrices, into)
        return
    for place in np.ndindex(into.shape[:-2]):
        native.turn(matrices[place], into[place])


def _axes(source: Array, target: Array) -> tuple[int, int] | None:
    """The axes along which source and target are dense, if elements of the two are alike and a
    matrix of these axes is large; else None."""
    item = target.itemsize
    if source.strides[-1:] == target.strides[-1:] or source.dtype != target.dtype:
        return None
    if item not in WORDS or not (item in source.strides and item in target.strides):
        return None
    dense = source.strides.index(item), target.strides.index(item)
    few = source.shape[dense[0]] * source.shape[dense[1]] < LEAST
    return None if few or dense[0] == dense[1] else dense
