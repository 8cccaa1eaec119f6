"""Results of a kernel: tensors that cores share, and their elements for the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from neuroncore.memory.tile import Array, Tile


def complete(result: Any, other: Any) -> Iterator[tuple[Tile, Tile, Array]]:
    """An output is one tensor for all cores, even if a kernel allocates it as each core's own: what
    this core hasn't written of it is what the other one has (nki-library's kernels of NKI 0.2).
    Both tensors, wherever that is so, and flags of what was brought from the other."""
    for mine, theirs in _pairs(result, other):
        alike = (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        if mine.storage is theirs.storage or not alike or theirs.untouched:
            continue
        if (missing := mine.missing()) is None:
            continue
        never = theirs.missing()
        brought = missing if never is None else missing & ~never
        mine.codes()[brought] = theirs.codes()[brought]
        mine.mark_written(brought)
        yield mine, theirs, brought


def _pairs(one: Any, other: Any) -> Iterator[tuple[Tile, Tile]]:
    """The tensors at the same places of two results."""
    if isinstance(one, Tile) and isinstance(other, Tile):
        yield one, other
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() & other.keys():
            yield from _pairs(one[key], other[key])
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        for pair in zip(one, other, strict=False):
            yield from _pairs(*pair)


def unwritten(tile: Tile) -> int:
    """The number of elements that were never written."""
    if tile.untouched:
        return tile.size
    missing = tile.missing()
    return 0 if missing is None or not tile.size else int(missing.sum())


def contents(tile: Tile, zeros: bool) -> Array:
    """The elements in the numpy type that users know: the memory itself if it has them in their
    order. With `zeros` elements that were never written are 0, otherwise poison."""
    if tile.untouched and tile.size:  # one element repeated, for there may be gigabytes
        return np.broadcast_to(tile.leftover(zeros), tile.shape)
    missing = tile.missing()
    if missing is not None and tile.size:
        tile.lay_leftovers(missing, zeros)
    codes = tile.codes()
    if codes.dtype == tile.held.numpy:
        return codes
    return np.ascontiguousarray(codes).view(tile.held.numpy)
