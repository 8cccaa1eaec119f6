"""nki.typing: annotations for kernel signatures."""

from neuroncore.frontend.arguments import mutable, mutable_tensor, scalar, tensor

__all__ = ["mutable", "mutable_tensor", "scalar", "tensor"]


def __dir__() -> list[str]:
    return __all__
