"""`neuroncore run --with` imports the vendor's packages from checkouts."""

import os
import subprocess
import sys

import pytest

from neuroncore.cli import main

SCRIPT = """
import subprocess, sys
import numpy as np
import neuronxcc.nki as nki, neuronxcc.nki.language as nl
from neuronxcc.nki._private_kernels.mlp import mlp_isa_kernel
from nkilib.core.factor import FACTOR

@nki.jit
def scaled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), FACTOR))
    return out

if __name__ == "__main__":
    print("scaled", scaled(np.ones((2, 3), np.float32))[0, 0])
    code = "import nki; from nkilib.core.factor import FACTOR; print('child', FACTOR)"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    if "closed" in sys.argv:
        mlp_isa_kernel(1)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "library/src/nkilib_src/nkilib/core").mkdir(parents=True)
    package = tmp_path / "library/src/nkilib_src/nkilib"
    for name, text in {"__init__": "", "core/__init__": "", "core/factor": "FACTOR = 3.0"}.items():
        (package / f"{name}.py").write_text(text)
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEURONCORE_NKILIB", raising=False)
    return tmp_path


def test_a_script_and_its_child_processes_find_the_checkout(folder, capsys):
    assert main(["run", "script.py", "--with", "nkilib=library"]) == 0
    printed = capsys.readouterr().out
    assert "scaled 3.0" in printed and "child 3.0" in printed
    assert "NEURONCORE_WITH" not in os.environ


def test_a_missing_function_fails_where_it_is_called(folder, capsys):
    assert main(["run", "script.py", "--with", "nkilib=library/src", "closed"]) == 1
    out, err = capsys.readouterr()
    assert "scaled 3.0" in out
    assert err.startswith("script.py:") and "mlp.mlp_isa_kernel is not part of neuroncore" in err
    assert "neuroncore.frontend" not in err and "Traceback" not in err


@pytest.mark.parametrize(
    "given, said",
    [
        ("nkilib=nowhere", "there is no such folder"),
        ("nki-samples=library", "what seems to be a checkout of"),
        ("nkilab=library", "NAME is nkilib or nki-samples"),
        ("nkilib", "NAME=FOLDER"),
    ],
)
def test_a_wrong_checkout_exits_with_2_and_runs_nothing(folder, capsys, given, said):
    assert main(["run", "script.py", "--with", given]) == 2
    out, err = capsys.readouterr()
    assert said in err and f"--with {given.partition('=')[0]}" in err and "scaled" not in out


def test_programs_with_the_alias_path_read_the_variable(folder, capsys):
    assert main(["alias-path"]) == 0
    path = capsys.readouterr().out.strip()
    environment = {**os.environ, "PYTHONPATH": path, "NEURONCORE_NKILIB": str(folder / "library")}
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "scaled 3.0" in done.stdout and "child 3.0" in done.stdout, done.stderr
