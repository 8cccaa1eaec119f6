"""The arrays that a replay begins with, checked against those of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuroncore.base.errors import UsageError
from neuroncore.memory.storage import Memory
from neuroncore.memory.tile import Array
from neuroncore.numerics.formats import lookup
from neuroncore.record.inputs import Input, Setting

Given = Mapping[str, Any] | Sequence[Any] | None


def entered(setting: Setting, given: Given, memory: Memory) -> dict[int, Array]:
    """Arrays as memory holds them, by the numbers of storages; those that are given for the
    record's inputs, by name or in their order, of several ranks also rank by rank, or its own."""
    named = _named(setting, given)
    return {one.storage: _held(one, named[one.name], memory) for one in setting.inputs}


def _named(setting: Setting, given: Given) -> Mapping[str, Any]:
    if given is None:
        names = [one.name for one in setting.inputs]
        if missing := [name for name in names if name not in setting.arrays]:
            raise UsageError(
                f"the record does not have the values of {missing[0]}: pass the inputs"
            )
        return setting.arrays
    if _is_by_rank(setting, given):
        return _of_ranks(setting, [*given])
    return _matched([one.name for one in setting.inputs], given, "the record")


def _is_by_rank(setting: Setting, given: Mapping[str, Any] | Sequence[Any]) -> bool:
    """Return whether inputs are given for each of several ranks, like the arguments of `per_rank`
    in `neuroncore.run`."""
    if setting.world.ranks == 1 or isinstance(given, Mapping):
        return False
    return all(isinstance(own, list | tuple | Mapping) for own in given)


def _of_ranks(setting: Setting, given: Sequence[Any]) -> dict[str, Any]:
    if len(given) != setting.world.ranks:
        raise UsageError(
            f"inputs of {len(given)} ranks are given; the record has {setting.world.ranks}"
        )
    found: dict[str, Any] = {}
    for rank, own in enumerate(given):
        inputs = [one for one in setting.inputs if one.rank == rank]
        named = _matched([one.parameter for one in inputs], own, f"rank {rank}")
        found |= {one.name: named[one.parameter] for one in inputs}
    return found


def _matched(
    names: Sequence[str], given: Mapping[str, Any] | Sequence[Any], who: str
) -> Mapping[str, Any]:
    """Inputs by their names, all of which `who` has."""
    if not isinstance(given, Mapping):
        if len(given) != len(names):
            raise UsageError(f"{len(given)} inputs are given; {who} has {', '.join(names)}")
        return dict(zip(names, given, strict=True))
    if missing := [name for name in names if name not in given]:
        raise UsageError(f"input {missing[0]} is not given; {who} has {', '.join(names)}")
    if more := [name for name in given if name not in names]:
        raise UsageError(f"{more[0]} is not an input of {who}, which has {', '.join(names)}")
    return given


def _held(one: Input, value: Any, memory: Memory) -> Array:
    """An array as memory holds its elements. Raises UsageError for another shape or format."""
    array = np.asarray(value)
    form = lookup(array.dtype)
    if (array.shape or (1,), form) != (one.shape, one.dtype):
        raise UsageError(
            f"input {one.name} is {array.shape} {form}; it was {one.shape} {one.dtype} in the run"
        )
    order = array.dtype.newbyteorder("=")
    return memory.widened(np.ascontiguousarray(array, order).reshape(one.shape), form)
