"""Converts between numpy arrays and torch's tensors, for references that are written with torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from neuroncore.frontend.arguments import is_host_array
from neuroncore.hosts.devices import framework
from neuroncore.numerics.libraries import LIBRARIES, as_numpy


def torch(asked: str) -> Any:
    """Import and return torch. Raise UsageError if torch is not installed.

    `asked`: the file that needs torch, for the message"""
    return framework("torch", asked)


def as_tensor(value: Any) -> Any:
    """Return a torch tensor for an array, and any other value unchanged. Torch must have been
    imported before."""
    convert = next(library.from_numpy for library in LIBRARIES if library.name == "torch")
    return convert(value) if is_host_array(value) else value


def as_array(value: Any) -> Any:
    """Return a numpy array for a tensor or an array, and any other value unchanged."""
    return as_numpy(value) if is_host_array(value) else value


def through_torch(function: Callable[..., Any], torch: Any | None) -> Callable[..., Any]:
    """Return a function of arrays that calls `function`. Its result is an array or a tuple of
    arrays. `function` gets torch tensors, or the arrays themselves if `torch` is None."""

    def called(*arguments: Any) -> Any:
        with torch.no_grad() if torch is not None else nullcontext():
            results = function(*(arguments if torch is None else map(as_tensor, arguments)))
        several = isinstance(results, Sequence)
        return tuple(map(as_array, results)) if several else as_array(results)

    return called
