"""The public names of the API's modules: documented names, without the implementation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from neuroncore.base.errors import did_you_mean

NOTHING: Mapping[str, str] = MappingProxyType({})


def api(space: dict[str, Any]) -> list[str]:
    """Return the names of a module that are not modules and don't begin with an underscore."""
    return [n for n, v in space.items() if n[0] != "_" and not isinstance(v, ModuleType)]


def unknown(
    module: str, name: str, known: Iterable[str], removed: Mapping[str, str] = NOTHING
) -> AttributeError:
    """Return the error for a name that a module doesn't have. `removed` has the replacements of
    names that earlier releases had."""
    hint = removed.get(name) or did_you_mean(name, known)
    return AttributeError(f"{module} has no {name!r}" + (f"; {hint}" if hint else ""))
