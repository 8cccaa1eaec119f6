"""The command line: what it prints, what it writes and how it exits."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cli_files import KERNEL, NEURONCORE, OLDER, document, ran

import neuroncore
from neuroncore import machine
from neuroncore.cli import main
from neuroncore.machine import harness

ROOT = Path(__file__).parents[2]


# --- one kernel -----------------------------------------------------------------------------------


def test_first_line_names_target_seed_and_versions(file, capsys):
    _, out, _ = ran(capsys, f"{file}::double", "--seed", 7, "--target", "trn1")
    first = out.splitlines()[0]
    assert first.startswith("neuroncore ") and "target trn1 (NeuronCore-v2)" in first
    assert "seed 7" in first
    assert all(name in first for name in ("python", "numpy", np.__version__, "numba", "ml_dtypes"))


def test_a_saved_run_is_reported_like_the_run(file, tmp_path, capsys):
    code, out, _ = ran(capsys, f"{file}::double", "--save", tmp_path / "double.run")
    assert code == 0 and "double.run" in out.splitlines()[-1]
    code, again, _ = ran(capsys, tmp_path / "double.run", "--trace", tmp_path / "x.json")
    told = [line for line in out.splitlines()[1:-1] if line.split()[0] not in ("result", "agrees")]
    assert code == 0 and again.splitlines()[:-1] == told and (tmp_path / "x.json").exists()
    load = neuroncore.load(tmp_path / "double.run")
    np.testing.assert_array_equal(load.replay(), load.results)
    code, _, error = ran(capsys, tmp_path / "double.run", "--target", "trn1")
    assert code == 2 and "--target can't change the machine" in error


def test_report_has_error_estimate_bytes_and_space(file, capsys):
    code, out, _ = ran(capsys, f"{file}::double")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()[2:]}
    assert "max abs error 0 " in lines["result"] and "worst at (0, 0)" in lines["result"]
    assert "agrees" in lines and "bound by" in lines["estimate"]
    assert "HBM 128 B read, 128 B written" in lines["moved"]
    assert "SBUF 64 B of 224 KiB" in lines["peak"]


@pytest.mark.parametrize("tool", harness.NAMES)
def test_the_time_of_a_tool_is_reported_on_request(file, capsys, tool):
    words = (f"{file}::double", "--target", "trn2", "--harness", tool)
    _, out, _ = ran(capsys, *words)
    (line,) = (line.split(maxsplit=1)[1] for line in out.splitlines() if "harness" in line)
    _, found = document(capsys, *words)
    (told,) = found["launches"]
    time = harness.harness_time(tool, "trn2", 1e9 * told["estimate"]["total_time"])
    assert line == str(time) and told["harness"] == pytest.approx(time.to_dict())
    assert main(["why", *words]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split(maxsplit=1) == ["harness", line]
    assert main(["why", *words, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["launches"]
    assert told["harness"] == pytest.approx(time.to_dict())
    assert told["total_time"] == pytest.approx(time.kernel_ns / 1e9)


@pytest.mark.parametrize("asked", [(), ("--harness", "none")])
def test_no_tool_is_reported_without_a_request(file, capsys, asked):
    _, out, _ = ran(capsys, f"{file}::double", *asked)
    assert "harness" not in out
    _, found = document(capsys, f"{file}::double", *asked)
    assert "harness" not in found["launches"][0]


def test_a_kernel_that_differs_exits_with_1(file, capsys):
    code, out, _ = ran(capsys, f"{file}::double", "--ref", "wrong")
    assert code == 1
    assert "DIFFERS" in out


def test_tolerance_can_be_set(file, capsys):
    code, _, _ = ran(capsys, f"{file}::double", "--ref", "wrong", "--tol", 1.1)
    assert code == 0


def test_a_reference_is_as_precise_as_its_format(file, capsys):
    with file.open("a") as more:
        more.write("\ndef rounded(x): return (x * 2).astype('float16')\n")
    assert ran(capsys, f"{file}::double", "--ref", "rounded")[0] == 0
    code, shown, _ = ran(capsys, f"{file}::double", "--ref", "rounded", "--tol", 1e-5)
    assert code == 1 and "DIFFERS" in shown


def test_arguments_from_a_function_of_another_file(file, capsys):
    (file.parent / "ours.py").write_text(
        "import numpy as np\ndef f():\n    return np.ones((2, 3), np.float32)\n"
        "def g(x):\n    return x * 2\n"
    )
    code, found = document(capsys, f"{file}::double", "--inputs", "ours.py:f", "--ref", "ours.py:g")
    assert code == 0
    assert found["launches"][0]["agrees"] is True
    assert found["launches"][0]["estimate"]["hbm_read_bytes"] == 2 * 3 * 4


def test_arguments_by_name(file, capsys):
    code, _, _ = ran(capsys, f"{file}::double", "--inputs", "named")
    assert code == 0


def test_arguments_on_the_command_line(file, capsys):
    code, _, _ = ran(capsys, f"{file}::double", "--args", "float32[5,6]", "4.0")
    assert code == 0


def test_a_file_is_read_again_however_soon_it_was_changed(tmp_path, capsys, monkeypatch):
    """Python's own cache of bytecode identifies a file by its size and the second of its last
    change."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "older.py"
    for factor, code in (("3.0", 0), ("2.0", 1), ("3.0", 0)):
        path.write_text(OLDER.replace("tile, 3.0", f"tile, {factor}"))
        os.utime(path, (1e9, 1e9))
        assert main(["run", f"{path}::tripled"]) == code
    assert not list(tmp_path.rglob("*.pyc"))


