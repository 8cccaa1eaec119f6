"""The usage of commands: options that several commands share, and suggestions for wrong options, as
text or as JSON."""

from __future__ import annotations

import argparse
import difflib
import os.path
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from neuroncore.base.errors import UsageError, did_you_mean, writing
from neuroncore.base.lazy import Lazy
from neuroncore.cli import terminal
from neuroncore.record import is_record

if TYPE_CHECKING:
    from neuroncore.machine import instance as instances
    from neuroncore.machine import world as worlds
else:  # these load numpy, but only if an instance is named or several ranks are asked for
    instances = Lazy("neuroncore.machine.instance")
    worlds = Lazy("neuroncore.machine.world")

SCHEMA = "neuroncore.error/1"
CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
# options with which a kernel is executed, and which have no effect on a saved run
EXECUTION = (
    *("seed", "tol", "numerics", "stochastic_rounding", "matmul", "uninitialized", "precision"),
    *("precision_bound", "api"),
)
SECONDS = 1e9  # the largest limit on time, about 30 years
# the arguments of all commands that name a file to read; a test finds those that are missing
INPUTS = (
    *("file", "files", "old", "new", "spec", "candidate", "inputs", "ref", "source", "neff"),
    *("neff_path", "session_file", "arrays", "expect", "rows", "table", "offsets", "recorder"),
)
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


def add_output(parser: argparse.ArgumentParser, *names: str, **settings: Any) -> None:
    """Add an option whose value is a file that the command writes. `check_outputs` checks it."""
    action = parser.add_argument(*names, type=Path, **settings)
    parser.set_defaults(outputs=(*(parser.get_default("outputs") or ()), action.dest))


def needs(parser: argparse.ArgumentParser, **needed: str) -> None:
    """Declare arguments that have no effect without another one: `port="serve"` means that --port
    needs --serve. `check_needs` refuses them."""
    parser.set_defaults(needs={**(parser.get_default("needs") or {}), **needed})


def excludes(parser: argparse.ArgumentParser, name: str, *others: str) -> None:
    """Declare arguments that have no effect if the argument `name` is given. `check_needs` refuses
    them."""
    parser.set_defaults(excluded=(name, others))


