"""The package torch_neuronx, which launches kernels from torch. It does not compile models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuroncore.frontend import nki as nki
from neuroncore.hosts import devices
from neuroncore.hosts.torch_neuronx import nki_hop as nki_hop
from neuroncore.hosts.torch_neuronx import utils as utils
from neuroncore.hosts.torch_neuronx import xla_impl as xla_impl
from neuroncore.hosts.torch_neuronx.nki_hop import TorchNeuronNKIKernel as TorchNeuronNKIKernel
from neuroncore.hosts.torch_neuronx.nki_hop import nki_op as nki_op
from neuroncore.hosts.torch_neuronx.nki_hop import wrap_nki as wrap_nki
from neuroncore.hosts.torch_neuronx.xla_impl.ops import nki_jit as nki_jit

__version__ = "0.0.0+neuroncore"


def trace(func: Callable[..., Any], example_inputs: Any, **_: Any) -> Callable[..., Any]:
    """Return the function or module unchanged. Nothing is compiled; kernels run when the function
    calls them."""
    return func


devices.prepare_torch()
