"""Kernels and scripts that end the process: which ones fail, and which ones may."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_files import KERNEL

from neuroncore.cli import main

NEURONCORE = str(Path(sys.executable).parent / "neuroncore")

LEAVING = """
import sys
import numpy as np

def inputs():
    return (np.ones((4, 8), np.float32),)

@nki.jit
def leaves(x):
    nl.load(x)
    os._exit(0)

@nki.jit
def exits(x):
    nl.load(x)
    sys.exit()
"""
SCRIPT = """
import multiprocessing, os, threading

if __name__ == "__main__":
    double(*inputs())
    {last}
"""
FORK = "multiprocessing.get_context('fork').Process(target=print).start(); os.wait()"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(KERNEL + LEAVING)


def script(last):
    Path("script.py").write_text(KERNEL + LEAVING + SCRIPT.format(last=last))
    return "script.py"


def reported(capsys, *arguments):
    code = main(["run", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["leaves", "exits"])
def test_a_kernel_that_ends_the_process_has_failed(capsys, name):
    leave = os._exit
    code, document = reported(capsys, f"mine.py::{name}")
    assert (code, document["launches"]) == (1, [])
    assert document["error"]["statement"] == "a kernel ended the process with exit code 0"
    code, document = reported(capsys, script(f"{name}[2](*inputs())"))
    assert code == 1 and len(document["launches"]) == 1
    assert os._exit is leave


def test_the_json_document_is_complete_in_a_separate_process():
    command = [NEURONCORE, "run", "--json", "mine.py::leaves"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and json.loads(done.stdout)["error"]


@pytest.mark.parametrize("last", ["os._exit(0)", "sys.exit(0)", FORK])
def test_a_script_may_end_after_its_launches(capsys, last):
    code, document = reported(capsys, script(last))
    assert (code, document["error"], len(document["launches"])) == (0, None, 1)


def test_the_exit_code_of_a_script_is_kept(capsys):
    assert reported(capsys, script("os._exit(3)"))[0] == 1


def test_a_watchdog_still_ends_the_process():
    file = script("threading.Timer(0.1, os._exit, [7]).start(); threading.Event().wait(60)")
    done = subprocess.run([NEURONCORE, "run", "--json", file], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "")


SLOW = """
import time

import nki
import numpy as np

@nki.jit
def k(x, rank):
    if rank == 2:
        time.sleep(3)
    return x

def inputs(rank):
    return np.zeros(4, np.float32), rank
"""


def test_a_time_limit_names_the_line_and_the_rank_of_a_kernel(tmp_path, capsys):
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    assert main(["run", "--time-limit", "0.5", "--ranks", "4", f"{file}::k"]) == 1
    said = capsys.readouterr().err
    assert re.search(rf"after 0.5 s; the kernel was at {file}:10, on rank 2 of 4 ranks\n", said)


@pytest.mark.parametrize(
    ("body", "why"),
    [("return k.function(x, rank)", "RecursionError: k is called"), ("exit(7)", "exit code 7")],
)
def test_an_error_without_a_traceback_names_the_rank(tmp_path, capsys, body, why):
    file = tmp_path / "k.py"
    file.write_text(SLOW.replace("time.sleep(3)", body))
    assert main(["run", "--ranks", "4", f"{file}::k"]) == 1
    said = capsys.readouterr().err
    assert why in said and said.endswith("\n  on rank 2 of 4 ranks\n")


def test_a_time_limit_names_the_line(tmp_path, capsys):
    script = tmp_path / "endless.py"
    script.write_text("while True:\n    pass\n")
    assert main(["run", "--time-limit", "0.2", "--json", str(script)]) == 1
    printed = capsys.readouterr()
    said = json.loads(printed.out)["error"]["statement"]
    assert said.startswith(f"--time-limit: ended after 0.2 s at {script}:")
    assert said in printed.err
    script.write_text("x = 1\n")
    assert main(["run", "--time-limit", "60", str(script)]) != 1  # no alarm is left
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
