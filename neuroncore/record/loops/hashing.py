"""Mixing steps for hashes of several words, the same compiled or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.native import buffers
from neuroncore.native.jit import inlined

MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a 64-bit hash


def no_slots(count: int) -> npt.NDArray[Any]:
    """Room for a table of the numbers of so many things, which is found by a hash of each."""
    return buffers.filled((1 << (2 * count).bit_length(),), -1, np.int32)


@inlined
def mixed(key: Any, value: Any) -> Any:
    """A hash of 30 bits, so that plain Python and compiled loops go through the same numbers. The
    product spreads small numbers; without it rows of them share slots by the thousand."""
    low = ((key << 5) ^ (key >> 25) ^ value ^ (value >> 30)) & 0x3FFFFFFF
    spread = (low * 0x2C1B3C6D) & 0x3FFFFFFF
    return spread ^ (spread >> 15)


@inlined
def slot_of(key: Any, slots: int) -> Any:
    """Where to look first, of a power of 2 slots."""
    return (key ^ (key >> 15)) & (slots - 1)


@inlined
def next_slot(slot: Any, slots: int) -> Any:
    return (slot + 1) & (slots - 1)
