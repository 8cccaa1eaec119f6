"""Modules imported at the first use of something in them: numba costs more than all the rest."""

from __future__ import annotations

import importlib
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
