"""Exercises of the chapters and lectures: answers are computed, and compared."""

import pytest

from neuroncore.cli import main
from neuroncore.puzzles.exercise import exercises

KNOWN = {  # by hand
    "ch01.1": 3 * 3 * 10,
    "ch05.1": 27.3,
    "ch05.2": 256,
    "ch09.2": 240,
    "l1.1": 128 * 224 * 1024,
    "l2.1": 112,
    "l3.2": 78.6,
    "l4.1": 100,
    "l5.1": 149.6,
    "l6.1": 292.6,
    "l7.3": 0.384,
}


def test_each_chapter_and_lecture_has_exercises_with_answers():
    found = exercises()
    homes = {name.split(".")[0] for name in found}
    assert homes == {f"ch{n:02}" for n in range(1, 12)} | {f"l{n}" for n in range(1, 8)}
    for one in found.values():
        assert one.text.endswith((".", "?", ")")) and bool(one.value) == bool(one.hint), one.name
        assert one.kernel or not one.value or one.answer > 0


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
    assert "272 transfers" in capsys.readouterr().out
    assert main(["exercises", "l5.1", "150"]) == 0
    assert capsys.readouterr().out == "right: 149.6 us\n"
    assert main(["exercises", "l5.1", "60"]) == 1
    assert "too small" in capsys.readouterr().out
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
