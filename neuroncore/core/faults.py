"""Faults of neuroncore that appear while an instruction is issued: they are reported as such, and
never as a mistake of the kernel."""

from __future__ import annotations

from neuroncore.base import source
from neuroncore.base.errors import REPORT, EmulatorError, NeuronError
from neuroncore.clause.instruction import Instruction
from neuroncore.core.core import Core

# What has been told already, and what may as well be the host's or the kernel's: too little memory,
# calls too deep, a disk that is full when a loop is compiled.
NOT_OURS = (NeuronError, MemoryError, RecursionError, OSError)


def our_fault(instruction: Instruction, core: Core, error: Exception) -> EmulatorError:
    """The error for an exception that no rule of an instruction has raised."""
    site = core.birthplace()
    where = "" if site is None else f"{source.place(*site)}: "
    said = f"{type(error).__name__}: {error}"
    return EmulatorError(f"{where}neuroncore failed at {instruction.name}: {said}", hint=REPORT)
