"""Which API a kernel is written in, from the names that its code uses."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, ModuleType
from typing import Any, Literal

Dialect = Literal["nki", "neuronxcc.nki"]
# How modules of each are called: as users import them, and as they call themselves.
MODULES: dict[Dialect, tuple[str, ...]] = {
    "nki": ("nki", "nkilib", "neuroncore.frontend.nki"),
    "neuronxcc.nki": ("neuronxcc", "neuroncore.frontend.neuronxcc"),
}


def dialect(function: Callable[..., Any]) -> Dialect | None:
    """The API of which a kernel uses names, or else its module has; None if that is none or both.

    `import neuronxcc.nki.language as nl` in a module tells that a function of it which says
    `nl.load` is of the older API, be it decorated or not.
    """
    while isinstance(function, functools.partial):
        function = function.func
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return None
    space = function.__globals__
    return _only(_used(code, space)) or _only(
        home for value in space.values() for home in _homes(value)
    )


def _used(code: CodeType, space: dict[str, Any]) -> Iterator[str]:
    """The modules of the global names that code and the functions in it use, and of its imports."""
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL" and step.argval in space:
            yield from _homes(space[step.argval])
        elif step.opname == "IMPORT_NAME":
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _used(inner, space)


def _homes(value: Any) -> Iterator[str]:
    """The module that a value is, or those in which it and its type are defined."""
    if isinstance(value, ModuleType):
        yield value.__name__
    else:
        yield str(getattr(value, "__module__", ""))
        yield type(value).__module__


def _only(homes: Iterable[str]) -> Dialect | None:
    """The one API that modules are of."""
    homes = {f"{home}." for home in homes}
    found: list[Dialect] = [
        name
        for name, modules in MODULES.items()
        if any(home.startswith(f"{module}.") for home in homes for module in modules)
    ]
    return found[0] if len(found) == 1 else None
