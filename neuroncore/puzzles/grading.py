"""Stars for a solution of a puzzle, and the hint for its mistake.

A mistake is recognized by its effect. The best known solution is also run with each typical
mistake. If one of these runs has the error message, the wrong result or the bottleneck of a
solution, the solution gets the hint of this mistake."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.base.source import source_text
from neuroncore.base.units import duration
from neuroncore.frontend.alias import activated
from neuroncore.puzzles.attempts import SEVERE, Attempt, attempt, first_wrong, likeness
from neuroncore.puzzles.picture import picture
from neuroncore.puzzles.puzzle import Puzzle, load, module
from neuroncore.report.compare import Agreement

# (time as a multiple of the best estimate, stars for at most this time)
STARS = ((1.2, 3), (2.0, 2))
FULL = 3


@dataclass(frozen=True, eq=False)
class Grade:
    """The stars from 0 to 3, a text about the attempt, and a hint or ""."""

    puzzle: Puzzle
    stars: int
    text: str
    hint: str = ""
    attempt: Attempt | None = None

    def __str__(self) -> str:
        lines = [f"{drawn(self.stars)}  {self.puzzle.name}: {self.text}"]
        return "\n".join(lines + ([f"hint: {self.hint}"] if self.hint else []))


def drawn(stars: int) -> str:
    """Return stars in ASCII, which every terminal can print."""
    return "*" * stars + "-" * (FULL - stars)


def check(puzzle: Puzzle | str, solution: Path | Callable[..., Any]) -> Grade:
    """Grade a solution: a file with a function `kernel`, or a kernel.

    Raises UsageError for an unknown puzzle, and for a file that cannot be read or has no kernel.
    """
    puzzle = load(puzzle) if isinstance(puzzle, str) else puzzle
    with activated():
        if not isinstance(solution, Path):
            return _graded(puzzle, solution)
        text = _read(solution)
        if _has_hole(text, str(solution)):
            return Grade(puzzle, 0, f"the hole is still there: replace `...`. {puzzle.idea}")
        return _graded(puzzle, _kernel(text, solution))


def _read(file: Path) -> str:
    try:
        return source_text(file)
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        raise UsageError(f"{file} can't be read: {error}") from None


def _has_hole(text: str, name: str) -> bool:
    """Return whether a solution still contains the statement `...`. Raises UsageError if the text
    is not Python; `name` names the file in the message."""
    try:
        nodes = ast.walk(ast.parse(text))
    except SyntaxError as error:
        raise UsageError(f"{name}:{error.lineno or 1}: {error.msg}") from None
    return any(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and node.value.value is Ellipsis
        for node in nodes
    )


def _kernel(text: str, file: Path) -> Callable[..., Any]:
    try:
        kernel = getattr(module(text, file), "kernel", None)
    except Exception as error:
        raise UsageError(_with_place(error)) from None
    if not callable(kernel):
        raise UsageError(f"{file} has no function `kernel`")
    return kernel  # type: ignore[no-any-return]


def _graded(puzzle: Puzzle, kernel: Callable[..., Any]) -> Grade:
    tried = attempt(puzzle, kernel)
    if not tried.right:
        return Grade(puzzle, 0, _failure(tried), _hint(puzzle, tried), tried)
    missing = _missing(puzzle, tried)
    if missing:
        return Grade(puzzle, 0, f"right, but without the idea: {puzzle.idea}", missing, tried)
    best = attempt(puzzle, puzzle.program.kernel).latency_us
    ratio = tried.latency_us / best
    stars = next((count for limit, count in STARS if ratio <= limit), 1)
    text = f"right, {_compared(tried.latency_us, best)}"
    if stars == FULL:
        return Grade(puzzle, stars, text, attempt=tried)
    return Grade(puzzle, stars, f"{text}\n{_why(tried)}", _hint(puzzle, tried), tried)


def _missing(puzzle: Puzzle, tried: Attempt) -> str:
    """Return the hint of the first requirement that a correct kernel does not meet, or ""."""
    assert tried.run is not None
    summary = tried.run.summary
    return next((needed.hint for needed in puzzle.requires if not needed.met(summary)), "")


def _compared(us: float, best: float) -> str:
    """Return a time as text, compared with the time of the best known solution."""
    times = duration(us * 1e3), duration(best * 1e3)
    if us < best and times[0] != times[1]:
        return f"{times[0]}, faster than the best known solution ({times[1]})"
    return f"{times[0]}; the best known solution takes {times[1]}"


def _why(tried: Attempt) -> str:
    assert tried.run is not None
    answers = tried.run.why(1).answers
    return "" if answers is None else answers.statements


def _failure(tried: Attempt) -> str:
    if tried.error is not None:
        return f"fails for the shape {tuple(tried.shape)}\n{_error_text(tried.error)}"
    assert tried.run is not None and tried.differences is not None
    findings = [str(finding) for finding in tried.run.findings if finding.severity in SEVERE]
    lines = [f"wrong for the shape {tuple(tried.shape)}: {_worst(tried.differences)}"]
    return "\n".join([*lines, *findings, *picture(tried.differences)])


def _error_text(error: Exception) -> str:
    return str(error) if hasattr(error, "statement") else _with_place(error)


def _with_place(error: Exception) -> str:
    """Return the text of a Python exception, with the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}: {type(error).__name__}: {error}"


def _worst(agreement: Agreement) -> str:
    number = first_wrong(agreement)
    comparison = agreement.comparisons[number]
    which = f"result {number}, " if len(agreement.comparisons) > 1 else ""
    return f"{which}element {comparison.worst} is {comparison.got:g} instead of {comparison.want:g}"


def _hint(puzzle: Puzzle, tried: Attempt) -> str:
    effects = [
        attempt(puzzle, module(puzzle.mistaken(m), puzzle.file).kernel) for m in puzzle.mistakes
    ]
    return hint(puzzle, tried, effects)


def hint(puzzle: Puzzle, tried: Attempt, effects: Sequence[Attempt]) -> str:
    """Return the hint of the mistake whose effect is most similar to an attempt, or "" if none is
    similar.

    `effects`: the attempts with each of the puzzle's mistakes"""
    rated = [(likeness(tried, effect), _nearness(tried, effect)) for effect in effects]
    best = max(range(len(rated)), key=rated.__getitem__)
    return puzzle.mistakes[best].hint if rated[best][0] else ""


def _nearness(tried: Attempt, effect: Attempt) -> float:
    """Return minus the relative difference of the times of two correct kernels. It is 0 for equal
    times, or if one of the kernels is not correct."""
    if not tried.right or not effect.right:
        return 0.0
    return -abs(tried.latency_us / effect.latency_us - 1)
