"""neuroncore profile: saved runs, with the commands of the vendor's neuron-profile."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuroncore.base.errors import UsageError
from neuroncore.base.lazy import Lazy
from neuroncore.base.progress import progress
from neuroncore.base.units import duration
from neuroncore.cli import captures
from neuroncore.cli.usage import add_output, telling
from neuroncore.report import saved
from neuroncore.report.saved import Document

if TYPE_CHECKING:
    from neuroncore.view import page as viewing
else:
    viewing = Lazy("neuroncore.view.page")

FORMATS = ("summary-text", "summary-json", "json", "perfetto")
# outputs that are too long for a terminal
FILES = {"json": "ntff.json", "perfetto": "perfetto.json"}
SHOWN = 20  # the largest number of source lines


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The commands of neuron-profile, for runs saved by neuroncore, and `import` for runs that "
        "neuron-profile measured on a device."
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add_capture(actions)
    _add_view(actions)
    captures.add_import(actions)


def _add_capture(actions: Any) -> None:
    parser = actions.add_parser(
        "capture",
        help="write the profile of a saved run to a file",
        description="Write the profile of a saved run to a file. Nothing runs again: the profile "
        "was estimated when the kernel ran, and all executions take the same time.",
    )
    _add_files(parser)
    parser.add_argument(
        "--num-exec", type=_count, default=1, metavar="N", help="number of executions"
    )
    parser.add_argument(
        "--profile-nth-exec",
        type=_count,
        default=1,
        metavar="N",
        help="keep executions N, 2N, 3N, ...: execution 1 is NAME.ntff, execution K is "
        "NAME_exec_K.ntff",
    )
    parser.add_argument(
        "--enable-dge-notifs",
        action="store_true",
        help="has no effect; accepted because neuron-profile has this option",
    )
    parser.set_defaults(command=capture)


def _add_view(actions: Any) -> None:
    parser = actions.add_parser("view", help="print the figures of a saved run")
    _add_files(parser)
    parser.add_argument(
        "--output-format",
        choices=FORMATS,
        help="the format of the figures; perfetto writes a timeline that ui.perfetto.dev opens "
        "(default: summary-text, and a page X.html for X.neff)",
    )
    add_output(
        parser, "--output-file", metavar="FILE", help="write to this file instead of printing"
    )
    parser.add_argument("--disable-ui", action="store_true", help="write no page")
    parser.add_argument(
        "--no-answers",
        dest="answers",
        action="store_false",
        help="hide the bottleneck and the advice on the page (for coursework)",
    )
    parser.set_defaults(command=view)


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--neff-path", type=Path, metavar="X.neff", help="the program of a saved run"
    )
    parser.add_argument(
        "-s", "--session-file", type=Path, metavar="X.ntff", help="the profile of the run"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of executions")
    return int(text)


def capture(arguments: argparse.Namespace) -> int:
    if arguments.neff_path is None:
        raise UsageError("give the saved run with -n X.neff")
    trace = arguments.session_file or Path("profile.ntff")
    if not trace.parent.is_dir():
        raise UsageError(f"there is no folder {trace.parent}")
    executions, nth = arguments.num_exec, arguments.profile_nth_exec
    for path in saved.capture(arguments.neff_path, trace, executions, nth):
        print(f"wrote {path}: neuroncore's estimate from when the kernel ran", file=sys.stderr)
    return 0


def view(arguments: argparse.Namespace) -> int:
    if arguments.session_file and captures.named(str(arguments.session_file)):
        return captures.view(arguments)
    neff, profile = _documents(arguments.neff_path, arguments.session_file)
    if not arguments.answers:
        for core in profile["profile"]["cores"]:
            core["figures"].pop("bound_by", None)
    form = arguments.output_format or "summary-text"
    text = {
        "summary-text": lambda: "\n".join(_text(profile, neff)),
        # in one line, because scripts read it
        "summary-json": lambda: json.dumps(saved.summaries(profile)),
        "json": lambda: json.dumps(_tables(profile, neff)),
        "perfetto": lambda: json.dumps(_timeline(profile)),
    }[form]()
    file = arguments.output_file or (Path(FILES[form]) if form in FILES else None)
    if file is None:
        print(text)
    else:
        with telling(file):
            file.write_text(text + "\n")
    if neff and neff.get("record") and not (arguments.output_format or arguments.disable_ui):
        page = arguments.neff_path.with_suffix(".html")
        timelines = saved.timelines(arguments.neff_path)
        shown = viewing.Shown(neff["kernel"], timelines, [], answers=arguments.answers)
        with telling(page), progress(lambda: f"writing {page}"):
            viewing.page([shown]).save(page)
    return 0


def _documents(neff: Path | None, trace: Path | None) -> tuple[Document | None, Document]:
    """Return (the saved run, the profile) from the files `neff` and `trace`.

    Without `neff`, the saved run is None. Without `trace`, the saved run is also the profile. Raise
    UsageError if both are missing, or if the files are of different runs."""
    run = saved.read(neff, "neff") if neff else None
    profile = saved.read(trace, "ntff") if trace else run
    if profile is None:
        raise UsageError("give the saved run with -n X.neff, its profile with -s X.ntff, or both")
    if run is not None and run["id"] != profile["id"]:
        raise UsageError(f"{neff} and {trace} are of different runs: save both again")
    return run, profile


def _text(profile: Document, neff: Document | None) -> Iterator[str]:
    """Yield a line for each field and its value, in alphabetical order like the vendor's tool.

    Then yield tables of the instructions and of the source lines."""
    for name, fields in saved.summaries(profile).items():
        width = max(map(len, fields))
        yield name
        yield from (f"    {field:{width}}  {fields[field]}" for field in sorted(fields))
    if neff is not None:
        yield ""
        yield from _table("instructions", neff["instructions"], ("engine", "opcode", "name"))
        yield ""
        left_out = len(neff["lines"][SHOWN:]) + neff["lines_left_out"]
        yield from _table("source lines", neff["lines"][:SHOWN], ("place", "text"))
        yield from [f"and {left_out} more"] if left_out else []


def _table(title: str, rows: list[Document], columns: tuple[str, ...]) -> Iterator[str]:
    """Yield a table with counts, estimated total times, and the given columns."""
    yield f"{title}: count, total time (estimate)"
    cells = [
        (str(r["count"]), duration(r["instruction_time"] * 1e9), *(r[c] for c in columns))
        for r in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [f"{cell:{width}}" for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield f"    {row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {'  '.join(padded)}".rstrip()


def _tables(profile: Document, neff: Document | None) -> Document:
    rows = {name: neff[name] for name in ("instructions", "lines")} if neff else {}
    return {"summary": [*saved.summaries(profile).values()], **rows}


def _timeline(profile: Document) -> Document:
    contents = profile["profile"]
    if contents["trace"] is None:
        raise UsageError(
            f"the timeline was not saved: {contents['instructions']:,} instructions are more than "
            f"{saved.TRACED}; use `neuroncore run --trace OUT.json`"
        )
    return {"traceEvents": contents["trace"], "displayTimeUnit": "ns"}
