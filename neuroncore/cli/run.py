"""neuroncore run: a kernel or a script on the emulated core, and what there is to say about it."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.base.options import Options, Order, profile
from neuroncore.cli import tools
from neuroncore.cli.document import Document
from neuroncore.cli.failures import leaving_told
from neuroncore.cli.session import Session
from neuroncore.cli.world import add_world, check_world, natural
from neuroncore.frontend.alias import activated
from neuroncore.frontend.settings import environment_options, settings
from neuroncore.frontend.vendor import checkouts
from neuroncore.frontend.vendor.packages import REPOSITORIES
from neuroncore.lint.static import read
from neuroncore.record import saved
from neuroncore.report.progress import progress
from neuroncore.view.window import Window

difflib: Any = Lazy("difflib")
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run FILE.py::KERNEL on given arguments, or FILE.py as a script, which sees what isn't an "
        "option of these, and all that follows --. FILE may also be a run that was saved."
    )
    parser.usage = "neuroncore run FILE.py[::KERNEL] [options] [[--] SCRIPT_ARGUMENT ...]"
    parser.allow_abbrev = False
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse what `neuroncore check` calls an error; without it, that is a warning",
    )
    parser.add_argument("--trace", type=Path, metavar="OUT.json", help="a timeline for Perfetto")
    parser.add_argument(
        "--trace-flows",
        action="store_true",
        help="with arrows from all that instructions waited for, not only on the critical path",
    )
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="list what the compiler leaves of each source line, and what it spills",
    )
    add_page(parser, "--html")
    add_running(parser)


def add_page(parser: argparse.ArgumentParser, *names: str) -> None:
    """The page that shows a run, and what it has of it."""
    parser.add_argument(
        *names, dest="html", type=Path, metavar="OUT.html", help="a page that shows the run"
    )
    parser.set_defaults(serve=False)
    parser.add_argument(
        "--window",
        type=_window,
        metavar="A:B",
        help="the part of the run that the page has, of instructions (1000:2000) or of time "
        "(10us:20us); by default all, or the first million instructions",
    )
    parser.add_argument(
        "--values",
        type=_values,
        metavar="A:B",
        default="some",
        help="the instructions of which the page has all elements of tiles, others having small "
        "pictures; some (default), as many as there is room for; none, no values",
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """What to run, on what and how, and what is right."""
    add_launches(parser)
    parser.add_argument(
        "--save",
        type=Path,
        metavar="OUT.run",
        help="all of the last launch, to be FILE another time",
    )
    parser.add_argument(
        "--orders",
        type=natural,
        default=0,
        metavar="N",
        help="execute the record again in up to N other orders that the device may take, and tell "
        "whether the bits are the same",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="execute the record in plain numpy too, and report the first instruction whose bits "
        "differ (docs/verify.md)",
    )
    add_world(parser)
    _add_reference(parser)
    _add_emulation(parser)
    parser.set_defaults(command=run)


def add_launches(parser: argparse.ArgumentParser, named: bool = True) -> None:
    """What to run, if it is to be `named` here, and on what: the arguments of every command that
    runs kernels."""
    if named:
        parser.add_argument("file", metavar="FILE.py[::KERNEL]")
    add_arguments(parser)
    parser.add_argument(
        "--with",
        dest="checkouts",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help=f"serve imports of the vendor's packages from a checkout of their public source: "
        f"NAME is {' or '.join(REPOSITORIES)}; repeatable",
    )
    parser.set_defaults(parser=parser, is_script=is_script)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a kernel is given, and what the estimate is of."""
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--args", nargs="+", metavar="ARG", help="float32[128,512] (random), or Python literals"
    )
    given.add_argument(
        "--inputs", metavar="FUNC", help="NAME or FILE.py:NAME, a function that makes the arguments"
    )
    parser.add_argument("--seed", type=natural, default=0)
    parser.add_argument(
        "--target", metavar="MACHINE", help=f"{', '.join(machine.names())}; beats the environment"
    )
    parser.add_argument(
        "--order",
        choices=get_args(Order),
        help="what the estimate takes a compiler to make of the order of instructions; by default "
        "what the compiler of the kernel's API does",
    )
    parser.add_argument(
        "--no-answers",
        dest="answers",
        action="store_false",
        help="leave out what bounds a kernel and what would help: for classes",
    )


def _add_reference(parser: argparse.ArgumentParser) -> None:
    """What is right."""
    parser.add_argument(
        "--ref", metavar="FUNC", help="a function of the same arguments that gives the right result"
    )
    parser.add_argument(
        "--tol",
        type=_tolerance,
        metavar="REL",
        help="relative L2 error allowed; by default set by the formats",
    )


