"""The NKI API of today (0.3 and later): instructions write to their first operand, `dst`."""

from neuroncore.frontend.nki import collectives as collectives
from neuroncore.frontend.nki import compiler as compiler
from neuroncore.frontend.nki import dtype as dtype
from neuroncore.frontend.nki import isa as isa
from neuroncore.frontend.nki import language as language
from neuroncore.frontend.nki import typing as typing
from neuroncore.frontend.nki.kernel import Kernel as Kernel
from neuroncore.frontend.nki.kernel import jit as jit
from neuroncore.frontend.nki.kernel import simulate as simulate

__all__ = [
    "Kernel", "collectives", "compiler", "dtype", "isa", "jit", "language", "simulate", "typing",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
