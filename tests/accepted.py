"""Every instruction x format x machine that docs/instructions.md says there is."""

import importlib.util
from pathlib import Path

import pytest
from device import TARGETS

from neuroncore import machine
from neuroncore.clause.instruction import INSTRUCTIONS

DOCS = Path(__file__).parents[1] / "docs"


def module(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


make_instructions = module("make_instructions")


def accepted(*names):
    """(instruction, format, machine) of these instructions, as parameters of a test."""
    return [
        pytest.param(name, form, target, id=f"{name}-{form}-{target}")
        for name in names
        for target in TARGETS
        for form in sorted(make_instructions.accepted(INSTRUCTIONS[name], machine.load(target)))
    ]