def _add_emulation(parser: argparse.ArgumentParser) -> None:
    """How it runs."""
    parser.add_argument(
        "--numerics",
        metavar="PROFILE",
        help="documented, ideal or vendor-sim; beats the environment",
    )
    parser.add_argument(
        "--stochastic-rounding",
        type=natural,
        metavar="SEED",
        help="round casts to narrow floats at random",
    )
    parser.add_argument("--matmul", choices=("chain", "blas"))
    parser.add_argument(
        "--uninitialised",
        choices=("report", "zeros", "raise"),
        help="what memory that nothing has written reads as: poison (report) or 0 (zeros), with a "
        "warning, or an error (raise)",
    )
    parser.add_argument(
        "--precision",
        action="store_true",
        help="tell which lines the error comes from, against float64 beside the kernel",
    )
    parser.add_argument(
        "--precision-bound",
        type=float,
        metavar="REL",
        help="relative error of a result to be told of; by default set by its format",
    )


def _options(arguments: argparse.Namespace) -> Options:
    """What the environment asks for, but for what the command says."""
    chosen = profile(arguments.numerics) if arguments.numerics else environment_options()
    if arguments.stochastic_rounding is not None:
        seed = arguments.stochastic_rounding
        chosen = replace(chosen, stochastic=True, stochastic_seed=seed)
    if arguments.precision or arguments.precision_bound is not None:
        chosen = replace(chosen, precision=True, precision_bound=arguments.precision_bound)
    if arguments.html or arguments.serve:
        chosen = replace(chosen, stacks=True)
    given = {name: getattr(arguments, name) for name in ("matmul", "order", "uninitialised")}
    return replace(chosen, **{name: value for name, value in given.items() if value})


def is_script(arguments: argparse.Namespace) -> bool:
    """Whether a file is to run by itself, with arguments of its own."""
    return "::" not in arguments.file


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a relative error: 0 or more")
    return value


def _values(text: str) -> range | Literal["some"] | None:
    """A range of instructions, or what is said in a word."""
    if text == "none":
        return None
    if text == "some":
        return "some"
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither A:B nor some nor none")
    return range(int(first), int(last))


def _window(text: str) -> Window:
    """From one instruction or time to another."""
    with contextlib.suppress(ValueError):
        if found := re.fullmatch(r"(\d+):(\d+)", text):
            return Window(int(found[1]), int(found[2]))
        if found := re.fullmatch(r"([\d.]+)(ns|us|ms|s):([\d.]+)(ns|us|ms|s)", text):
            first, last = (float(found[n]) * NANOSECONDS[found[n + 1]] for n in (1, 3))
            return Window(first, last, ns=True)
    raise argparse.ArgumentTypeError(
        f"{text!r} is neither A:B in instructions nor times, with B after A"
    )


def run(arguments: argparse.Namespace) -> int:
    check_world(arguments, arguments.file)
    for option in ("trace", "html", "save"):
        _check_writable(option, getattr(arguments, option))
    return finished(arguments, Document(arguments))


def finished(arguments: argparse.Namespace, document: Document) -> int:
    """Run what is asked for, and write what the document has of it; the exit code."""
    asked = "html", "serve", "save", "orders", "verify"
    keeps = any(getattr(arguments, name) for name in asked)
    session = Session(arguments, document, compares=True, keeps=keeps)
    document.read(_source_findings(arguments))
    if not document.refused:
        launch(arguments, session, _options(arguments))
    return document.close()


def _source_findings(arguments: argparse.Namespace) -> Sequence[Finding]:
    """What the source tells before anything runs; nothing of what is no kernel's file, which the
    run itself tells of."""
    file, _, kernel = arguments.file.partition("::")
    try:
        return read(Path(file), kernel or None, None).findings
    except UsageError:
        return ()


def launch(arguments: argparse.Namespace, session: Session, options: Options) -> None:
    """Run the file that a command names, or the kernel in it."""
    if arguments.target:
        machine.load(arguments.target)  # refuses unknown names before anything runs
    _check_others(arguments)
    served = [checkouts.parsed(text) for text in arguments.checkouts]
    file, _, kernel = arguments.file.partition("::")
    chosen = settings(arguments.target, options, session, keeps=session.keeps, in_every_thread=True)
    with (
        activated(),
        tools.on_the_path(),
        tools.serving(served),
        chosen,
        leaving_told(),
        progress(session.so_far),
    ):
        if kernel:
            session.run_kernel(Path(file), kernel)
        elif saved.is_record(Path(file)):
            session.look_at(Path(file))
        else:
            session.run_script(Path(file))


def _check_others(arguments: argparse.Namespace) -> None:
    """Raise UsageError where what is no option of ours, and so the script's, looks like one."""
    if not arguments.others:
        return
    known = re.findall(r"--[\w-]+", arguments.parser.format_help())
    for word in arguments.others:
        if near := difflib.get_close_matches(word, known, 1, cutoff=0.8):
            raise UsageError(
                f"{word} is not {near[0]}; if it is meant for the script, put it after --"
            )


def _check_writable(option: str, path: Path | None) -> None:
    """Raise UsageError before the run rather than after it."""
    if path is None:
        return
    there = path.exists()
    if there and not (path.is_file() or path.is_dir()):
        return  # to open a pipe would wait for its reader
    try:
        path.open("ab").close()
    except OSError as error:
        raise UsageError(f"--{option} {path} can't be written: {error.strerror}") from None
    if not there:
        path.unlink()
