"""What modules of the API let kernels see: what is documented, and nothing that makes it."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from neuroncore.errors import did_you_mean


def api(space: dict[str, Any]) -> list[str]:
    """The names of a module that are no modules themselves and don't begin with an underscore."""
    return [n for n, v in space.items() if n[0] != "_" and not isinstance(v, ModuleType)]


def unknown(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a module doesn't have."""
    hint = did_you_mean(name, known)
    return AttributeError(f"{module} has no {name!r}" + (f"; {hint}" if hint else ""))
