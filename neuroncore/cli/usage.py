"""The usage of commands: options that several commands share, and suggestions for wrong options, as
text or as JSON."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from neuroncore.base.errors import UsageError, did_you_mean
from neuroncore.base.lazy import Lazy
from neuroncore.cli import terminal

if TYPE_CHECKING:
    from neuroncore.machine import instance as instances
    from neuroncore.machine import world as worlds
else:  # these load numpy, but only if an instance is named or several ranks are asked for
    instances = Lazy("neuroncore.machine.instance")
    worlds = Lazy("neuroncore.machine.world")

SCHEMA = "neuroncore.error/1"
CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
CLOSE = 0.7  # similarity of a misspelled option


class Misuse(Exception):
    """An error: the parser refuses the arguments."""

    def __init__(self, parser: argparse.ArgumentParser, statement: str) -> None:
        super().__init__(statement)
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest choice, and raises Misuse instead of ending Python."""

    def error(self, message: str) -> NoReturn:
        if match := CHOICE.search(message):
            hint = did_you_mean(match[1], re.findall(r"[\w.-]+", match[2]))
            message += f"; {hint}" if hint else ""
        raise Misuse(self, message)


def options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long options of a parser."""
    return re.findall(r"--[\w-]+", parser.format_help())


def near(word: str, known: Iterable[str], cutoff: float = CLOSE) -> str | None:
    """Return the member of `known` that is most similar to a word, or None if no member is
    similar."""
    name = word.partition("=")[0]
    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff=cutoff)), None)


def unknown(parser: argparse.ArgumentParser, words: Iterable[str]) -> Misuse:
    """Return the error for arguments that no parser accepts."""
    words, known = list(words), options(parser)
    statement = f"unrecognized arguments: {' '.join(words)}"
    hints = [hint for word in words if word.startswith("-") and (hint := near(word, known))]
    if hints:
        statement += f"; did you mean {' and '.join(dict.fromkeys(hints))}?"
    return Misuse(parser, statement)


def report(error: Misuse, as_json: bool) -> int:
    """Print the usage and an error, and return the exit code."""
    error.parser.print_usage(sys.stderr)
    terminal.complain(f"{error.parser.prog}: error: {error}")
    if as_json:
        print_json(str(error))
    return 2


def print_json(error: str | dict[str, Any]) -> None:
    """Print an error as a JSON object. `error` is a sentence, or the fields of a kernel's error."""
    fields = {"statement": error} if isinstance(error, str) else error
    terminal.write_json({"schema": SCHEMA, "passed": False, "error": fields})


def add_world(parser: argparse.ArgumentParser) -> None:
    """Add the options for several ranks."""
    parser.add_argument(
        "--ranks",
        type=natural,
        metavar="N",
        help="run the kernel on N ranks; the function that returns the arguments, and the "
        "reference, receive the rank if they have a parameter `rank`",
    )
    parser.add_argument(
        "--lnc",
        type=int,
        choices=(1, 2),
        help="physical cores per rank (default: one for each program of the kernel's grid)",
    )
    parser.add_argument(
        "--instance",
        metavar="NAME",
        help="the instance of the ranks, such as trn2.48xlarge (default: the largest instance with "
        "chips of the target)",
    )


def resolve_world(arguments: argparse.Namespace, named: str) -> None:
    """Check the options of a kernel and its ranks, and set the target if --instance needs it.

    `named` is the file that the command names. If --instance is given without --target, the target
    becomes the machine of the instance. Raise UsageError

    * if --ranks is 0 or too large;
    * if --lnc or --instance is given without --ranks;
    * if --ranks, --args, --inputs or --ref is given and `named` is not a kernel FILE.py::KERNEL.
      Scripts and saved runs would ignore these options."""
    for option in ("args", "inputs", "ref") if "::" not in named else ():
        if getattr(arguments, option, None) is not None:
            raise UsageError(f"--{option} needs a kernel: FILE.py::KERNEL")
    if arguments.ranks is None:
        for option in ("lnc", "instance"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option} needs --ranks")
    elif "::" not in named:
        raise UsageError(f"--ranks needs a kernel: {named}::KERNEL")
    elif arguments.ranks == 0:
        raise UsageError("--ranks must be at least 1")
    else:
        worlds.check_size(arguments.ranks, arguments.lnc or 1)
    if arguments.instance is not None and arguments.target is None:
        arguments.target = instances.find(arguments.instance).chip.machine


def natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a natural number")
    return int(text)


def add_time_limit(parser: argparse.ArgumentParser) -> None:
    """Add the limit on the time of a command."""
    parser.add_argument(
        "--time-limit",
        type=positive,
        metavar="SECONDS",
        help="end the command after this time, and report the line that the kernel has reached "
        "(exit code 1; default: no limit)",
    )


def positive(text: str) -> float:
    """Return a positive number. Raises ArgumentTypeError for others."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return seconds
