"""The scores so far, in a file next to the solutions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from neuroncore.base.errors import UsageError
from neuroncore.puzzles.grading import FULL, Grade, drawn
from neuroncore.puzzles.puzzle import load, names

FILE = "puzzles.json"


@dataclass(frozen=True)
class Score:
    """The best result for a puzzle: the most stars, the shortest time of a correct solution in
    microseconds, and the number of hints that were shown."""

    stars: int = 0
    us: float | None = None
    hints: int = 0


def read(folder: Path) -> Mapping[str, Score]:
    """Return the scores by puzzle. Raises UsageError for a damaged file."""
    file = folder / FILE
    if not file.exists():
        return {}
    try:
        return {name: Score(**fields) for name, fields in json.loads(file.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        raise UsageError(f"{file} is damaged; delete it to begin again") from None


def note(folder: Path, outcome: Grade) -> None:
    """Store the stars of an outcome if they are more than the stored stars. Store the time of the
    outcome if it is shorter than the stored time."""
    old = read(folder).get(outcome.puzzle.name, Score())
    us = old.us
    if outcome.stars and outcome.attempt is not None:
        us = min(outcome.attempt.latency_us, old.us or float("inf"))
    _write(folder, outcome.puzzle.name, replace(old, stars=max(old.stars, outcome.stars), us=us))


def next_hint(folder: Path, name: str) -> int:
    """Return the number of a puzzle's next hint, from 0, and store that the hint was shown. The
    last hint repeats."""
    old, last = read(folder).get(name, Score()), len(load(name).hints) - 1
    _write(folder, name, replace(old, hints=min(old.hints, last) + 1))
    return min(old.hints, last)


def _write(folder: Path, name: str, score: Score) -> None:
    scores = {**read(folder), name: score}
    text = json.dumps({name: asdict(stored) for name, stored in sorted(scores.items())}, indent=2)
    (folder / FILE).write_text(f"{text}\n")


def table(folder: Path) -> str:
    """Return a line for each puzzle, and a line with the sum of the stars."""
    scores = read(folder)
    lines = [_line(name, scores.get(name, Score())) for name in names()]
    total = sum(score.stars for score in scores.values())
    return "\n".join([*lines, f"{total} of {FULL * len(lines)} stars"])


def _line(name: str, score: Score) -> str:
    time = f"{score.us:.1f} us" if score.us is not None else ""
    hints = f"hints {score.hints}" if score.hints else ""
    return f"{drawn(score.stars)}  {name:18} {load(name).title:22} {time:>9}  {hints}".rstrip()
