"""neuroncore puzzles: write the puzzles, check solutions, give hints, and show the stars."""

from __future__ import annotations

import argparse
from pathlib import Path

from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural
from neuroncore.cli import terminal
from neuroncore.cli.usage import add_output
from neuroncore.puzzles import board, check, load, names
from neuroncore.puzzles.grading import Grade
from neuroncore.puzzles.notebook import notebook
from neuroncore.puzzles.puzzle import Puzzle

FOLDER = "puzzles"  # the folder that `start` writes by default


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Learn NKI by solving puzzles. Each puzzle is a file with a kernel in which lines are "
        "missing. A correct kernel gets one star. It gets two stars if it takes at most twice the "
        "time of the best known solution, and three if it takes at most 1.2 times that time."
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    start = actions.add_parser("start", help="write the files of all puzzles to a folder")
    start.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path(FOLDER),
        metavar="DIR",
        help="the folder to write to (default: %(default)s)",
    )
    start.add_argument(
        "--notebook",
        action="store_true",
        help="write a notebook for Jupyter or Colab instead of files",
    )
    start.set_defaults(command=begin)
    checked = actions.add_parser("check", help="grade solutions")
    checked.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="the file or the number of a puzzle, such as p01_copy.py or 1 (default: all puzzles "
        "in this folder)",
    )
    add_output(checked, "--html", metavar="OUT.html", help="write a page of the run")
    checked.set_defaults(command=grade)
    hinted = actions.add_parser("hint", help="show the next hint")
    hinted.add_argument("file", metavar="FILE", help="p01_copy.py, or 1")
    hinted.set_defaults(command=hint)
    shown = actions.add_parser("board", help="show the stars so far")
    shown.set_defaults(command=stars)


def begin(arguments: argparse.Namespace) -> int:
    """Write the files that do not exist yet."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.notebook:
        return _begin_notebook(arguments.folder / "puzzles.ipynb")
    for name in names():
        file = arguments.folder / f"{name}.py"
        if not file.exists():
            file.write_text(load(name).start, "utf-8")
    first = f"{names()[0]}.py"
    terminal.write(
        f"{plural(len(names()), 'puzzle')} in {arguments.folder}\n"
        f"next: cd {arguments.folder}, edit {first}, and run `neuroncore puzzles check {first}`"
    )
    return 0


def _begin_notebook(file: Path) -> int:
    if file.exists():
        raise UsageError(f"{file} exists; delete it to begin again")
    file.write_text(notebook(), "utf-8")
    terminal.write(f"{plural(len(names()), 'puzzle')} in {file}")
    return 0


def grade(arguments: argparse.Namespace) -> int:
    """Check each file, and store how many stars the solution gets. Return 0 if all results are
    right."""
    files = [_file(text) for text in arguments.files] or _all()
    right = True
    for file in files:
        outcome = check(_puzzle(file.stem), file)
        board.note(file.parent, outcome)
        terminal.write(str(outcome))
        _write_page(outcome, arguments.html)
        right &= outcome.stars > 0
    return 0 if right else 1


def _write_page(outcome: Grade, file: Path | None) -> None:
    if file is not None and outcome.attempt is not None and outcome.attempt.run is not None:
        outcome.attempt.run.view().save(file)
        terminal.write(f"page {file}")


def hint(arguments: argparse.Namespace) -> int:
    """Print the next hint of a puzzle."""
    file = _file(arguments.file)
    puzzle = _puzzle(file.stem)
    number = board.next_hint(file.parent, puzzle.name)
    terminal.write(f"hint {number + 1} of {len(puzzle.hints)}: {puzzle.hints[number]}")
    return 0


def stars(arguments: argparse.Namespace) -> int:
    """Print the stars of the puzzles in this folder."""
    terminal.write(board.table(Path()))
    return 0


def _file(text: str) -> Path:
    """Return the file of a puzzle. `text` is the name of the file or the puzzle, or its number."""
    return Path(text) if text.endswith(".py") else Path(f"{load(text).name}.py")


def _puzzle(stem: str) -> Puzzle:
    if stem not in names():
        known = "the files of puzzles have the names that `neuroncore puzzles start` writes"
        raise UsageError(f"{stem}.py is not a puzzle; {known}")
    return load(stem)


def _all() -> list[Path]:
    files = [file for name in names() if (file := Path(f"{name}.py")).exists()]
    if not files:
        raise UsageError("no puzzles in this folder; write them with `neuroncore puzzles start`")
    return files
