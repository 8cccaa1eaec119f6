"""neuroncore check: likely mistakes in a kernel, from its source and from a run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from neuroncore.base.errors import EmulatorError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.checks.check import Checked, check, sarif_log, together
from neuroncore.checks.execution import ExecutionLimits
from neuroncore.cli import terminal
from neuroncore.cli.usage import (
    add_inputs,
    add_output,
    add_world,
    excludes,
    gib,
    natural,
    positive,
    refuse_execution,
    resolve_world,
)
from neuroncore.lint.modules import RELEASES

if TYPE_CHECKING:
    from neuroncore import machine
else:
    machine = Lazy("neuroncore.machine")  # loads numpy, but only if a machine is named


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read a file of kernels and everything that it calls. Report errors that the device or "
        "its compiler would report, likely mistakes, and slow operations. Files that launch "
        "kernels, and kernels with arguments, are also run, in a separate process. FILE may also "
        "be a saved run, whose recorded instructions are checked. Exit codes: 0 no errors, "
        "1 errors (also of Python), 2 wrong usage, 3 a fault of neuroncore."
    )
    parser.allow_abbrev = False
    parser.add_argument("files", nargs="+", metavar="FILE.py[::KERNEL]")
    add_inputs(parser)
    parser.add_argument(
        "--api",
        choices=RELEASES,
        help="the release to check against (default: the release that fits the file)",
    )
    parser.add_argument("--target", metavar="MACHINE", help="the machine, as for `run`")
    add_world(parser)
    parser.add_argument("--static", action="store_true", help="only read the file: execute nothing")
    parser.add_argument("--strict", action="store_true", help="also exit with 1 for warnings")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    add_output(
        parser,
        "--sarif",
        metavar="OUT.sarif",
        help="also write a SARIF file for code scanning and editors",
    )
    parser.add_argument(
        "--orders",
        type=natural,
        default=0,
        metavar="N",
        help="execute the recorded instructions in up to N other legal orders; compare the results",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="execute the recorded instructions of a run in plain numpy too, and compare the "
        "bits of the results (docs/verify.md)",
    )
    limits = ExecutionLimits()
    parser.add_argument(
        "--seconds",
        type=positive,
        default=limits.seconds,
        help="limit on the time of a run, in seconds (default: %(default)g)",
    )
    parser.add_argument(
        "--memory",
        type=gib,
        default=limits.memory / 2**30,
        metavar="GIB",
        help="limit on the address space of a run, in GiB (default: %(default)g)",
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # for `mcp`
    excludes(parser, "static", "args", "inputs", "ranks", "orders", "verify")
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> int:
    if arguments.target:
        machine.load(arguments.target)  # rejects unknown names before reading anything
    refuse_execution(arguments, *arguments.files)
    checked = together([_checked(file, arguments) for file in arguments.files])
    terminal.answer(arguments, checked.to_dict(), lines(checked))
    if arguments.sarif:
        arguments.sarif.write_text(json.dumps(sarif_log(checked.findings), indent=2), "utf-8")
    if checked.unfinished:
        print(f"neuroncore: {checked.unfinished}", file=sys.stderr)
    if checked.ours:
        return EmulatorError.exit_code
    failed = checked.raised or checked.count("error") > 0
    return int(failed or (arguments.strict and checked.count("warning") > 0))


def _checked(named: str, arguments: argparse.Namespace) -> Checked:
    file, _, kernel = named.partition("::")
    resolve_world(arguments, named)
    return check(
        file,
        kernel or None,
        api=arguments.api,
        target=arguments.target,
        static=arguments.static,
        words=_words(arguments, kernel),
        orders=arguments.orders,
        verify=arguments.verify,
        limits=ExecutionLimits(arguments.seconds, int(arguments.memory * 2**30), arguments.here),
    )


def _words(arguments: argparse.Namespace, kernel: str) -> list[str]:
    """Return the kernel's arguments, and its ranks and cores, as options of the command line."""
    words = ["--args", *arguments.args] if arguments.args else []
    for name in ("inputs", "ranks", "lnc", "instance"):
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name}", str(value)]
    return words


def lines(checked: Checked) -> Iterator[str]:
    """Yield the lines of the output.

    Each finding has its reason, hint and source. The last lines count the findings and say what was
    checked."""
    for finding in checked.findings:
        yield from _finding_lines(finding)
    yield f"{checked.counts} ({checked.extent})"


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield str(finding)
    for name in ("because", "hint", "source"):
        if text := getattr(finding, name):
            yield f"  {name:9} {text}"
