"""Captures of devices: traces and compiled programs, which commands accept instead of kernels.

Also neuroncore neff, which compares a program of the device's compiler with neuroncore's."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuroncore.base.errors import UsageError
from neuroncore.base.lazy import Lazy
from neuroncore.base.units import duration, size
from neuroncore.capture.files import is_capture
from neuroncore.cli import executing, terminal
from neuroncore.cli.run import ESTIMATED, add_launches, kept_run
from neuroncore.cli.usage import add_output, excludes, is_given, needs, option, telling

if TYPE_CHECKING:
    from neuroncore.capture import difference as differing
    from neuroncore.capture import listing, sides
    from neuroncore.capture import neff as programs
    from neuroncore.capture import run as capturing
    from neuroncore.capture.run import Measured
    from neuroncore.hosts.api import Run
    from neuroncore.time.timeline import Timeline
    from neuroncore.view import page as pages
else:
    capturing = Lazy("neuroncore.capture.run")
    differing = Lazy("neuroncore.capture.difference")
    listing = Lazy("neuroncore.capture.listing")
    programs = Lazy("neuroncore.capture.neff")
    sides = Lazy("neuroncore.capture.sides")
    pages = Lazy("neuroncore.view.page")


SCHEMA = "neuroncore.capture/1"
# options of a kernel, which a command about a file from a device runs only with --source
OF_KERNEL = dict.fromkeys(("args", "inputs", *ESTIMATED), "source")
# A kernel belongs to a capture if at least this share of the capture's computations match
# computations of the kernel. For the traces of bench/traces.csv, the share is 0.97 or more.
MATCHED = 0.75
# by the writer of DMA descriptors, in kernels of the older API: whether it writes before the run
STATIC = {"compiler": True, "device": False}
# arguments that have an effect on a file from a device
OF_CAPTURE = ("file", "neff", "top", "json", "html", "open", "answers", "time_limit")
OF_SCRIPT = ("words", "others", "behind")  # words of the command that may be a script's arguments
WHY_SCHEMA = "neuroncore.why-launches/1"  # of `neuroncore why --json`


def named(text: str) -> bool:
    """Return whether an argument names a capture of a device, and not a kernel."""
    return is_capture(Path(text))


def add_import(actions: Any) -> None:
    """Add to `neuroncore profile` the action that imports files of the vendor's tools."""
    parser = actions.add_parser(
        "import",
        help="read a trace of a device (.ntff), or the JSON of neuron-profile view",
        description="Print the figures of a measured run with the profiler's names. `neuroncore "
        "why` and `neuroncore diff` take the same files. docs/capture.md explains the figures.",
    )
    parser.add_argument("file", metavar="FILE.ntff", help="the trace, or the profiler's JSON")
    add_program(parser)
    parser.add_argument(
        "--source",
        metavar="FILE.py::KERNEL",
        help="the kernel that was traced. It is run with --args or --inputs, and then the report "
        "names lines of its source instead of statements of the compiled program",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    add_output(parser, "--trace", metavar="OUT.json", help="write a timeline for Perfetto")
    add_output(
        parser,
        "--html",
        metavar="OUT.html",
        help="write an HTML page of the run, as `neuroncore view` does",
    )
    add_launches(parser, named=False)
    needs(parser, **OF_KERNEL)
    parser.set_defaults(command=import_, is_script=lambda _: False)


def add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--neff",
        type=Path,
        metavar="FILE.neff",
        help="the compiled program of the trace, if the command reads a trace of a device. It "
        "contains the names that the compiler gave to instructions (default: the file next to the "
        "trace with the same name)",
    )


def load(arguments: argparse.Namespace, file: str) -> Measured:
    """Return the capture in a file, with the compiled program if the command names one."""
    capture: Measured = capturing.load(Path(file), getattr(arguments, "neff", None))
    return capture


def refuse_program(arguments: argparse.Namespace) -> None:
    """Raise UsageError for --neff if the command names no capture to which it could belong."""
    if arguments.neff is not None:
        raise UsageError("--neff is only for a trace of a device (.ntff)")


