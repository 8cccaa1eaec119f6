"""torch and jax, which are optional and imported on demand."""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.frontend.neuronxcc.nki.kernel import Kernel as OlderKernel
from neuroncore.frontend.nki.kernel import Kernel
from neuroncore.hosts import devices


def framework(name: str, asked: str) -> Any:
    """Import torch or jax. Raise UsageError, which names `asked`, if it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(
            f"{asked} needs {name}, which is not installed: pip install 'neuroncore[{name}]'"
        ) from None


def device(asked: str) -> Any:
    """The device of torch tensors that were moved to it."""
    return framework("torch", asked).device(devices.NAME)


@functools.cache
def prepare_torch() -> None:
    """If torch is installed, make it accept the devices, and make torch.compile call kernels
    without tracing into them."""
    if find_spec("torch") is None:
        return
    torch = import_module("torch")
    devices.stand_in(torch)
    for kind in (Kernel, OlderKernel):
        call = torch.compiler.disable(devices.on_device(kind.__call__))
        kind.__call__ = call  # type: ignore[method-assign]
