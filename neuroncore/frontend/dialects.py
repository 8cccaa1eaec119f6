"""Which API a kernel is written in, from the names that its code uses."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal

Dialect = Literal["nki", "neuronxcc.nki"]
# How modules of each are called: as users import them, and as they call themselves.
MODULES: dict[Dialect, tuple[str, ...]] = {
    "nki": ("nki", "nkilib", "neuroncore.frontend.nki"),
    "neuronxcc.nki": ("neuronxcc", "neuroncore.frontend.neuronxcc"),
}


def dialect(function: Callable[..., Any]) -> Dialect | None:
    """The API of which a kernel uses names, or else its module has, or else functions that it calls
    are written in; None if that is none or both.

    `import neuronxcc.nki.language as nl` in a module tells that a function of it which says
    `nl.load` is of the older API, be it decorated or not.
    """
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)  # of a method
    if not isinstance(function, FunctionType):
        return None
    space = function.__globals__
    return (
        _only(_used(function.__code__, space))
        or _only(home for value in space.values() for home in _homes(value))
        or _only(home for f in _called(function) for home in _used(f.__code__, f.__globals__))
    )


def _called(function: FunctionType) -> Iterable[FunctionType]:
    """A function, those that it calls by global names, those that these call, and so on."""
    found = {function: None}
    waiting = [function]
    while waiting:
        space = (caller := waiting.pop()).__globals__
        for step in _steps(caller.__code__):
            named = space.get(step.argval) if step.opname == "LOAD_GLOBAL" else None
            if isinstance(named, FunctionType) and named not in found:
                found[named] = None
                waiting.append(named)
    return found


def _used(code: CodeType, space: dict[str, Any]) -> Iterator[str]:
    """The modules of the global names that code and the functions in it use, and of its imports."""
    for step in _steps(code):
        if step.opname == "LOAD_GLOBAL" and step.argval in space:
            yield from _homes(space[step.argval])
        elif step.opname == "IMPORT_NAME":
            yield step.argval


def _steps(code: CodeType) -> Iterator[dis.Instruction]:
    """The bytecode of code and of the functions in it."""
    yield from dis.get_instructions(code)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _steps(inner)


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


def takes_self(function: Callable[..., Any]) -> bool:
    """Whether a function is written as a method, or as one of a class.

    A kernel in a class that is not is called as an attribute, without the object: the vendor's
    decorator makes an object that classes don't bind (corelab-src/nki-llama)."""
    return next(iter(inspect.signature(function).parameters), None) in ("self", "cls")