def check_needs(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an argument that has no effect, because another one is missing or is
    given."""
    for name, other in getattr(arguments, "needs", {}).items():
        if is_given(arguments, name) and not is_given(arguments, other):
            raise UsageError(f"{option(name)} needs {option(other)}")
    excluding, names = getattr(arguments, "excluded", ("", ()))
    for name in names:
        if is_given(arguments, excluding) and is_given(arguments, name):
            raise UsageError(f"{option(name)} can't be combined with {option(excluding)}")


def is_given(arguments: argparse.Namespace, name: str) -> bool:
    """Return whether a command has an argument with another value than the default."""
    return name in arguments and getattr(arguments, name) != arguments.parser.get_default(name)


def option(name: str) -> str:
    """Return the option of an argument: --clock-phase for `clock_phase`."""
    return f"--{name.replace('_', '-')}"


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raise UsageError if a file of `add_output`

    * can't be written,
    * is a file that the command reads,
    * or is the file of another such option.

    A command whose output replaces its input destroys the user's file."""
    names = getattr(arguments, "outputs", ())
    given = {name: path for name in names if (path := getattr(arguments, name)) is not None}
    inputs = [getattr(arguments, name, None) for name in INPUTS if name not in names]
    read = [file for file in _files_in(inputs) if os.path.isfile(file)]
    seen: dict[Path, str] = {}
    for name, path in given.items():
        if path.is_file() and any(path.samefile(file) for file in read):
            raise UsageError(f"{option(name)} {path} would overwrite a file that the command reads")
        _check_writable(option(name), path)
        if (other := seen.setdefault(path.resolve(), name)) != name and _keeps(path):
            raise UsageError(f"{option(other)} and {option(name)} would write the same file {path}")


@contextmanager
def telling(file: Path) -> Iterator[None]:
    """A context manager that writes a file, and then says so. Raises UsageError if the file can't
    be written."""
    with writing(file):
        yield
    print(f"wrote {file}", file=sys.stderr)


def _files_in(values: Iterable[Any]) -> Iterator[str]:
    """Yield the files in the values of arguments: FILE, FILE.py::KERNEL, and FILE.py:FUNCTION."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _files_in(value)
        elif isinstance(value, str | Path):
            text = str(value)
            yield from (text, text.partition("::")[0], text.rpartition(":")[0])


def _keeps(path: Path) -> bool:
    """Return whether a path is a file that keeps what is written, or does not exist; /dev/null and
    pipes do not."""
    return path.is_file() or not path.exists()


def _check_writable(named: str, path: Path) -> None:
    """Raise UsageError if the file of an option can't be written."""
    existed = path.exists()
    if existed and not (path.is_file() or path.is_dir()):
        return  # opening a pipe would wait for its reader
    with writing(f"{named} {path}"):
        path.open("ab").close()
    if not existed:
        path.resolve().unlink()  # of a symbolic link, only the file is removed


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options for the arguments of a kernel."""
    exclusive = parser.add_mutually_exclusive_group()
    exclusive.add_argument(
        "--args",
        nargs="+",
        metavar="ARG",
        help="the kernel's arguments: float32[128,512] for random numbers, or Python literals",
    )
    exclusive.add_argument(
        "--inputs",
        metavar="FUNC",
        help="NAME or FILE.py:NAME, a function that returns the arguments",
    )


def add_world(parser: argparse.ArgumentParser) -> None:
    """Add the options for several ranks."""
    parser.add_argument(
        "--ranks",
        type=natural,
        metavar="N",
        help="run the kernel on N ranks; a parameter `rank` of the reference, or of the function "
        "that returns the arguments, receives the rank",
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
    needs(parser, lnc="ranks", instance="ranks")


def resolve_world(arguments: argparse.Namespace, named: str) -> None:
    """Check the options of a kernel and its ranks, and set the target if --instance needs it.

    `named` is the file that the command names. If --instance is given without --target, the target
    becomes the machine of the instance. Raise UsageError

    * if --ranks is 0 or too large;
    * if --ranks, --args, --inputs, --ref or --tol is given and `named` is not a kernel
      FILE.py::KERNEL, or --verbose and it is one. These options would be ignored."""
    refuse_arguments(arguments, named)
    if arguments.ranks is not None:
        if "::" not in named:
            raise UsageError(f"--ranks needs a kernel: {named}::KERNEL")
        if arguments.ranks == 0:
            raise UsageError("--ranks must be at least 1")
        worlds.check_size(arguments.ranks, arguments.lnc or 1)
    if arguments.instance is not None and arguments.target is None:
        arguments.target = instances.find(arguments.instance).chip.machine


def refuse_arguments(arguments: argparse.Namespace, *named: str) -> None:
    """Raise UsageError for --args, --inputs, --ref and --tol if no file in `named` is a kernel
    FILE.py::KERNEL, and for --verbose if one is."""
    kernel = any("::" in file for file in named)
    for name in ("verbose",) if kernel else ("args", "inputs", "ref", "tol"):
        if is_given(arguments, name):
            needed = "a script: FILE.py" if kernel else "a kernel: FILE.py::KERNEL"
            raise UsageError(f"{option(name)} needs {needed}")


def refuse_execution(arguments: argparse.Namespace, *files: str) -> None:
    """Raise UsageError for an argument that only the execution of a kernel uses, if all `files` are
    saved runs. Saved runs are not executed."""
    if not all(is_record(Path(file)) for file in files):
        return
    file = files[0]
    for name in EXECUTION:
        if is_given(arguments, name):
            raise UsageError(
                f"{file} is a saved run, but {option(name)} is only for kernels and scripts"
            )
    for word in (*arguments.others, *arguments.behind):
        raise UsageError(f"{file} is a saved run, but {word} is an argument for a script")


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
    """Return a positive number of seconds. Raises ArgumentTypeError for others, and for more than
    an alarm of the operating system can count."""
    return _between(text, SECONDS, "a number of seconds, greater than 0 and less than 10^9")


def gib(text: str) -> float:
    """Return a positive number of GiB. Raises ArgumentTypeError for others, and for more bytes than
    a limit of the operating system can have."""
    return _between(text, 2.0**33, "a number of GiB, greater than 0 and less than 2^33")


def _between(text: str, end: float, meaning: str) -> float:
    """Return a number greater than 0 and less than `end`. Raises ArgumentTypeError for others."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < end:
        raise argparse.ArgumentTypeError(f"{text!r} is not {meaning}")
    return value
