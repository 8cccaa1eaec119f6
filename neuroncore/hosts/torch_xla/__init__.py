"""The package torch_xla. Its device is the CPU, and kernels run when they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neuroncore.hosts.devices import prepare_torch
from neuroncore.hosts.torch_xla import core as core
from neuroncore.hosts.torch_xla import experimental as experimental
from neuroncore.hosts.torch_xla import runtime as runtime
from neuroncore.hosts.torch_xla.core import xla_model

__version__ = "0.0.0+neuroncore"


def device(index: int | None = None) -> Any:
    return xla_model.xla_device(index)


def devices() -> list[Any]:
    return [device()]


def real_devices() -> list[str]:
    return xla_model.get_xla_supported_devices()


def device_count() -> int:
    return 1


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Do nothing: no work is pending."""


@contextmanager
def step() -> Iterator[None]:
    """Return a context manager that does nothing, because every operation runs at once."""
    yield


def compile(f: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Return the function unchanged. Without a function, return a decorator that does nothing. The
    decorator is also a context manager."""
    return step() if f is None else f


prepare_torch()
