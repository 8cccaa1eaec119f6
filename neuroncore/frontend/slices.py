"""nl.ds: an index of so many elements from a start that may be known at run time only."""

from __future__ import annotations

from neuroncore.base.structs import dataclass
from neuroncore.memory.register import VirtualRegister


@dataclass(frozen=True)
class DynamicSlice:
    """`size` elements from `start`, which may be a register: what nl.ds gives."""

    start: int | VirtualRegister
    size: int


def ds(start: int | VirtualRegister, size: int) -> DynamicSlice:
    """`size` elements from `start`: an index; `start` may be a register."""
    return DynamicSlice(start, size)
