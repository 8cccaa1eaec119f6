"""Every instruction x format x machine that docs/instructions.md says there is."""

import importlib.util
from functools import cache
from pathlib import Path

from neuroncore import machine
from neuroncore.clause.instruction import INSTRUCTIONS

DOCS = Path(__file__).parents[1] / "docs"


def module(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"generate/{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


instructions = module("instructions")
takes = instructions.takes


@cache
def accepted(name, target):
    """The formats that some operand of an instruction may have on a machine, sorted; none where the
    machine doesn't have the instruction."""
    instruction, one = INSTRUCTIONS[name], machine.load(target)
    forms = sorted(instructions.accepted(instruction, one))
    assert bool(forms) == (not instruction.feature or one.has(instruction.feature))
    return forms
