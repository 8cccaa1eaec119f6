"""The start stays quick: modules are imported at the first use of something in them (numba costs
more than all the rest), and versions of packages are read from the names of folders, because
`importlib.metadata` imports the parser of mail messages to read their files."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


class Lazy:
    """A proxy that imports its module when one of its names is first used.

    A name is kept after its first use, so the second use costs an attribute access.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value


def modules(package: str, names: str) -> dict[str, Lazy]:
    """The modules of a package with these names, separated by spaces, for its `__init__`: each is
    imported at its first use."""
    return {name: Lazy(f"{package}.{name}") for name in names.split()}


metadata: Any = Lazy("importlib.metadata")
ENDING = ".dist-info"


def version(name: str) -> str:
    """The version of a distribution, by the name of its folder. Raises PackageNotFoundError if
    there is none."""
    for place in sys.path:
        try:
            entries = os.listdir(place or ".")
        except OSError:  # an archive, or nothing
            continue
        for entry in entries:
            if entry.startswith(f"{name}-") and entry.endswith(ENDING):
                return entry[len(name) + 1 : -len(ENDING)]
    found: str = metadata.version(name)
    return found
