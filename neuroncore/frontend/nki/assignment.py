"""The effect of `tensor[...] = value`: the instruction that writes to the memory the tensor is
in."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import BufferKindError, ShapeError, SignatureError
from neuroncore.core.core import current
from neuroncore.frontend.limits import fitting, rows_of
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.pattern import Patterned
from neuroncore.memory.access import Dims
from neuroncore.memory.tile import Tile


class Assigned(Patterned):
    """A tile with indexing, access patterns and assignment."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write a part of the tensor.

        On the chip, of a tile on the chip: tensor_copy, as the vendor's guide to migration writes
        it. In HBM, of a tile in SBUF or another tensor in HBM: dma_copy; of a number: memset of a
        tile, and dma_copy. Kernels that pass in the vendor's simulator of 0.3 store their results
        so (trnrand). Raises SignatureError for other values, BufferKindError for a tile in PSUM
        that would go to HBM, ShapeError where sizes other than 1 differ.
        """
        slot = self[key]
        if not slot.storage.on_chip:
            _store(slot, value)
        elif isinstance(value, Tile) and value.storage.on_chip:
            isa.tensor_copy(slot, value)
        else:
            raise _not_copied(slot, value)


def _store(slot: Assigned, value: Any) -> None:
    if isinstance(value, int | float | np.number):
        for part in fitting(slot):
            tile = _tile_like(part)
            isa.memset(tile, value)
            isa.dma_copy(part, tile)
        return
    if not isinstance(value, Tile):
        raise SignatureError(
            f"{type(value).__name__} can't be assigned to {slot}",
            expected="a tile in sbuf, a tensor in hbm or a number",
            got=f"{value!r:.60}",
            hint="numpy arrays enter a kernel as its arguments, or by nl.shared_constant; "
            "nisa.register_store writes a register",
        )
    check_not_in_psum(value, "assignment")
    if _long_axes(slot.shape) != _long_axes(value.shape):
        raise ShapeError(
            f"a tile of shape {value.shape} can't be assigned to {slot}",
            expected=str(slot.shape),
            got=str(value.shape),
            because="the DMA writes as many elements as it reads and repeats none",
            hint="nl.broadcast_to(tile, shape) repeats a tile",
        )
    isa.dma_copy(slot, value)


def _not_copied(slot: Assigned, value: Any) -> SignatureError:
    """The error for what no instruction copies to a tile on the chip, with the one to call."""
    if isinstance(value, Tile):
        hint = (
            "nisa.dma_copy(dst=t[...], src=tensor) copies a tensor from hbm to sbuf, like nl.load"
        )
    elif isinstance(value, int | float | np.number):
        hint = "nisa.memset(dst=t[...], value=number)"
    else:
        hint = "numpy arrays enter a kernel as its arguments, or by nl.shared_constant"
    return SignatureError(
        f"{type(value).__name__} can't be assigned to {slot}: this API writes to tiles on the "
        "chip through instructions",
        expected="a tile in sbuf or psum, which is copied",
        got=f"{value!r:.60}",
        hint=hint,
    )


def check_not_in_psum(value: Tile, what: str) -> None:
    """Raise BufferKindError for a tile in PSUM that a DMA would have to read."""
    if value.region is MemoryRegion.psum:
        raise BufferKindError(
            f"{what}: the value is in psum",
            argument="value",
            position=1,
            expected="sbuf",
            got=repr(value),
            because="the DMA engines have no port to PSUM",
            hint="nl.copy(value) copies it to SBUF",
        )


def _tile_like(tensor: Assigned) -> Assigned:
    """A new tile in SBUF of as many elements."""
    shape = rows_of(tensor.size)
    storage = current().allocate(MemoryRegion.sbuf, shape, tensor.dtype)
    return type(tensor).of(storage)


def _long_axes(shape: Dims) -> list[int]:
    return [size for size in shape if size != 1]
