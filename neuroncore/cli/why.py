"""neuroncore why: the bottleneck of a kernel, its source lines, and what would help."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from neuroncore.cli import captures, document, session
from neuroncore.cli.arguments import add_world, check_world, natural
from neuroncore.cli.run import add_launches, launch, options
from neuroncore.cli.session import Session
from neuroncore.hosts.api import Run
from neuroncore.report.compare import Agreement


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a kernel and report what limits its slowest core, the source lines on its critical "
        "path, and the time if something were different, from scheduling the same instructions "
        "again. docs/why.md explains the output."
    )
    parser.usage = "neuroncore why FILE.py[::KERNEL] [options] [[--] SCRIPT_ARGUMENT ...]"
    parser.allow_abbrev = False
    parser.add_argument(
        "--top",
        type=natural,
        default=5,
        metavar="N",
        help="number of lines to change, and of rows to print of each kind (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    document.add_harness(parser)
    captures.add_program(parser)
    add_launches(parser)
    add_world(parser)
    parser.set_defaults(command=why)


class Reasons:
    """The answers for each launch, as they finish."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.failure: dict[str, Any] | None = None
        self.launches: list[dict[str, Any]] = []

    def header(self) -> None:
        """Print nothing: the first line of each answer names its launch."""

    def add(self, run: Run, found: Agreement | None) -> None:
        why = run.why(self.arguments.top)
        told = why if self.arguments.answers else why.without_answers()
        measured = document.measured(self.arguments, run)
        self.launches.append(told.to_dict() | document.fields(measured))
        if not self.arguments.json:
            session.write(str(told) + (f"\nharness    {measured}" if measured else ""))

    def close(self) -> int:
        if not self.launches and self.failure is None:
            print("neuroncore: no kernel was launched", file=sys.stderr)
        if self.arguments.json:
            document = {"launches": self.launches, "error": self.failure}
            session.write(json.dumps(document, indent=2, allow_nan=False))
        return session.exit_code(self.failure) or int(not self.launches)


def why(arguments: argparse.Namespace) -> int:
    if captures.named(arguments.file):
        return captures.why(arguments)
    check_world(arguments, arguments.file)
    reasons = Reasons(arguments)
    launch(arguments, Session(arguments, reasons), options(arguments))
    return reasons.close()
