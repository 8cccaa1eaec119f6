"""neuroncore view: run a kernel or a script, and write one HTML page of the run, or serve it."""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
import webbrowser
from pathlib import Path

from neuroncore.base.errors import UsageError
from neuroncore.cli import captures, terminal
from neuroncore.cli.document import Document
from neuroncore.cli.run import add_page, add_running, finished
from neuroncore.cli.usage import (
    check_outputs,
    excludes,
    natural,
    needs,
    refuse_execution,
    resolve_world,
)
from neuroncore.view import document as documents
from neuroncore.view import server as serving

SECONDS = 0.3  # seconds between two checks of the files
ONCE = "--watch", "--open"  # options that apply to the first page only


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run FILE.py::KERNEL or FILE.py like `neuroncore run`, and write or serve one HTML page "
        "of the run: timeline, source, steps, memory, values and figures. Without -o and --serve "
        "the page is KERNEL.html or FILE.html in the current folder. A trace of a device (.ntff) "
        "or a compiled program (.neff) has such a page too, without values."
    )
    parser.usage = (
        "neuroncore view FILE.py[::KERNEL] [-o OUT.html | --serve] [options of run] [[--] "
        "ARGUMENT ...]"
    )
    parser.allow_abbrev = False
    add_page(parser, "-o", "--html")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="serve the page on this machine until Ctrl-C; the values of a step (one instruction) "
        "are computed when you open it, and links lead to earlier and later parts of a long run",
    )
    parser.add_argument(
        "--open", action="store_true", help="open the page in the browser of this machine"
    )
    parser.add_argument(
        "--line",
        type=natural,
        metavar="N",
        help="the source line at which the page opens, or the next line with instructions "
        "(default, and if there is none: the most expensive line)",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="write the page again when FILE.py or a Python file next to it changes, until "
        "Ctrl-C; an open page reloads when you return to it",
    )
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--port", type=natural, default=0, help="the port for --serve (default: any free port)"
    )
    needs(parser, port="serve")
    excludes(parser, "serve", "watch")
    add_running(parser)
    parser.set_defaults(json=False, trace=None, compiled=False, strict=False, command=view)


def view(arguments: argparse.Namespace) -> int:
    if not (arguments.html or arguments.serve):
        arguments.html = _default_page(arguments.file)
        check_outputs(arguments)
    if captures.named(arguments.file):
        return _view_capture(arguments)
    resolve_world(arguments, arguments.file)
    refuse_execution(arguments, arguments.file)
    if arguments.watch:
        return _watch(arguments)
    document = Document(arguments)
    code = finished(arguments, document)
    if arguments.serve and document.shown:
        _serve(document)
    return code


def _view_capture(arguments: argparse.Namespace) -> int:
    """Write the page of a trace, or of the estimate of a compiled program."""
    captures.refuse_others(arguments)
    captures.write_page(captures.load(arguments, arguments.file), arguments.html)
    if arguments.open:
        webbrowser.open(arguments.html.resolve().as_uri())
    return 0


def _default_page(file: str) -> Path:
    """Return the default file of a page.

    Raise UsageError if the file exists and is not a page of a run."""
    name, _, kernel = file.partition("::")
    path = Path(f"{kernel or Path(name).stem}.html")
    if path.exists() and not (path.is_file() and documents.SCHEMA.encode() in path.read_bytes()):
        raise UsageError(f"{path} exists and is not a page of a run: use -o OUT.html")
    return path


def _serve(document: Document) -> None:
    server = serving.Server(document.shown, document.arguments.port, document.opening)
    document.say(f"page       {server.url} (open it in a browser; Ctrl-C ends it)")
    if document.arguments.open:
        webbrowser.open(server.url)
    try:
        until_ended()
    except KeyboardInterrupt:
        server.close()


def until_ended() -> None:
    """Wait for KeyboardInterrupt; the server runs in other threads."""
    threading.Event().wait()


def _watch(arguments: argparse.Namespace) -> int:
    """Write the page again after each change of a Python file in the kernel's folder, until Ctrl-C.

    Each page is written by a new process, which imports the changed files."""
    folder = Path(arguments.file.partition("::")[0]).resolve().parent
    words = [word for word in arguments.words if word not in ONCE]
    opens = ["--open"] * arguments.open
    code = 0
    while True:
        before = _changes(folder)
        command = [sys.executable, "-m", "neuroncore", words[0], "--watched", *opens, *words[1:]]
        code, opens = subprocess.run(command, check=False).returncode, []
        if code == 2:
            return code  # wrong usage
        terminal.write(f"watching   {folder} (Ctrl-C ends it)")
        while _changes(folder) == before:
            time.sleep(SECONDS)


def _changes(folder: Path) -> dict[Path, int]:
    """Return the time of the last change of each Python file in a folder."""
    times = {}
    for path in folder.glob("*.py"):
        try:
            times[path] = path.stat().st_mtime_ns
        except OSError:  # an editor is replacing the file
            continue
    return times