def refuse_others(arguments: argparse.Namespace) -> None:
    """Raise UsageError for arguments that have no effect on a capture: options of a run and of an
    estimate, and arguments of a script."""
    for name in vars(arguments):
        if name not in (*OF_CAPTURE, *OF_SCRIPT) and is_given(arguments, name):
            what = f"{arguments.file} is from a device"
            raise UsageError(f"{what}, but {option(name)} is only for kernels")
    for word in (*arguments.others, *arguments.behind):
        hint = "`neuroncore profile import` has --source, --trace and --html"
        raise UsageError(
            f"{arguments.file} is a capture from a device; {word} is not allowed with it: {hint}"
        )


def import_(arguments: argparse.Namespace) -> int:
    if not Path(arguments.file).exists():
        raise UsageError(f"there is no file {arguments.file}")
    if arguments.file.endswith(".neff"):
        hint = "`neuroncore why` estimates it, `neuroncore neff` lists it"
        raise UsageError(f"{arguments.file} is a compiled program, not a trace: {hint}")
    capture = load(arguments, arguments.file)
    if arguments.source:
        run = kept_run(with_target(arguments, target_of(capture)), arguments.source)
        capture = _at_source(capture, run)
    if arguments.trace:
        _write_trace(capture, arguments.trace)
    if arguments.html:
        write_page(capture, arguments.html)
    reasons = capture.why()
    document = {"schema": SCHEMA, "kernel": capture.kernel, "summary": capture.summary}
    document |= {"why": reasons.to_dict()}
    lines = *_figures(capture, _with_unit), "", *str(reasons).splitlines()[1:]
    terminal.answer(arguments, document, lines)
    return 0


def difference(arguments: argparse.Namespace, old: Any, new: Any) -> int:
    """Execute `neuroncore diff` if at least one side is a capture. The other side may be a Run."""
    sides, shown = [], []
    for run, other in ((old, new), (new, old)):
        if hasattr(run, "timelines"):  # a Run; a capture has none
            shown.append(run)
            sides.append(differing.estimated(run.kernel, slowest(run)))
        else:
            joined = _at_source(run, other) if hasattr(other, "timelines") else run
            shown.append(joined)
            sides.append(joined.side)
    report(arguments, differing.compared(*sides), *shown)
    return 0


def report(arguments: argparse.Namespace, comparison: Any, *runs: Any) -> None:
    """Print a comparison, and write its page if the command has --html. `runs` are its two sides,
    Runs or captures."""
    document = comparison.to_dict()
    if (path := arguments.html) is not None:
        old, new = (_side(run, arguments.answers) for run in runs)
        with telling(path):
            pages.of_sides(old, new, document).save(path)
    terminal.answer(arguments, document, [str(comparison)])


def _side(run: Any, answers: bool) -> pages.PageSide:
    """Return a side of a comparison for a page, from a Run or a capture.

    Without `answers`, the page of a Run hides the bottleneck and the advice."""
    if hasattr(run, "timelines"):
        return pages.PageSide(launch=run.shown(None, answers))
    cores, files = run.shown()
    return pages.PageSide(cores=cores, files=files)


def _at_source(capture: Measured, run: Run) -> Measured:
    """Return the capture with the source lines of `run`, a run of the same kernel.

    Print a warning if few computations of the captured profile match computations of `run`. Also
    print a warning if DMA descriptors were written before the captured run, but the estimate writes
    them during the run, or the other way around."""
    timeline = slowest(run)
    joined: Measured = capture.at_source(timeline)
    matched, count = joined.matched
    if matched < MATCHED * count:
        print(
            f"neuroncore: only {matched:,} of {count:,} computations of {capture.kernel} match "
            f"{run.kernel}: check that this is the traced kernel, with the same arguments and "
            "flags",
            file=sys.stderr,
        )
    writer = timeline.compiled.policy.writer(timeline.machine)
    if writer in STATIC and capture.is_static not in (None, STATIC[writer]):
        print(
            f"neuroncore: the DMA descriptors of {capture.kernel} were written "
            f"{'before' if capture.is_static else 'while'} it ran, but for the estimate "
            f"NEURON_CC_FLAGS has {'no ' if capture.is_static else ''}--disable-dge",
            file=sys.stderr,
        )
    return joined


def target_of(capture: Measured) -> str:
    """Return the name of the machine of a capture; "" for an unknown one."""
    return capture.machine.name if capture.machine is not None else ""


