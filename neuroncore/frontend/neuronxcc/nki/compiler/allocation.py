"""Addresses of a tensor's blocks that the kernel itself chooses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from neuroncore.base.enums import MemoryRegion, engine
from neuroncore.base.errors import OutOfBoundsError, SignatureError
from neuroncore.base.structs import dataclass
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki.scopes import first_given
from neuroncore.numerics.formats import Format

Block = tuple[int, ...]
Address = tuple[int, int]  # partition, byte within it


@dataclass(frozen=True)
class Allocation:
    """The result of an allocator, for `buffer`: a memory and, unless the system chooses, the
    address of each block as a function of (block, partitions, bytes per partition)."""

    region: MemoryRegion
    address: Callable[[Block, int, int], Sequence[int]] | None = None

    def placer(self, shape: Sequence[int], form: Format) -> Callable[[Block], Address] | None:
        """Return the function from a block of tiles of `shape` to its address; None if the system
        chooses addresses."""
        if self.address is None:
            return None
        address = first_given(self.address)
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
    """Return the kernel's function of (idx, pdim_size, fdim_size), called by these names, which a
    function with further bound parameters needs; by position if its names differ."""

    def address(block: Block, partitions: int, size: int) -> Sequence[int]:
        arguments = {"idx": block, "pdim_size": partitions, "fdim_size": size}
        try:
            inspect.signature(func).bind(**arguments)
        except TypeError:
            return func(*arguments.values())
        return func(**arguments)

    return address


def _in_bank(given: tuple[int, ...], size: int) -> Address:
    """Return (bank, start partition, byte in the bank) as an address of PSUM."""
    if len(given) != 3:
        raise _not_an_address(given, "(bank, start partition, byte in the bank)")
    psum = current().machine.psum
    bank, partition, byte = given
    bank_bytes = psum.bank_bytes
    if not 0 <= bank < psum.banks or byte + size > bank_bytes:
        raise OutOfBoundsError(
            f"bank {bank}, bytes {byte} to {byte + size} of it, is not in psum",
            argument="buffer",
            expected=f"banks 0 to {psum.banks - 1} of {bank_bytes} bytes per partition",
            got=str(given),
            also="NLA001 (allocated memory out of bound)",
        )
    return partition, bank * bank_bytes + byte


def _not_an_address(given: Any, expected: str) -> SignatureError:
    return SignatureError(f"the allocation gives {given!r}", argument="buffer", expected=expected)


def modulo(base: int, counts: Sequence[int], scale: int, block: Block) -> int:
    """Return base + scale times the index of a block's physical tile; blocks use `counts` tiles in
    turn. A tensor without blocks is at base; published kernels pass a count for it too."""
    if counts and block and len(counts) != len(block):
        raise SignatureError(
            f"{tuple(counts)!r} tiles for blocks numbered {block}",
            expected="one count per block axis, or ()",
        )
    place = 0
    for index, count in zip(block, counts, strict=False):
        place = place * count + index % count
    return base + place * scale


# --- explicit arguments of kernels that place tensors ---------------------------------------------


def check_explicit(name: str, arguments: dict[str, Any], bias_is_made: bool) -> None:
    """Refuse an instruction into a placed tensor that needs a further tensor without an address."""
    if name.startswith("activation") and arguments["bias"] is None and not bias_is_made:
        raise SignatureError(
            f"{name} into a tensor at an explicit address, without a bias",
            expected="bias=tile, of shape (partitions, 1)",
            because="without a bias the instruction adds a tile of zeros, which needs an address "
            "too",
            hint="place a tile of zeros and pass it: nl.exp(x) is nisa.activation(np.exp, x, "
            "bias=zeros)",
            also="err_bias_tensor_must_be_specified_in_allocation",
        )
    if name == "nc_transpose" and arguments["engine"] is engine.tensor:
        raise SignatureError(
            "nc_transpose on the Tensor engine into a tensor at an explicit address",
            because="the engine multiplies by an identity matrix, which needs an address too",
            hint="place an identity matrix: nisa.nc_matmul(x, identity, is_transpose=True); up to "
            "32 x 32 use engine=nisa.vector_engine",
            also="err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
        )
