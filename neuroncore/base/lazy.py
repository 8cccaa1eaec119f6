"""Proxies for modules, and versions of packages, for a quick start.

A proxy imports its module when a name of the module is first used. This matters because importing
numba takes longer than the rest of the start. Versions are read from the names of folders, because
`importlib.metadata` imports the parser of mail messages."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


class Lazy:
    """A proxy for a module, which is imported when one of its names is first used. The proxy stores
    the value of each used name, so a later use is only an attribute access."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value


def modules(package: str, names: str) -> dict[str, Lazy]:
    """Return proxies for modules of a package, by name. `names` lists the names, separated by
    spaces. A package's `__init__` can add the proxies to its globals."""
    return {name: Lazy(f"{package}.{name}") for name in names.split()}


metadata: Any = Lazy("importlib.metadata")
ENDING = ".dist-info"


def version(name: str) -> str:
    """Return the version of a distribution, from the name of its folder. Raise PackageNotFoundError
    if it isn't installed."""
    for place in sys.path:
        try:
            entries = os.listdir(place or ".")
        except OSError:  # an archive or a folder that doesn't exist
            continue
        for entry in entries:
            if entry.startswith(f"{name}-") and entry.endswith(ENDING):
                return entry[len(name) + 1 : -len(ENDING)]
    from_metadata: str = metadata.version(name)
    return from_metadata