def slowest(run: Run) -> Timeline:
    """Return the timeline of a Run's slowest core."""
    return max(run.timelines, key=lambda timeline: timeline.total_ns)


def view(arguments: argparse.Namespace) -> int:
    """Execute `neuroncore profile view` for a session file that is a trace of a device."""
    arguments.neff = arguments.neff_path
    capture, form = load(arguments, str(arguments.session_file)), arguments.output_format
    if form == "perfetto":
        _write_trace(capture, arguments.output_file or Path("perfetto.json"))
        return 0
    text = "\n".join(_figures(capture))
    if form in ("summary-json", "json"):
        figures = {capture.kernel: capture.summary}
        tables = {"summary": [capture.summary], "why": capture.why().to_dict()}
        text = json.dumps(figures if form == "summary-json" else tables)
    if arguments.output_file is None:
        terminal.write(text)
    else:
        arguments.output_file.write_text(text + "\n", "utf-8")
    return 0


def _write_trace(capture: Measured, path: Path) -> None:
    with telling(path):
        capture.trace(path)


def write_page(capture: Measured, path: Path) -> None:
    """Write the page of a capture. Raises UsageError if nothing was traced or the file can't be
    written."""
    cores, files = capture.shown()
    if not cores:
        raise UsageError("no instruction of a kernel was traced")
    with telling(path):
        pages.of_measured(cores, files).save(path)


def _figures(capture: Measured, text: Callable[[str, Any], str] | None = None) -> list[str]:
    """Return a line for each figure, in alphabetical order.

    `text` returns the text of a figure. If `text` is None, figures are plain numbers, as in the
    vendor's `neuron-profile view`."""
    summary = capture.summary
    width = max(map(len, summary))
    values = {
        name: text(name, summary[name]) if text else summary[name] for name in sorted(summary)
    }
    return [capture.kernel, *(f"    {name:{width}}  {value}" for name, value in values.items())]


def _with_unit(name: str, value: Any) -> str:
    """Return a figure as text, in the unit that its name implies. Times are in seconds."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_with_unit(key, each)}" for key, each in value.items())
    if isinstance(value, bool | str):
        return str(value)
    if name.endswith("_percent"):
        return f"{value:.1%}"
    if name.endswith("_time"):
        return duration(value * 1e9)
    if "_bytes" in name or name.endswith("_size"):
        return size(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print a compiled program (.neff): instructions of each engine, DMA blocks, queues, and "
        "the map of SBUF. With --source, compare it by line with the compiled program of "
        "neuroncore. With --execute, execute it. docs/capture.md explains the output."
    )
    parser.allow_abbrev = False
    parser.add_argument("neff", metavar="FILE.neff")
    parser.add_argument(
        "--source", metavar="FILE.py::KERNEL", help="the kernel from which the program was compiled"
    )
    parser.add_argument("--all", action="store_true", help="list all instructions")
    executing.add_to(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    add_launches(parser, named=False)
    needs(parser, **OF_KERNEL, tolerance="expect")
    excludes(parser, "source", "all")
    parser.set_defaults(command=neff, is_script=lambda _: False)


def neff(arguments: argparse.Namespace) -> int:
    if Path(arguments.neff).suffix in (".ntff", ".json"):
        hint = "`neuroncore why` and `neuroncore profile import` read it"
        raise UsageError(f"{arguments.neff} is a trace, not a compiled program: {hint}")
    program = programs.load(Path(arguments.neff))
    if executing.asked(arguments):
        code: int = executing.execute(arguments, program)
        return code
    rows: list[Any] | None = None
    if arguments.source:
        run = kept_run(with_target(arguments, program.target), arguments.source)
        rows = sides.side_rows(program, slowest(run))
    # only with --json, because the document has all instructions
    document = listing.document(program) if arguments.json else {}
    document |= {"beside": [row.to_dict() for row in rows]} if rows is not None else {}
    lines = sides.text(rows) if rows is not None else listing.text(program, arguments.all)
    terminal.answer(arguments, document, lines)
    return 0


def with_target(arguments: argparse.Namespace, target: str) -> argparse.Namespace:
    """Return the arguments with this machine, unless the command names a machine."""
    return argparse.Namespace(**{**vars(arguments), "target": arguments.target or target})
