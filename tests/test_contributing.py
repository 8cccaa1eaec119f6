"""The examples of CONTRIBUTING.md work."""

import importlib
import re
import runpy
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from accepted import module
from calls import SIZES, Case
from device import TARGETS, Device, usual

from neuroncore.clause import operand
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core import execute
from neuroncore.frontend import instructions, issue
from neuroncore.machine import load, machine
from neuroncore.numerics import formats
from neuroncore.plain import reduction

pytestmark = pytest.mark.source

functions = module("functions")

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
BLOCKS = [
    textwrap.dedent(block)
    for block in re.findall(
        r"^ *```python\n(.*?)^ *```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
]


def run(block, module):
    """Run a block as if it were in a module."""
    space = dict(vars(module))
    exec(compile(block, "CONTRIBUTING.md", "exec", dont_inherit=True), space)
    return space


@pytest.fixture
def added():
    there = INSTRUCTIONS.pop("running_maximum", None)
    clauses = importlib.import_module("neuroncore.isa.reduction")
    space = run("from __future__ import annotations\n" + BLOCKS[0], clauses)
    exec(functions.issue_text(INSTRUCTIONS["running_maximum"]), vars(instructions))
    exec(functions.execute_text(INSTRUCTIONS["running_maximum"]), vars(execute))
    yield space
    made = INSTRUCTIONS.pop("running_maximum")
    issue.function.cache_clear()
    if there is not None:
        INSTRUCTIONS[made.name] = there


def test_the_instruction_agrees_with_its_plain_function(added, monkeypatch):
    function = run(BLOCKS[1], reduction)["running_maximum"]
    monkeypatch.setattr(reduction, "running_maximum", function, raising=False)
    for target in TARGETS:
        device = Device(target)
        for turn, size in enumerate(SIZES):
            Case(device, "running_maximum", "bfloat16", *size, turn).issue()
        device.agrees()


def test_the_format_of_the_example_works(monkeypatch):
    row = run(BLOCKS[2], formats)["float6_e3m2fn"]
    assert row.max == 28 and row.held == "packs"


def test_tests_that_calculate_by_hand_leave_the_effect_of_the_example_out():
    it, (number,) = load("trn2"), (block for block in BLOCKS if block.startswith("gpsimd_wakeup"))
    space = run(f"@dataclass(frozen=True)\nclass More(Fixed):\n    {number}", machine)
    fixed = space["More"](**vars(it.fixed), gpsimd_wakeup_ns=1000.0)
    assert usual(replace(it, fixed=fixed)).fixed == replace(fixed, gpsimd_wakeup_ns=0.0)
    assert usual(it) is it


def test_the_files_that_the_page_names_exist():
    named = set(re.findall(r"(?:tests|isa|docs|neuroncore|\.ci)/[\w/.*]+\w", PAGE.read_text()))
    new = {"isa/machines/trn4.toml", "neuroncore/site"}  # to be added, and to be built
    assert len(named) > 20
    for path in named - new:
        assert [*PAGE.parent.glob(path)], path


def test_the_limits_of_the_instruction_set_equal_the_checked_ones():
    most = runpy.run_path(str(PAGE.parent / ".ci/instruction_set.py"))["MOST"]
    page = PAGE.read_text()
    assert not [limit for limit in most.values() if limit and f" {limit:,}" not in page]


def test_the_usual_annotations_are_in_the_named_modules():
    names = re.findall(
        r"`(\w+)`", PAGE.read_text().partition("* **Annotations**")[2].split("All of")[0]
    )
    assert {"Single", "Gathered", "AnyOp"} <= {*names} and all(hasattr(operand, n) for n in names)
