"""Options of the command line: files that a command writes, limits, and options without effect."""

import json
import re
from pathlib import Path

import pytest
from cli_files import KERNEL

from neuroncore.cli import main, parser, usage
from neuroncore.cli.completion import parsers

# arguments that are names, folders and addresses
NO_FILES = (
    *("args", "target", "checkouts", "instance", "numerics", "batch", "dask", "cache"),
    *("submissions", "folder", "name", "sources", "records"),
)
NAMED = "k.py::double"
OTHER_KERNEL = (
    KERNEL
    + """
def reference(x, y):
    return x + y
"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    return tmp_path


@pytest.fixture
def saved(folder, capsys):
    assert main(["run", NAMED, "--save", "k.run"]) == 0
    capsys.readouterr()


def refused(capsys, *words):
    """Return the message of a command that is wrong usage."""
    try:
        code = main([*words])
    except SystemExit as leaving:
        code = leaving.code
    assert code == 2, words
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("check", NAMED, "--sarif", "./k.py"),
        ("diff", NAMED, NAMED, "--html", "k.py"),
        ("view", NAMED, "-o", "k.py"),
        ("run", NAMED, "--inputs", "other.py:inputs", "--save", "other.py"),
        ("eval", "--spec", "k.py", "--candidate", "a.py", "other.py", "--jsonl", "other.py"),
        ("grade", "--spec", "k.py", "--submissions", ".", "--csv", "k.py"),
        ("neff", "other.py", "--save", "other.py"),
        ("profile", "view", "-n", "k.py", "--output-file", "k.py"),
        ("puzzles", "check", "k.py", "--html", "k.py"),
    ],
)
def test_no_output_replaces_a_file_that_the_command_reads(capsys, words):
    Path("other.py").write_text("kept")
    assert "would overwrite a file that the command reads" in refused(capsys, *words)
    assert (Path("k.py").read_text(), Path("other.py").read_text()) == (KERNEL, "kept")


def test_two_outputs_have_two_files(capsys):
    words = ("run", NAMED, "--trace", "out", "--save", "./out")
    assert "--trace and --save would write the same file" in refused(capsys, *words)
    assert main(["run", NAMED, "--trace", "/dev/null", "--html", "/dev/null"]) == 0


def test_an_output_that_cant_be_written_is_refused_before_the_work(capsys):
    for words in (("check", NAMED, "--sarif"), ("diff", NAMED, NAMED, "--html")):
        message = refused(capsys, *words, "nowhere/out")
        assert message.startswith(f"neuroncore: {words[-1]} nowhere/out can't be written: ")


def test_each_option_whose_name_is_that_of_an_output_is_checked():
    """Values like OUT.html in the help are files that a command writes."""
    for command in parsers(parser()):
        outputs = command.get_default("outputs") or ()
        for action in command._actions:
            if (action.metavar or "").startswith("OUT"):
                assert action.dest in outputs, (command.prog, action.dest)


def test_each_argument_that_is_a_text_is_an_input_or_no_file():
    """A new argument must be in `usage.INPUTS` if it names a file to read."""
    for command in parsers(parser()):
        outputs = command.get_default("outputs") or ()
        for action in command._actions:
            takes_text = action.nargs != 0 and action.type in (None, Path) and not action.choices
            if takes_text and action.dest not in (*outputs, *usage.INPUTS, *NO_FILES):
                pytest.fail(f"{command.prog} {action.dest}")


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (("run", NAMED, "--trace-flows"), "--trace"),
        (("run", NAMED, "--window", "0:1"), "--html"),
        (("run", NAMED, "--values", "none"), "--html"),
        (("run", NAMED, "--lnc", "2"), "--ranks"),
        (("view", NAMED, "--port", "8000"), "--serve"),
        (("eval", "--spec", "s.py", "--candidate", "k.py", "--resume"), "--jsonl"),
        (("eval", "--spec", "s.py", "--candidate", "k.py", "--trace-hacks"), "--trace"),
        (("neff", "k.neff", "--args", "1"), "--source"),
        (("neff", "k.neff", "--order", "in-order"), "--source"),
        (("neff", "k.neff", "--tolerance", "0.1"), "--expect"),
        (("profile", "import", "k.ntff", "--inputs", "inputs"), "--source"),
    ],
)
def test_an_option_without_effect_is_refused(capsys, words, needed):
    option = next(word for word in reversed(words) if word.startswith("--"))
    assert refused(capsys, *words) == f"neuroncore: {option} needs {needed}\n"


def test_a_tolerance_needs_a_reference(capsys):
    Path("alone.py").write_text(KERNEL.replace("def reference", "def expected"))
    words = "run", "alone.py::double", "--tol", "0.1"
    assert "--tol needs a reference" in refused(capsys, *words)
    assert main([*words, "--ref", "expected"]) == 0


@pytest.mark.parametrize(
    ("words", "excluded", "other"),
    [
        (("check", NAMED, "--orders", "2"), "--orders", "--static"),
        (("check", NAMED, "--args", "1"), "--args", "--static"),
        (("view", NAMED, "--watch"), "--watch", "--serve"),
        (("machines", "--json"), "--json", "--check"),
        (("neff", "k.neff", "--all"), "--all", f"--source={NAMED}"),
        (("eval", "--spec", "s.py", "--candidate", "k.py", "--rank"), "--rank", "--examine"),
    ],
)
def test_an_option_that_another_one_excludes_is_refused(capsys, words, excluded, other):
    message = refused(capsys, *words, other)
    assert message == f"neuroncore: {excluded} can't be combined with {other.partition('=')[0]}\n"


def test_a_page_is_written_even_if_no_instruction_is_at_its_line_or_later():
    """Editors pass the line of the cursor, which may be below the kernel, or at the error."""
    Path("fails.py").write_text(KERNEL.replace("(out, ", "(out[:, :1], "))
    for status, name in ((0, "k"), (1, "fails")):
        assert main(["view", f"{name}.py::double", "--line", "99", "-o", f"{name}.html"]) == status
        assert re.search(r'"line": ?99\b', Path(f"{name}.html").read_text())


@pytest.mark.parametrize(
    "words",
    [
        *(("run", "--matmul", "blas"), ("run", "--numerics", "ideal"), ("run", "--seed", "3")),
        *(("run", "--precision"), ("run", "--uninitialized", "zeros"), ("run", "extra")),
        *(("view", "--json"), ("check", "--api", "0.1"), ("why", "--seed", "3")),
    ],
)
def test_a_saved_run_has_no_options_of_an_execution(capsys, saved, words):
    message = refused(capsys, words[0], "k.run", *words[1:])
    assert message.startswith("neuroncore: k.run is a saved run, but ") and words[1] in message


def test_options_of_a_saved_run_are_accepted(capsys, saved):
    for words in (("run", "--json", "--order", "in-order"), ("check", "--strict"), ("why",)):
        assert main([words[0], "k.run", *words[1:]]) == 0
    assert main(["diff", "k.run", NAMED, "--seed", "3"]) == 0
    assert "--args needs a kernel" in refused(capsys, "diff", "k.run", "k.run", "--args", "1")


def test_diff_runs_the_second_kernel_if_the_first_one_fails(capsys):
    Path("fails.py").write_text(KERNEL.replace("(out, ", "(out[:, :1], "))
    Path("fails_too.py").write_text(KERNEL.replace("by)", "None)"))
    assert main(["diff", "fails.py::double", "fails_too.py::double"]) == 1
    err = capsys.readouterr().err
    assert "fails.py:11" in err and "fails_too.py:11" in err


def test_a_compiled_program_belongs_to_a_trace(capsys):
    for words in (("why", NAMED), ("diff", NAMED, NAMED)):
        assert "--neff is only for a trace" in refused(capsys, *words, "--neff", "k.py")


@pytest.mark.parametrize(
    "words",
    [
        *(("--seconds", text) for text in ("nan", "inf", "0", "-1", "1e300")),
        *(("--memory", text) for text in ("nan", "inf", "0", "-1", "1e12")),
        ("--orders", "-1"),
    ],
)
def test_a_limit_is_a_number_that_the_system_can_count(capsys, words):
    assert f"argument {words[0]}: '{words[1]}' is not a" in refused(capsys, "check", NAMED, *words)


def test_the_reference_of_another_kernel_is_not_used(capsys):
    Path("k.py").write_text(OTHER_KERNEL)
    assert main(["run", NAMED, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["launches"][0]["agrees"] is None
    assert err.startswith("neuroncore: the results are not compared: reference(x, y): missing")
    assert "missing a required argument" in refused(capsys, "run", NAMED, "--ref", "reference")


def test_a_file_with_the_name_of_an_option_is_no_input():
    for name in ("html", "trace", "trn2"):
        Path(name).write_text("old")
    assert main(["run", NAMED, "--target", "trn2", "--html", "html", "--trace", "trn2"]) == 0
    assert Path("html").read_text() != "old" and Path("trn2").read_text() != "old"


def test_a_link_to_a_missing_file_is_kept():
    link = Path("link.json")
    link.symlink_to("target.json")
    assert main(["run", "k.py::missing", "--trace", "link.json"]) == 2
    assert link.is_symlink() and not Path("target.json").exists()
