"""torch and jax, of which tensors are: both are optional, and asked for when they are needed."""

from __future__ import annotations

import functools
import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from neuroncore.errors import UsageError
from neuroncore.frontend.neuronxcc.nki.kernel import Kernel as OlderKernel
from neuroncore.frontend.nki.kernel import Kernel
from neuroncore.frontend.vendor import placeholders

OURS = re.compile(r"(xla|neuron)(:\d+)?")  # devices that are the CPU here


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
    """The device of torch's tensors: the CPU."""
    return framework("torch", asked).device("cpu")


@functools.cache
def prepare_torch() -> None:
    """From now on, if torch is installed, it takes our devices, and torch.compile calls kernels as
    they are instead of looking into them."""
    if find_spec("torch") is None:
        return
    torch = import_module("torch")
    stand_in_for_devices(torch)
    for kind in (Kernel, OlderKernel):
        kind.__call__ = torch.compiler.disable(kind.__call__)  # type: ignore[method-assign]


def stand_in_for_devices(torch: Any) -> None:
    """Make "xla" and "neuron" the CPU where torch is told a device: a program says
    `tensor.to("xla")` as well as torch_xla.device()."""
    mode = import_module("torch.overrides").TorchFunctionMode

    class OnCPU(mode):  # type: ignore[misc, valid-type]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = {name: _here(value) for name, value in (kwargs or {}).items()}
            return function(*map(_here, args), **named)

    def _here(value: Any) -> Any:
        kind = value.type if isinstance(value, torch.device) else value
        return "cpu" if isinstance(kind, str) and OURS.fullmatch(kind) else value

    OnCPU().__enter__()
    torch.classes.neuron = placeholders.Module("torch.classes.neuron")  # annotations name them
