"""The programs of docs/frameworks.md run and print the output on the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.source

PAGE = Path(__file__).parents[2] / "docs/frameworks.md"
PROGRAM = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_page_shows_three_programs():
    assert [name for name, _ in PROGRAM.findall(PAGE.read_text())] == [
        *("program.py", "graph.py", "call.py"),
    ]


@pytest.mark.parametrize(
    "name, library, kernel",
    [
        ("program.py", "torch", "doubled"),
        ("graph.py", "jax", "added"),
        ("call.py", "jax", "scaled"),
    ],
)
def test_a_program_runs(name, library, kernel, tmp_path):
    pytest.importorskip(library)
    (tmp_path / name).write_text(dict(PROGRAM.findall(PAGE.read_text()))[name])
    command = [str(Path(sys.executable).with_name("neuroncore")), "run", name]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{kernel} on trn2") == 1
