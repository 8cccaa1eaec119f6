"""A puzzle: a program in `kernels/puzzles/` with a hole, and hints.

The program NAME.py is a solution: comments mark the lines that the hole replaces. NAME.toml has the
idea, the shapes, the hints, and typical mistakes as edits of the solution.
"""

from __future__ import annotations

import ast
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from neuroncore.base.errors import UsageError, did_you_mean
from neuroncore.eval import Spec
from neuroncore.machine import isa

HOME = isa().parent / "kernels" / "puzzles"
HOLE = re.compile(r"^( *)# solution\n.*?^ *# end\n", re.MULTILINE | re.DOTALL)
MARKS = re.compile(r"^ *# (solution|end)\n", re.MULTILINE)
SECRET = 0  # constant, so that the hidden inputs are the same in each check


@dataclass(frozen=True)
class Mistake:
    """A typical mistake: in the solution, `was` is replaced by `now`. `hint` helps someone who made
    this mistake."""

    was: str
    now: str
    hint: str


@dataclass(frozen=True)
class Requirement:
    """A condition that only a kernel with the puzzle's idea meets. It is about the sum of some
    figures of `Run.summary`, in the run on the first shape.

    `figures`: the names of the figures
    `least`, `most`: the range in which the sum must be
    `hint`: the hint for a kernel that does not meet the condition"""

    figures: Sequence[str]
    hint: str
    least: int = 0
    most: float = math.inf

    def met(self, summary: Mapping[str, Any]) -> bool:
        """Return whether the figures of a run meet this condition."""
        count: float = sum(summary[name] for name in self.figures)
        return self.least <= count <= self.most


@dataclass(frozen=True)
class Puzzle:
    """A puzzle. The kernel runs on all `shapes`, and its time is the estimate for the first shape.

    `tol`: the allowed relative L2 error
    `hints`: each hint reveals more than the hint before
    `requires`: conditions that a solution must also meet"""

    name: str
    title: str
    idea: str
    shapes: Sequence[Sequence[int]]
    hints: Sequence[str]
    mistakes: Sequence[Mistake]
    requires: Sequence[Requirement]
    tol: float

    @property
    def file(self) -> Path:
        """Return the file of the solution."""
        return HOME / f"{self.name}.py"

    @cached_property
    def start(self) -> str:
        """Return the source with the hole."""
        text = HOLE.sub(r"\1...  # your code\n", self.file.read_text("utf-8"))
        return _without_unused_imports(text)

    @cached_property
    def solution(self) -> str:
        """Return the source of the solution."""
        return MARKS.sub("", self.file.read_text("utf-8"))

    def mistaken(self, mistake: Mistake) -> str:
        """Return the solution with a mistake. Raises UsageError if the text that the mistake
        replaces does not occur exactly once."""
        if self.solution.count(mistake.was) != 1:
            raise UsageError(f"{self.name}: {mistake.was!r} does not occur exactly once")
        return self.solution.replace(mistake.was, mistake.now)

    @cached_property
    def program(self) -> ModuleType:
        """Return the module of the solution."""
        return module(self.solution, self.file)

    @cached_property
    def spec(self) -> Spec:
        """Return the specification, which also works for `neuroncore eval`."""
        return Spec(
            self.program.reference,
            self._inputs,
            shapes=self.shapes[:1],
            hidden_shapes=self.shapes[1:],
            name=self.name,
            seeds=1,
            secret=SECRET,
            tol=self.tol,
            narrow=("float32", "bfloat16", "float8_e4m3"),
            files=(self.file,),
        )

    def _inputs(self, seed: int, shape: Sequence[int]) -> Sequence[Any]:
        arrays: Sequence[Any] = self.program.inputs(np.random.default_rng(seed), tuple(shape))
        return arrays


def names() -> Sequence[str]:
    """Return the names of the puzzles, in order."""
    return sorted(file.stem for file in HOME.glob("p*.toml"))


def load(text: str) -> Puzzle:
    """Return the puzzle with a number such as "3", or a name such as "p03_free_axis" or
    "free_axis". Raises UsageError if there is none."""
    known = names()
    for number, name in enumerate(known, 1):
        if text in (str(number), name, name.partition("_")[2]):
            return _read(name)
    near = did_you_mean(text, [*known, *(name.partition("_")[2] for name in known)])
    raise UsageError(f"there is no puzzle {text!r}; {near or f'puzzles are 1 to {len(known)}'}")


def _read(name: str) -> Puzzle:
    fields = tomllib.loads((HOME / f"{name}.toml").read_text("utf-8"))
    mistakes = [Mistake(**row) for row in fields.pop("mistakes")]
    requires = [Requirement(**row) for row in fields.pop("requires", ())]
    return Puzzle(name=name, mistakes=mistakes, requires=requires, **{"tol": 1e-4, **fields})


def _without_unused_imports(text: str) -> str:
    """Remove the import of ml_dtypes if only the solution uses it."""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    return text if "ml_dtypes" in used else text.replace("import ml_dtypes\n", "")


def module(text: str, file: Path) -> ModuleType:
    """Execute the text of a Python file as a module. Raises the exceptions of the text."""
    loaded = ModuleType(f"puzzle_{file.stem}")
    loaded.__file__ = str(file)
    exec(compile(text, str(file), "exec", dont_inherit=True), vars(loaded))
    return loaded
