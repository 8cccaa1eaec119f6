"""Tests of everyone.py: the cases that it lists, known faults of kernels, and packages that it
replaces by empty modules."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

CONFORMANCE = Path(__file__).parents[1]
sys.path.insert(0, str(CONFORMANCE))

import everyone
from drivers import DRIVERS
from drivers.driver import DIFFERS, Checkout, Fault, normal
from outcome import Outcome

COMMITS = everyone.LISTED["commits"]
BY_A_CODE = Fault("CAPACITY", "too large")


def test_every_case_is_of_a_repository_with_a_commit():
    listed = [everyone.Script(**script) for script in everyone.LISTED["script"]]
    suites = [everyone.Suite(**suite) for suite in everyone.LISTED["suite"]]
    assert {case.repository for case in (*DRIVERS, *listed, *suites)} <= COMMITS.keys()
    assert all(len(commit) == 40 for commit in COMMITS.values())
    assert all(Fault(**script.fault).reason for script in listed if script.fault)


def test_every_driver_and_script_has_a_unique_name():
    names = [driver.name for driver in DRIVERS]
    names += [everyone.Script(**script).name for script in everyone.LISTED["script"]]
    assert len(names) == len(set(names))


def test_faults_are_of_variants_that_there_are(tmp_path):
    fixed = [driver for driver in DRIVERS if driver.name != "searches.candidate"]
    for driver in fixed:
        assert driver.faults.keys() <= set(driver.variants(Checkout(tmp_path))), driver.name


@pytest.mark.parametrize(
    ("fault", "verdict", "cause", "told"),
    [
        (BY_A_CODE, "refused", "CAPACITY: N bytes", "theirs"),
        (BY_A_CODE, "refused", "CAPACITY_OF_PSUM: N bytes", "failed"),
        (BY_A_CODE, "passed", "", "failed"),
        (BY_A_CODE, "timed out", "", "failed"),
        (Fault(DIFFERS, "rounds"), "failed", "Disagreement: y: relative L2 N", "theirs"),
        (Fault("SyntaxError", "holes"), "failed", "SyntaxError: invalid syntax", "theirs"),
        (None, "refused", "CAPACITY: N bytes", "refused"),
        (None, "passed", "", "passed"),
    ],
)
def test_a_fault_is_the_one_that_is_known_or_fails(fault, verdict, cause, told):
    outcome = everyone.faulty(Outcome("a/b c", verdict, cause), fault)
    assert outcome.verdict == told
    assert outcome.cause == (fault.reason if told == "theirs" else outcome.cause)


@pytest.mark.parametrize(
    ("inside", "verdict", "cause"),
    [
        ("", "passed", ""),
        ('<skipped message="slow"/>', "skipped", "slow"),
        ("<failure>x.py:3: error[SIGNATURE] no\n</failure>", "refused", "SIGNATURE: no"),
        ("<error>Traceback (most recent call last):\nKeyError: 1</error>", "failed", "KeyError: N"),
    ],
)
def test_tests_of_a_suite_are_read_from_its_report(inside, verdict, cause):
    test = ElementTree.fromstring(f'<testcase classname="t" name="n" time="2">{inside}</testcase>')
    outcome = everyone.tested("a/b", test)
    assert (outcome.name, outcome.seconds) == ("a/b t::n", 2.0)
    assert (outcome.verdict, outcome.cause) == (verdict, cause)


def test_the_table_has_a_line_for_each_repository():
    name = next(iter(COMMITS))
    outcomes = [Outcome(f"{name} x", "passed"), Outcome(f"{name} y", "theirs")]
    line = everyone.table(outcomes)[2]
    assert line == f"| {name} | {COMMITS[name][:7]} | 1 | 0 | 0 | 0 | 0 | 1 |"


def test_missing_clones_are_skipped_with_instructions(tmp_path, capsys):
    commands = list(everyone.clones(tmp_path))
    assert len(commands) == 2 * len(COMMITS)
    assert commands[0].startswith("git clone -q https://github.com/")
    assert not list(everyone.elsewhere(tmp_path))


def test_a_clone_at_another_commit_is_reported(tmp_path):
    name = next(iter(COMMITS))
    home = tmp_path / name.replace("/", "+")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a", "-C", str(home)]
    home.mkdir()
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], check=True)
    (said,) = everyone.elsewhere(tmp_path)
    assert name in said and COMMITS[name][:7] in said


# --- packages beside kernels ----------------------------------------------------------------------

SCRIPT = """
import sys
from transformers.models.llama import LlamaConfig
from transformers.utils import is_cuda_available
import package.kernels
class Config(LlamaConfig):
    pass
@LlamaConfig.register("x")
def kept(): return 5
assert not is_cuda_available() and kept() == 5 and not hasattr(package, "model")
assert package.kernels.VALUE == 7 and sys.argv[1:] == ["a"]
print("ended")
"""


@pytest.mark.parametrize("how", ["file", "module"])
def test_bystanders_import_as_empty_and_packages_bare(tmp_path, how):
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("model = 1 / 0")
    (tmp_path / "package/kernels.py").write_text("VALUE = 7")
    (tmp_path / "script.py").write_text(SCRIPT)
    what = [str(tmp_path / "script.py")] if how == "file" else ["-m", "script"]
    command = [sys.executable, str(CONFORMANCE / "bystanders.py"), "--bare", "pack*", *what, "a"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.stdout == "ended\n", ended.stderr


# --- a driver and its process ---------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "code"), [(2, 0), (3, 1)])
def test_a_driven_kernel_is_held_to_its_reference(tmp_path, factor, code):
    file = tmp_path / "pcs/examples/scale_by_two/kernel.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import nki, nki.language as nl\n"
        "@nki.jit\n"
        "def scale_by_two(x):\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        f"    nl.store(out, nl.multiply(nl.load(x), {factor}))\n"
        "    return out\n"
    )
    command = [
        sys.executable,
        str(CONFORMANCE / "everyone_case.py"),
        str(tmp_path),
        "rows.exercise",
    ]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == code
    assert ("relative L2 0.5 of 0 allowed" in ended.stderr) == bool(code)


def test_inputs_are_the_same_each_time():
    assert (normal(3, seed=1) == normal(3, seed=1)).all() and (normal(3) != normal(3, seed=1)).any()
