"""Scripts on the command line: their arguments, targets, launches, output and ends."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from cli_files import KERNEL, NEURONCORE, OLDER, document, ran

from neuroncore.cli import main


def test_a_script_runs_as_itself(file, capsys):
    code, out, _ = ran(capsys, "script.py", "--target", "trn1", "--", "one", "two")
    assert code == 0
    assert "arguments ['one', 'two']" in out


def test_words_that_are_not_options_belong_to_the_script(file, capsys):
    given = ("one", "-n", "128", "--kernel", "tiled", "--target", "trn1", "--size=3")
    code, out, _ = ran(capsys, "script.py", *given, "--", "--target", "here")
    assert code == 0 and "double on trn1" in out
    kept = ["one", "-n", "128", "--kernel", "tiled", "--size=3", "--target", "here"]
    assert f"arguments {kept}" in out


def test_a_misspelled_option_does_not_belong_to_the_script(file, capsys):
    code, out, err = ran(capsys, "script.py", "--traget", "trn1")
    assert code == 2 and "arguments" not in out
    assert "unknown option --traget; did you mean --target" in err and "-- --traget" in err


def test_script_arguments_are_refused_for_a_kernel(file, capsys):
    with pytest.raises(SystemExit) as leaving:
        ran(capsys, f"{file}::double", "--kernel", "tiled")
    assert leaving.value.code == 2
    assert "unrecognized arguments: --kernel tiled" in capsys.readouterr().err


def test_the_target_option_beats_the_environment_even_if_the_script_sets_it(file, capsys):
    _, out, _ = ran(capsys, "script.py", "--target", "trn1")
    assert "double on trn1" in out


def test_the_environment_beats_the_default_at_launch(file, capsys):
    _, out, _ = ran(capsys, "script.py")
    assert "double on trn3" in out


THREADS = """
from threading import Thread
import numpy as np

workers = [Thread(target=double, args=(np.ones((4, 8), np.float32),)) for _ in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
"""


def test_launches_from_threads_of_a_script_run_on_the_target_and_are_reported(file, capsys):
    (file.parent / "threads.py").write_text(KERNEL + THREADS)
    code, found = document(capsys, "threads.py", "--target", "trn1")
    assert code == 0
    assert [launch["target"] for launch in found["launches"]] == ["trn1"] * 3


def test_arguments_that_the_kernel_does_not_have_are_reported_at_the_users_line(file, capsys):
    _, _, err = ran(capsys, f"{file}::double", "--args", "3")
    assert err.startswith(f"{file}:9:12: error[SIGNATURE] nl.load failed with the")
    assert "expected  nl.load(src, dtype=None)" in err and "Traceback" not in err


def test_files_are_utf8_whatever_the_locale(file):
    bare = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run([NEURONCORE, "run", f"{file}::double"], env=bare, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def test_output_of_a_script_does_not_mix_with_json(file, capsys):
    code = main(["run", "script.py", "--json"])
    printed = capsys.readouterr()
    assert code == 0
    assert "arguments" in printed.err and json.loads(printed.out)["passed"]


def test_output_of_a_kernel_and_its_file_does_not_mix_with_json(file, capsys):
    talks = file.read_text().replace("by=2.0):", "by=2.0):\n    print('inside', x)", 1)
    Path("talks.py").write_text(f"print('outside')\n{talks}")
    code = main(["run", "talks.py::double", "--json"])
    printed = capsys.readouterr()
    assert code == 0 and json.loads(printed.out)["passed"]
    assert "outside" in printed.err and "inside" in printed.err


@pytest.mark.parametrize("how", ["fail", "exit"])
def test_a_script_that_fails_exits_with_1(file, capsys, how):
    code, found = document(capsys, "script.py", "--", how)
    assert code == 1
    assert found["passed"] is False


def test_a_script_that_launches_nothing_fails(file, capsys):
    Path("idle.py").write_text("print('hello')\n")
    code, _, err = ran(capsys, "idle.py")
    assert code == 1
    assert "no kernel was launched" in err


LAUNCHES = """
import numpy as np
x = np.ones((2, 3), np.float32)
"""


def script_of(file, *launches):
    script = file.with_name("launches.py")
    script.write_text(file.read_text() + LAUNCHES + "\n".join(launches))
    return script


def test_findings_of_a_line_are_printed_once_in_full_and_then_counted(file, capsys):
    script = script_of(file, "reads_nothing(x)", "reads_nothing(x)", "double(x)")
    code, out, _ = ran(capsys, script)
    assert code == 0 and out.count("warning[UNINIT_READ]") == 1
    assert out.count("repeated   UNINIT_READ (1): shown for an earlier launch\n") == 1
    _, found = document(capsys, script)
    codes = [[one["code"] for one in launch["findings"]] for launch in found["launches"]]
    assert [one.count("UNINIT_READ") for one in codes] == [1, 1, 0]


def test_the_report_has_the_number_of_programs_of_each_core(file, capsys):
    file.write_text(OLDER)
    script = script_of(file, "tripled[2, 3](x)", "tripled[nl.nc(2) * 2](x)", "tripled[nl.nc(3)](x)")
    _, out, _ = ran(capsys, script)
    assert "  core" not in out and "\n3 launches; -v prints the details of each\n" in out
    assert len([line for line in out.splitlines() if line.startswith("tripled on trn2   ")]) == 3
    _, out, _ = ran(capsys, script, "-v")
    assert [line for line in out.splitlines() if line.startswith("  core")] == [
        "  core 0, 6 of 6 programs, one after another",
        "  core 0, 2 of 4 programs, one after another",
        "  core 1, 2 of 4 programs, one after another",
        "  core 0",
        "  core 1",
        "  core 2",
    ]
    _, found = document(capsys, script)
    assert [launch["programs"] for launch in found["launches"]] == [
        [[0, 1, 2, 3, 4, 5]],
        [[0, 1], [2, 3]],
        [[0], [1], [2]],
    ]


ASKS = """
import nki
import nki.language as nl

@nki.jit
def asks(x):
    tile = nl.load(x)
    if tile[0, 0] < 1:
        return x
    while tile[0, 0] == 0:
        pass
    return x
"""


def test_a_condition_on_a_tensor_is_one_error(tmp_path, monkeypatch, capsys):
    """The warning about the same line is left out; the warning about another line stays."""
    monkeypatch.chdir(tmp_path)
    Path("asks.py").write_text(ASKS)
    code, out, err = ran(capsys, "asks.py::asks", "--args", "float32[4,8]")
    assert code == 1 and err.count("error[DYNAMIC_CTRL]") == 1 and "nl.where" in err
    assert out.count("warning[DYNAMIC_CTRL]") == 1 and "< 1" not in out
