"""Conversion between arrays and torch's tensors, for references that are written with torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from neuroncore.frontend.arguments import is_host_array
from neuroncore.hosts.devices import framework
from neuroncore.numerics.libraries import LIBRARIES, as_numpy


def torch(asked: str) -> Any:
    """Import torch and return it. Raise UsageError if it is not installed; `asked` names what needs
    torch."""
    return framework("torch", asked)


def given(value: Any) -> Any:
    """Return an array as a tensor of torch, and any other value unchanged. Torch must be imported
    already."""
    made = next(one.given for one in LIBRARIES if one.name == "torch")
    return made(value) if is_host_array(value) else value


def taken(value: Any) -> Any:
    """Return a tensor or an array as a numpy array, and any other value unchanged."""
    return as_numpy(value) if is_host_array(value) else value


def through_torch(function: Callable[..., Any], torch: Any | None) -> Callable[..., Any]:
    """Return a function that takes arrays, and returns an array or a tuple of arrays. It calls
    `function` with tensors, or with arrays if `torch` is None."""

    def called(*arguments: Any) -> Any:
        with torch.no_grad() if torch is not None else nullcontext():
            made = function(*(arguments if torch is None else map(given, arguments)))
        several = isinstance(made, Sequence)
        return tuple(map(taken, made)) if several else taken(made)

    return called
