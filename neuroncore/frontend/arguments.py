"""Arguments of a kernel: positional and named ones, and the arrays among them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.frontend.arrays import as_numpy
from neuroncore.record.inputs import Setting

Array = npt.NDArray[Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def of_a_rank(given: Any) -> Arguments:
    """Return the arguments of one rank, from a dict by name or from a sequence. Raises UsageError
    for anything else."""
    if isinstance(given, Mapping):
        return (), dict(given)
    if isinstance(given, list | tuple):
        return tuple(given), {}
    raise UsageError(
        f"the arguments of a rank are a tuple or a dict by name, not {type(given).__name__}"
    )


def with_rank(function: Callable[..., Any], given: Arguments, rank: int) -> Arguments:
    """Return the arguments of a function, with the number of the rank if the function has a
    parameter `rank` without an argument."""
    args, named = given
    parameters = list(inspect.signature(function).parameters)
    if "rank" not in parameters or "rank" in named or "rank" in parameters[: len(args)]:
        return given
    return args, {**named, "rank": rank}


def copied(arguments: Arguments) -> Arguments:
    """Return a copy of the arguments. Raises UsageError for an argument that can't be copied."""
    try:
        return copy.deepcopy(arguments)
    except TypeError as error:
        raise UsageError(f"the kernel's arguments can't be kept: {error}") from None


def values_in(value: Any) -> list[Any]:
    """Return the single values in arguments, in order."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in values_in(item)]
    return [value]


def arrays_in(value: Any) -> list[Array]:
    """Return the arrays in a result or in arguments, in order, as arrays of numpy."""
    return [as_numpy(one) for one in values_in(value) if hasattr(one, "dtype")]


def by_rank(setting: Setting, arrays: Sequence[Array]) -> Arguments:
    """Return the arrays of a record's inputs as arguments, for several ranks one dict per rank."""
    if setting.world.ranks == 1:
        return tuple(arrays), {}
    ranks = {one.name: one.rank for one in setting.inputs}
    numbered = list(zip((ranks[name] for name in setting.arrays), arrays, strict=True))
    each = range(setting.world.ranks)
    return tuple((tuple(one for at, one in numbered if at == rank), {}) for rank in each), {}
