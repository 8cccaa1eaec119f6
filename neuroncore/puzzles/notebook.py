"""The puzzles as one Jupyter notebook. Each puzzle has a cell that writes the file, and a cell that
checks it."""

from __future__ import annotations

import ast
import json
from typing import Any

from neuroncore.base.lazy import version
from neuroncore.puzzles.puzzle import Puzzle, load, names

INTRODUCTION = """\
# Puzzles

Sixteen puzzles teach the NeuronCore, one idea each. Replace `...` in a cell, run the cell, then run
the check below it. On Colab, upload the wheel of neuroncore first."""


def notebook() -> str:
    """Return the notebook (nbformat 4) with all puzzles, as text."""
    wheel = f"neuroncore-{version('neuroncore')}-py3-none-any.whl"
    install = f"%pip install -q {wheel}  # not needed where neuroncore is installed"
    cells = [_cell("markdown", INTRODUCTION), _cell("code", install)]
    for name in names():
        cells += _cells(load(name))
    cells.append(_cell("code", "!neuroncore puzzles board"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    numbered = [cell | {"id": f"cell{number}"} for number, cell in enumerate(cells)]
    document = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}}
    return json.dumps(document | {"cells": numbered}, indent=1) + "\n"


def _cells(puzzle: Puzzle) -> list[dict[str, Any]]:
    file = f"{puzzle.name}.py"
    title, _, text = (ast.get_docstring(ast.parse(puzzle.start)) or "").partition("\n")
    task = text.rpartition("neuroncore puzzles check")[0].rstrip()
    return [
        _cell("markdown", f"## {title.rstrip('.')}\n{task}"),
        _cell("code", f"%%writefile {file}\n{_without_docstring(puzzle.start)}"),
        _cell("code", f"!neuroncore puzzles check {file}"),
    ]


def _without_docstring(source: str) -> str:
    first = ast.parse(source).body[0]
    return "\n".join(source.splitlines()[first.end_lineno :]).strip()


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}}
    if kind == "code":
        cell |= {"outputs": [], "execution_count": None}
    return cell | {"source": text.splitlines(keepends=True)}
