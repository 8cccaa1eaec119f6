"""docs/course.md: the commands, codes and files that it names for figures of handouts exist."""

import json
import re
from pathlib import Path

import pytest

from neuroncore.cli import COMMANDS, main
from neuroncore.cli.explain import pages
from neuroncore.eval.adapters import adapted

pytestmark = pytest.mark.source
PAGE = Path(__file__).parents[2] / "docs/course.md"


def test_everything_that_the_page_names_exists(tmp_path, capsys, monkeypatch):
    text = PAGE.read_text()
    (command,) = re.findall(r"^neuroncore (run .*)$", text, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    words = command.replace("kernels/", f"{PAGE.parents[1]}/kernels/").split()
    assert main(words) == 0
    report = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["launches"][0]["estimate"]
    events = json.loads(Path("add.json").read_text())["traceEvents"]
    traced = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    traced |= {e["name"] for e in events if e["ph"] == "C"}
    assert "bound" not in report and "bound_by" not in figures
    assert '"what_if"' not in Path("add.html").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 10
    for _, said, field, track, _ in rows:
        for name in named(said):
            assert f"\n  {name} " in report
        assert set(named(field)) <= figures.keys()
        for name in named(track):
            assert any(one.startswith(name) for one in traced), name


def named(cell):
    """Return the code in a cell of a table."""
    return re.findall("`(.*?)`", cell)


def test_the_page_of_cs149_names_commands_and_codes_that_exist():
    text = (PAGE.parent / "start/cs149.md").read_text()
    commands = set(re.findall(r"`?neuroncore ([a-z-]+)", text))
    assert commands <= COMMANDS.keys() | {"in"} and {"run", "why", "grade", "explain"} <= commands
    rows = text[text.index("| code |") : text.index("`neuroncore explain CODE`")]
    codes = set(re.findall("`([A-Z_]+)`", rows))
    assert len(codes) == 6 and codes <= pages().keys()
    specs = set(re.findall(r"cs149:\d+", text))
    assert specs == {"cs149:2024", "cs149:2025"} and all(map(adapted, specs))
