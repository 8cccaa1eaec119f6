"""neuroncore docs: the documentation site, which is installed with the package and needs no
network."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

import neuroncore
from neuroncore.base.errors import UsageError

HOME = Path(neuroncore.__file__).parent / "site" / "html" / "index.html"
BUILD = "pip install -e '.[docs]' && python -m sphinx -M html docs neuroncore/site -W"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--path", action="store_true", help="print the path of the documentation, and open nothing"
    )
    parser.set_defaults(command=docs)


def docs(arguments: argparse.Namespace) -> int:
    """Open the site in a browser. Raises UsageError if the site has not been built."""
    if not HOME.exists():
        raise UsageError(f"the documentation is not built; in a clone, build it: {BUILD}")
    print(HOME)
    if not arguments.path and not webbrowser.open(HOME.as_uri()):
        print("no browser was found; open this file in one")
    return 0
