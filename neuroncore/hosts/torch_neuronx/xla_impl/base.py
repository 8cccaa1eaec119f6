"""torch_neuronx.xla_impl.base: decorators of functions that build device graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuroncore.frontend import vendor


def xla_call(func: Callable[..., Any]) -> Any:
    """Return a stand-in for the function that raises an error when it is called."""
    return vendor.missing("torch_neuronx.xla_impl.base", "xla_call")


def xla_hlo_call(func: Callable[..., Any]) -> Any:
    """Return a stand-in for the function that raises an error when it is called."""
    return vendor.missing("torch_neuronx.xla_impl.base", "xla_hlo_call")
