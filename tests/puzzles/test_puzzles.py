"""The puzzles: each solution gets three stars, each mistake its hint."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judged_here import stay_here

from neuroncore import activated
from neuroncore.base.errors import UsageError
from neuroncore.cli import main
from neuroncore.eval import evaluate, load_spec
from neuroncore.puzzles import Mistake, check, load, names
from neuroncore.puzzles.attempts import attempt
from neuroncore.puzzles.grading import hint
from neuroncore.puzzles.puzzle import module


@pytest.mark.parametrize("name", names())
def test_a_solution_gets_three_stars_and_each_mistake_its_hint(name):
    puzzle = load(name)
    with activated():
        best = attempt(puzzle, puzzle.program.kernel)
        kernels = [module(puzzle.mistaken(one), puzzle.file).kernel for one in puzzle.mistakes]
        effects = [attempt(puzzle, kernel) for kernel in kernels]
    assert best.right and len(effects) >= 3
    assert all(one.met(best.run.summary) for one in puzzle.requires)
    for one, effect in zip(puzzle.mistakes, effects):
        assert hint(puzzle, effect, effects) == one.hint
        assert not effect.right or effect.latency_us > 1.2 * best.latency_us


WITHOUT_THE_IDEA = {
    "copy": [("dst=tile, src=x", "dst=out, src=x"), ("nisa.dma_copy(dst=out, src=tile)", "pass")],
    "broadcast": [
        ("op0=nl.multiply, operand0=a, op1=nl.add, operand1=b)",
         "op0=nl.multiply, operand0=a)\n"
         "    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=b)"),
    ],
    "accumulate": [
        ("    total =", "    result = nl.ndarray((rows, columns), nl.float32, buffer=nl.sbuf)\n"
         "    nisa.memset(result, 0.0)\n    total ="),
        ("moving=right)", "moving=right, accumulate=False)\n"
         "        nisa.tensor_tensor(dst=result, data1=result, data2=total, op=nl.add)"),
        ("    result = nl.ndarray((rows, columns), nl.float32, buffer=nl.sbuf)\n"
         "    nisa.tensor_copy(dst=result, src=total)\n", ""),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_THE_IDEA)
def test_a_kernel_that_is_right_without_the_idea_is_no_solution(name, tmp_path):
    puzzle, text = load(name), load(name).solution
    for was, now in WITHOUT_THE_IDEA[name]:
        assert text.count(was) == 1
        text = text.replace(was, now)
    file = tmp_path / "puzzle.py"
    file.write_text(text)
    outcome = check(puzzle, file)
    assert outcome.attempt.right and outcome.stars == 0
    assert puzzle.idea in outcome.text and outcome.hint == puzzle.requires[0].hint


@pytest.mark.parametrize("name", names())
def test_a_file_as_given_fails_with_its_idea(name, tmp_path):
    puzzle = load(name)
    file = tmp_path / f"{name}.py"
    file.write_text(puzzle.start)
    outcome = check(puzzle, file)
    assert outcome.stars == 0 and puzzle.idea in outcome.text
    assert "solution" not in puzzle.start and f"puzzles check {name}.py" in puzzle.start
    assert len(puzzle.hints) >= 2 and len(puzzle.shapes) >= 2


@pytest.fixture
def puzzles(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["puzzles", "start", "."]) == 0
    return tmp_path


def test_the_command_grades_hints_and_counts_stars(puzzles, capsys):
    copy = load("copy")
    file = puzzles / "p01_copy.py"
    assert main(["puzzles", "check", "1"]) == 1
    assert "the hole is still there" in capsys.readouterr().out
    file.write_text(copy.mistaken(copy.mistakes[0]))
    assert main(["puzzles", "check", "copy", "--html", "copy.html"]) == 1
    printed = capsys.readouterr().out
    assert "OUTPUT_NOT_WRITTEN" in printed and copy.mistakes[0].hint in printed
    assert "NNNN" in printed and "element (0, 0) is nan" in printed and Path("copy.html").exists()
    assert main(["puzzles", "hint", "p01_copy.py"]) == 0
    file.write_bytes(b"\xef\xbb\xbf" + copy.solution.encode())  # with a byte order mark
    assert main(["puzzles", "check", str(file)]) == 0
    assert capsys.readouterr().out.count("***") == 1
    assert main(["puzzles", "board"]) == 0
    board = capsys.readouterr().out
    assert re.search(r"\*\*\*  p01_copy +copy a tile .* us  hints 1\n", board)
    assert board.endswith("3 of 48 stars\n")


def test_a_notebook_has_all_puzzles(tmp_path, capsys):
    assert main(["puzzles", "start", str(tmp_path), "--notebook"]) == 0
    cells = json.loads((tmp_path / "puzzles.ipynb").read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    for name in names():
        (text,) = (text for text in texts if text.startswith(f"%%writefile {name}.py\n"))
        assert "...  # your code" in text and '"""Puzzle' not in text
        assert f"!neuroncore puzzles check {name}.py" in texts
    assert texts[2].startswith("## Puzzle 1: copy a tile\n") and "Load x into" in texts[2]
    assert main(["puzzles", "start", str(tmp_path), "--notebook"]) == 2
    assert "delete it to begin again" in capsys.readouterr().err


