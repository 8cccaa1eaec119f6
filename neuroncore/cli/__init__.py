"""The command line. Exit codes: 0 success, 1 a kernel or a comparison failed, 2 wrong usage, 3 a
fault of neuroncore."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from neuroncore.base import source
from neuroncore.base.errors import EmulatorError, UsageError
from neuroncore.base.lazy import Lazy, version

if TYPE_CHECKING:
    from neuroncore.cli import arguments as values
    from neuroncore.cli import limits, session, terminal, usage
else:
    limits = Lazy("neuroncore.cli.limits")
    terminal = Lazy("neuroncore.cli.terminal")
    usage = Lazy("neuroncore.cli.usage")
    session = Lazy("neuroncore.cli.session")
    values = Lazy("neuroncore.cli.arguments")


# For each command: its module and its help text. The module is imported when the command is used.
# Then its function `add_to`, or F for an entry "MODULE:F", adds to the command's parser the
# arguments, and the default `command`: the function that executes the command.
COMMANDS = {
    "demo": ("demo", "run a matrix multiplication, and write a page that shows the run"),
    "run": ("run", "run a kernel, or a script that launches kernels"),
    "check": ("check", "find mistakes and slow operations in a kernel, from its source and a run"),
    "why": ("why", "report what limits a kernel, and what would make it faster"),
    "diff": (
        "why:add_diff",
        "compare two kernels: which is faster, how certain that is, what differs",
    ),
    "view": ("view", "write an HTML page that shows a run (it needs no network)"),
    "profile": (
        "profile",
        "print profiles of runs that kernels saved (save_neff_name), and traces from a device",
    ),
    "neff": ("captures", "print the program that the device's compiler made of a kernel (.neff)"),
    "calibrate": ("score:add_calibrate", "compare your own measurements with the estimates"),
    "eval": ("evaluate", "judge untrusted kernels by a specification"),
    "grade": ("grade", "judge the submissions of a course, and write a table"),
    "puzzles": ("puzzles", "learn NKI by solving puzzles: kernels with missing lines"),
    "exercises": ("exercises", "check answers to the exercises of the chapters and lectures"),
    "mcp": ("agents", "serve tools for coding agents over the Model Context Protocol"),
    "score": ("score", "compare estimates with a table of measurements"),
    "machines": ("machines", "print machines, instances, and every number about them"),
    "isa": ("instructions", "print the instruction set"),
    "explain": ("explain", "explain an error or a finding, with an example"),
    "doctor": ("doctor", "check this installation"),
    "env": ("environment", "print versions and settings, for a bug report"),
    "warm": ("doctor:add_warm", "load and compile in advance what a first run needs"),
    "schema": ("schemas", "print the JSON Schema of the output of --json"),
    "completion": ("completion", "print a script that completes commands in bash, zsh or fish"),
    "docs": ("documentation", "open the documentation in a browser (it needs no network)"),
    "alias-path": (
        "tools:add_alias_path",
        "print the folder to add to PYTHONPATH, so that a program and all programs that it "
        "starts can `import nki`",
    ),
    "tools-path": (
        "tools",
        "print the folder to add to PATH, so that programs can start neuroncore's neuron-profile",
    ),
}


@source.entry_point
def main(argv: Sequence[str] | None = None) -> int:
    if sys.stderr is None:  # it was closed, and `print` would write to standard output instead
        sys.stderr = io.StringIO()
    words = [*(sys.argv[1:] if argv is None else argv)]
    end = words.index("--") if "--" in words else len(words)  # argparse can't handle what follows
    try:
        arguments, others = parser(words[:end]).parse_known_args(words[:end])
        if others and not arguments.is_script(arguments):
            raise usage.unknown(arguments.parser, others)
    except usage.Misuse as misuse:
        error, as_json = misuse, "--json" in words[:end]
        sys.exit(_ended(lambda: usage.report(error, as_json)))
    arguments.words, arguments.others, arguments.behind = words, others, words[end + 1 :]
    return _ended(lambda: _executed(arguments))


def _ended(command: Callable[[], int]) -> int:
    """Return the exit code of `command`. Report errors of the output, Ctrl-C, and faults of
    neuroncore."""
    try:
        return command()
    except BrokenPipeError:  # the reader of the output has closed the pipe
        _give_up_output()
        return 0
    except OSError as error:
        output = error.filename or "the output"
        print(f"neuroncore: {output} can't be written: {error.strerror}", file=sys.stderr)
        _give_up_output()
        return 2
    except KeyboardInterrupt as stop:
        print(session.interrupted(stop), file=sys.stderr)
        return session.INTERRUPTED
    except Exception as error:
        session.print_our_fault(error)
        return EmulatorError.exit_code


def _executed(arguments: argparse.Namespace) -> int:
    """Execute a command, and return the exit code. Report an error of the user or of a kernel; with
    --json, also as JSON."""
    if sys.stdout is None:
        print("neuroncore: the output is closed", file=sys.stderr)
        return 2
    failure: str | dict[str, Any]
    try:
        usage.check_needs(arguments)
        usage.check_outputs(arguments)
        seconds = getattr(arguments, "time_limit", None)
        with nullcontext() if seconds is None else limits.limited(seconds):
            code = int(arguments.command(arguments))
            sys.stdout.flush()
        return code
    except UsageError as error:
        has_place = isinstance(error, values.NotPython)  # its message begins with the place
        terminal.complain(error if has_place else f"neuroncore: {error}")
        code, failure = 2, str(error)
    except limits.TimeLimit as end:
        terminal.complain(f"neuroncore: {end}")
        code, failure = 1, str(end)
    except session.KernelFailed as failed:
        code, failure = session.exit_code(failed.failure), failed.failure
    if getattr(arguments, "json", False):
        usage.print_json(failure)
    return code


def _give_up_output() -> None:
    """Discard pending output, which would fail again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser for the words of a command line.

    Only the requested command gets its arguments. All other commands have only a name and a help
    text, and are left out if the requested command is the first word. Without `words`, every
    command gets its arguments."""
    root = usage.Parser(prog="neuroncore", description="Run NKI kernels on an emulated NeuronCore.")
    root.add_argument(
        "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    root.set_defaults(is_script=lambda _: False)
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    requested = next((word for word in words or () if not word.startswith("-")), None)
    only_requested = requested in COMMANDS and words is not None and words[0] == requested
    for name, (module, help_text) in COMMANDS.items():
        if only_requested and name != requested:
            continue
        sentence = f"{help_text[0].upper()}{help_text[1:]}."
        command = commands.add_parser(name, help=help_text, description=sentence)
        command.set_defaults(parser=command)
        if words is None or name == requested:
            home, _, add = module.partition(":")
            getattr(importlib.import_module(f"neuroncore.cli.{home}"), add or "add_to")(command)
    return root


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"neuroncore {version('neuroncore')}")
        parser.exit()
