"""Kernels of either API that may write to their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuroncore.frontend.dialects import dialect
from neuroncore.frontend.neuronxcc.nki.kernel import Kernel as OlderKernel
from neuroncore.frontend.neuronxcc.nki.kernel import trace
from neuroncore.frontend.nki.kernel import Kernel, jit


def writing(function: Callable[..., Any], **options: Any) -> Any:
    """Return a kernel of the API that the function uses, by default today's; it may write to its
    arguments. A kernel that is already decorated keeps its API and its grid."""
    if isinstance(function, Kernel):
        return function
    if isinstance(function, OlderKernel) or dialect(function) == "neuronxcc.nki":
        return trace(function, **options)
    return jit(function, **options)
