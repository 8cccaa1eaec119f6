"""The command line. Exit codes: 0 all well, 1 a kernel or a comparison failed, 2 wrong usage."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from neuroncore import source
from neuroncore.cli import explain, failures, instructions, profile, run, score, tools, view
from neuroncore.cli import machines as tables
from neuroncore.errors import UsageError
from neuroncore.frontend.alias import PATH


@source.door
def main(argv: Sequence[str] | None = None) -> int:
    words = [*(sys.argv[1:] if argv is None else argv)]
    end = words.index("--") if "--" in words else len(words)  # argparse is lost after options
    parser = _parser()
    arguments, others = parser.parse_known_args(words[:end])
    if others and not run.is_script(arguments):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    arguments.others, arguments.behind = others, words[end + 1 :]
    return _ended(arguments)


def _ended(arguments: argparse.Namespace) -> int:
    """Carry out a command; the exit code."""
    if sys.stdout is None:
        print("neuroncore: the output is closed", file=sys.stderr)
        return 2
    try:
        code = int(arguments.command(arguments))
        sys.stdout.flush()
        return code
    except UsageError as error:
        own = isinstance(error, failures.NotPython)  # which begins with the place
        print(error if own else f"neuroncore: {error}", file=sys.stderr)
    except BrokenPipeError:  # the reader of our output has seen enough
        _give_up_output()
        return 0
    except OSError as error:
        what = error.filename or "the output"
        print(f"neuroncore: {what} can't be written: {error.strerror}", file=sys.stderr)
        _give_up_output()
    except KeyboardInterrupt as stop:
        print(failures.interrupted(stop), file=sys.stderr)
        return failures.INTERRUPTED
    return 2


def _give_up_output() -> None:
    """What is still to be written would fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="neuroncore", description="Run NKI kernels on an emulated NeuronCore."
    )
    parser.add_argument(
        "--version", action="version", version=f"neuroncore {version('neuroncore')}"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run.add_to(commands)
    view.add_to(commands)
    profile.add_to(commands)
    score.add_to(commands)
    machines = commands.add_parser("machines", help="the machines and every number about them")
    machines.add_argument("name", nargs="?", help="one machine; all side by side without it")
    machines.add_argument(
        "--check", action="store_true", help="peaks and bandwidths beside every printed number"
    )
    machines.set_defaults(command=tables.machines)
    isa = commands.add_parser("isa", help="the instruction set")
    isa.add_argument("name", nargs="?", help="one instruction")
    isa.set_defaults(command=instructions.isa)
    meaning = commands.add_parser("explain", help="what an error means, with an example")
    meaning.add_argument(
        "name", nargs="?", help="an error's code, a name of nki.errors, or what the device says"
    )
    meaning.set_defaults(command=explain.explain)
    alias = commands.add_parser(
        "alias-path",
        help="the folder to put on PYTHONPATH so that `import nki` is ours in programs that "
        "start others",
    )
    alias.set_defaults(command=alias_path)
    programs = commands.add_parser(
        "tools-path",
        help="the folder to put on PATH so that programs that start neuron-profile get ours",
    )
    programs.set_defaults(command=tools.tools_path)
    return parser


def alias_path(_: argparse.Namespace) -> int:
    print(PATH)
    return 0
