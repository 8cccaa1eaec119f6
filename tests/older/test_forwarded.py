"""Functions of the older API that only convert arguments and call an instruction: their parameters
agree with the clauses."""

import inspect

import pytest

from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.frontend.neuronxcc.nki.isa import forwarded

ADDED = {"dtype", "mask", "kwargs"}  # parameters that this API adds to every instruction
NAMED_OTHERWISE = {f"tensor_copy_dynamic_{end}": "tensor_copy" for end in ("dst", "src")}


FUNCTIONS = {n: getattr(m, n) for m in (forwarded, forwarded) for n in m.__all__}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_exists_in_the_instruction(name):
    given = inspect.signature(FUNCTIONS[name]).parameters.keys() - ADDED
    clause = INSTRUCTIONS[NAMED_OTHERWISE.get(name, name)]
    assert given <= {p.name for p in clause.parameters}
    assert {p.name for p in clause.parameters if p.required} <= {*given, "dst"}
