"""The module torch_neuronx.xla_impl.ops: the decorator for kernels that torch programs call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuroncore.hosts.devices import writing
from neuroncore.hosts.torch_neuronx.xla_impl.base import xla_call as xla_call
from neuroncore.hosts.torch_neuronx.xla_impl.base import xla_hlo_call as xla_hlo_call


def nki_jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a kernel of either API that may write to its arguments. Programs write
    `nki_jit(kernel)`, `@nki_jit` or `nki_jit(**options)(kernel)`. They launch the kernel by
    `kernel(...)` or `kernel[grid](...)`.

    Kernels of SDK 2.20 to 2.23 write their results to arguments (source: getting_started_torch.py
    of these SDKs). If a kernel returns values, a launch returns them."""
    if func is None:
        return lambda function: nki_jit(function, **options)
    return writing(func, **options)
