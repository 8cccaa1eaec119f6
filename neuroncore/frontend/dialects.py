"""The two APIs, called dialects: which API a kernel uses, how kernels are pickled, and the public
names of a module."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Literal, SupportsIndex

from neuroncore.base.errors import did_you_mean

Dialect = Literal["nki", "neuronxcc.nki"]
# The packages of each API: the names that users import, and the `__name__` of neuroncore's package
MODULES: dict[Dialect, tuple[str, ...]] = {
    "nki": ("nki", "nkilib", "neuroncore.frontend.nki"),
    "neuronxcc.nki": ("neuronxcc", "neuroncore.frontend.neuronxcc"),
}


def dialect(function: Callable[..., Any]) -> Dialect | None:
    """Return the API that a kernel is written for, or None if it is unknown.

    The names that the kernel uses decide: a function that uses `nl.load` of
    `neuronxcc.nki.language` belongs to the older API, decorated or not. If they are of neither API,
    or of both, all names of its module decide, and then the names in the functions that it
    calls."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)  # the function of a method
    if not isinstance(function, FunctionType):
        return None
    space = function.__globals__
    return (
        _only(_used(function.__code__, space))
        or _only(home for value in space.values() for home in _homes(value))
        or _only(home for f in _called(function) for home in _used(f.__code__, f.__globals__))
    )


def _called(function: FunctionType) -> Iterable[FunctionType]:
    """Return a function and all functions that it calls by global names, directly or indirectly."""
    reached = {function: None}
    waiting = [function]
    while waiting:
        space = (caller := waiting.pop()).__globals__
        for step in _steps(caller.__code__):
            named = space.get(step.argval) if step.opname == "LOAD_GLOBAL" else None
            if isinstance(named, FunctionType) and named not in reached:
                reached[named] = None
                waiting.append(named)
    return reached


def _used(code: CodeType, space: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the modules that `code` and its nested functions use, through global names
    and imports."""
    for step in _steps(code):
        if step.opname == "LOAD_GLOBAL" and step.argval in space:
            yield from _homes(space[step.argval])
        elif step.opname == "IMPORT_NAME":
            yield step.argval


def _steps(code: CodeType) -> Iterator[dis.Instruction]:
    """Yield the bytecode instructions of `code` and of its nested functions."""
    yield from dis.get_instructions(code)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _steps(inner)


def _homes(value: Any) -> Iterator[str]:
    """Yield the name of `value` if it is a module. Otherwise yield the names of the modules that
    define `value` and its type."""
    if isinstance(value, ModuleType):
        yield value.__name__
    else:
        yield str(getattr(value, "__module__", ""))
        yield type(value).__module__


def _only(homes: Iterable[str]) -> Dialect | None:
    """Return the API to which some of these modules belong. Return None if modules belong to both
    APIs, or to neither."""
    homes = {f"{home}." for home in homes}
    names: list[Dialect] = [
        name
        for name, modules in MODULES.items()
        if any(home.startswith(f"{module}.") for home in homes for module in modules)
    ]
    return names[0] if len(names) == 1 else None


def takes_self(function: Callable[..., Any]) -> bool:
    """Return whether the first parameter of a function is `self` or `cls`.

    Without it, `self.kernel(x)` passes only x to a kernel of a class, because the vendor's
    decorator makes an object that Python does not bind as a method (corelab-src/nki-llama)."""
    return next(iter(inspect.signature(function).parameters), None) in ("self", "cls")


class PickledByName:
    """A base class of kernels, which are pickled and copied by name, like functions. A kernel that
    its module lacks under the name of its function, such as `kernel = nki.jit(function)`, is
    pickled with its attributes."""

    function: Callable[..., Any]

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        name: str = getattr(self.function, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self.function, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else super().__reduce_ex__(protocol)


NOTHING: Mapping[str, str] = MappingProxyType({})


def api(space: dict[str, Any]) -> list[str]:
    """Return the public names in a module's namespace: no modules, and no names with a leading
    underscore."""
    return [n for n, v in space.items() if n[0] != "_" and not isinstance(v, ModuleType)]


def unknown(
    module: str, name: str, known: Iterable[str], removed: Mapping[str, str] = NOTHING
) -> AttributeError:
    """Return the error for a name that a module doesn't have.

    `removed`: hints about replacements, by names of earlier releases

    A name with a leading underscore gets no suggestion, which would take a millisecond: tools such
    as pytest often look for such names (`__test__`)."""
    near = None if name.startswith("_") else did_you_mean(name, known)
    hint = removed.get(name) or near
    return AttributeError(f"{module} has no {name!r}" + (f"; {hint}" if hint else ""))
