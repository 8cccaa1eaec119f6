"""The older spelling of the same."""

from typing import Any

import torch


def xla_device(*_: Any, **__: Any) -> torch.device:
    return torch.device("cpu")


def get_xla_supported_devices(*_: Any, **__: Any) -> list[str]:
    return ["cpu:0"]


def mark_step(*_: Any, **__: Any) -> None:
    """Nothing is pending: kernels run when they are called."""


wait_device_ops = mark_step
