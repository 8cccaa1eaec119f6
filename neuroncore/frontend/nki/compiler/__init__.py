"""nki.compiler: decorators for the device's compiler, which have no effect in neuroncore."""

from __future__ import annotations

from typing import Any

__all__ = ["enable_stack_allocator", "skip_middle_end_transformations"]


def enable_stack_allocator(func: Any = None, **_: Any) -> Any:
    return (lambda f: f) if func is None else func


def skip_middle_end_transformations(func: Any) -> Any:
    return func


def __dir__() -> list[str]:
    return __all__
