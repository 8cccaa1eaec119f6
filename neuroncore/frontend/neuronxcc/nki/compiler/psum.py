"""Allocators of PSUM, for `buffer=` of new tensors.

A block is a tuple of indices of a tensor's axes before the partition axis. Each block has one tile
(`blocks`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.frontend.neuronxcc.nki.blocks import Allocation, by_name, modulo

__all__ = ["alloc", "auto_alloc", "mod_alloc"]

PSUM = MemoryRegion.psum


def alloc(func: Callable[..., Any]) -> Allocation:
    """Return an allocation at the addresses that `func` returns. `func` gets (block, partitions,
    bytes per partition) and returns (bank, start partition, byte in the bank)."""
    return Allocation(PSUM, by_name(func))


def mod_alloc(
    *, base_bank: int, base_addr: int = 0, base_partition: int = 0,
    num_bank_tiles: Sequence[int] = (), num_par_tiles: Sequence[int] = (),
    num_free_tiles: Sequence[int] = (),
) -> Allocation:  # fmt: skip
    """Return an allocation that reuses banks of PSUM.

    Blocks with successive indices use banks in turn. Along block axis k there are
    `num_bank_tiles[k]` banks. The first is `base_bank`. `num_par_tiles` and `base_partition`
    determine partitions in the same way, and `num_free_tiles` and `base_addr` the byte in the
    bank."""

    def place(block: tuple[int, ...], partitions: int, size: int) -> tuple[int, int, int]:
        return (
            modulo(base_bank, num_bank_tiles, 1, block),
            modulo(base_partition, num_par_tiles, partitions, block),
            modulo(base_addr, num_free_tiles, size, block),
        )

    return Allocation(PSUM, place)


def auto_alloc() -> Allocation:
    """Return an allocation whose address the system chooses, as for buffer=nl.psum."""
    return Allocation(PSUM)


def __dir__() -> list[str]:
    return __all__
