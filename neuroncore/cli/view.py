"""neuroncore view: run a kernel or a script, and write a page of the run."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from neuroncore.base.errors import UsageError
from neuroncore.cli import run
from neuroncore.cli.arguments import natural
from neuroncore.cli.document import Document
from neuroncore.view import server as serving
from neuroncore.view.document import SCHEMA


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run FILE.py::KERNEL or FILE.py like `neuroncore run`, and write or serve one HTML page "
        "of the run: timeline, source, steps, memory, values and figures. Without -o and --serve "
        "the page is KERNEL.html or FILE.html in the current folder."
    )
    parser.usage = (
        "neuroncore view FILE.py[::KERNEL] [-o OUT.html | --serve] [options of run] [[--] "
        "ARGUMENT ...]"
    )
    parser.allow_abbrev = False
    run.add_page(parser, "-o", "--html")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="serve the page on this machine until Ctrl-C; values of a step are computed by a "
        "replay when you look at it, and long runs can be browsed by windows",
    )
    parser.add_argument(
        "--port", type=natural, default=0, help="the port for --serve (default: a free one)"
    )
    run.add_running(parser)
    parser.set_defaults(json=False, trace=None, compiled=False, strict=False, command=view)


def view(arguments: argparse.Namespace) -> int:
    if not (arguments.html or arguments.serve):
        arguments.html = _usual(arguments.file)
    document = Document(arguments)
    code = run.finished(arguments, document)
    if arguments.serve and document.shown:
        _serve(document, arguments.port)
    return code


def _usual(file: str) -> Path:
    """Return the usual file of a page. Raise UsageError if it exists and is not such a page."""
    name, _, kernel = file.partition("::")
    path = Path(f"{kernel or Path(name).stem}.html")
    if path.exists() and not (path.is_file() and SCHEMA.encode() in path.read_bytes()):
        raise UsageError(f"{path} exists and is not a page of a run: use -o OUT.html")
    return path


def _serve(document: Document, port: int) -> None:
    server = serving.Server(document.shown, port)
    document.say(f"page       {server.url} (open it in a browser; Ctrl-C ends it)")
    try:
        until_ended()
    except KeyboardInterrupt:
        server.close()


def until_ended() -> None:
    """Serve until KeyboardInterrupt."""
    threading.Event().wait()
