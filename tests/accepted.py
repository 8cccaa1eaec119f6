"""All combinations of instruction, format and machine that docs/instructions.md lists."""

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


def takes(operand, form, one):
    """Return whether a single operand may have a format. The answer is cached by the identities of
    operand and machine, because comparing them takes longer than the answer."""
    key = id(operand), form, id(one)
    if key not in known:
        known[key] = instructions.takes(operand, form, one), operand, one
    return known[key][0]


known = {}


@cache
def accepted(name, target):
    """Return the sorted formats that some operand of an instruction may have on a machine; none if
    the machine does not have the instruction."""
    instruction, one = INSTRUCTIONS[name], machine.load(target)
    forms = sorted(instructions.accepted(instruction, one))
    assert bool(forms) == (not instruction.feature or one.has(instruction.feature))
    return forms
