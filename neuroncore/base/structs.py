"""Data classes that are quick to define.

`dataclasses` writes six methods of each class as text and compiles them, which takes most of a
millisecond a class; the start of the command line defines 120. Here only `__init__` is text, and
is written when the class is first called; the other methods are made of functions.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, kw_only=False):
        """`dataclasses.dataclass` with fewer options, and without `InitVar`."""

        def define(cls: Any) -> Any:
            cls.__doc__ = cls.__doc__ or cls.__name__  # the library's has a signature
            dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only)
            methods = {"__init__": _init(cls, frozen)}
            methods |= {"__repr__": _repr} if repr else {}
            methods |= {"__setattr__": _frozen, "__delattr__": _frozen} if frozen else {}
            methods |= _comparing(cls, frozen) if eq else {}
            for name, method in methods.items():
                if vars(cls).get(name) is None:  # so is __hash__ beside an __eq__ of its own
                    setattr(cls, name, method)
            return cls

        return define if cls is None else define(cls)


def _init(cls: Any, frozen: bool) -> Any:
    def __init__(self: Any, *args: Any, **named: Any) -> None:
        cls.__init__ = _written(cls, frozen)
        cls.__init__(self, *args, **named)

    return __init__


def _written(cls: Any, frozen: bool) -> Any:
    """The `__init__` that takes the fields of a class."""
    fields = dataclasses.fields(cls)
    takes = [_parameter(field) for field in fields if field.init and not field.kw_only]
    named = [_parameter(field) for field in fields if field.init and field.kw_only]
    takes += ["*", *named] if named else []
    lines = [_assignment(field, frozen) for field in fields if field.init or _is_made(field)]
    lines += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    names: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    for field in fields:
        names[f"_{field.name}"] = field.default_factory if _is_made(field) else field.default
    exec(f"def __init__({', '.join(['self', *takes])}):\n " + "\n ".join(lines or ["pass"]), names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return names["__init__"]


def _is_made(field: Field[Any]) -> bool:
    return field.default_factory is not MISSING


def _parameter(field: Field[Any]) -> str:
    if _is_made(field):
        return f"{field.name}=_MISSING"
    return field.name if field.default is MISSING else f"{field.name}=_{field.name}"


def _assignment(field: Field[Any], frozen: bool) -> str:
    value = field.name
    if _is_made(field):
        value = f"_{value}() if {value} is _MISSING else {value}" if field.init else f"_{value}()"
    return f"_set(self, {field.name!r}, {value})" if frozen else f"self.{field.name} = {value}"


def _comparing(cls: Any, frozen: bool) -> dict[str, Any]:
    """`__eq__` and `__hash__`: of instances of one class, the fields in their order."""
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    values = attrgetter("__class__", *names)

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _repr(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


def _frozen(self: Any, name: str, *_: Any) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r}")
