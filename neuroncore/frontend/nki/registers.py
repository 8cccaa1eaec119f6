"""Scalar registers: making one."""

from __future__ import annotations

from neuroncore.frontend.issue import function
from neuroncore.memory.register import VirtualRegister as VirtualRegister


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A new register, holding `x` if given."""
    register = VirtualRegister()
    if x is not None:
        function("register_move")(register, x)
    return register
