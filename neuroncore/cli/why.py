"""neuroncore why: the bottleneck of a kernel, its source lines, and suggested changes.

neuroncore diff: compare two kernels or saved runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from neuroncore.cli import captures, document, session, terminal
from neuroncore.cli.run import add_launches, kept_run, launch, options
from neuroncore.cli.session import KernelFailed, Session
from neuroncore.cli.usage import (
    add_output,
    add_world,
    natural,
    refuse_arguments,
    refuse_execution,
    resolve_world,
)
from neuroncore.hosts.api import Run
from neuroncore.report.compare import Agreement


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a kernel and report what limits its slowest core, the source lines on its critical "
        "path, and the edits that would save time. The saving of an edit comes from a schedule of "
        "the edited kernel. docs/why.md explains the output."
    )
    parser.usage = "neuroncore why FILE.py[::KERNEL] [options] [[--] SCRIPT_ARGUMENT ...]"
    parser.allow_abbrev = False
    parser.add_argument(
        "--top",
        type=natural,
        default=5,
        metavar="N",
        help="number of rows to print of each kind (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    document.add_harness(parser)
    captures.add_program(parser)
    add_launches(parser)
    add_world(parser)
    parser.set_defaults(command=why)


def launches(each: Sequence[dict[str, Any]], error: dict[str, Any] | None) -> dict[str, Any]:
    """Return the JSON object of `neuroncore why`.

    `each` has the report of each launch. `error` ended the session, or is None."""
    return {"schema": captures.WHY_SCHEMA, "launches": list(each), "error": error}


class Reasons:
    """A document (`session.Document`) that prints or collects the reports of `neuroncore why`, one
    for each launch."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.failure: dict[str, Any] | None = None
        self.launches: list[dict[str, Any]] = []

    def header(self) -> None:
        """Print nothing: the first line of each answer names its launch."""

    def add(self, run: Run, agreement: Agreement | None) -> None:
        why = run.why(self.arguments.top)
        shown = why if self.arguments.answers else why.without_answers()
        measured = document.measured(self.arguments, run)
        self.launches.append(shown.to_dict() | document.fields(measured))
        if not self.arguments.json:
            terminal.write(str(shown) + (f"\nharness    {measured}" if measured else ""))

    def close(self) -> int:
        if not self.launches and self.failure is None:
            print("neuroncore: no kernel was launched", file=sys.stderr)
        if self.arguments.json:
            terminal.write_json(launches(self.launches, self.failure))
        return session.exit_code(self.failure) or int(not self.launches)


def why(arguments: argparse.Namespace) -> int:
    if captures.named(arguments.file):
        captures.refuse_others(arguments)
        of_capture = captures.load(arguments, arguments.file).why(arguments.top)
        terminal.answer(arguments, launches([of_capture.to_dict()], None), [str(of_capture)])
        return 0
    captures.refuse_program(arguments)
    resolve_world(arguments, arguments.file)
    refuse_execution(arguments, arguments.file)
    reasons = Reasons(arguments)
    launch(arguments, Session(arguments, reasons), options(arguments))
    return reasons.close()


def add_diff(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run two kernels on the same arguments, or read saved runs, and report which is faster, "
        "how certain that is, and what else differs: bottlenecks, bytes, instructions, source "
        "lines, and bits of the results. docs/diff.md explains the output."
    )
    parser.allow_abbrev = False
    parser.add_argument("old", metavar="OLD", help="FILE.py::KERNEL, FILE.py or a saved run")
    parser.add_argument("new", metavar="NEW", help="the kernel or run that is compared with OLD")
    add_output(
        parser,
        "--html",
        metavar="OUT.html",
        help="write a page with both runs, one below the other, on one scale of time",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    captures.add_program(parser)
    add_launches(parser, named=False)
    parser.set_defaults(command=diff, is_script=lambda _: False)


def diff(arguments: argparse.Namespace) -> int:
    files = arguments.old, arguments.new
    if any(map(captures.named, files)):
        return _measured(arguments, files)
    captures.refuse_program(arguments)
    refuse_arguments(arguments, *files)
    refuse_execution(arguments, *files)
    old, new = _both(arguments, files)
    comparison = old.diff(new, answers=arguments.answers)
    captures.report(arguments, comparison, old, new)
    return 0


def _both(arguments: argparse.Namespace, files: Iterable[str]) -> Sequence[Run]:
    """Run all files. If kernels fail, each failure is printed, and the first one is raised."""
    runs, failures = [], []
    for file in files:
        try:
            runs.append(kept_run(arguments, file))
        except KernelFailed as failed:
            failures.append(failed)
    if failures:
        raise failures[0]
    return runs


def _measured(arguments: argparse.Namespace, files: tuple[str, str]) -> int:
    """Report launches if at least one side is a capture of a device, and return the exit code.

    A kernel on the other side runs on the capture's machine, unless the command names another
    one."""
    sides: list[Any] = [
        captures.load(arguments, file) if captures.named(file) else None for file in files
    ]
    target = next(captures.target_of(side) for side in sides if side is not None)
    for number, file in enumerate(files):
        if sides[number] is None:
            sides[number] = kept_run(captures.with_target(arguments, target), file)
    return captures.difference(arguments, *sides)
