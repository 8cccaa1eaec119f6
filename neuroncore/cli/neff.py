"""neuroncore neff: a program of the device's compiler, compared with neuroncore's."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuroncore.base.errors import UsageError
from neuroncore.base.lazy import Lazy
from neuroncore.cli import failures
from neuroncore.cli.captures import slowest
from neuroncore.cli.kept import kept_run
from neuroncore.cli.run import add_launches

if TYPE_CHECKING:
    from neuroncore.capture import listing, sides
    from neuroncore.capture import neff as programs
else:
    listing = Lazy("neuroncore.capture.listing")
    programs = Lazy("neuroncore.capture.neff")
    sides = Lazy("neuroncore.capture.sides")


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print a compiled program (.neff): instructions of each engine, DMA blocks, queues, and "
        "the map of SBUF. With --source, compare it by line with the compiled program of "
        "neuroncore. docs/capture.md explains the output."
    )
    parser.allow_abbrev = False
    parser.add_argument("neff", metavar="FILE.neff")
    parser.add_argument("--source", metavar="FILE.py::KERNEL", help="the kernel of the program")
    parser.add_argument("--all", action="store_true", help="list all instructions")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    add_launches(parser, named=False)
    parser.set_defaults(command=neff, is_script=lambda _: False)


def neff(arguments: argparse.Namespace) -> int:
    program = programs.load(Path(arguments.neff))
    rows: list[Any] | None = None
    if arguments.source:
        kept = kept_run(_with_target(arguments, program.target), arguments.source)
        failed: int = failures.exit_code(kept.failure)
        if failed:
            return failed
        rows = sides.beside(program, slowest(kept.runs[0]))
    elif arguments.args or arguments.inputs:
        raise UsageError("name the kernel with --source FILE.py::KERNEL")
    if arguments.json:
        told = listing.document(program)
        told |= {"beside": [row.to_dict() for row in rows]} if rows is not None else {}
        failures.write(json.dumps(told, indent=2))
        return 0
    for line in sides.text(rows) if rows is not None else listing.text(program, arguments.all):
        failures.write(line)
    return 0


def _with_target(arguments: argparse.Namespace, target: str) -> argparse.Namespace:
    """Return the machine of the program, unless the command names one."""
    return argparse.Namespace(**{**vars(arguments), "target": arguments.target or target})
