"""The values of rows and the results of kernels as JSON (`record.inputs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuroncore.base.errors import UsageError
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.record.call_json import are_dims, plain, value
from neuroncore.record.inputs import NUMBERS, Leaf, is_number, value_of, zero


def plain_values(key: tuple[Any, ...]) -> list[Any]:
    """The values of a key of `Data.values`."""
    return [_plain_value(*pair) for pair in zip(key[::2], key[1::2], strict=True)]


def _plain_value(given: Any, kind: type[Any]) -> Any:
    if issubclass(kind, Tile):
        return {"tile": None}
    if kind is VirtualRegister:
        return {"register": given}
    found = value_of(given, kind)
    return _plain_number(found) if isinstance(found, np.generic) else plain(found)


def _plain_number(given: Any) -> dict[str, Any]:
    return {"number": [type(given).__name__, plain(given)]}


def _number(given: Any) -> Any:
    name, number = given
    return NUMBERS[name](value(number))


def key_of(given: list[Any]) -> tuple[Any, ...]:
    """The key that `plain_values` was given."""
    found: list[Any] = []
    for one in given:
        what = one if isinstance(one, dict) else {}
        if "tile" in what:
            found += [None, Tile]
        elif "register" in what:
            found += [int(what["register"]), VirtualRegister]
        elif "number" in what:
            made = _number(what["number"])
            found += [made or zero(made), type(made)]
        else:
            made = value(one)
            if not (made is None or isinstance(made, int | float | tuple)):
                raise ValueError(f"a value {made!r:.40}")
            found += [made or zero(made), type(made)]
    return tuple(found)


def plain_tree(given: Any, leaf: Callable[[Any], Any]) -> Any:
    """The results of a kernel; `leaf` converts tensors to JSON, and returns None for anything else.
    Objects that a record cannot hold become None."""
    if isinstance(given, tuple | list) and not isinstance(given, Leaf):
        kind = "tuple" if isinstance(given, tuple) else "list"
        return {kind: [plain_tree(one, leaf) for one in given]}
    if isinstance(given, dict):
        return {"dict": [[plain(key), plain_tree(one, leaf)] for key, one in given.items()]}
    if (made := leaf(given)) is not None:
        return {"tensor": made}
    if is_number(given):
        return _plain_number(given)
    try:
        return {"value": plain(given)}
    except UsageError:
        return {"value": None}


def tree(given: Any, leaf: Callable[[Any], Any]) -> Any:
    """Invert `plain_tree`; `leaf` converts the JSON of a tensor."""
    ((kind, what),) = given.items()
    if kind == "tuple":
        return tuple(tree(one, leaf) for one in what)
    if kind == "list":
        return [tree(one, leaf) for one in what]
    if kind == "dict":
        return {value(key): tree(one, leaf) for key, one in what}
    if kind == "number":
        return _number(what)
    return leaf(what) if kind == "tensor" else value(what)


def leaf(given: Any) -> Leaf:
    """A tensor among results. Raises ValueError for what is none."""
    made = Leaf(*given)
    if not are_dims(tuple(made)):
        raise ValueError("a result that is no tensor")
    return made
