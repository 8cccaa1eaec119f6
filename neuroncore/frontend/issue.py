"""One function per entry of the instruction table, made when it is first asked for; both dialects
issue by them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from neuroncore.base.errors import NotEmulated, SignatureError, did_you_mean
from neuroncore.clause.instruction import INSTRUCTIONS, Instruction
from neuroncore.core.binding import MISSING, bound, signature_of
from neuroncore.record.program import Program

# NKI 0.1 ignored keywords it did not know, and these are still found in published kernels.
IGNORED = frozenset({"dtype", "mask"})
# What releases before 0.3 had, and no result depends on.
REMOVED = {"sendrecv": {"use_gpsimd_dma"}, "dma_copy": {"unique_indices"}}


class NkiInstruction:
    """What every function here returns: the instruction that was just issued."""

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
                raise NotEmulated("depends_on an instruction that is issued later")
            if self.program is not None:
                self.program.wait(self.row, producer.row)
        return self


Issues = Callable[..., NkiInstruction]


@cache
def function(name: str) -> Issues:
    """The function that issues an instruction, with the parameters of its clause."""
    made: Issues = bound(INSTRUCTIONS[name], _settle, NkiInstruction)
    return REORDERED[name](made) if name in REORDERED else made


def _with_scales_first(dma_compute: Issues) -> Issues:
    """Releases before 0.3 had `scales` before `reduce_op`."""

    @wraps(dma_compute)
    def either_way(*args: Any, **named: Any) -> NkiInstruction:
        if "scales" not in named and len(args) > 2 and isinstance(args[2], list | tuple):
            dst, srcs, scales, *operator = args
            return dma_compute(dst, srcs, *operator, scales=scales, **named)
        return dma_compute(*args, **named)

    return either_way


REORDERED = {"dma_compute": _with_scales_first}


def _free(given: dict[str, Any]) -> list[str]:
    """Parameters that are still to be given."""
    return [name for name, value in given.items() if value is MISSING]


def _settle(
    instruction: Instruction, given: dict[str, Any], extra: tuple[Any, ...], unknown: dict[str, Any]
) -> None:
    """Refuse a call that doesn't fit the signature, or drop what is known to be harmless."""
    form = f"nisa.{instruction.name}{signature_of(instruction)}"
    for name in unknown:
        if name not in IGNORED and name not in REMOVED.get(instruction.name, ()):
            raise SignatureError(
                f"{instruction.name} has no parameter {name!r}",
                argument=name,
                expected=form,
                hint=did_you_mean(name, _free(given)) or did_you_mean(name, given),
            )
        warnings.warn(f"nisa.{instruction.name} ignores {name}=", stacklevel=3)
    if extra:
        raise SignatureError(
            f"{instruction.name} takes {len(given) + instruction.named} positional arguments",
            expected=form,
        )
    if absent := _free(given):
        raise SignatureError(f"{instruction.name} needs {', '.join(absent)}", expected=form)
