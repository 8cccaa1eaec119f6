"""Instructions of today's API that need more than the generated function: registers, and promises
that the API requires of a kernel and devices do not need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from neuroncore.base.errors import SignatureError
from neuroncore.frontend.issue import Issues, NkiInstruction, function
from neuroncore.memory.register import VirtualRegister as VirtualRegister
from neuroncore.memory.tile import Tile


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A new register, holding `x` if given."""
    register = VirtualRegister()
    if x is not None:
        function("register_move")(register, x)
    return register


def kept(name: str, function: Issues) -> Issues:
    """The function of an instruction; if a promise goes with it, one that refuses a call without.
    The function raises SignatureError then."""
    return PROMISED[name](function) if name in PROMISED else function


def _unique(dma_compute: Issues) -> Issues:
    """Indices of sums are promised to be unique: others are "not yet supported" (the page of
    nki.isa.dma_compute). The older API has no such parameter, and adds up what repeats."""

    @wraps(dma_compute)
    def checked(dst: Any, srcs: Any, *args: Any, **named: Any) -> NkiInstruction:
        unique = named.get("unique_indices", args[2] if len(args) > 2 else True)
        if unique is not True and _picks((dst, *srcs)):
            raise SignatureError(
                "unique_indices must be True where rows are picked at run time",
                argument="unique_indices",
                position=4,
                expected="True",
                got=repr(unique),
                because="indices must not repeat: both sums of a row would "
                "be read before either is written",
                hint="add up rows with the same index first",
            )
        return dma_compute(dst, srcs, *args, **named)

    return checked


def _picks(operands: Sequence[Any]) -> bool:
    return any(isinstance(one, Tile) and bool(one.dynamic) for one in operands)


PROMISED: dict[str, Callable[[Issues], Issues]] = {"dma_compute": _unique}
