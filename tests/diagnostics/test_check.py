"""`neuroncore check`: what is read, what is run, and in which forms it is told."""

import json

import pytest

import neuroncore
from neuroncore.cli import main
from neuroncore.errors import UsageError

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:64, :])
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def inputs():
    return (np.ones((128, 16), np.float32),)
"""
MAIN = 'if __name__ == "__main__":\n    kernel(*inputs())\n'


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(KERNEL, "utf-8")
    return path


def told(capsys, *words):
    code = main(["check", *map(str, words)])
    return code, capsys.readouterr().out


def test_a_kernel_with_inputs_is_run_in_another_process(file, capsys):
    code, out = told(capsys, f"{file}::kernel")
    assert code == 1
    first, *_, last = out.splitlines()
    assert first.startswith(f"{file}:11:") and " error[SHAPE_MISMATCH] " in first
    assert last == "1 error (1 file read, API 0.6; 0 launches run)"


def test_static_runs_nothing(file, capsys):
    code, out = told(capsys, f"{file}::kernel", "--static")
    assert (code, out) == (0, "no findings (1 file read, API 0.6; nothing was run)\n")
    assert neuroncore.check(file, "kernel", static=True).launches is None


def test_json_has_findings_as_objects(file, capsys):
    file.write_text(KERNEL.replace("x[0:64, :]", "x") + MAIN, "utf-8")
    code, out = told(capsys, file, "--json")
    assert code == 0
    assert json.loads(out) == {
        "schema": "neuroncore.check/1",
        "api": "0.6",
        "files": [str(file)],
        "launches": 1,
        "unfinished": None,
        "orders": [],
        "findings": [],
    }


def test_what_can_t_be_read_is_wrong_usage(file, capsys):
    file.write_text("def kernel(:\n", "utf-8")
    for words in ([file], [file.parent], [file.parent / "other.py"], [file, "--target", "trn9"]):
        assert told(capsys, *words, "--static")[0] == 2
    with pytest.raises(UsageError, match="no release"):
        neuroncore.check(file, api="0.7")
