"""Placeholders for the vendor's packages that are missing: any name exists, and a call is refused.

Published modules import such kernels next to their own, wrap them in decorators, derive from them,
and use them as enumerations and defaults. All that works; only a use of their behavior does not.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from neuroncore.base import source
from neuroncore.base.errors import NotEmulated
from neuroncore.frontend.vendor.packages import SAME, Package, holding


class PlaceholderModule(ModuleType):
    """A module that has whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        made = missing(self.__name__, name)
        setattr(self, name, made)
        return made

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}, which exists only in the vendor's package>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`from neuronxcc.starfish.support import name` can't know if that is a module."""
        raise refusal(missing(*self.__name__.rpartition(".")[::2]))


class Absent(type):
    """The kind of a name that only the vendor's package has. It is a class, so that a published
    class can derive from it, an annotation name it, and isinstance ask for it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refused, unless it is named as a class: published modules make objects of classes for
        defaults, and using such an object is refused. A function that it decorates is refused
        when it is called."""
        if cls.__name__[:1].isupper():
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs and callable(args[0]):
            return cls
        raise refusal(cls)

    def __getattr__(cls, name: str) -> Any:
        """A member, as of an enumeration: the same object each time."""
        if _is_pythons(name):
            raise AttributeError(f"{spelt(cls)} has no {name!r}")
        made = _absent(cls.__module__, f"{cls.__qualname__}.{name}")
        setattr(cls, name, made)
        return made

    def __getitem__(cls, grid: Any) -> Any:
        """The same with a launch grid, or the parameters of a type."""
        return cls

    def __iter__(cls) -> Any:
        raise refusal(cls)

    def __repr__(cls) -> str:
        return f"<{spelt(cls)}, which exists only in the vendor's package>"


class Thing(metaclass=Absent):
    """An object of such a class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Whatever it takes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refusal(type(self))

    __getitem__ = __iter__ = __mul__ = __rmul__ = __call__

    def __getattr__(self, name: str) -> Any:
        if _is_pythons(name):
            raise AttributeError(f"{spelt(type(self))} has no {name!r}")
        raise refusal(type(self), f".{name}")


def missing(module: str, name: str) -> Any:
    """The placeholder of a name in a module. Raises AttributeError for Python's special names."""
    if _is_pythons(name):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if same := SAME.get(f"{module}.{name}"):
        return getattr(importlib.import_module(same[0]), same[1])
    return _absent(module, name)


def _absent(module: str, name: str) -> Absent:
    made = Absent(name.rpartition(".")[2], (Thing,), {"__module__": module})
    made.__qualname__ = name
    return made


def _is_pythons(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def spelt(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def refusal(cls: type, member: str = "") -> NotEmulated:
    """The error for a use of what isn't here, at the user's line, and where it is."""
    absent = next(base for base in cls.__mro__ if holding(base.__module__))
    package = holding(absent.__module__)
    assert package is not None
    frame = source.user_frame()
    at = ""
    if frame is not None and source.is_users(frame):
        at = f"{source.place(frame.f_code, source.instruction_of(frame))}: "
    lines = [f"{at}{spelt(absent)}{member} is not here"]
    lines += [f"  {label:9} {said}" for label, said in _where(package, absent)]
    return NotEmulated("\n".join(lines))


def _where(package: Package, absent: type) -> list[tuple[str, str]]:
    """Why it isn't here, and how to have it."""
    path = spelt(absent).removeprefix(f"{package.name}.")
    if package.repository is None or not package.is_public(path):
        return [("because", package.because)]
    return [
        ("because", f"its source is public, in {package.repository.url}"),
        ("hint", package.repository.advice),
    ]
