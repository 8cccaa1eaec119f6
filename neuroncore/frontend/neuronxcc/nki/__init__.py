"""neuronxcc.nki: the API of SDK 2.20 to 2.26, running on an emulated NeuronCore."""

from neuroncore.frontend.neuronxcc.nki import compiler as compiler
from neuroncore.frontend.neuronxcc.nki import isa as isa
from neuroncore.frontend.neuronxcc.nki import language as language
from neuroncore.frontend.neuronxcc.nki import methods as _methods  # noqa: F401 its methods
from neuroncore.frontend.neuronxcc.nki import nccl as nccl
from neuroncore.frontend.neuronxcc.nki import typing as typing
from neuroncore.frontend.neuronxcc.nki.kernel import FrameworkKernel as FrameworkKernel
from neuroncore.frontend.neuronxcc.nki.kernel import baremetal as baremetal
from neuroncore.frontend.neuronxcc.nki.kernel import benchmark as benchmark
from neuroncore.frontend.neuronxcc.nki.kernel import jit as jit
from neuroncore.frontend.neuronxcc.nki.kernel import profile as profile
from neuroncore.frontend.neuronxcc.nki.kernel import simulate_kernel as simulate_kernel
from neuroncore.frontend.neuronxcc.nki.kernel import trace as trace
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor as tensor

__all__ = [
    "FrameworkKernel", "baremetal", "benchmark", "compiler", "isa", "jit", "language", "nccl",
    "profile", "simulate_kernel", "tensor", "trace", "typing",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
