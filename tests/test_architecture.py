"""How the house is built: what its rules say is counted here."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.source

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 60  # lines of a function
POSITIONAL = 8  # arguments that a reader can still tell apart


def sources():
    for folder in ("neuroncore", "isa"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def nodes(kind):
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, kind):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_no_function_is_longer_than_a_page():
    functions = nodes((ast.FunctionDef, ast.AsyncFunctionDef))
    found = [(where, f.end_lineno - f.lineno + 1) for where, f in functions]
    assert [(where, lines) for where, lines in found if lines > LONGEST] == []


def test_no_call_goes_by_the_order_of_many_arguments():
    long = [where for where, call in nodes(ast.Call) if len(call.args) > POSITIONAL]
    assert long == []


def test_compiled_loops_take_tables_for_many_arrays():
    native = ((w, f) for w, f in nodes(ast.FunctionDef) if w.startswith("neuroncore/native/"))
    assert [where for where, f in native if len(f.args.args) > POSITIONAL] == []
