"""Text for terminals, misspelled words, completion, and the schemas of --json."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checked_here import stay_here
from device import TARGETS

from neuroncore.cli import main, schemas, terminal, view

TEXT = (
    "double on trn2\n  estimate   1 us (80% range 1 us to 2 us)   bound by DMA latency\n  DIFFERS"
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_text_is_in_color_and_as_wide_as_the_terminal(monkeypatch):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "44")
    painted = terminal.shown(TEXT, Terminal())
    assert f"{terminal.RED}DIFFERS{terminal.RESET}" in painted
    monkeypatch.setenv("NO_COLOR", "1")
    plain = terminal.shown(TEXT, Terminal()).split("\n")
    assert all(len(line) <= 44 and "\x1b" not in line for line in plain)
    assert plain[2].startswith(" " * 13)  # below the text after the label
    assert " ".join(" ".join(plain).split()) == " ".join(TEXT.split())


def test_outside_a_terminal_text_is_unchanged():
    assert terminal.shown(TEXT, io.StringIO()) == TEXT
    excerpt = f"  26 |     {'x' * 100}"
    assert terminal._wrapped(excerpt, 40) == [excerpt]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu", "k.py"], "did you mean 'run'?"),
        (["why", "k.py::k", "--tpo", "3"], "unrecognized arguments: --tpo 3; did you mean --top?"),
        (["isa", "--jsno"], "did you mean --json?"),
        (["run", "k.py::k", "--order", "x"], "invalid choice: 'x'"),
    ],
)
def test_a_misspelled_word_has_a_suggestion(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2 and said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["nothing.py::k"], ["k.py::k", "--order", "x"]])
def test_wrong_usage_is_json_for_programs(capsys, words):
    try:
        code = main(["run", *words, "--json"])
    except SystemExit as ended:
        code = ended.code
    told = json.loads(capsys.readouterr().out)
    assert code == 2 and valid(told)["error"]["statement"]


def valid(told):
    """Return a document after validation with the schema that it names."""
    validators = pytest.importorskip("jsonschema")
    validators.validate(told, schemas.schema(told["schema"]))
    return told


def output(capsys, *words):
    main([*words, "--json"])
    return valid(json.loads(capsys.readouterr().out))


def test_the_output_of_commands_fits_their_schemas(file, capsys, monkeypatch):
    stay_here(monkeypatch)
    kernel = f"{file}::double"
    run = output(capsys, "run", kernel, "--precision", "--verify", "--harness", "neuron-profile")
    assert run["launches"]
    why = output(capsys, "why", kernel)
    valid(why["launches"][0])
    output(capsys, "diff", kernel, kernel)
    failed = output(capsys, "diff", kernel, kernel, "--args", "float32[129,8]")
    assert failed["error"]["code"] == "PARTITION_LIMIT"
    output(capsys, "check", kernel)
    (one,) = output(capsys, "isa", "nc_matmul")["instructions"]
    assert one["machines"] == [*TARGETS]
    every = output(capsys, "isa")
    assert all(every[kind] for kind in ("instructions", "operators", "functions"))
    assert len(output(capsys, "machines")["instances"]) > 3
    (trn2,) = output(capsys, "machines", "trn2")["machines"]
    assert trn2["facts"]["sbuf.partition_bytes"]["grade"] == "documented"
    found = output(capsys, "env")
    assert found["packages"]["numpy"] == np.__version__ and found["target"] == "trn2"
    found = output(capsys, "doctor")
    assert found["passed"], found
    assert {"packages", "nki", "kernel", "isolation"} < {one["name"] for one in found["checks"]}


def test_every_schema_is_valid_and_refuses_another_document():
    validators = pytest.importorskip("jsonschema")
    for name in schemas.SPECIFICATIONS:
        made = schemas.schema(name)
        validators.Draft202012Validator.check_schema(made)
        with pytest.raises(validators.ValidationError):
            validators.validate({"schema": "other"}, made)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(capsys, monkeypatch, shell):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert "calibrate" in said and "precision-bound" in said
    assert " ".join(TARGETS) in said.replace("\n", " ").replace("'", "")  # of --target
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", shell]) == 2
    assert "pip install 'neuroncore[completion]'" in capsys.readouterr().err


def test_a_watched_page_is_written_again_after_a_change(file, monkeypatch, capsys):
    commands = []

    def written(command, check):
        commands.append(command[command.index("view") :])
        if len(commands) > 1:
            raise KeyboardInterrupt
        (file.parent / "other.py").write_text("changed = True")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(view.subprocess, "run", written)
    assert main(["view", f"{file}::double", "--watch", "--open"]) == 130
    first, second = commands
    assert first == ["view", "--watched", "--open", f"{file}::double"]
    assert second == ["view", "--watched", f"{file}::double"]


def test_the_page_names_all_schemas(capsys):
    assert main(["schema"]) == 0
    page = (Path(__file__).parents[2] / "docs" / "terminal.md").read_text("utf-8")
    table = [line for line in page.splitlines() if line.startswith("| ")]
    named = re.findall(r"`(neuroncore\.[\w-]+/\d+)`", "\n".join(table))
    assert sorted(named) == sorted(capsys.readouterr().out.split())
