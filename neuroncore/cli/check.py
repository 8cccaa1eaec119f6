"""neuroncore check: what is likely wrong with a kernel, from its source and from a run of it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from neuroncore.base.errors import EmulatorError, UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.checks.check import Checked, check, together
from neuroncore.checks.execution import Limits
from neuroncore.checks.sarif import log
from neuroncore.cli.world import add_world, check_world
from neuroncore.lint.releases import RELEASES

machine: Any = Lazy("neuroncore.machine")  # which loads numpy, for nothing if none is named


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read a file of kernels and all that it calls, and tell what the device or its compiler "
        "refuses, what is likely wrong there, and what is slow. A file that launches kernels when "
        "it is run, and a kernel with arguments, is run as well, in a process of its own. FILE may "
        "also be a run that was saved, of which the record is checked. "
        "Exit codes: 0 no errors, 1 errors, 2 wrong usage, 3 a fault of neuroncore."
    )
    parser.allow_abbrev = False
    parser.add_argument("files", nargs="+", metavar="FILE.py[::KERNEL]")
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--args", nargs="+", metavar="ARG", help="the kernel's, as `run` takes them")
    given.add_argument("--inputs", metavar="FUNC", help="a function that makes them")
    parser.add_argument(
        "--api", choices=RELEASES, help="the release to hold it against; by default what it uses"
    )
    parser.add_argument("--target", metavar="MACHINE", help="what it is to run on")
    add_world(parser)
    parser.add_argument("--static", action="store_true", help="execute nothing")
    parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings too")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument(
        "--sarif", type=Path, metavar="OUT.sarif", help="also a file for code scanning and editors"
    )
    parser.add_argument(
        "--orders",
        type=int,
        default=0,
        metavar="N",
        help="of a run: execute its record again in up to N other orders that the device may take",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="of a run: compare its record with the plain reading of it (docs/verify.md)",
    )
    limits = Limits()
    parser.add_argument(
        "--seconds", type=float, default=limits.seconds, help="a run may take (%(default)g)"
    )
    parser.add_argument(
        "--memory",
        type=float,
        default=limits.memory / 2**30,
        metavar="GIB",
        help="of address space a run may take (%(default)g)",
    )
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> int:
    if arguments.target:
        machine.load(arguments.target)  # refuses unknown names before anything is read
    found = together([_checked(file, arguments) for file in arguments.files])
    if arguments.json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        print("\n".join(lines(found)))
    if arguments.sarif:
        arguments.sarif.write_text(json.dumps(log(found.findings), indent=2), "utf-8")
    if found.unfinished:
        print(f"neuroncore: {found.unfinished}", file=sys.stderr)
    if found.ours:
        return EmulatorError.exit_code
    return int(found.count("error") > 0 or (arguments.strict and found.count("warning") > 0))


def _checked(what: str, arguments: argparse.Namespace) -> Checked:
    file, _, kernel = what.partition("::")
    check_world(arguments, what)
    return check(
        file,
        kernel or None,
        api=arguments.api,
        target=arguments.target,
        static=arguments.static,
        words=_words(arguments, kernel),
        orders=arguments.orders,
        verify=arguments.verify,
        limits=Limits(arguments.seconds, int(arguments.memory * 2**30)),
    )


def _words(arguments: argparse.Namespace, kernel: str) -> list[str]:
    """What a kernel is given, and on how many ranks it runs, as words of the command line."""
    if not kernel and (arguments.args or arguments.inputs):
        raise UsageError("--args and --inputs are a kernel's: FILE.py::KERNEL")
    given = ["--args", *arguments.args] if arguments.args else []
    for name in ("inputs", "ranks", "lnc", "instance"):
        if (value := getattr(arguments, name)) is not None:
            given += [f"--{name}", str(value)]
    return given


def lines(found: Checked) -> Iterator[str]:
    """The findings, each with why and what to do, and what was done."""
    for one in found.findings:
        yield from _told(one)
    yield f"{found.counts} ({found.extent})"


def _told(one: Finding) -> Iterator[str]:
    yield str(one)
    for name in ("because", "hint", "source"):
        if said := getattr(one, name):
            yield f"  {name:9} {said}"
