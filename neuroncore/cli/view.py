"""neuroncore view: run a kernel or a script, and write a page of the run."""

from __future__ import annotations

import argparse
import threading

from neuroncore.cli import run
from neuroncore.cli.document import Document
from neuroncore.cli.world import natural
from neuroncore.view import server as serving


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run FILE.py::KERNEL or FILE.py like `neuroncore run`, and write or serve one HTML page "
        "of the run: timeline, source, steps, memory, values and figures."
    )
    parser.usage = (
        "neuroncore view FILE.py[::KERNEL] -o OUT.html | --serve [options of run] [[--] "
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
        arguments.parser.error("no output given: use -o OUT.html or --serve")
    document = Document(arguments)
    code = run.finished(arguments, document)
    if arguments.serve and document.shown:
        _serve(document, arguments.port)
    return code


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
