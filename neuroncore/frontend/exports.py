"""What modules of the API let kernels see: what is documented, and nothing that makes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from neuroncore.base.errors import did_you_mean

NOTHING: Mapping[str, str] = MappingProxyType({})


def api(space: dict[str, Any]) -> list[str]:
    """The names of a module that are no modules themselves and don't begin with an underscore."""
    return [n for n, v in space.items() if n[0] != "_" and not isinstance(v, ModuleType)]


def unknown(
    module: str, name: str, known: Iterable[str], removed: Mapping[str, str] = NOTHING
) -> AttributeError:
    """The error for a name that a module doesn't have. `removed` says what takes the place of names
    that earlier releases had."""
    hint = removed.get(name) or did_you_mean(name, known)
    return AttributeError(f"{module} has no {name!r}" + (f"; {hint}" if hint else ""))
