"""The function of each instruction, by name, for both dialects."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.binding import signature_of
from neuroncore.frontend import instructions
from neuroncore.frontend.nki_instruction import NkiInstruction

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
