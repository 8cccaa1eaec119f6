"""Tensors with block axes, and the addresses that a kernel chooses for their tiles.

The axes before the partition axis are block axes. A block is a tuple with one index for each of
them. The tile of a block has separate storage, which is allocated when the kernel first uses the
tile. It is released when no line of the kernel can name the tile any more (`lifetimes`). So only
tiles in use occupy the chip."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from neuroncore.base.enums import MemoryRegion, engine
from neuroncore.base.errors import OutOfBoundsError, SignatureError
from neuroncore.base.units import dimensions, plural
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki import lifetimes
from neuroncore.frontend.neuronxcc.nki.lifetimes import Numbering
from neuroncore.frontend.neuronxcc.nki.scopes import LoopIndex, first_address, running
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor, Untiled
from neuroncore.memory.access import Dims
from neuroncore.memory.storage import Storage
from neuroncore.numerics.formats import Format

Block = tuple[int, ...]
Address = tuple[int, int]  # (partition, byte within the partition)


@dataclass(frozen=True)
class Allocation:
    """The result of an allocator, which kernels pass as `buffer`.

    `region`: the memory
    `address`: a function of (block, partitions, bytes per partition) that returns the address of
        the block's tile, or None if the system chooses addresses"""

    region: MemoryRegion
    address: Callable[[Block, int, int], Sequence[int]] | None = None

    def placer(self, shape: Sequence[int], form: Format) -> Callable[[Block], Address] | None:
        """Return a function from a block to the address of its tile, or None if the system chooses
        addresses. `shape` and `form` are the shape and the format of the tiles."""
        if self.address is None:
            return None
        address = first_address(self.address)
        partitions, size = shape[0], prod(shape[1:]) * form.itemsize

        def place(block: Block) -> Address:
            numbers = tuple(int(n) for n in address(block, partitions, size))
            if self.region is MemoryRegion.psum:
                return _in_bank(numbers, size)
            if len(numbers) != 2:
                raise _not_an_address(numbers, "(start partition, byte)")
            return numbers[0], numbers[1]

        return place


def by_name(func: Callable[..., Sequence[int]]) -> Callable[[Block, int, int], Sequence[int]]:
    """Return a function of (block, partitions, bytes per partition) that calls the kernel's `func`.

    It passes the keywords idx, pdim_size and fdim_size, because functools.partial may have bound
    other parameters; without such names, it passes positions."""

    def address(block: Block, partitions: int, size: int) -> Sequence[int]:
        arguments = {"idx": block, "pdim_size": partitions, "fdim_size": size}
        try:
            inspect.signature(func).bind(**arguments)
        except TypeError:
            return func(*arguments.values())
        return func(**arguments)

    return address


def _in_bank(numbers: tuple[int, ...], size: int) -> Address:
    """Return the address in PSUM for (bank, start partition, byte in the bank). Raises
    OutOfBoundsError.

    `size`: the bytes of the tile per partition"""
    if len(numbers) != 3:
        raise _not_an_address(numbers, "(bank, start partition, byte in the bank)")
    psum = current().machine.psum
    bank, partition, byte = numbers
    bank_bytes = psum.bank_bytes
    if not 0 <= bank < psum.banks or byte + size > bank_bytes:
        raise OutOfBoundsError(
            f"bytes {byte} to {byte + size - 1} of bank {bank} are not in psum",
            argument="buffer",
            expected=f"bytes from 0 to {bank_bytes - 1}, in a bank from 0 to {psum.banks - 1}",
            got=str(numbers),
            also="NLA001 (allocated memory out of bound)",
        )
    return partition, bank * bank_bytes + byte


def _not_an_address(address: Any, expected: str) -> SignatureError:
    return SignatureError(
        f"the allocation gives {address!r}, which is not an address",
        argument="buffer",
        expected=expected,
    )


def modulo(base: int, counts: Sequence[int], scale: int, block: Block) -> int:
    """Return one coordinate of the address of a block's tile: a bank, a partition or a byte.

    Index i of block axis k has place i % counts[k]. Places are numbered in row-major order, and
    place n has the coordinate `base` + `scale` * n. Without block axes it is `base`, although
    published kernels pass a count then too."""
    if counts and block and len(counts) != len(block):
        raise SignatureError(
            f"the allocation has {plural(len(counts), 'count')} of tiles, {tuple(counts)!r}, but "
            f"the tensor has {plural(len(block), 'block axis', 'block axes')}",
            expected="one count for each block axis, or an empty tuple",
        )
    place = 0
    for index, count in zip(block, counts, strict=False):
        place = place * count + index % count
    return base + place * scale


# --- explicit arguments of kernels that place tensors ---------------------------------------------


