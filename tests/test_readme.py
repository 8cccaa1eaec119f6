"""Every code block of README.md does what it says."""

import pytest
import readme


@pytest.fixture
def folder(tmp_path):
    readme.prepare(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command,printed", readme.PRINTED.findall(readme.README.read_text()))
def test_what_is_shown_is_what_is_printed(command, printed, folder):
    finished = readme.run(command, folder)
    assert readme.without_versions(finished.stdout) == readme.without_versions(printed)
    assert finished.returncode == (1 if "error[" in printed else 0)


def test_the_set_up_commands_run(folder):
    commands = readme.blocks("sh")[0].splitlines()
    assert len(commands) == 2
    for command in commands:
        finished = readme.run(readme.setup_command(command), folder)
        assert finished.returncode == 0, finished.stdout
    assert (folder / "matmul.json").stat().st_size > 1000


@pytest.mark.parametrize("command", [c for b in readme.blocks("sh")[1:] for c in b.splitlines()])
def test_commands_run(command, folder):
    finished = readme.run(command, folder)
    assert finished.returncode == 0, finished.stdout


@pytest.mark.parametrize("program", readme.blocks("python"))
def test_programs_run(program, folder):
    (folder / "program.py").write_text(program)
    runner = "python" if "neuroncore.activate()" in program else "neuroncore run"
    finished = readme.run(f"{runner} program.py", folder)
    assert finished.returncode == 0, finished.stdout
