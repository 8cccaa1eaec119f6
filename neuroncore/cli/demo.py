"""neuroncore demo: run the matrix multiplication of chapter 5, and write a page about it."""

from __future__ import annotations

import argparse
from pathlib import Path

from neuroncore import cli
from neuroncore.cli.usage import add_output
from neuroncore.puzzles.puzzle import HOME

KERNEL = HOME.parent / "ch05_matmul.py::blocked"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the matrix multiplication of kernels/ch05_matmul.py, compare the result with numpy, "
        "estimate the time on trn2, and write a page that shows the run. It needs no other file."
    )
    add_output(
        parser,
        "--html",
        default=Path("demo.html"),
        metavar="OUT.html",
        help="the page to write (default: demo.html)",
    )
    parser.set_defaults(command=demo)


def demo(arguments: argparse.Namespace) -> int:
    """Run the demo as `neuroncore run` would, and return the exit code."""
    code: int = cli.main(["run", str(KERNEL), "--html", str(arguments.html), "--target", "trn2"])
    return code
