"""What a kernel is given: positional and named arguments, and the arrays among them."""

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
    """The arguments of one rank: a dict of them by name, else a sequence. Raises UsageError for
    anything else."""
    if isinstance(given, Mapping):
        return (), dict(given)
    if isinstance(given, list | tuple):
        return tuple(given), {}
    raise UsageError(
        f"the arguments of a rank are a tuple or a dict by name, not {type(given).__name__}"
    )


def with_rank(function: Callable[..., Any], given: Arguments, rank: int) -> Arguments:
    """The arguments of a function, and the number of a rank if it has a parameter `rank` that they
    leave out."""
    args, named = given
    parameters = list(inspect.signature(function).parameters)
    if "rank" not in parameters or "rank" in named or "rank" in parameters[: len(args)]:
        return given
    return args, {**named, "rank": rank}


def copied(arguments: Arguments) -> Arguments:
    """The arguments as they are now. Raises UsageError for what can't be copied."""
    try:
        return copy.deepcopy(arguments)
    except TypeError as error:
        raise UsageError(f"the kernel's arguments can't be kept: {error}") from None


def values_in(value: Any) -> list[Any]:
    """What is in arguments, in order."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in values_in(item)]
    return [value]


def arrays_in(value: Any) -> list[Array]:
    """The arrays in a result or in arguments, in order, as numpy's."""
    return [as_numpy(one) for one in values_in(value) if hasattr(one, "dtype")]


def by_rank(setting: Setting, arrays: Sequence[Array]) -> Arguments:
    """The arrays of a record's inputs as arguments: of several ranks, those of each."""
    if setting.world.ranks == 1:
        return tuple(arrays), {}
    ranks = {one.name: one.rank for one in setting.inputs}
    numbered = list(zip((ranks[name] for name in setting.arrays), arrays, strict=True))
    each = range(setting.world.ranks)
    return tuple((tuple(one for at, one in numbered if at == rank), {}) for rank in each), {}
