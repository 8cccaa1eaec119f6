"""The code blocks of README.md, and the commands on other pages, have the output on the page."""

import io
import os
import shlex
from contextlib import redirect_stderr, redirect_stdout

import pytest
import readme

from neuroncore.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    readme.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("NEURON_", "NKI_")):
            monkeypatch.delenv(name)
    return tmp_path


def called(command):
    """Return the exit code and the output of a command of neuroncore, run in this process."""
    program, *arguments = shlex.split(command)
    assert program == "neuroncore"
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(arguments)
    return code, printed.getvalue().replace(readme.COMPILING, "")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command,printed", readme.shown())
def test_pages_show_the_current_output_of_commands(command, printed):
    code, found = called(command)
    assert readme.without_versions(found) == readme.without_versions(printed)
    assert code == (1 if "error[" in printed else 0)


def test_the_set_up_commands_run(folder):
    commands = readme.blocks("sh")[0].splitlines()
    assert len(commands) == 2
    for command in commands:
        finished = readme.run(readme.setup_command(command), folder)
        assert finished.returncode == 0, finished.stdout
    assert (folder / "matmul.json").stat().st_size > 1000


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [c for b in readme.blocks("sh")[1:] for c in b.splitlines()])
def test_commands_run(command):
    code, printed = called(command)
    assert code == 0, printed


@pytest.mark.parametrize("program", readme.blocks("python"))
def test_programs_run(program, folder):
    (folder / "program.py").write_text(program)
    if "neuroncore.activate()" in program:
        finished = readme.run("python program.py", folder)
        assert finished.returncode == 0, finished.stdout
    else:
        code, printed = called("neuroncore run program.py")
        assert code == 0, printed
