"""What docs/ says is what the code says."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def module(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_table_of_instructions_and_formats_is_current():
    made = module("make_instructions")
    assert made.page() == made.PAGE.read_text(), "run docs/make_instructions.py"
