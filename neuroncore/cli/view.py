"""neuroncore view: run a kernel or a script, and write the page that shows what happened."""

from __future__ import annotations

import argparse
import threading
from typing import Any

from neuroncore.base.lazy import Lazy
from neuroncore.cli import run
from neuroncore.cli.document import Document
from neuroncore.cli.world import natural

serving: Any = Lazy("neuroncore.view.server")


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run FILE.py::KERNEL or FILE.py as `neuroncore run` does, and write what happened to one "
        "HTML file, or serve it: timeline, source, steps, memory, values and figures."
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
        help="serve the page on this machine until Ctrl-C: what tiles held is made by replaying "
        "the run when a step is looked at, and long runs are gone through window by window",
    )
    parser.add_argument(
        "--port", type=natural, default=0, help="of --serve (default: one that is free)"
    )
    run.add_running(parser)
    parser.set_defaults(json=False, trace=None, compiled=False, strict=False, command=view)


def view(arguments: argparse.Namespace) -> int:
    if not (arguments.html or arguments.serve):
        arguments.parser.error("say where: -o/--html OUT.html or --serve")
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
    """Raises KeyboardInterrupt when the user ends it."""
    threading.Event().wait()
