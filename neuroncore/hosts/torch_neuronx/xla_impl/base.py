"""The module torch_neuronx.xla_impl.base: decorators for functions that build device graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuroncore.frontend import vendor


def xla_call(func: Callable[..., Any]) -> Any:
    """Return a placeholder instead of the function. A call of the placeholder raises an error."""
    return vendor.missing("torch_neuronx.xla_impl.base", "xla_call")


def xla_hlo_call(func: Callable[..., Any]) -> Any:
    """Return a placeholder instead of the function. A call of the placeholder raises an error."""
    return vendor.missing("torch_neuronx.xla_impl.base", "xla_hlo_call")
