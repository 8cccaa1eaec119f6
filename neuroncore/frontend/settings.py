"""What whoever drives the process asks of every launch: target, options, who is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from neuroncore import machine
from neuroncore.core import Core
from neuroncore.machine import Machine
from neuroncore.options import Options

if TYPE_CHECKING:
    from neuroncore.frontend.launch import Run

DEFAULT_TARGET = "trn2"
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
NOT_YET = {  # the vendor's variables whose value asks for something else than what we do
    ("NEURON_RT_STOCHASTIC_ROUNDING_EN", "1"): "stochastic rounding is not emulated yet: results "
    "are rounded to the nearest value, ties to even",
    ("NKI_PRECISE_FP", "0"): "narrow formats held as float32 are not emulated yet: every format "
    "has its own precision",
}


class Observer(Protocol):
    """Who is told of launches: when one begins, and when it is done."""

    def begun(self, core: Core) -> None: ...

    def done(self, run: Run) -> None: ...


@dataclass(frozen=True)
class Settings:
    """A launch's own arguments come before these."""

    target: str | None = None
    options: Options | None = None
    observer: Observer | None = None


_settings: ContextVar[Settings | None] = ContextVar("settings", default=None)
_process = Settings()  # in threads that nothing was set in: a thread begins with an empty context


def current_settings() -> Settings:
    return _settings.get() or _process


@contextmanager
def settings(
    target: str | None = None,
    options: Options | None = None,
    observer: Observer | None = None,
    *,
    in_every_thread: bool = False,
) -> Iterator[None]:
    """Launch kernels with these settings, from this thread or from every one."""
    global _process
    chosen, before = Settings(target, options, observer), _process
    token = _settings.set(chosen)
    if in_every_thread:
        _process = chosen
    try:
        yield
    finally:
        _process = before
        _settings.reset(token)


def target_machine(name: str | None = None) -> Machine:
    """The machine to run on: as asked for, else as set, else the environment's, else trn2."""
    chosen = name or current_settings().target or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET
    return machine.load(chosen)


def unmet_wishes() -> Iterator[str]:
    """What the environment asks for and doesn't get. NKI_SIMULATOR=1 it always gets: a kernel that
    is called is simulated."""
    for (variable, value), consequence in NOT_YET.items():
        if os.environ.get(variable) == value:
            yield f"{variable}={value}, but {consequence}"
