"""Messages of the command line for bad input: one sentence and exit code 2, or the user's traceback
and 1."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checked_here import stay_here
from cli_files import KERNEL, OLDER, SCRIPT

from neuroncore.base.source import source_text
from neuroncore.cli import main

NEURONCORE = str(Path(sys.executable).parent / "neuroncore")

REFERENCES = """
raised = 3

def of_objects(x):
    import numpy as np
    return np.array([object()])

def of_two(x, y):
    return x

def generated():
    yield inputs_of_ones()
"""

BAD = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

def inputs():
    return (np.ones((4, 8), np.float32),)

@nki.jit
def raises(x):
    helper(nl.load(x))

def helper(tile):
    raise ValueError("mine")

@nki.jit
def deep(x):
    def again(n):
        return again(n + 1)
    return again(0)

@nki.jit
def endless(x):
    tile = nl.load(x)
    print("begun", flush=True)
    while True:
        nisa.tensor_scalar(tile, tile, nl.multiply, 1.0)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "")  # what the script sets is undone
    Path("mine.py").write_text(KERNEL + REFERENCES)
    Path("older.py").write_text(OLDER)
    Path("script.py").write_text(KERNEL + SCRIPT)
    Path("bad.py").write_text(BAD)
    return tmp_path


def failed(capsys, *arguments):
    """Run a command; return its exit code and standard error."""
    code = main(["run", *arguments])
    return code, capsys.readouterr().err


# --- files without valid Python -------------------------------------------------------------------

NOT_UTF8 = (
    r"Non-UTF-8 code starting with '\x{}', but no encoding declared; "
    "see https://peps.python.org/pep-0263/"
)
NO_PYTHON = {
    "open.py": (b"x = 1\ny = (\n", "open.py:2: '(' was never closed\n"),
    "null.py": (b"x = 1\n\n\0\0\n", "null.py:3: a null byte"),
    "latin.py": (b'x = "\xff"\n', f"latin.py:1: {NOT_UTF8.format('ff')}\n"),
    "comment.py": (b"x = 1\n# caf\xe9\n", f"comment.py:2: {NOT_UTF8.format('e9')}\n"),
    "docstring.py": (b'def f():\n    """x\n    \xc0y"""\n', "docstring.py:3: Non-UTF-8 code"),
    "second.py": (b'"""doc"""\n# coding: latin-1\n# \xe9\n', "second.py:3: Non-UTF-8 code"),
    "late.py": (b"x = 1\n\n# coding: latin-1\n# \xe9\n", "late.py:4: Non-UTF-8 code"),
    "deep.py": (b"x = " + b"-" * 100_000 + b"1\n", "deep.py:1: "),
    "coding.py": (b"# coding: nothing\n", "coding.py:1: unknown encoding: nothing"),
    "indent.py": (b"def f():\n    x\n  y\n", "indent.py:3: unindent"),
    "outside.py": (b"x = 1\nreturn x\n", "outside.py:2: 'return' outside function"),
}


@pytest.mark.parametrize("name", NO_PYTHON)
@pytest.mark.parametrize("asked", ["script", "kernel", "inputs", "reference"])
def test_a_file_without_valid_python_is_one_line_with_its_place(capsys, name, asked):
    content, said = NO_PYTHON[name]
    Path(name).write_bytes(content)
    code, err = failed(
        capsys,
        *{
            "script": [name],
            "kernel": [f"{name}::k"],
            "inputs": ["mine.py::double", "--inputs", f"{name}:f"],
            "reference": ["mine.py::double", "--ref", f"{name}:f"],
        }[asked],
    )
    assert code == 2
    assert err.startswith(said) and err.count("\n") == 1


@pytest.mark.parametrize("command", [["check"], ["check", "--static"], ["why"], ["view", "--json"]])
def test_each_command_refuses_bytes_in_a_comment_that_are_not_utf8(capsys, command):
    Path("comment.py").write_bytes(KERNEL.encode() + b"# caf\xe9\n")
    assert main([*command, "comment.py"]) == 2
    line = KERNEL.count("\n") + 1
    message = f"comment.py:{line}: {NOT_UTF8.format('e9')}\n"
    assert capsys.readouterr().err.removeprefix("neuroncore: ") == message


UNREADABLE = {  # encodings of other things than text, and encodings with errors
    **{name: b"x = 1\n" for name in ("hex", "base64", "rot13", "zip")},
    **{name: b"# \xe9\n" for name in ("idna", "utf-16", "utf-32", "undefined", "punycode")},
}


@pytest.mark.parametrize("encoding", UNREADABLE)
def test_a_file_that_declares_an_encoding_in_which_it_cannot_be_read(encoding):
    path, content = Path("odd.py"), b"# coding: " + encoding.encode() + b"\n" + UNREADABLE[encoding]
    path.write_bytes(content)
    assert source_text(path, "replace") == content.decode("utf-8", "replace")
    with pytest.raises((SyntaxError, UnicodeDecodeError)):
        source_text(path)


ENCODED = {  # files that Python runs
    "declared": b"# -*- coding: latin-1 -*-\n# caf\xe9\n",
    "mark": b"\xef\xbb\xbf# caf\xc3\xa9\n",
    "both": b"\xef\xbb\xbf# coding: utf-8\n",
    "declared in line 2": b"#!/usr/bin/python3\n# vim: set fileencoding=latin-1:\n# \xe9\n",
}


@pytest.mark.parametrize("name", ENCODED)
def test_a_file_in_another_encoding_runs(capsys, name, monkeypatch):
    stay_here(monkeypatch)
    Path("encoded.py").write_bytes(ENCODED[name] + (KERNEL + SCRIPT).encode("latin-1"))
    for command in ["run", "check", "why"]:
        assert main([command, "encoded.py"]) == 0, command
    assert "Non-UTF-8" not in capsys.readouterr().err
    assert source_text(Path("encoded.py")).endswith(KERNEL + SCRIPT)


def test_python_imports_a_file_whose_comment_is_not_utf8(monkeypatch):
    stay_here(monkeypatch)
    Path("helper.py").write_bytes(KERNEL.encode() + b"# caf\xe9\n")
    Path("imports_it.py").write_text("from helper import *\n" + SCRIPT)
    for command in ["run", "check"]:
        assert main([command, "imports_it.py"]) == 0, command


def test_an_imported_file_without_valid_python_is_one_line_too(capsys, folder):
    Path("broken_helper.py").write_text("x = (\n")
    Path("imports.py").write_text("import broken_helper\nprint()\n")
    assert failed(capsys, "imports.py") == (
        2,
        f"{folder}/broken_helper.py:1: '(' was never closed\n",
    )


def test_a_syntax_error_of_text_that_the_script_evaluates_has_the_script_s_traceback(capsys):
    Path("evaluates.py").write_text("eval('x = (')\n")
    code, err = failed(capsys, "evaluates.py")
    assert code == 1
    assert err.startswith("Traceback") and "evaluates.py" in err.splitlines()[1]


# --- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments,said",
    [
        ([".::double"], "is a folder"),
        (["mine.py::double", "--args", "float32[1000000,10000000]"], "can't be created"),
        (
            ["mine.py::double", "--args", "float32[" + ",".join(["1"] * 70) + "]"],
            "can't be created",
        ),
        (["mine.py::double", "--args", "float32[,]"], "is neither an array"),
        (["mine.py::double", "--inputs", "raised"], "no function 'raised'"),
        (["mine.py::double", "--inputs", "generated"], "arguments can't be copied"),
        (
            ["mine.py::double", "--ref", "of_two"],
            "missing a required argument: 'y'; 1 argument was",
        ),
        (["mine.py", "--args", "1"], "--args needs a kernel: FILE.py::KERNEL"),
        (["mine.py", "--inputs", "inputs"], "--inputs needs a kernel"),
        (["mine.py", "--ref", "of_two"], "--ref needs a kernel"),
        (["mine.py", "--tol", "0.1"], "--tol needs a kernel"),
        (["mine.py::double", "-v"], "--verbose needs a script"),
        (["bad.py", "--save", "bad.py"], "--save bad.py would overwrite a file"),
        (["bad.py::raises", "--html", "./bad.py"], "--html bad.py would overwrite a file"),
    ],
)
def test_wrong_usage_is_one_sentence(capsys, arguments, said):
    code, err = failed(capsys, *arguments)
    assert code == 2
    assert err.startswith("neuroncore: ") and said in err and err.count("\n") == 1


def test_a_kernels_file_must_end_in_py(capsys):
    Path("kernel.txt").write_text(KERNEL)
    code, err = failed(capsys, "kernel.txt::double")
    assert code == 2 and "does not end in .py" in err


@pytest.mark.parametrize("tolerance", ["nan", "-1", "much"])
def test_a_tolerance_must_be_a_number(capsys, tolerance):
    with pytest.raises(SystemExit) as leaving:
        failed(capsys, "mine.py::double", f"--tol={tolerance}")
    assert leaving.value.code == 2
    assert "is not a relative error" in capsys.readouterr().err


def test_a_reference_that_is_not_of_numbers_fails(capsys):
    code, err = failed(capsys, "mine.py::double", "--ref", "of_objects")
    assert code == 1
    assert err.startswith("neuroncore: the result or the reference is not numeric")


# --- output that can't be written -----------------------------------------------------------------


@pytest.mark.parametrize("trace", ["/proc/none.json", "nowhere/x.json", ".", "mine.py/x.json"])
def test_a_trace_that_cant_be_written_is_refused_before_the_run(capsys, trace):
    code, err = failed(capsys, "bad.py::raises", "--trace", trace)
    assert code == 2
    assert err.startswith(f"neuroncore: --trace {trace} can't be written: ")


def test_a_kernel_that_fails_leaves_no_empty_trace(capsys):
    assert failed(capsys, "bad.py::raises", "--trace", "new.json")[0] == 1
    assert not Path("new.json").exists()


def test_a_trace_is_not_lost_when_the_next_run_fails(capsys):
    Path("old.json").write_text("kept")
    assert failed(capsys, "bad.py::raises", "--trace", "old.json")[0] == 1
    assert Path("old.json").read_text() == "kept"


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")


@needs_full
def test_a_full_disk_is_one_sentence(capsys):
    code, err = failed(capsys, "mine.py::double", "--trace", "/dev/full")
    assert (code, err) == (
        2,
        "neuroncore: --trace /dev/full can't be written: No space left on device\n",
    )


@needs_full
@pytest.mark.parametrize("words", ["run mine.py::double --json", "isa", "isa none --json"])
def test_output_to_a_full_disk_is_one_sentence(words):
    with open("/dev/full", "w") as full:
        command = [NEURONCORE, *words.split()]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    *errors, last = ended.stderr.splitlines()
    assert last == "neuroncore: the output can't be written: No space left on device"
    assert len(errors) == ("none" in words)


@pytest.mark.parametrize(
    "words", ["isa none --json", "isa --jsn --json", "diff bad.py::raises mine.py::double --json"]
)
def test_a_closed_pipe_ends_a_command_with_an_error_silently(words):
    reader, writer = os.pipe()
    os.close(reader)
    command = [NEURONCORE, *words.split()]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert ended.returncode == 0 and "BrokenPipeError" not in ended.stderr


CLOSED = "neuroncore: the output is closed\n"


@pytest.mark.parametrize("words", ["run mine.py::double", "run mine.py::double --json"])
def test_closed_output_is_one_sentence(words, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert (main(words.split()), capsys.readouterr().err) == (2, CLOSED)


def test_closed_output_of_a_process_is_one_sentence():
    closed = f"exec '{NEURONCORE}' isa >&-"
    ended = subprocess.run(closed, shell=True, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (2, CLOSED)


def test_without_standard_error_a_run_prints_its_document_only(file):
    command = f"exec '{NEURONCORE}' run {file}::double --json 2>&-"
    ended = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0 and json.loads(ended.stdout)["passed"]


# --- what the user's code raises ------------------------------------------------------------------


def test_a_traceback_has_the_users_frames_only(capsys, folder):
    code, err = failed(capsys, "bad.py::raises")
    assert code == 1
    frames = [line for line in err.splitlines() if line.startswith('  File "')]
    assert [frame.rpartition("in ")[2] for frame in frames] == ["raises", "helper"]
    assert err.endswith("ValueError: mine\n")


def test_a_traceback_of_a_script_has_the_users_frames_only(capsys):
    Path("calls.py").write_text(BAD + "\nraises(*inputs())\n")
    code, err = failed(capsys, "calls.py")
    frames = [line for line in err.splitlines() if line.startswith('  File "')]
    assert code == 1
    assert [f.rpartition("in ")[2] for f in frames] == ["<module>", "raises", "helper"]


def test_a_traceback_of_a_file_that_raises_has_that_file_only(capsys):
    Path("raising.py").write_text("raise ValueError('mine')\n")
    for asked in ("raising.py", "raising.py::k"):
        code, err = failed(capsys, asked)
        assert code == 1
        assert [line.strip()[:4] for line in err.splitlines()] == ["Trac", "File", "rais", "Valu"]


def test_endless_recursion_is_one_sentence(capsys, folder):
    code, err = failed(capsys, "bad.py::deep")
    assert code == 1
    assert err.startswith(f"{folder}/bad.py:20: RecursionError: again is called again before")
    assert err.count("\n") == 1


def interrupted(*command):
    """Run a command that gets Ctrl-C once its kernel runs; return its exit code and all its
    output."""
    begun, theirs = os.pipe()
    process = subprocess.Popen(
        [NEURONCORE, *command],
        stdout=theirs,
        stderr=theirs,
        # a shell's background jobs ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(theirs)
    with open(begun) as output:
        while output.readline() != "begun\n":
            assert process.poll() is None
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(60), output.read()
        finally:
            process.kill()


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_ctrl_c_is_one_line(json):
    ended, said = interrupted("run", "bad.py::endless", *json)
    assert ended == 130
    assert said.startswith("neuroncore: interrupted at ") and said.count("\n") == 1
    assert "bad.py:2" in said


TWO_CORES = """
import sys

