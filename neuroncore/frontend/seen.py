"""The text of a tile in a debugger or a notebook inside a kernel: its current contents."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base.errors import NeuronError
from neuroncore.memory.tile import Tile
from neuroncore.report import heat_maps


class Seen(Tile):
    """`repr` has the values at the corners, -- for uninitialized ones; `str`, which messages use,
    has only the shape, format and memory."""

    __slots__ = ()

    def __str__(self) -> str:
        return super().__repr__()

    def __repr__(self) -> str:
        try:
            return f"{self} {_corners(self)}".rstrip()
        except NeuronError:  # it is outside its tensor, or not yet selected
            return str(self)

    def _repr_html_(self) -> str | None:
        try:
            now = self.resolved()
            return heat_maps.TileContents(str(self), now.numpy(), now.missing())._repr_html_()
        except NeuronError:
            return None


def _corners(tile: Tile) -> str:
    """Return the first and the last element along each axis."""
    now = tile.resolved()
    if not now.size:
        return ""
    both = list(zip(now.shape, now.strides, strict=True))
    shape = tuple(min(size, 2) for size, _ in both)
    apart = tuple(step * max(size - 1, 1) for size, step in both)
    corners = now.window(shape, apart, now.offset, dynamic=())
    return _text(corners.numpy(), corners.missing(), now.shape)


def _text(values: Any, missing: Any, sizes: tuple[int, ...]) -> str:
    if not sizes:
        return "--" if missing is not None and missing else f"{np.float64(values):.4g}"
    inner = [
        _text(value, None if missing is None else missing[n], sizes[1:])
        for n, value in enumerate(values)
    ]
    return f"[{(' .. ' if sizes[0] > 2 else ' ').join(inner)}]"
