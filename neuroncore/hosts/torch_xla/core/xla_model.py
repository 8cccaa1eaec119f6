"""The module torch_xla.core.xla_model, for one device, which is the CPU, and one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from neuroncore.hosts import devices

REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX = (
    *("sum", "mul", "and", "or", "min", "max"),
)


def xla_device(n: int | None = None, devkind: str | None = None) -> Any:
    """Return the device. Raises UsageError if torch is not installed."""
    return devices.device("torch_xla's device")


def xla_device_hw(device: Any) -> str:
    """Return the kind of the device."""
    return "CPU"


def get_xla_supported_devices(
    devkind: str | None = None, max_devices: int | None = None
) -> list[str]:
    return ["cpu:0"]


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """Do nothing: no work is pending."""


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Do nothing: no work is pending."""


def add_step_closure(
    closure: Callable[..., Any], args: Sequence[Any] = (), run_async: bool = False
) -> None:
    """Run the closure at once, because all operations of the step have already ended."""
    closure(*args)


def get_ordinal(defval: int = 0) -> int:
    return 0


def get_local_ordinal(defval: int = 0) -> int:
    return 0


def xrt_world_size(defval: int = 1) -> int:
    return 1


def is_master_ordinal(local: bool = True) -> bool:
    return True


def master_print(*args: Any, **kwargs: Any) -> None:
    kwargs.pop("local", None)
    print(*args, **kwargs)


def set_rng_state(seed: int, device: str | None = None) -> None:
    """Set the seed of torch's own generator, because it makes the random tensors of the device."""
    devices.framework("torch", "set_rng_state").manual_seed(seed)


def get_rng_state(device: str | None = None) -> int:
    return int(devices.framework("torch", "get_rng_state").initial_seed())
