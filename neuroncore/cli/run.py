"""neuroncore run: run a kernel or a script on the emulated core, and report the results.

Other commands use this module to run the launch that they inspect."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.base.options import (
    ASSUMPTIONS,
    LaunchPath,
    Options,
    Order,
    assumptions,
    choices,
    phase,
    profile,
)
from neuroncore.base.progress import progress
from neuroncore.cli import tools, usage
from neuroncore.cli.document import Document, add_harness
from neuroncore.cli.session import KernelFailed, Session, reporting_exits, shown
from neuroncore.cli.usage import (
    add_inputs,
    add_output,
    add_time_limit,
    add_world,
    natural,
    refuse_execution,
    resolve_world,
)
from neuroncore.frontend import vendor
from neuroncore.frontend.alias import activated
from neuroncore.frontend.settings import environment_options, settings
from neuroncore.frontend.vendor import REPOSITORIES
from neuroncore.hosts.api import Run
from neuroncore.lint.static import read
from neuroncore.record import is_record

if TYPE_CHECKING:
    from neuroncore.report.compare import Agreement
    from neuroncore.view import document as documents
else:
    documents = Lazy("neuroncore.view.document")


SIMILAR = 0.8  # similarity of a misspelled option and an option of the command
# options that only estimates use
ESTIMATED = "order", "launch", "descriptors", "loads", "assume", "clock_phase"
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run FILE.py::KERNEL on arguments, or run FILE.py as a script, which gets all unknown "
        "options and everything after --. FILE may also be a saved run."
    )
    parser.usage = "neuroncore run FILE.py[::KERNEL] [options] [[--] SCRIPT_ARGUMENT ...]"
    parser.allow_abbrev = False
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse kernels in which `neuroncore check` finds errors (default: print warnings)",
    )
    add_output(parser, "--trace", metavar="OUT.json", help="write a timeline for Perfetto")
    parser.add_argument(
        "--trace-flows",
        action="store_true",
        help="add arrows for everything that instructions waited for, not only the critical path",
    )
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="list the compiled program by source line, with spills",
    )
    add_harness(parser)
    add_page(parser, "--html")
    usage.needs(parser, trace_flows="trace", window="html", values="html")
    add_running(parser)


def add_page(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add the options for writing a run as an HTML page.

    `names` are the names of the option whose value is the file of the page."""
    add_output(
        parser, *names, dest="html", metavar="OUT.html", help="write an HTML page of the run"
    )
    parser.set_defaults(serve=False, open=False, line=None, watched=False)
    parser.add_argument(
        "--window",
        type=_window,
        metavar="A:B",
        help="the part of the run that the page shows: instructions (1000:2000) or times "
        "(10us:20us); the default is the first million instructions",
    )
    parser.add_argument(
        "--values",
        type=_values,
        metavar="A:B",
        default="some",
        help="which contents of operands the page stores. some: up to 3 MB, and thumbnails of the "
        "rest (default); A:B: all elements for instructions A to B - 1; none: nothing",
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run and of its reference."""
    add_launches(parser)
    add_output(
        parser,
        "--save",
        metavar="OUT.run",
        help="save the last launch; pass OUT.run in place of FILE.py later",
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="print the details of each launch of a script that launches several kernels",
    )
    parser.add_argument(
        "--orders",
        type=natural,
        default=0,
        metavar="N",
        help="execute the recorded instructions again in up to N other legal orders, and compare "
        "the bits of the results",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="execute the recorded instructions in plain numpy too, and report the first "
        "instruction whose results have different bits (docs/verify.md)",
    )
    add_world(parser)
    _add_reference(parser)
    _add_emulation(parser)
    parser.set_defaults(command=run)


def add_launches(parser: argparse.ArgumentParser, named: bool = True) -> None:
    """Add the arguments of every command that runs kernels. Without `named`, leave out FILE."""
    if named:
        parser.add_argument(
            "file", metavar="FILE.py[::KERNEL]", help="a kernel, a script, or a saved run"
        )
    add_arguments(parser)
    parser.add_argument(
        "--with",
        dest="checkouts",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help=f"import a vendor package from a checkout of its public source: "
        f"NAME is {' or '.join(REPOSITORIES)}; repeatable",
    )
    add_time_limit(parser)
    parser.set_defaults(parser=parser, is_script=is_script)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for a kernel's arguments, for the estimate and for the output."""
    add_inputs(parser)
    parser.add_argument(
        "--seed", type=natural, default=0, help="the seed of random arguments (default: 0)"
    )
    parser.add_argument(
        "--target",
        metavar="MACHINE",
        help=f"the machine: {', '.join(machine.names())} (default: the environment variable "
        "NEURON_PLATFORM_TARGET_OVERRIDE, or else trn2)",
    )
    _add_estimate(parser)
    parser.add_argument(
        "--no-answers",
        dest="answers",
        action="store_false",
        help="hide the bottleneck and the advice (for coursework)",
    )


def _add_estimate(parser: argparse.ArgumentParser) -> None:
    """Add the options that only estimates use; ESTIMATED has their names."""
    parser.add_argument(
        "--order",
        choices=get_args(Order),
        help="the order of instructions that the estimate assumes. in-order: the order of the "
        "source; standalone: the order of the source, but loads run in the order of first use; "
        "scheduled: the order that the compiler of today's API (`nki`) chooses; compiled: the "
        "order that the compiler of the older API (`neuronxcc.nki`) chooses, which also changes "
        "instructions (default: depends on the API of the kernel)",
    )
    parser.add_argument(
        "--launch",
        choices=get_args(LaunchPath),
        help="how a kernel of today's API (`nki`) is launched, for the estimate. framework: by a "
        "framework, whose compiler reorders instructions; standalone: alone, with instructions in "
        "the order of the source (default: framework)",
    )
    parser.add_argument(
        "--descriptors",
        choices=choices()["descriptors"],
        help="what writes the descriptors of DMAs without a dge_mode in kernels of today's API "
        "(`nki`), for the estimate (default: hardware)",
    )
    parser.add_argument(
        "--loads",
        choices=choices()["loads"],
        help="when loads begin in the estimate. ahead: as soon as there is space (default); "
        "single: a load of a matmul operand waits until a matmul has read the tile that the "
        "previous load at the same line wrote; limited: every load waits in this way if the "
        "tiles that DMA writes take more than 88 KiB of a partition; once: the same bytes are "
        "loaded only once. Each of the last three rules comes from only one source",
    )
    parser.add_argument(
        "--assume",
        type=assumed,
        metavar="RULES",
        help="further rules that the estimate assumes: one or more of "
        f"{', '.join(ASSUMPTIONS)}, separated by commas. Each rule comes from only one source; "
        "docs/estimates.md explains the rules (default: none)",
    )
    parser.add_argument(
        "--clock-phase",
        type=clock_phase,
        metavar="PART",
        help="the phase of the Tensor engine's clock in the estimate. The clock can change its "
        "rate only at the end of a window of 3,413 ns. PART is the share of a window, from 0 to "
        "less than 1, that has passed when the first matmul begins. On a device, PART differs from "
        "run to run (default: a phase whose estimate is about the mean over all phases)",
    )


def _add_reference(parser: argparse.ArgumentParser) -> None:
    """Add the options of the reference."""
    parser.add_argument(
        "--ref",
        metavar="FUNC",
        help="a function that takes the kernel's arguments and returns the expected result",
    )
    parser.add_argument(
        "--tol",
        type=_tolerance,
        metavar="REL",
        help="allowed relative L2 error (default: depends on the formats)",
    )


def _add_emulation(parser: argparse.ArgumentParser) -> None:
    """Add the options of the numerics."""
    parser.add_argument(
        "--numerics",
        metavar="PROFILE",
        help="the profile of numerics: documented, ideal or vendor-sim. With this option, "
        "environment variables such as NEURON_RT_STOCHASTIC_ROUNDING_EN have no effect",
    )
    parser.add_argument(
        "--stochastic-rounding",
        type=natural,
        metavar="SEED",
        help="round casts to narrow floats stochastically, with this seed",
    )
    parser.add_argument(
        "--matmul",
        choices=choices()["matmul"],
        help="the method of matmuls. chain: fused multiply-adds in a fixed order, with the same "
        "bits on every computer (default); blas: numpy's BLAS",
    )
    parser.add_argument(
        "--uninitialized",
        choices=choices()["uninitialized"],
        help="what a read of uninitialized memory returns. report: NaN, or 4 for integers, with a "
        "warning (default); zeros: 0, with a warning; raise: an error",
    )
    parser.add_argument(
        "--precision",
        action="store_true",
        help="also compute in float64, and report the error that each line introduces",
    )
    parser.add_argument(
        "--precision-bound",
        type=float,
        metavar="REL",
        help="turn --precision on, and report results whose relative error against float64 is "
        "larger than REL (default: depends on the format)",
    )


def _options(arguments: argparse.Namespace) -> Options:
    """Return the options of the environment, overridden by the options of the command."""
    chosen = profile(arguments.numerics) if arguments.numerics else environment_options()
    if arguments.stochastic_rounding is not None:
        seed = arguments.stochastic_rounding
        chosen = replace(chosen, stochastic=True, stochastic_seed=seed)
    if arguments.precision or arguments.precision_bound is not None:
        chosen = replace(chosen, precision=True, precision_bound=arguments.precision_bound)
    if arguments.html or arguments.serve:
        chosen = replace(chosen, stacks=True)
    return _overridden(chosen, arguments, ("matmul", *ESTIMATED, "uninitialized"))


def _overridden(base: Options, arguments: argparse.Namespace, names: Sequence[str]) -> Options:
    """Return the options `base`, overridden by the arguments `names` that are not None."""
    values = {name: getattr(arguments, name) for name in names}
    return replace(base, **{name: value for name, value in values.items() if value is not None})


def assumed(text: str) -> str:
    """Return rules that an estimate assumes (`Options.assume`)."""
    try:
        assumptions(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def clock_phase(text: str) -> float:
    """Return a phase of the Tensor engine's clock (`Options.clock_phase`)."""
    try:
        return phase(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def is_script(arguments: argparse.Namespace) -> bool:
    """Return whether FILE is a script, which gets its own arguments, and not a kernel
    FILE.py::KERNEL."""
    return "::" not in arguments.file


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a relative error, which is 0 or more")
    return value


def _values(text: str) -> range | Literal["some"] | None:
    """Return the value of --values: the instructions whose operands a page shows.

    The value is a range for "A:B", the word `some`, or None for "none"."""
    if text == "none":
        return None
    if text == "some":
        return "some"
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of these: 'some', 'none', A:B (instructions, A less than B)"
        )
    return range(int(match[1]), int(match[2]))


def _window(text: str) -> documents.PageWindow:
    """Return a window of the page: an interval of instructions or times."""
    with contextlib.suppress(ValueError):
        if match := re.fullmatch(r"(\d+):(\d+)", text):
            return documents.PageWindow(int(match[1]), int(match[2]))
        if match := re.fullmatch(r"([\d.]+)(ns|us|ms|s):([\d.]+)(ns|us|ms|s)", text):
            first, last = (float(match[n]) * NANOSECONDS[match[n + 1]] for n in (1, 3))
            return documents.PageWindow(first, last, ns=True)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not A:B with A less than B: two numbers of instructions (100:200), or two "
        "points in time with units (1.5us:3us)"
    )


def run(arguments: argparse.Namespace) -> int:
    resolve_world(arguments, arguments.file)
    refuse_execution(arguments, arguments.file)
    return finished(arguments, Document(arguments))


def finished(arguments: argparse.Namespace, document: Document) -> int:
    """Run the kernels of a command, write `document`, and return the exit code."""
    keeping = "html", "serve", "save", "orders", "verify"
    keeps = any(getattr(arguments, name) for name in keeping)
    session = Session(arguments, document, compares=True, keeps=keeps)
    document.read(_source_findings(arguments))
    if not document.refused:
        try:
            launch(arguments, session, _options(arguments))
        finally:
            document.say_source()
    if session.stop is not None and (arguments.html or arguments.serve):
        file, _, kernel = arguments.file.partition("::")
        name = kernel or Path(file).name
        document.shown.append(shown(name, session.core, *session.stop))
    return document.close()


def _source_findings(arguments: argparse.Namespace) -> Sequence[Finding]:
    """Return the findings about the source, before anything runs.

    If the file can't be read, return no findings: the run reports this error."""
    file, _, kernel = arguments.file.partition("::")
    try:
        return read(Path(file), kernel or None, None).findings
    except UsageError:
        return ()


def launch(arguments: argparse.Namespace, session: Session, options: Options) -> None:
    """Run the file or the kernel that a command names."""
    if arguments.target:
        machine.load(arguments.target)  # rejects unknown names before anything runs
    _check_others(arguments)
    served = [vendor.parsed(text) for text in arguments.checkouts]
    file, _, kernel = arguments.file.partition("::")
    chosen = settings(arguments.target, options, session, keeps=session.keeps, in_every_thread=True)
    with (
        activated(),
        tools.on_the_path(),
        tools.serving(served),
        chosen,
        reporting_exits(),
        progress(session.so_far),
    ):
        if kernel:
            session.run_kernel(Path(file), kernel)
        elif is_record(Path(file)):
            session.look_at(Path(file))
        else:
            session.run_script(Path(file))


def _check_others(arguments: argparse.Namespace) -> None:
    """Raise UsageError if an argument for the script looks like a misspelled option of
    neuroncore."""
    if not arguments.others:
        return
    known = usage.options(arguments.parser)
    for word in arguments.others:
        if word.startswith("-") and (near := usage.near(word, known, SIMILAR)):
            raise UsageError(
                f"unknown option {word}; did you mean {near}? If {word} is an option of the "
                f"script, write -- before it: neuroncore run SCRIPT.py -- {word}"
            )


class _KeptRuns:
    """A document (`session.Document`) that keeps launches, and prints nothing."""

    def __init__(self) -> None:
        self.failure: dict[str, Any] | None = None
        self.runs: list[Run] = []

    def header(self) -> None:
        """Print nothing."""

    def add(self, run: Run, agreement: Agreement | None) -> None:
        self.runs.append(run)


def kept_run(arguments: argparse.Namespace, file: str) -> Run:
    """Run a file that launches one kernel, and return the launch.

    Raise KernelFailed if the kernel fails, and UsageError if the file launches no kernel or
    several."""
    kept, side = _KeptRuns(), argparse.Namespace(**{**vars(arguments), "file": file})
    launch(side, Session(side, kept, keeps=True), options(side))
    if kept.failure is not None:
        raise KernelFailed(kept.failure)
    if len(kept.runs) != 1:
        raise UsageError(f"{file} launches {len(kept.runs)} kernels: name one, {file}::KERNEL")
    return kept.runs[0]


def options(arguments: argparse.Namespace) -> Options:
    """Return the options of the environment, overridden by the command's options for the
    estimate."""
    return _overridden(environment_options(), arguments, ESTIMATED)
