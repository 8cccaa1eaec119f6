"""neuroncore view: run a kernel or a script, and write the page that shows what happened."""

from __future__ import annotations

import argparse

from neuroncore.cli import run


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run FILE.py::KERNEL or FILE.py as `neuroncore run` does, and write what happened to one "
        "HTML file: timeline, source, steps, memory and figures."
    )
    parser.usage = (
        "neuroncore view FILE.py[::KERNEL] -o OUT.html [options of run] [[--] ARGUMENT ...]"
    )
    parser.allow_abbrev = False
    run.add_page(parser, "-o", "--html", required=True)
    run.add_running(parser)
    parser.set_defaults(json=False, trace=None)
