"""Notebooks: errors have the user's frames only and name cells, and the cell magic shows runs."""

import re

import pytest

from neuroncore.base import source

shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")

KERNEL = """\
import nki, nki.isa as nisa, nki.language as nl, numpy as np
x = np.ones((4, 8), np.float32)
@nki.jit
def kernel(x, illegal=False):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    if illegal:
        nisa.tensor_scalar(dst=tile, data=x, op0=nl.add, operand0=1.0)
    nl.store(out, tile)
    return out
"""


@pytest.fixture
def shell():
    """A shell with the extension loaded and a kernel defined in cell 1."""
    made = shells.InteractiveShell()
    made.run_line_magic("load_ext", "neuroncore")
    assert made.run_cell(KERNEL, store_history=True).success
    yield made
    made.run_line_magic("unload_ext", "neuroncore")
    assert source.cell_name is None


def test_an_error_has_no_traceback_and_names_the_cell(shell, capsys):
    result = shell.run_cell("kernel(x, illegal=True)", store_history=True)
    assert not result.success
    said = capsys.readouterr().out
    assert re.match(r"Cell In\[1\], line 8:\d+: error\[BUFFER_KIND\]", said)
    assert "  because " in said and "Traceback" not in said and "launch.py" not in said


def test_an_error_of_python_about_names_of_the_api_is_shown_in_the_same_way(shell, capsys):
    shell.run_cell("nisa.tensor_scaler", store_history=True)
    said = capsys.readouterr().out
    assert said.startswith("Cell In[2], line 1:") and "did you mean 'tensor_scalar'" in said


def test_other_errors_are_shown_as_usual(shell, capsys):
    shell.run_cell("{}['a'] + 1\n")
    assert "KeyError" in capsys.readouterr().out
    shell.run_cell("int('a')\n")
    said = capsys.readouterr().out
    assert "ValueError" in said and "Traceback" in said


def test_the_magic_shows_the_runs_of_a_cell(shell, capsys):
    cell = "%%neuroncore --target trn3\ny = kernel(x)\ny.sum()"
    assert shell.run_cell(cell, store_history=True).success
    said = capsys.readouterr().out
    assert "<Run of kernel on trn3" in said and "32.0" in said
    assert shell.run_cell("%%neuroncore\n# nothing", store_history=True).success
    assert shell.user_ns["_run"].machine.name == "trn3" and shell.user_ns["y"].sum() == 32


def test_a_cell_of_the_magic_fails_once_and_at_its_line(shell, capsys):
    result = shell.run_cell("%%neuroncore\n\nnisa.tensor_scaler", store_history=True)
    assert not result.success
    said = capsys.readouterr().out
    assert said.startswith("Cell In[2], line 3:") and "Traceback" not in said
    assert "interactiveshell" not in said
    shell.run_cell("%%neuroncore --machine trn3\n1", store_history=True)
    assert "unrecognized arguments: --machine" in capsys.readouterr().out
