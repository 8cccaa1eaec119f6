"""The recipe for VS Code: its pattern matches the output of `check`, and its commands exist."""

import json
import re
from pathlib import Path

import pytest

from neuroncore.cli import main

PAGE = Path(__file__).parents[2] / "docs/terminal.md"
TASKS = json.loads(re.search(r"```json\n(\{.*?\n\})\n```", PAGE.read_text("utf-8"), re.DOTALL)[1])
KERNEL = """import nki, nki.isa as nisa, nki.language as nl


@nki.jit
def k(x):
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    return t
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    return tmp_path / "k.py"


def test_the_pattern_finds_the_place_and_the_code_of_a_finding(file, capsys):
    check, *_ = TASKS["tasks"]
    main([word.replace("${file}", str(file)) for word in check["args"]])
    pattern = check["problemMatcher"]["pattern"]
    found = [re.match(pattern["regexp"], line) for line in capsys.readouterr().out.splitlines()]
    (one,) = (match for match in found if match)
    names = ("file", "line", "severity", "code")
    parts = [one[pattern[name]] for name in names]
    assert parts == [str(file), "8", "error", "RESULT_MEMORY"]
    assert check["problemMatcher"]["severity"] == "info"  # else


def test_the_page_opens_at_the_line_of_the_cursor(file, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.chdir(file.parent)
    _, page, again = TASKS["tasks"]
    words = {"${file}": str(file), "${input:kernel}": "k", "${lineNumber}": "7"}
    command = [re.sub(r"\$\{[^}]+\}", lambda m: words[m[0]], word) for word in page["args"]]
    assert main([*command, "--args", "float32[128,8]"]) == 1  # the kernel fails, and has a page
    assert opened and (file.parent / "k.html").exists()
    assert {"--watch", "--open"} <= set(again["args"])