def test_a_kernel_of_the_older_api(tmp_path, capsys):
    path = tmp_path / "older.py"
    path.write_text(OLDER)
    assert main(["run", f"{path}::tripled", "--precision"]) == 0
    shown = capsys.readouterr().out
    assert "agrees" in shown and "older.py:8" in shown
    path.write_text(OLDER.replace("tile, 3.0", "tile, 2.0"))
    assert main(["run", f"{path}::tripled"]) == 1


def test_the_reference_sees_the_inputs_before_the_kernel_writes_them(file, capsys):
    code, found = document(capsys, f"{file}::in_place", "--ref", "plus_one")
    assert code == 0
    assert found["launches"][0]["results"][0]["max_abs"] == 0


@pytest.mark.parametrize(
    "kernel,reference",
    [
        ("only_in_place", "plus_one"),
        ("only_in_place", "plus_one_in_place"),
        ("in_a_dictionary", "twice_two"),
    ],
)
def test_results_are_compared_wherever_they_are(file, capsys, kernel, reference):
    code, out, _ = ran(capsys, f"{file}::{kernel}", "--ref", reference)
    assert code == 0
    assert "agrees" in out


@pytest.mark.parametrize(
    "kernel,reference,said",
    [
        ("only_in_place", "wrong", "DIFFERS"),
        ("does_nothing", "plus_one_in_place", "changes none of its arguments"),
        ("does_nothing", "forgotten", "changes none of its arguments"),
        ("double", "forgotten", "returns 1 array, but the reference has 0"),
        ("double", "twice_two", "returns 1 array, but the reference has 2"),
        ("double", "of_another_shape", "shape (4, 8), but the reference has (2, 8)"),
    ],
)
def test_results_that_do_not_match_fail(file, capsys, kernel, reference, said):
    code, out, err = ran(capsys, f"{file}::{kernel}", "--ref", reference)
    assert code == 1
    assert said in out + err


def test_a_result_of_the_wrong_shape_is_a_failure_in_json(file, capsys):
    code, found = document(capsys, f"{file}::double", "--ref", "of_another_shape")
    assert code == 1
    assert not found["passed"]
    assert "shape" in found["error"]["statement"]


def test_more_tiles_than_a_memory_holds_are_a_finding(file, capsys):
    _, found = document(capsys, f"{file}::nine_banks", "--ref", "wrong")
    (finding,) = found["launches"][0]["findings"]
    assert (finding["code"], finding["severity"]) == ("CAPACITY", "warning")
    said = finding["sentence"]
    assert "need 18 KiB of psum per partition, and trn2 has 16 KiB" in said


def test_the_seed_decides_the_inputs(file, capsys):
    def got(seed):
        return document(capsys, f"{file}::double", "--seed", seed)[1]["launches"][0]["results"]

    assert got(1) == got(1) != got(2)


def test_findings_are_printed(file, capsys):
    code, out, _ = ran(capsys, f"{file}::reads_nothing", "--ref", "plus_one")
    assert code == 1
    assert "warning[UNINIT_READ]" in out and "mine.py:" in out


@pytest.mark.parametrize("place", [0, 1, 3])
def test_uninitialized_memory_is_poison_or_zeros_or_refused(file, capsys, place):
    def run(*options):
        words = [f"{file}::reads_nothing", "--ref", "zeros"]
        words[place:place] = options
        return ran(capsys, *words)

    code, out, _ = run()
    assert code == 1 and "--uninitialized zeros" in out
    code, out, _ = run("--uninitialized", "zeros")
    assert code == 0 and "warning[UNINIT_READ]" in out and "--uninitialized" not in out
    code, out, err = run("--uninitialized", "raise")
    assert code == 1 and "UNINIT_READ" in out + err and "warning" not in out


def test_an_option_for_zeros_may_follow_the_name_of_a_script(file, capsys):
    lines = "import numpy as np\nfrom mine import reads_nothing\n"
    Path("nothing.py").write_text(f"{lines}print(reads_nothing(np.ones((1, 3), np.float32)))")
    assert "nan" in ran(capsys, "nothing.py")[1]
    assert "[[0. 0. 0.]]" in ran(capsys, "nothing.py", "--uninitialized", "zeros")[1]
    code, _, err = ran(capsys, "nothing.py", "--uninitialzed", "zeros")
    assert code == 2 and "unknown option --uninitialzed; did you mean --uninitialized" in err


# --- JSON and traces ------------------------------------------------------------------------------


