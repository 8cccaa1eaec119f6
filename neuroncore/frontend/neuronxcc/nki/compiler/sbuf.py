"""Allocators of SBUF, for `buffer=` of new tensors.

A block is a tuple of indices of a tensor's axes before the partition axis. Each block has one tile
(`blocks`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.frontend.neuronxcc.nki.blocks import Allocation, by_name, modulo

__all__ = ["alloc", "auto_alloc", "mod_alloc"]

SBUF = MemoryRegion.sbuf


def alloc(func: Callable[..., Any]) -> Allocation:
    """Return an allocation at the addresses that `func` returns. `func` gets (block, partitions,
    bytes per partition) and returns (start partition, byte in the partition)."""
    return Allocation(SBUF, by_name(func))


def mod_alloc(
    *, base_addr: int, base_partition: int = 0, num_par_tiles: Sequence[int] = (),
    num_free_tiles: Sequence[int] = (),
) -> Allocation:  # fmt: skip
    """Return an allocation that reuses places in SBUF.

    Blocks with successive indices use adjacent places in turn. Along block axis k there are
    `num_free_tiles[k]` places. The first place is at byte `base_addr`. `num_par_tiles` and
    `base_partition` determine partitions in the same way."""

    def place(block: tuple[int, ...], partitions: int, size: int) -> tuple[int, int]:
        return (
            modulo(base_partition, num_par_tiles, partitions, block),
            modulo(base_addr, num_free_tiles, size, block),
        )

    return Allocation(SBUF, place)


def auto_alloc() -> Allocation:
    """Return an allocation whose address the system chooses, as for buffer=nl.sbuf."""
    return Allocation(SBUF)


def __dir__() -> list[str]:
    return __all__
