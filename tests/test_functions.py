"""The functions that issue and execute instructions are up to date with the clauses."""

import ast
from dataclasses import replace

import pytest
from accepted import module

from neuroncore.base.errors import DefinitionError
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import INSTRUCTIONS

pytestmark = pytest.mark.source

functions = module("functions")


def test_the_generated_files_are_current():
    for path, text in functions.pages().items():
        assert ast.dump(ast.parse(path.read_text())) == ast.dump(ast.parse(text)), (
            f"run docs/generate/functions.py: {path.name} is not what the clauses make"
        )


@pytest.mark.parametrize(
    "bounds,condition",
    [
        ({}, "is int)"),
        ({"low": 1}, "is int and 1 <= num_elem_per_idx)"),
        ({"high": 9}, "is int and num_elem_per_idx <= 9)"),
        ({"low": 1, "high": 9}, "is int and 1 <= num_elem_per_idx <= 9)"),
    ],
)
def test_the_issuing_function_checks_each_bound_of_a_number(bounds, condition):
    clause = replace(INSTRUCTIONS["local_gather"])
    vars(clause)["parameters"] = tuple(
        replace(p, declared=Immediate(int, **bounds)) if p.name == "num_elem_per_idx" else p
        for p in clause.parameters
    )
    assert f"type(num_elem_per_idx) {condition}" in functions.issue_text(clause)


@pytest.mark.parametrize("name", ["core", "key", "settle", "tile"])
def test_no_parameter_of_a_clause_has_a_name_of_the_issuing_function(name):
    clause = replace(INSTRUCTIONS["reciprocal"])
    vars(clause)["parameters"] = tuple(replace(p, name=name) for p in clause.parameters[:1])
    with pytest.raises(DefinitionError, match=f"reciprocal can't have a parameter '{name}'"):
        functions.issue_text(clause)
