"""torch and jax, of which tensors are: both are optional, and asked for when they are needed."""

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
    """torch or jax. Raises UsageError if it isn't installed, with what was `asked` of it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(
            f"{asked} needs {name}, which is not installed: pip install 'neuroncore[{name}]'"
        ) from None


def device(asked: str) -> Any:
    """The device that torch's tensors are on once they are moved there."""
    return framework("torch", asked).device(devices.NAME)


@functools.cache
def prepare_torch() -> None:
    """From now on, if torch is installed, it takes our devices, and torch.compile calls kernels as
    they are instead of looking into them."""
    if find_spec("torch") is None:
        return
    torch = import_module("torch")
    devices.stand_in(torch)
    for kind in (Kernel, OlderKernel):
        call = torch.compiler.disable(devices.on_device(kind.__call__))
        kind.__call__ = call  # type: ignore[method-assign]