def check_explicit(name: str, arguments: dict[str, Any], bias_is_made: bool) -> None:
    """Raise SignatureError if an instruction that writes to an explicit address has a hidden
    operand, which would need an address too.

    An activation without a bias has a tile of zeros, unless the compiler makes it (`bias_is_made`).
    A transpose on the Tensor engine has an identity matrix."""
    if name.startswith("activation") and arguments["bias"] is None and not bias_is_made:
        raise SignatureError(
            f"{name} must have a bias, because it writes to a tensor at an explicit address",
            expected="bias=tile, where the tile has the shape (partitions, 1)",
            because="without a bias, the compiler would add a tile of zeros, which needs an "
            "address too",
            hint="allocate a tile of zeros at an address and pass it: nl.exp(x) becomes "
            "nisa.activation(np.exp, x, bias=zeros)",
            also="err_bias_tensor_must_be_specified_in_allocation",
        )
    if name == "nc_transpose" and arguments["engine"] is engine.tensor:
        raise SignatureError(
            "nc_transpose on the Tensor engine can't write to a tensor at an explicit address",
            because="the engine multiplies by an identity matrix, which needs an address too",
            hint="allocate an identity matrix at an address, and use nisa.nc_matmul(x, identity, "
            "is_transpose=True); up to 32 x 32, use engine=nisa.vector_engine",
            also="err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
        )


Make = Callable[[Dims], Storage]


def _comes_once(k: Any) -> bool:
    """Return whether a key is the variable of a running loop, and selects another block in each
    iteration of the loop."""
    if not isinstance(k, LoopIndex) or k.over:
        return False
    values = k.loop.values
    return min(values[0], values[-1]) >= 0


class Blocks(Untiled):
    """A tensor of shape (blocks..., partitions, free...). `_at` has the indices of the first block
    axes."""

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
        self._loops = numbering.of(partition_axis)  # axes that loop variables index
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
        """Return a tile, or a part of it, for an int for each block axis and further keys. With
        fewer ints, return the tensor with the remaining block axes."""
        keys = key if isinstance(key, tuple) else (key,)
        missing = self._axis - len(self._at)
        block = (*self._at, *keys[:missing])
        for k in block:
            if not isinstance(k, int):
                break
        else:  # plain numbers may select an existing tile
            existing = self._tiles.get(block)
            if existing is not None:
                return existing[keys[missing:]] if len(keys) > missing else existing
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
            variables: list[Any] = [keys[axis] for axis in self._loops]
            ends = bool(variables) and all(map(_comes_once, variables))
            tile = self.new_tile(block, variables[-1] if ends else None)
        return tile[rest] if rest else tile

    @property
    def axes(self) -> int:
        """The number of block axes."""
        return self._axis

    @property
    def sizes(self) -> Dims:
        """The sizes of the block axes."""
        return self._shape[: self._axis]

    def has(self, block: Dims) -> bool:
        """Return whether the tile of a block exists."""
        return block in self._tiles

    def new_tile(self, block: Dims, ending: LoopIndex | None) -> Tensor:
        """Return a new tile of a block, which is released when the iteration `ending`, if given,
        ends."""
        tile = self._tiles[block] = Tensor.of(self._make(block))
        state = running()
        state.blocks[tile.storage.id] = self._tiles, block
        if ending is not None:
            tile.storage.ending = ending
            ending.ends(self._tiles, block)
        if state.trace is not None:
            depth = next((n for n, loop in enumerate(state.loops) if loop is ending), None)
            state.trace.block(self, block, depth, tile.storage)
        return tile

    def _part(self, at: Dims) -> Blocks:
        """Return the tensor without the block axes that `at` indexes."""
        part = Blocks(self._shape, self._axis, self.dtype, self.buffer, self._make, self.name)
        part._tiles, part._at = self._tiles, at
        return part

    def _block(self, k: Any, axis: int) -> int:
        """Return a key of a block axis as an index from 0. Raises SignatureError for a key that is
        not an integer, and OutOfBoundsError for an index that exceeds the axis."""
        try:
            index = operator.index(k)
        except TypeError:
            raise SignatureError(
                f"block axis {axis} can't be indexed with {type(k).__name__}",
                expected="an int or a loop variable",
                got=f"{k!r:.60}",
                because="an index on an axis before the partition axis chooses a tile, and an "
                "instruction works on one tile",
                hint="loop over the blocks",
                also="err_failed_to_infer_tile_from_local_tensor",
            ) from None
        size = self._shape[axis]
        if not -size <= index < size:
            raise OutOfBoundsError(
                f"index {index} exceeds block axis {axis} of size {size}",
                expected=f"use an index from {-size} to {size - 1}",
                got=str(index),
                also="err_tensor_access_out_of_bound",
            )
        return index % size

    def not_a_tile(self, name: str) -> SignatureError:
        return SignatureError(
            f"{name} has block axes: {self}",
            argument=name,
            expected="a tile, whose first axis is the partition axis",
            because="an instruction works on one tile; a block axis (an axis before the partition "
            "axis) has one tile for each index",
            hint="index the block axes: tensor[i, ...] in a loop over i",
            also="err_failed_to_infer_tile_from_local_tensor",
        )

    def __repr__(self) -> str:
        shape = dimensions(self.shape)
        return f"Blocks {self.name!r}({shape} {self.dtype} in {self.buffer.value})"
