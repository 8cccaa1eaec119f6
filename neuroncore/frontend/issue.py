"""The function that issues each instruction, by name, for both APIs. Also additions of today's API:
registers, and promises such as `unique_indices`, which a kernel must make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

from neuroncore.base.errors import SignatureError
from neuroncore.base.lazy import Lazy
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.binding import NkiInstruction as NkiInstruction
from neuroncore.core.binding import signature_of
from neuroncore.memory.register import VirtualRegister as VirtualRegister
from neuroncore.memory.tile import Tile

if TYPE_CHECKING:
    from neuroncore.frontend import instructions
else:
    instructions = Lazy("neuroncore.frontend.instructions")


Issues = Callable[..., NkiInstruction]


def names(module: str) -> list[str]:
    """Return the names of the instructions in a module of the API, for example in nki.isa."""
    return [name for name, clause in INSTRUCTIONS.items() if clause.module == module]


@cache
def function(name: str) -> Issues:
    """Return the function that issues an instruction. Its parameters are those of the clause, the
    instruction's definition in isa/."""
    issues: Issues = getattr(instructions, name)
    vars(issues)["__signature__"] = signature_of(INSTRUCTIONS[name])
    return REORDERED[name](issues) if name in REORDERED else issues


def _with_scales_first(dma_compute: Issues) -> Issues:
    """Return a function that calls dma_compute. The function also accepts the order of arguments of
    releases before 0.3, in which `scales` comes before `reduce_op`."""

    @wraps(dma_compute)
    def in_either_order(*args: Any, **named: Any) -> NkiInstruction:
        if "scales" not in named and len(args) > 2 and isinstance(args[2], list | tuple):
            dst, srcs, scales, *operator = args
            return dma_compute(dst, srcs, *operator, scales=scales, **named)
        return dma_compute(*args, **named)

    return in_either_order


REORDERED = {"dma_compute": _with_scales_first}


def register_alloc(x: int | Tile | None = None) -> VirtualRegister:
    """Return a new register with the value `x`, or without a value.

    `x` may also be a tensor with one element, which is loaded. Release 0.2 accepts this (its
    release notes), and nki-library still does it, but today's guide forbids it."""
    register = VirtualRegister()
    if isinstance(x, Tile):
        function("register_load")(register, x)
    elif x is not None:
        function("register_move")(register, x)
    return register


def with_promises(name: str, function: Issues) -> Issues:
    """Return the function of an instruction with the checks that only today's API makes. It raises
    SignatureError if a promise such as `unique_indices` is missing."""
    return PROMISED[name](function) if name in PROMISED else function


def _unique(dma_compute: Issues) -> Issues:
    """Return dma_compute with a check: an index that selects rows needs `unique_indices=True`.

    The API does not support repeated indices yet (the page of nki.isa.dma_compute). The older API
    adds up their elements, and has no such parameter."""

    @wraps(dma_compute)
    def checked(dst: Any, srcs: Any, *args: Any, **named: Any) -> NkiInstruction:
        unique = named.get("unique_indices", args[2] if len(args) > 2 else True)
        if unique is not True and _picks((dst, *srcs)):
            raise SignatureError(
                "unique_indices must be True if an index selects rows at run time",
                argument="unique_indices",
                position=4,
                expected="True",
                got=repr(unique),
                because="indices must not repeat: two additions to one row would both read its "
                "old value, and the later write would discard the other addition",
                hint="add up rows with the same index first",
            )
        return dma_compute(dst, srcs, *args, **named)

    return checked


def _picks(operands: Sequence[Any]) -> bool:
    return any(isinstance(operand, Tile) and bool(operand.dynamic) for operand in operands)


PROMISED: dict[str, Callable[[Issues], Issues]] = {"dma_compute": _unique}
