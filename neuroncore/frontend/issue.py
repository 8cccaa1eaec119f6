"""The function of each instruction, by name, for both dialects; its result, and the check of its
arguments, for the generated functions of `frontend/instructions.py`; and what today's API adds:
registers, and promises that it requires of a kernel and devices do not need."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from neuroncore.base.errors import NotEmulated, SignatureError, did_you_mean
from neuroncore.base.lazy import Lazy
from neuroncore.clause.instruction import INSTRUCTIONS, Instruction
from neuroncore.core.binding import MISSING, signature_of
from neuroncore.memory.register import VirtualRegister as VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.record.program import Program

if TYPE_CHECKING:
    from neuroncore.frontend import instructions
else:
    instructions = Lazy("neuroncore.frontend.instructions")


# Arguments that are read when an instruction is issued; signatures show their names.
TileOrNumber: TypeAlias = Any
MaybeTile: TypeAlias = Any
Tiles: TypeAlias = Any
Real: TypeAlias = float | np.number[Any]

# NKI 0.1 ignored keywords it did not know, and published kernels still pass these.
IGNORED = frozenset({"dtype", "mask"})
# Parameters of releases before 0.3 that change no result.
REMOVED = {"sendrecv": {"use_gpsimd_dma"}, "dma_copy": {"unique_indices"}}


class NkiInstruction:
    """The instruction that was just issued: the result of every function that issues one."""

    __slots__ = ("program", "row")

    def __init__(self, program: Program | None, row: int) -> None:
        self.program, self.row = program, row

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Let this instruction begin only after `producers`, issued before it, are done.

        Results don't change; the estimate does. Returns the instruction itself.
        """
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                raise SignatureError(
                    f"depends_on takes instructions, not {type(producer).__name__}",
                    argument="producers",
                    position=0,
                )
            if producer.row > self.row:
                raise NotEmulated("depends_on refers to an instruction that is issued later")
            if self.program is not None:
                self.program.wait(self.row, producer.row)
        return self


def _free(given: dict[str, Any]) -> list[str]:
    """Return the parameters that have no argument yet."""
    return [name for name, value in given.items() if value is MISSING]


def settle(
    instruction: Instruction,
    scope: Mapping[str, Any],
    extra: tuple[Any, ...],
    unknown: dict[str, Any],
) -> None:
    """Refuse a call that does not fit the signature, or drop a keyword that is known to be
    harmless. `scope` has the arguments by name. Raises SignatureError."""
    arguments = {p.name: scope[p.name] for p in instruction.parameters}
    form = f"nisa.{instruction.name}{signature_of(instruction)}"
    for name in unknown:
        if name not in IGNORED and name not in REMOVED.get(instruction.name, ()):
            raise SignatureError(
                f"{instruction.name} has no parameter {name!r}",
                argument=name,
                expected=form,
                hint=did_you_mean(name, _free(arguments)) or did_you_mean(name, arguments),
            )
        warnings.warn(f"nisa.{instruction.name} ignores {name}=", stacklevel=3)
    if extra:
        raise SignatureError(
            f"{instruction.name} takes {len(arguments) + instruction.named} positional arguments",
            expected=form,
        )
    if absent := _free(arguments):
        raise SignatureError(f"{instruction.name} needs {', '.join(absent)}", expected=form)


Issues = Callable[..., NkiInstruction]


@cache
def function(name: str) -> Issues:
    """Return the function that issues an instruction, with the parameters of its clause."""
    issues: Issues = getattr(instructions, name)
    vars(issues)["__signature__"] = signature_of(INSTRUCTIONS[name])
    return REORDERED[name](issues) if name in REORDERED else issues


def _with_scales_first(dma_compute: Issues) -> Issues:
    """Return dma_compute with `scales` before `reduce_op`, the order of releases before 0.3."""

    @wraps(dma_compute)
    def either_way(*args: Any, **named: Any) -> NkiInstruction:
        if "scales" not in named and len(args) > 2 and isinstance(args[2], list | tuple):
            dst, srcs, scales, *operator = args
            return dma_compute(dst, srcs, *operator, scales=scales, **named)
        return dma_compute(*args, **named)

    return either_way


REORDERED = {"dma_compute": _with_scales_first}


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A new register, holding `x` if given."""
    register = VirtualRegister()
    if x is not None:
        function("register_move")(register, x)
    return register


def kept(name: str, function: Issues) -> Issues:
    """Return the function of an instruction. If the instruction requires a promise of the kernel,
    the function raises SignatureError for a call without it."""
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
