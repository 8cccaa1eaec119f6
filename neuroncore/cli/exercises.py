"""neuroncore exercises: list the exercises of the chapters and lectures, and check an answer."""

from __future__ import annotations

import argparse
import contextlib
import math

from neuroncore.base.errors import UsageError, did_you_mean
from neuroncore.cli import terminal
from neuroncore.puzzles.exercise import Exercise, exercises


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List all exercises, or those of a chapter or lecture (neuroncore exercises l5); print an "
        "exercise (l5.1); or check your answer to it (l5.1 150). The exit code is 1 if the answer "
        "is wrong."
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a chapter, a lecture or an exercise, such as ch05, l5 or l5.1",
    )
    parser.add_argument("answer", nargs="?", type=_number, metavar="NUMBER", help="your answer")
    parser.set_defaults(command=command)


def _number(text: str) -> float:
    value = math.nan
    with contextlib.suppress(ValueError):
        value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def command(arguments: argparse.Namespace) -> int:
    """List the exercises, print one, or check an answer; return the exit code."""
    known = exercises()
    name: str = arguments.name or ""
    listed = [exercise for key, exercise in known.items() if not name or key.startswith(f"{name}.")]
    if listed and arguments.answer is None:
        for exercise in listed:
            terminal.write(f"{exercise.name:8} {exercise.text}")
        return 0
    if name not in known:
        near = did_you_mean(name, known) or "list them with `neuroncore exercises`"
        raise UsageError(f"there is no exercise {name!r}; {near}")
    exercise = known[name]
    if arguments.answer is None:
        terminal.write(exercise.text + (f" (in {exercise.unit})" if exercise.unit else ""))
        return 0
    return _check(exercise, arguments.answer)


def _check(exercise: Exercise, answer: float) -> int:
    if not exercise.value:
        raise UsageError(f"{exercise.name} is an open question, which has no number as its answer")
    right, message = exercise.verdict(answer)
    terminal.write(message)
    return 0 if right else 1
