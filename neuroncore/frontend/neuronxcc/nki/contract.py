"""Checks of the older API's kernels: which parameters they write, and whether they write and return
their results."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod
from typing import Any

from neuroncore.base.errors import OutputError, SignatureError
from neuroncore.core.core import Core, current
from neuroncore.frontend.arguments import by_name
from neuroncore.frontend.neuronxcc.nki.results import flush
from neuroncore.frontend.neuronxcc.nki.scopes import running
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.outcome import RETURNS, at_return


def with_checks(function: Callable[..., Any], returns: bool, options: str) -> Callable[..., Any]:
    """Return a function that calls the kernel's `function`, and checks what it writes and returns.
    Raises ImmutableError, SignatureError and OutputError.

    A kernel that `returns` its results may write only to mutable parameters, and must return those
    that it has written. The compiler's `options` skip-mutable-return-check and
    skip-non-top-level-shared-hbm-check each turn off a check."""
    declared = inspect.signature(function).parameters
    own_code = getattr(inspect.unwrap(function), "__code__", None)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        state = running()
        state.shares_anywhere = "skip-non-top-level-shared-hbm-check" in options
        state.bias_is_made = getattr(function, "skips_middle_end", False)
        state.kernels.add(own_code)
        bound = by_name(function, args, kwargs)
        mutable = {name for name, p in declared.items() if _is_mutable(p.annotation)} & {*bound}
        tensors_of = {name: list(_tensors(value)) for name, value in bound.items()}
        if returns:
            fixed = (
                t for name, tensors in tensors_of.items() if name not in mutable for t in tensors
            )
            state.parameters = {tensor.storage.id for tensor in fixed}
            state.parameters -= {t.storage.id for name in mutable for t in tensors_of[name]}
        result = function(*args, **kwargs)
        flush()
        results = {tensor.storage.id for tensor in _tensors(result)}
        if returns and "skip-mutable-return-check" not in options:
            _check_returned(function, {n: t for n in mutable for t in tensors_of[n]}, results)
        if _is_last(current()):
            written = any(t.storage.version for tensors in tensors_of.values() for t in tensors)
            needs_not = returns or bool(results) or not any(tensors_of.values())
            _check_written(function, result, written or needs_not)
        return result

    return checked


def returns_something(function: Callable[..., Any]) -> bool:
    """Return whether a function has a return statement with a value."""
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    steps = list(dis.get_instructions(code))
    return any(
        step.argval is not None
        if step.opname == "RETURN_CONST"
        else before.opname != "LOAD_CONST" or before.argval is not None
        for before, step in pairwise(steps)
        if step.opname in RETURNS
    )


def _is_last(core: Core) -> bool:
    """Return whether this is the last program of a launch grid that runs on one core. After this
    program the grid writes nothing."""
    alone = core.peers is None or core.world.cores == 1
    return alone and core.program_id == prod(core.grid) - 1


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in HBM among a kernel's arguments or results."""
    if isinstance(value, Tensor):
        if not value.storage.on_chip:
            yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _is_mutable(annotation: Any) -> bool:
    """Return whether an annotation, which may be a string, is nt.mutable_tensor or
    nt.tensor[nt.mutable]."""
    return "mutable" in str(annotation)


def _check_returned(
    function: Callable[..., Any], mutable: dict[str, Tensor], results: set[int]
) -> None:
    """Raise SignatureError if the kernel wrote to a mutable parameter that it does not return.
    `results` are the ids of the returned storages."""
    for name, tensor in mutable.items():
        if tensor.storage.version and tensor.storage.id not in results:
            raise at_return(
                function,
                SignatureError(
                    f"the kernel writes to parameter {name} and doesn't return it",
                    because="a mutable parameter is also a result: the caller's graph gets it from "
                    "the return statement",
                    hint=f"return {name} in addition to the other results",
                    also="err_mutable_parameter_not_returned",
                ),
            )


def _check_written(function: Callable[..., Any], result: Any, writes: bool) -> None:
    """Raise OutputError if the kernel wrote nothing to one of its results in HBM. Also raise
    OutputError if `writes` is False: the kernel returns nothing and wrote to none of its
    arguments."""
    never = [t for t in _tensors(result) if _never_written(t)]
    if writes and not never:
        return
    silent = "the kernel returns no tensor, and nothing was written to its arguments"
    raise at_return(
        function,
        OutputError(
            f"nothing was written to {never[0]}" if never else silent,
            because="elements that are not written have the previous contents of the device's "
            "memory",
            hint="look for a loop that runs zero times, such as range(m // n) with m < n",
            also="err_tensor_output_not_written_to",
        ),
    )


def _never_written(tensor: Tensor) -> bool:
    """Return True if no element of a tensor was written."""
    if tensor.untouched:
        return True
    missing = tensor.unwritten()
    return missing is not None and bool(missing.all())