def test_json_is_one_document(file, capsys):
    code, found = document(capsys, f"{file}::double", "--target", "inf2", "--seed", 3)
    assert code == 0
    assert found["passed"] is True and found["error"] is None
    assert (found["target"], found["seed"]) == ("trn1", 3)
    assert found["schema"] == "neuroncore.run/2"
    assert found["launches"][0]["estimate"]["is_simulation"] is True


def test_json_has_the_error_of_an_illegal_kernel(file, capsys):
    code, found = document(capsys, f"{file}::double", "--args", "float32[129,8]")
    assert code == 1
    assert found["passed"] is False
    assert found["error"]["code"] == "PARTITION_LIMIT" and found["error"]["file"] == str(file)


def test_trace_opens_in_perfetto(file, capsys):
    code, out, _ = ran(capsys, f"{file}::double", "--trace", "out.json")
    assert code == 0 and "out.json" in out
    events = json.loads(Path("out.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["name"] for e in slices} >= {"dma_copy", "tensor_scalar"}
    assert all(e["dur"] >= 0 and {"pid", "tid", "ts"} <= e.keys() for e in slices)


# --- wrong usage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments,said",
    [
        (["nowhere.py"], "no file"),
        (["nowhere.py::double"], "nowhere.py"),
        (["mine.py"], "does nothing as a script; name a kernel: mine.py::double"),
        (["mine.py::dubble"], "'double'"),
        (["mine.py::double", "--inputs", "missing"], "missing"),
        (["mine.py::double", "--args", "float99[1,2]"], "float99"),
        (["mine.py::double", "--args", "[1,"], "Python literal"),
        (["mine.py::double", "--target", "trn0"], ", ".join(machine.names())),
        (["mine.py::double", "--trace", "nowhere/trace.json"], "can't be written"),
        (["mine.py::double", "--args", "1", "2", "3"], "too many positional arguments"),
    ],
)
def test_wrong_usage_exits_with_2_and_the_reason(file, capsys, arguments, said):
    code, _, err = ran(capsys, *arguments)
    assert code == 2
    assert said in err


@pytest.mark.parametrize("option", [["--targt", "trn1"], ["--seed", "-1"]])
def test_unknown_options_exit_with_2(file, option):
    with pytest.raises(SystemExit) as leaving:
        main(["run", "mine.py::double", *option])
    assert leaving.value.code == 2


REGISTERED = """
import numpy as np
from mine import double

def at_once(function):
    function()
    return function

@{decorator}
def launches():
    double(np.ones((4, 8), np.float32))
"""


def test_a_decorator_of_the_file_may_launch_kernels(file, capsys):
    Path("registered.py").write_text(REGISTERED.format(decorator="at_once"))
    code, found = document(capsys, "registered.py")
    assert code == 0 and len(found["launches"]) == 1


def test_a_script_whose_decorators_launch_nothing_does_nothing(file, capsys):
    Path("registered.py").write_text(REGISTERED.format(decorator="np.vectorize"))
    code, _, err = ran(capsys, "registered.py")
    assert code == 2 and "does nothing as a script" in err


# --- as a program ---------------------------------------------------------------------------------


PART = """
from neuroncore.kernels.ch05_matmul import blocked, inputs as of_chapter, reference
def inputs(rng):
    return [x[:512, :512] for x in of_chapter(rng)]
"""


def test_two_runs_print_the_same_bytes_whatever_the_threads(file, capsys):
    Path("part.py").write_text(PART)
    words = ["run", "part.py::blocked", "--trace", "t.json"]
    threads = "2" if os.environ.get("OPENBLAS_NUM_THREADS", str(os.cpu_count())) == "1" else "1"
    variables = dict.fromkeys(("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), threads)
    command, env = [NEURONCORE, *words], {**os.environ, **variables}
    finished = subprocess.run(command, env=env, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    trace = Path("t.json").read_bytes()
    assert main(words) == 0
    assert (capsys.readouterr().out, Path("t.json").read_bytes()) == (finished.stdout, trace)


def test_a_reader_that_stops_early_is_not_an_error(file):
    finished = subprocess.run(
        f"'{NEURONCORE}' machines | head -n 1; '{NEURONCORE}' run mine.py::double | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert finished.stderr == ""
    assert len(finished.stdout.splitlines()) == 2


def on_a_terminal(command):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    with suppress(OSError):  # when the last writer is gone
        while piece := os.read(ours, 1 << 16):
            printed += piece
    os.close(ours)
    process.wait()
    return printed.decode()


SLOW = """
import time
def reference(x):
    time.sleep(3)
    return x * 2
"""


def test_progress_shows_on_a_terminal_and_in_a_log(file, capsys, monkeypatch):
    Path("slow.py").write_text(KERNEL + SLOW)
    monkeypatch.delenv("NEURONCORE_PROGRESS")
    assert " s, 3 instructions" in on_a_terminal([NEURONCORE, "run", "slow.py::double"])
    monkeypatch.setenv("NEURONCORE_PROGRESS", "0")
    assert ran(capsys, "slow.py::double")[2] == ""
