"""Converts the Calls of a record, the values of instructions, and kernels' results to JSON and
back.

A Call is a distinct instruction without data. The values of an instruction are the numbers and
registers that its Call leaves open.

Objects that the package defines by name, such as instructions and machines, are written as names,
and looked up when the file is read. So a record is always timed with the current costs and machine
files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from typing import Any

import numpy as np

from neuroncore import machine
from neuroncore.base import enums
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import UsageError
from neuroncore.clause.alu import FUNCTIONS, OPERATORS, SIMULATED, Function, Operator
from neuroncore.clause.instruction import INSTRUCTIONS, Instruction
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View, view
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, lookup
from neuroncore.record.inputs import NUMBERS, Leaf, is_number, value_of, zero

NAMED: dict[type, tuple[str, Callable[[str], Any]]] = {
    Instruction: ("instruction", INSTRUCTIONS.__getitem__),
    Operator: ("operator", lambda name: OPERATORS.get(name) or SIMULATED[name]),
    Function: ("function", FUNCTIONS.__getitem__),
    Machine: ("machine", machine.load),
    Format: ("format", lookup),
}
BY_KIND = dict(NAMED.values())
ENUMS = {
    kind.__name__: kind
    for kind in vars(enums).values()
    if isinstance(kind, type) and issubclass(kind, Enum)
}


def plain(value: Any) -> Any:
    """Return a Call's argument, or a part of it, as JSON. Raise UsageError if a record can't
    contain it."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) in NAMED:
        kind, _ = NAMED[type(value)]
        return {kind: str(value.name)}
    if isinstance(value, Enum):
        return {"enum": [type(value).__name__, value.name]}
    if isinstance(value, View):
        return {"view": [plain(getattr(value, field.name)) for field in fields(value)]}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return {"float": value.hex()} if value == value else {"nan": struct.pack("<d", value).hex()}
    if isinstance(value, int | str):  # an instance of a subclass, such as an integer with a name
        return value
    raise UsageError(f"a record can't hold {value!r:.60}")


def value(entry: Any) -> Any:
    """Return the value whose JSON is `entry` (the inverse of `plain`), with tuples for lists. Raise
    ValueError, KeyError or UsageError for malformed JSON and unknown names."""
    if isinstance(entry, list):
        return tuple(value(item) for item in entry)
    if not isinstance(entry, dict):
        return entry
    ((kind, content),) = entry.items()
    if kind == "enum":
        return ENUMS[content[0]][content[1]]
    if kind == "view":
        return _view([value(item) for item in content])
    if kind == "nan":
        (nan,) = struct.unpack("<d", bytes.fromhex(content))
        return nan
    return float.fromhex(content) if kind == "float" else BY_KIND[kind](content)


def _view(entry: list[Any]) -> View:
    shape, strides, dtype, region, *numbers, index, read = entry
    if not isinstance(dtype, Format) or not isinstance(region, MemoryRegion):
        raise ValueError(
            f"a view has the format {dtype!r} and the memory {region!r}; one of them is unknown"
        )
    if not are_dims(shape) or not are_dims(strides) or not len(shape) == len(strides) > 0:
        raise ValueError(
            f"a view has the shape {shape} and the strides {strides}, which do not fit each other"
        )
    if not all(isinstance(number, int) for number in (*numbers, read)):
        raise ValueError(f"the positions of a view are not all integers: {numbers}")
    if min(*shape, *numbers) < 0 or 0 in shape:
        raise ValueError("a view has no elements, or a negative position")
    if not 0 <= read < 1 << 16:  # an instruction of a program has no more windows
        raise ValueError(f"a view has {read} indices, more than an instruction can have")
    if not (index is None or isinstance(index, View)):
        raise ValueError(f"the index of a view must be a view, but is {index!r}")
    return view(*entry)


def are_dims(dims: Any) -> bool:
    """Return whether `dims` is a tuple of 64-bit integers, which compiled loops need for sizes and
    strides."""
    return isinstance(dims, tuple) and all(
        type(size) is int and abs(size) < 1 << 63 for size in dims
    )


def plain_values(key: tuple[Any, ...]) -> list[Any]:
    """Return an instruction's values as JSON, one entry per value. `key` is a key of
    `Data.values`."""
    return [_plain_value(*pair) for pair in zip(key[::2], key[1::2], strict=True)]


def _plain_value(part: Any, kind: type[Any]) -> Any:
    if issubclass(kind, Tile):
        return {"tile": None}
    if kind is VirtualRegister:
        return {"register": part}
    item = value_of(part, kind)
    return _plain_number(item) if isinstance(item, np.generic) else plain(item)


def _plain_number(number: Any) -> dict[str, Any]:
    return {"number": [type(number).__name__, plain(number)]}


def _number(entry: Any) -> Any:
    name, number = entry
    return NUMBERS[name](value(number))


def key_of(entries: list[Any]) -> tuple[Any, ...]:
    """Return the key of `Data.values` whose JSON is `entries` (the inverse of `plain_values`)."""
    key: list[Any] = []
    for entry in entries:
        content = entry if isinstance(entry, dict) else {}
        if "tile" in content:
            key += [None, Tile]
        elif "register" in content:
            key += [int(content["register"]), VirtualRegister]
        elif "number" in content:
            item = _number(content["number"])
            key += [item or zero(item), type(item)]
        else:
            item = value(entry)
            if not (item is None or isinstance(item, int | float | tuple)):
                raise ValueError(f"{item!r:.40} is not a value of an instruction")
            key += [item or zero(item), type(item)]
    return tuple(key)


def plain_tree(result: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return the results of a kernel as JSON. `leaf` converts tensors, and returns None for any
    other value. Other objects become None."""
    if isinstance(result, tuple | list) and not isinstance(result, Leaf):
        kind = "tuple" if isinstance(result, tuple) else "list"
        return {kind: [plain_tree(item, leaf) for item in result]}
    if isinstance(result, dict):
        return {"dict": [[plain(key), plain_tree(item, leaf)] for key, item in result.items()]}
    if (tensor := leaf(result)) is not None:
        return {"tensor": tensor}
    if is_number(result):
        return _plain_number(result)
    try:
        return {"value": plain(result)}
    except UsageError:
        return {"value": None}


def tree(entry: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return the results whose JSON is `entry` (the inverse of `plain_tree`). `leaf` makes a tensor
    from its JSON."""
    ((kind, content),) = entry.items()
    if kind == "tuple":
        return tuple(tree(item, leaf) for item in content)
    if kind == "list":
        return [tree(item, leaf) for item in content]
    if kind == "dict":
        return {value(key): tree(item, leaf) for key, item in content}
    if kind == "number":
        return _number(content)
    return leaf(content) if kind == "tensor" else value(content)


def leaf(entry: Any) -> Leaf:
    """Return a tensor among a kernel's results, from its entry in a file. Raise ValueError if the
    entry does not describe a tensor."""
    tensor = Leaf(*entry)
    if not are_dims(tuple(tensor)):
        raise ValueError("a result is not a tensor")
    return tensor
