"""nl.ds: an index of `size` elements from a start that may be known only at run time."""

from __future__ import annotations

from neuroncore.base.structs import dataclass
from neuroncore.memory.register import VirtualRegister


@dataclass(frozen=True)
class DynamicSlice:
    """The result of nl.ds: `size` elements from `start`, which may be a register."""

    start: int | VirtualRegister
    size: int


def ds(start: int | VirtualRegister, size: int) -> DynamicSlice:
    """Return an index of `size` elements from `start`, which may be a register."""
    return DynamicSlice(start, size)
