"""Facts about formats, in the module from which published kernels import them."""

from __future__ import annotations

from typing import Any

from neuroncore.frontend.operators import format_of

__all__ = ["sizeinbytes"]


def sizeinbytes(dtype: Any) -> int:
    """Return the number of bytes of an element."""
    return format_of(dtype, position=0).itemsize


def __dir__() -> list[str]:
    return __all__
