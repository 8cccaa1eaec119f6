"""Parts of tensors by index expressions, remembered: loops only move where they start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neuroncore.frontend.neuronxcc.nki.expressions import Index
from neuroncore.memory.access import Dims
from neuroncore.memory.tile import Tile


@dataclass(frozen=True)
class Shifted:
    """An index expression that begins where a tile of one element says: `start[0, k] + i`."""

    start: Tile
    index: Index


MOST = 1 << 12  # remembered at a time

# shape and strides of a part, and how far each key reaches on either side of its start
_known: dict[Any, tuple[Dims, Dims, list[tuple[int, int]]]] = {}


def again(tensor: Tile, keys: Sequence[Any]) -> tuple[Dims, Dims, int] | None:
    """Shape, strides and offset of a part whose like was made before, if it lies inside."""
    known = _known.get(_likeness(tensor, keys))
    if known is None or tensor.fault is not None:
        return None
    shape, strides, reach = known
    offset = tensor.offset
    for k, (low, high), size, stride in zip(keys, reach, tensor.shape, tensor.strides, strict=True):
        start = k.start if type(k) is Index else k
        if start + low < 0 or start + high >= size:
            return None
        offset += start * stride
    return shape, strides, offset


def remember(tensor: Tile, keys: Sequence[Any], part: Tile) -> None:
    """Note a part that lies inside its tensor."""
    if not all(isinstance(k, Index | int) for k in keys):
        return
    if len(_known) >= MOST:
        _known.clear()
    reach = [(k - k.start).extent() if type(k) is Index else (0, 0) for k in keys]
    _known[_likeness(tensor, keys)] = part.shape, part.strides, reach


def _likeness(tensor: Tile, keys: Sequence[Any]) -> Any:
    """All that shape and strides of a part depend on."""
    steps = tuple([(k.shape, k.steps) if type(k) is Index else type(k) for k in keys])
    return tensor.shape, tensor.strides, tensor.storage.on_chip, steps
