"""The NKI API of today (0.2 and later): instructions write to their first operand, `dst`."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from neuroncore.frontend import dialects as _dialects
from neuroncore.frontend.nki import dtype as dtype
from neuroncore.frontend.nki import isa as isa
from neuroncore.frontend.nki import language as language
from neuroncore.frontend.nki.kernel import Kernel as Kernel
from neuroncore.frontend.nki.kernel import jit as jit
from neuroncore.frontend.nki.kernel import simulate as simulate

if _TYPE_CHECKING:
    from neuroncore.frontend.nki import collectives as collectives
    from neuroncore.frontend.nki import compiler as compiler
    from neuroncore.frontend.nki import simulator as simulator
    from neuroncore.frontend.nki import typing as typing

__version__ = "0.0.0+neuroncore"  # scripts print it among the versions of their environment
__all__ = [
    "Kernel", "collectives", "compiler", "dtype", "isa", "jit", "language", "simulate", "simulator",
    "typing",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Return the submodule `name`. Each submodule is imported at its first use, because few kernels
    use it."""
    if name in __all__:
        return _importlib.import_module(f"{__name__}.{name}")
    raise _dialects.unknown("nki", name, __all__)


def __dir__() -> list[str]:
    return __all__
