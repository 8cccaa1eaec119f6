"""docs/instances.md: its drawing, its figures and its program."""

import re
import sys
from pathlib import Path
from statistics import median

import pytest

import neuroncore
from neuroncore.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/instances.md").read_text() if (ROOT / "docs").is_dir() else ""

pytestmark = pytest.mark.source


def test_the_drawing_equals_the_output_of_the_command(capsys):
    (drawn,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert main(["machines", "trn2.48xlarge"]) == 0
    assert drawn in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "fitted"), [("fitted", True), ("not fitted", False)])
def test_the_errors_equal_those_of_the_table(kind, fitted):
    sys.path.insert(0, str(ROOT / "bench"))
    import collectives

    every = list(collectives.rows(ROOT / "tests/data/collectives.csv"))
    found = collectives.errors(every, fitted, "A")
    printed = re.search(rf"\| {kind} \| ([\d.]+) % \| ([\d.]+) % \|", PAGE)
    assert printed is not None
    assert printed.groups() == (f"{100 * median(found):.1f}", f"{100 * found[-1]:.1f}")


def test_the_program_of_docs_instances_runs(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with neuroncore.activated():
        exec(compile(program, "docs/instances.md", "exec"), {})
    assert "is the slowest" in capsys.readouterr().out
