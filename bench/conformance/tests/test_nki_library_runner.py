"""Tests of the runner of nki-library's suite, on a checkout that they make, in which tests fail in
every way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[1] / "nki_library.py"

CONFTEST = """
import pytest

def pytest_addoption(parser):
    for option in ("--test-mode", "--platform-target", "--output-directory"):
        parser.addoption(option)
    parser.addoption("--force-local-cleanup", action="store_true")
"""
SUITE = """
import os, sys, time
import numpy as np
import pytest
import nki_cpu_simulator
import nki, nki.isa as nisa, nki.language as nl

def kernel(x, rows):
    tile = nl.ndarray((rows, 3), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    out = nl.ndarray((rows, 3), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out

def run(rows):
    x = np.ones((rows, 3), np.float32)
    try:
        return nki.cpu_simulate(kernel)[1](x=x, rows=rows)
    except Exception as error:
        raise RuntimeError("InferenceException") from error

def test_passes():
    assert run(2).sum() == 6
    assert "LEFT" not in os.environ

def test_is_wrong():
    print("largest diff = 1")
    assert run(2).sum() == 7, "3 is not 4"

def half(x):
    tile = nl.ndarray((2, 3), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile[0:1], x[0:1])
    out = nl.ndarray((2, 3), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out

def test_relies_on_zeros():
    assert nki.cpu_simulate(half)[1](x=np.ones((2, 3), np.float32)).sum() == 3

def test_fails_with_zeros_too():
    assert nki.cpu_simulate(half)[1](x=np.ones((2, 3), np.float32)).sum() == 4

def test_is_refused():
    run(129)

def test_expects_a_refusal():
    with pytest.raises(RuntimeError):
        run(130)

@pytest.mark.skip(reason="too large")
def test_is_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_is_known_to_fail():
    assert False

def test_takes_for_ever():
    time.sleep(600)

def test_dies():
    os.kill(os.getpid(), 9)

def test_wants_too_much():
    np.ones(1 << 31, np.float64)

@pytest.mark.parametrize("size", [4096, 16, 2])
def test_order(size):
    run(2)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout with the parts of nki-library on which the runner depends."""
    root = tmp_path_factory.mktemp("checkout")
    files = {
        "test/__init__.py": "",
        "test/pytest.ini": "[pytest]\n",
        "test/conftest.py": CONFTEST,
        "test/utils/__init__.py": "",
        "test/utils/common_dataclasses.py": "",
        "test/utils/exceptions.py": "class InferenceException(Exception): pass\n",
        "test/utils/test_orchestrator.py": (
            "class Orchestrator:\n    def _run_simulator_inference(self, test): pass\n"
        ),
        "test/integration/__init__.py": "",
        "test/integration/test_suite.py": SUITE,
        "test/integration/test_broken.py": "import no_such_module\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def ran(checkout, *options):
    command = [sys.executable, RUNNER, checkout, "--json", "--timeout=4", "--memory=6", *options]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # no plugin is needed
    finished = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert finished.stdout, finished.stderr
    cases = json.loads(finished.stdout)["cases"]
    return {case["name"].rpartition("::")[2].removeprefix("test_"): case for case in cases}


BROKEN = "integration/test_broken.py"


def test_every_test_has_its_outcome_whatever_the_others_do(checkout, tmp_path):
    log = tmp_path / "log"
    cases = ran(checkout, "--log", log)
    verdicts = {name: (case["verdict"], case["cause"]) for name, case in cases.items()}
    for wrong in ("is_wrong", "fails_with_zeros_too"):
        verdict, cause = verdicts.pop(wrong)
        assert verdict == "failed" and cause
    verdict, cause = verdicts.pop("relies_on_zeros")
    assert verdict == "passes with zeros" and cause.startswith("AssertionError")
    assert verdicts == {
        "passes": ("passed", ""),
        "is_refused": (
            "refused",
            "PARTITION_LIMIT: the tensor (N x N) has N partitions",
        ),
        "expects_a_refusal": ("passed", ""),
        "is_skipped": ("skipped", "too large"),
        "is_known_to_fail": ("skipped", "xfail: known"),
        "takes_for_ever": ("timed out", ""),
        "dies": ("failed", "the process ended with -9"),
        "wants_too_much": ("failed", verdicts["wants_too_much"][1]),
        "order[2]": ("passed", ""),
        "order[16]": ("passed", ""),
        "order[4096]": ("passed", ""),
        BROKEN: ("failed", verdicts[BROKEN][1]),
    }
    assert "MemoryError" in verdicts["wants_too_much"][1]
    assert "not collected: " in verdicts[BROKEN][1]
    assert "largest diff = 1" in cases["is_wrong"]["details"]
    assert "PARTITION_LIMIT" in cases["expects_a_refusal"]["details"][0]
    order = [name for name in cases if name.startswith("order")]
    assert order == ["order[2]", "order[16]", "order[4096]"]

    lines = log.read_text().splitlines(keepends=True)
    again = tmp_path / "again"
    again.write_text("".join(line for line in lines if "order[" not in line))
    resumed = ran(checkout, "--resume", again)
    assert resumed.keys() == cases.keys()
    assert resumed["takes_for_ever"]["seconds"] == cases["takes_for_ever"]["seconds"]


def test_only_what_is_asked_for_runs_and_the_checkout_stays_as_it_was(checkout, tmp_path):
    before = sorted(checkout.rglob("*"))
    wanted = tmp_path / "wanted"
    wanted.write_text("integration/test_suite.py::test_passes\n")
    assert ran(checkout, "--only", wanted).keys() == {"passes"}  # no other module is collected
    wanted.write_text("integration/test_suite.py::test_passes\nintegration/test_suite.py::drawn\n")
    log = tmp_path / "log"
    assert ran(checkout, "--only", wanted, "--log", log).keys() == {"passes", BROKEN}
    assert len(log.read_text().splitlines()) == 2  # tests in the log are not run again
    assert ran(checkout, "-k", "is_wrong").keys() == {"is_wrong", BROKEN}
    assert sorted(checkout.rglob("*")) == before


def test_tests_that_the_suite_lacks_are_reported_in_a_sentence(checkout, tmp_path):
    tools = tmp_path / "test/utils"
    tools.mkdir(parents=True)
    (tmp_path / "test/conftest.py").write_text("import os\nfrom no_such_package.core import x\n")
    (tools / "one.py").write_text(
        "import json, no_such_other.part\nfrom . import two\ntry:\n    import not_needed\n"
        "except ImportError:\n    pass\n"
    )
    finished = subprocess.run([sys.executable, RUNNER, tmp_path], capture_output=True, text=True)
    assert finished.returncode == 2
    assert finished.stderr.endswith(
        f"{sys.executable} lacks no_such_other, no_such_package; the suite's needs are the extra "
        f"`test` of {tmp_path}/pyproject.toml\n"
    )
    assert finished.stderr.count("\n") == 1


def test_so_is_a_python_without_neuroncore(checkout):
    command = [sys.executable, RUNNER, checkout, "--python", "/no/such/python"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 2
    assert finished.stderr.startswith("nki_library: /no/such/python lacks neuroncore; ")


def test_the_smallest_requested_test_of_each_function_is_selected(checkout):
    cases = ran(checkout, "--smallest", "-k", "passes or is_skipped or (order and not 2)")
    assert {name for name, case in cases.items() if case["verdict"] == "passed"} == {
        "passes",
        "order[16]",
    }
    assert "is_skipped" not in cases