if __name__ == "__main__":
    endless[2](*inputs())
"""


def test_ctrl_c_on_two_cores_is_one_line():
    Path("two.py").write_text(BAD + TWO_CORES)
    line = len((BAD + TWO_CORES).splitlines())
    ended, said = interrupted("run", "two.py")
    assert ended == 130 and said.endswith(", on core 0\n") and said.count("\n") == 1
    assert said.startswith(f"neuroncore: interrupted at two.py:{line}; the kernel was at two.py:2")


@pytest.mark.parametrize(
    ("code", "said"),
    [("'bad input'", "bad input\n"), ("3", "neuroncore: the script exited with 3\n")],
)
def test_the_exit_code_of_a_script_is_reported(capsys, code, said):
    Path("leaves.py").write_text(f"import sys\nsys.exit({code})\n")
    assert failed(capsys, "leaves.py") == (1, said)


def test_an_error_outside_of_kernels_has_frames_of_the_script_only(capsys):
    Path("outside.py").write_text("import nki.isa as nisa\nnisa.memset(3, 4)\n")
    code, err = failed(capsys, "outside.py")
    assert code == 1 and err.startswith("outside.py:2:1: error[OUTSIDE_KERNEL]")
    assert [line for line in err.splitlines() if line.startswith("  in ")] == [
        "  in        <module> at outside.py:2"
    ]


def test_an_imported_name_that_does_not_exist_is_reported(capsys):
    Path("imports.py").write_text("from nki.isa import tensor_scaler\nprint()\n")
    code, err = failed(capsys, "imports.py")
    assert code == 1
    assert err.startswith("imports.py:1:1: error[UNKNOWN_NAME] nki.isa has no 'tensor_scaler'")
    assert "did you mean 'tensor_scalar'?" in err and "neuroncore." not in err
