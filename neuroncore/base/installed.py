"""Versions of what is installed, by the names of folders: `importlib.metadata` reads their files,
for which it imports what mail is parsed with."""

from __future__ import annotations

import os
import sys
from typing import Any

from neuroncore.base.lazy import Lazy

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
