"""Tensors with block dimensions: many tiles under one name.

Axes before the partition axis number tiles. Each tile is a separate storage, made when the kernel
first uses it, so that only the blocks in use at one time count as on the chip. It is released when
the kernel can't name it any more (`lifetimes`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import OutOfBoundsError, SignatureError
from neuroncore.frontend.neuronxcc.nki import lifetimes
from neuroncore.frontend.neuronxcc.nki.lifetimes import Numbering
from neuroncore.frontend.neuronxcc.nki.scopes import LoopIndex
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor, Untiled
from neuroncore.memory.access import Dims
from neuroncore.memory.storage import Storage
from neuroncore.numerics.formats import Format

Make = Callable[[Dims], Storage]


def _comes_once(k: Any) -> bool:
    """Return whether a key is the variable of a running loop each of whose values is a new
    block."""
    if not isinstance(k, LoopIndex) or k.over:
        return False
    values = k.loop.values
    return min(values[0], values[-1]) >= 0


class Blocks(Untiled):
    """A tensor of shape (blocks..., partitions, free...), already indexed by the leading indices
    `at`."""

    __hash__ = object.__hash__
    __array_ufunc__ = None

    def __init__(
        self,
        shape: Dims,
        partition_axis: int,
        dtype: Format,
        buffer: MemoryRegion,
        make: Make,
        name: str = "",
        numbering: Numbering = lifetimes.NONE,
    ) -> None:
        self._shape, self._axis = shape, partition_axis
        self._loops = numbering.of(partition_axis)  # the axes that loop variables index
        self.dtype, self.buffer, self.name = dtype, buffer, name
        self._make = make
        self._tiles: dict[Dims, Tensor] = {}
        self._at: Dims = ()

    @property
    def shape(self) -> Dims:
        return self._shape[len(self._at) :]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def __getitem__(self, key: Any) -> Any:
        """Return a tile, by an int for each block axis and an index of the tile; with fewer ints,
        the remaining blocks."""
        keys = key if isinstance(key, tuple) else (key,)
        missing = self._axis - len(self._at)
        block = (*self._at, *keys[:missing])
        for k in block:
            if not isinstance(k, int):
                break
        else:  # plain numbers, perhaps of an existing tile
            made = self._tiles.get(block)
            if made is not None:
                return made[keys[missing:]] if len(keys) > missing else made
        if keys and keys[0] is Ellipsis:
            keys = (slice(None),) * (self.ndim - len(keys) + 1) + keys[1:]
        at = list(self._at)
        for k in keys[: self._axis - len(self._at)]:
            if isinstance(k, slice) and k == slice(None) and self._shape[len(at)] == 1:
                k = 0
            at.append(self._block(k, len(at)))
        rest = keys[len(at) - len(self._at) :]
        if len(at) < self._axis:
            return self._part(tuple(at))
        block = tuple(at)
        tile = self._tiles.get(block)
        if tile is None:
            tile = self._tiles[block] = Tensor.of(self._make(block))
            variables: list[Any] = [keys[axis] for axis in self._loops]
            if variables and all(map(_comes_once, variables)):
                variables[-1].ends(self._tiles, block)
        return tile[rest] if rest else tile

    def _part(self, at: Dims) -> Blocks:
        part = Blocks(self._shape, self._axis, self.dtype, self.buffer, self._make, self.name)
        part._tiles, part._at = self._tiles, at
        return part

    def _block(self, k: Any, axis: int) -> int:
        try:
            index = operator.index(k)
        except TypeError:
            raise SignatureError(
                f"block axis {axis} can't be indexed with {type(k).__name__}",
                expected="an int or a loop variable",
                got=f"{k!r:.60}",
                because="axes before the partition axis number tiles, and an instruction works "
                "on one tile",
                hint="loop over the blocks",
                also="err_failed_to_infer_tile_from_local_tensor",
            ) from None
        size = self._shape[axis]
        if not -size <= index < size:
            raise OutOfBoundsError(
                f"index {index} exceeds block axis {axis} of size {size}",
                expected=f"within [0, {size - 1}]",
                got=str(index),
                also="err_tensor_access_out_of_bound",
            )
        return index % size

    def not_a_tile(self, name: str) -> SignatureError:
        return SignatureError(
            f"{name} has block dimensions: {self}",
            argument=name,
            expected="a tile, its partition axis first",
            because="an instruction works on one tile; axes before the partition axis number tiles",
            hint="index the block axes: tensor[i, ...] in a loop over i",
            also="err_failed_to_infer_tile_from_local_tensor",
        )

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"Blocks {self.name!r}({shape} {self.dtype} in {self.buffer.value})"
