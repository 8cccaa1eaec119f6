"""Exercises of the chapters and lectures: answers are computed, and compared."""

import math
import re
from pathlib import Path

import pytest

from neuroncore.cli import main
from neuroncore.puzzles.exercise import exercises

KNOWN = {  # by hand
    "ch01.1": 3 * 3 * 10,
    "ch05.1": 27.3,
    "ch05.2": 256,
    "ch09.2": 15.5,
    "l1.1": 128 * 224 * 1024,
    "l2.1": 112,
    "l3.2": 91.75,
    "l4.1": 100,
    "l5.1": 96.8,
    "l6.1": 341.3,
    "l7.3": 0.384,
}


def test_each_chapter_and_lecture_has_exercises_with_answers():
    found = exercises()
    homes = {name.split(".")[0] for name in found}
    assert homes == {f"ch{n:02}" for n in range(1, 12)} | {f"l{n}" for n in range(1, 8)}
    for one in found.values():
        assert one.text.endswith((".", "?", ")")) and bool(one.value) == bool(one.hint), one.name
        assert one.kernel or not one.value or one.answer > 0


NUMBER = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
PAGES = (*Path("docs/lectures").glob("l*.md"), *Path("kernels").glob("ch*.py"))
MEANS_MORE = {"l2.2", "l2.3", "l3.1", "l7.1", "ch05.2", "ch10.1", "ch11.1"}  # 512, 8, 2, 256, 16


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.name)
def test_no_page_contains_the_answers_of_its_exercises(page):
    """The notes for the speaker are on the page of a lecture too."""
    numbers = {float(one.replace(",", "")) for one in NUMBER.findall(page.read_text())}
    for one in exercises().values():
        home = one.name.partition(".")[0]
        if home == page.name.partition("_")[0] and one.value and one.name not in MEANS_MORE:
            assert not [n for n in numbers if math.isclose(n, one.answer, rel_tol=0.01)], one.name


@pytest.mark.parametrize("name", KNOWN)
def test_answers_are_those_by_hand(name):
    one = exercises()[name]
    right, said = one.verdict(KNOWN[name])
    assert right and said.startswith("right: ")
    right, said = one.verdict(2 * KNOWN[name])
    assert not right and said.startswith(f"{2 * KNOWN[name]:g} is too large. ") and one.hint in said


def test_the_command_lists_prints_and_checks(capsys):
    assert main(["exercises"]) == 0
    assert capsys.readouterr().out.count("\n") == len(exercises())
    assert main(["exercises", "l5"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "l5.1",
        "l5.2",
        "l5.3",
    ]
    assert main(["exercises", "l5.1"]) == 0
    assert "176 transfers" in capsys.readouterr().out
    assert main(["exercises", "l5.1", "97"]) == 0
    assert capsys.readouterr().out == "right: 96.8 us\n"
    assert main(["exercises", "l5.1", "60"]) == 1
    assert "too small" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["exercises", "l5.1", "nan"])
    assert "'nan' is not a finite number" in capsys.readouterr().err
    assert main(["exercises", "ch04.1", "60"]) == 2
    assert "open question" in capsys.readouterr().err
    assert main(["exercises", "l5.l"]) == 2
    assert "did you mean 'l5." in capsys.readouterr().err


def test_the_demo_needs_no_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "blocked on trn2" in printed and "agrees" in printed
    assert (tmp_path / "demo.html").stat().st_size > 100_000
