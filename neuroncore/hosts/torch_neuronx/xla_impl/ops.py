"""torch_neuronx.xla_impl.ops: kernels that programs of torch call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuroncore.hosts.devices import writing
from neuroncore.hosts.torch_neuronx.xla_impl.base import xla_call as xla_call
from neuroncore.hosts.torch_neuronx.xla_impl.base import xla_hlo_call as xla_hlo_call


def nki_jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a kernel of either API that may write to its arguments: `nki_jit(kernel)`, `@nki_jit`
    or `nki_jit(**options)(kernel)`. It is launched by `call(...)` or `call[grid](...)`.

    Kernels of SDK 2.20 to 2.23 have their results among their arguments (getting_started_torch.py
    of the SDK at that time). Values that a kernel returns are returned.
    """
    if func is None:
        return lambda function: nki_jit(function, **options)
    return writing(func, **options)
