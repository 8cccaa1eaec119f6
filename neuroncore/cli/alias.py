"""neuroncore alias-path: a folder that provides `import nki` to programs that start others."""

from __future__ import annotations

import argparse

from neuroncore.frontend.alias import PATH


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=alias_path)


def alias_path(_: argparse.Namespace) -> int:
    print(PATH)
    return 0
