"""The rows by which the older API has instructions: what they say fits the clauses they lead to."""

import inspect

import pytest

from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.frontend.neuronxcc.nki.isa.rows import ROWS, function

NOT_THE_INSTRUCTIONS = {"dtype", "mask", "kwargs"}  # what this API adds to every one of them


@pytest.mark.parametrize("name", ROWS)
def test_every_parameter_of_a_row_is_one_of_its_instruction(name):
    row, made = ROWS[name], function(name)
    given = inspect.signature(made).parameters.keys() - NOT_THE_INSTRUCTIONS
    parameters = {p.name: p for p in INSTRUCTIONS[row.name or name].parameters}
    assert given <= parameters.keys()
    assert {n for n, p in parameters.items() if p.required} <= {*given, "dst"}
    assert {*row.converted, *row.apart} <= given


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_documentation_of_its_function(name):
    assert function(name).__doc__ == ROWS[name].doc and function(name).__name__ == name
