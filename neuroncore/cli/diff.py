"""neuroncore diff: compare two kernels or saved runs."""

from __future__ import annotations

import argparse
import json
from typing import Any

from neuroncore.cli import captures, session
from neuroncore.cli.run import add_launches, kept_run


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run two kernels on the same arguments, or read saved runs, and report which is faster, "
        "how certain that is, and what else differs: bottlenecks, bytes, instructions, source "
        "lines, and bits of the results. docs/diff.md explains the output."
    )
    parser.allow_abbrev = False
    parser.add_argument("old", metavar="OLD", help="FILE.py::KERNEL, FILE.py or a saved run")
    parser.add_argument("new", metavar="NEW", help="the same")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    captures.add_program(parser)
    add_launches(parser, named=False)
    parser.set_defaults(command=diff, is_script=lambda _: False)


def diff(arguments: argparse.Namespace) -> int:
    files = arguments.old, arguments.new
    if any(map(captures.named, files)):
        return _measured(arguments, files)
    sides = [kept_run(arguments, file) for file in files]
    failed: int = max(session.exit_code(side.failure) for side in sides)
    if failed:
        return failed
    old, new = (side.runs[0] for side in sides)
    found = old.diff(new, answers=arguments.answers)
    text = json.dumps(found.to_dict(), indent=2, allow_nan=False) if arguments.json else str(found)
    session.write(text)
    return 0


def _measured(arguments: argparse.Namespace, files: tuple[str, str]) -> int:
    """Where at least one side is a capture of a device."""
    sides: list[Any] = []
    for file in files:
        if captures.named(file):
            sides.append(captures.load(arguments, file))
            continue
        kept = kept_run(arguments, file)
        failed: int = session.exit_code(kept.failure)
        if failed:
            return failed
        sides.append(kept.runs[0])
    return captures.difference(arguments, *sides)
