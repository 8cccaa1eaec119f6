"""The plain reading stays plain: one short function per instruction, and few lines in total."""

import ast
import inspect
from pathlib import Path

from every import for_all

from neuroncore import plain
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.plain.reading import meaning

FILES = sorted(Path(plain.__file__).parent.glob("*.py"))
MOST_LINES = 1600
ENUMS = "neuroncore.base.enums"
MOST_LINES_OF_ONE = 12  # lines of an instruction's function, without its equation


@for_all("name", sorted(INSTRUCTIONS))
def test_each_instruction_has_a_short_function_named_after_it(name):
    function = meaning(name)
    assert function.__name__ == name
    (node,) = ast.parse(inspect.getsource(function)).body
    equation, *body = node.body
    assert ast.get_docstring(node) == inspect.getdoc(function)
    lines = body[-1].end_lineno - equation.end_lineno if body else 0
    assert lines <= MOST_LINES_OF_ONE


def test_there_are_few_lines():
    assert sum(len(file.read_text("utf-8").splitlines()) for file in FILES) <= MOST_LINES


def test_it_imports_no_part_of_the_emulator_but_the_record():
    imported = {
        node.module
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("neuroncore.")
    }
    rooms = {name.split(".")[1] for name in imported}
    assert rooms == {"base", "plain", "record"}
    assert {name for name in imported if name.startswith("neuroncore.base")} == {ENUMS}
