"""torch_neuronx.xla_impl.base: decorators of functions that build graphs of the device's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuroncore.frontend.vendor import placeholders


def xla_call(func: Callable[..., Any]) -> Any:
    """In place of the function, what is refused when it is called."""
    return placeholders.missing("torch_neuronx.xla_impl.base", "xla_call")


def xla_hlo_call(func: Callable[..., Any]) -> Any:
    """In place of the function, what is refused when it is called."""
    return placeholders.missing("torch_neuronx.xla_impl.base", "xla_hlo_call")
