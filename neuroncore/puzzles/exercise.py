"""Exercises of the chapters and lectures: questions with a number as the answer.

The answer is computed when it is checked, from the machine's numbers or from a run of a chapter's
kernel. So it agrees with the installed version."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuroncore import machine, numerics
from neuroncore.base.errors import UsageError
from neuroncore.frontend.alias import activated
from neuroncore.hosts.api import Run, run
from neuroncore.puzzles.puzzle import HOME, module

FOLDER = Path(__file__).with_name("exercises")
TARGET = "trn2"


@dataclass(frozen=True)
class Exercise:
    """A question of a chapter or lecture.

    `value`: a Python expression for the answer; "" for an open question. It may use `machine` (the
        numbers of trn2), `run` (the run of `kernel` with `edits`) and `before` (the run without
        `edits`).
    `kernel`: FILE:NAME in `kernels/`
    `within`: the fraction by which the answer of a user may differ"""

    name: str
    text: str
    value: str = ""
    unit: str = ""
    hint: str = ""
    within: float = 0.0
    kernel: str = ""
    edits: Sequence[Sequence[str]] = ()

    @property
    def answer(self) -> float:
        """Return the answer."""
        with activated():
            return float(eval(self.value, {}, _AnswerNames(self)))

    def verdict(self, answer: float) -> tuple[bool, str]:
        """Return whether an answer is right, and a sentence about it."""
        correct = self.answer
        if math.isclose(answer, correct, rel_tol=self.within, abs_tol=1e-9):
            return True, f"right: {correct:.6g} {self.unit}".rstrip()
        size = "small" if answer < correct else "large"
        return False, f"{answer:g} is too {size}. {self.hint}".rstrip()


class _AnswerNames(dict[str, Any]):
    """The names in the expression of an answer. Each value is computed when it is used."""

    def __init__(self, exercise: Exercise) -> None:
        super().__init__(np=np, numerics=numerics)
        self.exercise = exercise

    def __missing__(self, name: str) -> Any:
        if name == "machine":
            return machine.load(TARGET)
        if name in ("run", "before"):
            return _run(self.exercise, self.exercise.edits if name == "run" else ())
        raise KeyError(name)


def _run(exercise: Exercise, edits: Sequence[Sequence[str]]) -> Run:
    file, _, kernel = exercise.kernel.partition(":")
    path = HOME.parent / f"{file}.py"
    text = path.read_text("utf-8")
    for was, now in edits:
        if text.count(was) != 1:
            raise UsageError(f"{exercise.name}: {was!r} does not occur exactly once in {path.name}")
        text = text.replace(was, now)
    program = module(text, path)
    return run(getattr(program, kernel), *program.inputs(np.random.default_rng(0)), target=TARGET)


def exercises() -> Mapping[str, Exercise]:
    """Return all exercises by name, such as ch01.1 and l5.2, in order."""
    return dict(_all())


def _all() -> Iterator[tuple[str, Exercise]]:
    for file in sorted(FOLDER.glob("*.toml")):
        rows = tomllib.loads(file.read_text("utf-8"))["exercise"]
        for number, row in enumerate(rows, 1):
            name = f"{file.stem}.{number}"
            yield name, Exercise(name=name, **row)
