"""neuronxcc.nki.compiler: direct allocation, and compiler hints without an effect in neuroncore."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from neuroncore.frontend.neuronxcc.nki.compiler import psum as psum
from neuroncore.frontend.neuronxcc.nki.compiler import sbuf as sbuf

__all__ = [
    "allocation_scope", "enable_stack_allocator", "force_auto_alloc", "multi_buffer",
    "no_reorder", "psum", "sbuf", "skip_middle_end_transformations",
]  # fmt: skip


def _as_it_is(func: Callable[..., Any] | None) -> Any:
    return func if func is not None else lambda function: function


def skip_middle_end_transformations(func: Callable[..., Any] | None = None) -> Any:
    """Return the kernel unchanged, because neuroncore has no middle end to skip.

    In a kernel with this decorator, an activation needs no bias tensor, even if tensors of the
    kernel have explicit addresses. A published probe without bias tensors ran on trn2
    (voyager-compiler, neuronx-cc 2.22)."""
    if func is None:
        return skip_middle_end_transformations
    function: Any = getattr(func, "function", func)
    function = getattr(function, "__func__", function)
    function.skips_middle_end = True
    return func


def enable_stack_allocator(func: Callable[..., Any] | None = None, log_level: int = 50) -> Any:
    """Return the kernel unchanged: every tensor has separate memory."""
    return _as_it_is(func)


def force_auto_alloc(func: Callable[..., Any] | None = None) -> Any:
    """Return the kernel unchanged: explicit addresses are kept."""
    return _as_it_is(func)


def no_reorder() -> contextlib.AbstractContextManager[None]:
    """Return a context manager without an effect. On a device it keeps the instructions of its body
    in program order. neuroncore always executes instructions in this order."""
    return contextlib.nullcontext()


def multi_buffer(factor: int = 2) -> contextlib.AbstractContextManager[None]:
    """Return a context manager without an effect. On a device, the compiler keeps `factor` copies
    of each tensor in the body. Results don't depend on this number."""
    return contextlib.nullcontext()


def allocation_scope() -> contextlib.AbstractContextManager[None]:
    """Return a context manager without an effect: results don't depend on the scope of
    allocations."""
    return contextlib.nullcontext()


def __dir__() -> list[str]:
    return __all__
