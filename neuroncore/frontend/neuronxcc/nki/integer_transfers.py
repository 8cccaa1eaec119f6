"""Transfers between int32 and uint32 in the older API, which move bits and convert nothing.

The page of nisa.dma_copy (SDK 2.26) only says that a cast happens. neuronx-distributed's
find_index_shard_rows stores a uint32 tile to an int32 tensor. Where nc_find_index8 finds nothing,
the tile has 0xFFFFFFFF, and the kernel's test on the device (test_find_index.py) expects -1.
Today's page says that DMA converts through float32, which would give 2147483647."""

from __future__ import annotations

from typing import Any

from neuroncore.numerics.formats import int32, uint32

WORDS = frozenset({int32, uint32})


def with_equal_formats(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a dma_copy between int32 and uint32 with one operand viewed in the
    other format. An operand with run-time indices can't be viewed; if both have them, nothing
    changes."""
    dst, src = arguments["dst"], arguments["src"]
    if dst.dtype is src.dtype or not {dst.dtype, src.dtype} <= WORDS:
        return arguments
    if not src.dynamic:
        return {**arguments, "src": src.view(dst.dtype)}
    return arguments if dst.dynamic else {**arguments, "dst": dst.view(src.dtype)}