def test_a_slow_solution_gets_the_bound_of_its_time(tmp_path):
    puzzle = replace(load("free_axis"), shapes=[(128, 4096)])
    slow = puzzle.solution.replace("width = 2048", "width = 64")
    file = tmp_path / "p03_free_axis.py"
    file.write_text(slow)
    outcome = check(puzzle, file)
    assert outcome.stars == 1 and "bound by DMA issue" in outcome.text
    assert outcome.hint == puzzle.mistakes[0].hint


def test_a_kernel_of_a_notebook_is_graded():
    puzzle = load("6")
    with activated():
        kernel = puzzle.program.kernel
    outcome = check("row_sum", kernel)
    assert outcome.stars == 3 and str(outcome).startswith("***  p06_row_sum: right, ")
    result = outcome.attempt.run.results
    assert result.shape == (128, 1) and np.isfinite(result).all()


@pytest.mark.source
def test_the_page_shows_what_a_check_prints_and_its_program_runs(puzzles, capsys):
    page = (Path(__file__).parents[2] / "docs/puzzles.md").read_text()
    rows = load("rows")
    (puzzles / "p02_rows.py").write_text(rows.mistaken(rows.mistakes[2]))
    capsys.readouterr()
    main(["puzzles", "check", "p02_rows.py"])
    assert f"```text\n{capsys.readouterr().out}```" in page
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (puzzles / "page.py").write_text(program)
    subprocess.run([sys.executable, "page.py"], check=True, capture_output=True)


def test_a_specification_is_the_one_that_eval_judges(tmp_path, monkeypatch):
    stay_here(monkeypatch)
    (tmp_path / "spec.py").write_text(
        "from neuroncore.puzzles import load\nSPEC = load('copy').spec\n"
    )
    (tmp_path / "solution.py").write_text(load("copy").solution)
    spec = load_spec(tmp_path / "spec.py")
    (verdict,) = evaluate(spec, [tmp_path / "solution.py"])
    assert verdict["status"] == "passed" and verdict["latency_us"] > 5


def test_wrong_names_and_files_are_refused(puzzles, capsys):
    with pytest.raises(UsageError, match="did you mean 'copy'"):
        load("copi")
    with pytest.raises(UsageError, match="does not occur exactly once"):
        load("copy").mistaken(Mistake("nisa", "", ""))
    Path("mine.py").write_text("kernel = 1\n")
    Path("p02_rows.py").write_text("x = (\n")
    Path("p03_free_axis.py").write_text("import nothing_like_it\n")
    Path("p04_broadcast.py").write_text("x = 1\n")
    wrong = {
        "mine.py": "mine.py is not a puzzle",
        "2": "p02_rows.py:1: '(' was never closed",
        "3": "p03_free_axis.py:1: ModuleNotFoundError",
        "4": "p04_broadcast.py has no function `kernel`",
    }
    for words, message in wrong.items():
        assert main(["puzzles", "check", words]) == 2
        assert message in capsys.readouterr().err
    Path("puzzles.json").write_text(json.dumps([1]))
    assert main(["puzzles", "board"]) == 2
    assert "puzzles.json is damaged" in capsys.readouterr().err
