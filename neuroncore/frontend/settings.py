"""Settings for all launches of the process: target, options, observer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options, documented, ideal
from neuroncore.core.core import Core
from neuroncore.core.precision.findings import Precision
from neuroncore.frontend.outcome import Launch
from neuroncore.machine import Machine

if TYPE_CHECKING:
    from neuroncore.frontend.originals import Originals

DEFAULT_TARGET = "trn2"
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
STOCHASTIC_VARIABLE = "NEURON_RT_STOCHASTIC_ROUNDING_EN"
SEED_VARIABLE = "NEURON_RT_STOCHASTIC_ROUNDING_SEED"
PRECISE_VARIABLE = "NKI_PRECISE_FP"
FLAGS_VARIABLE = "NEURON_CC_FLAGS"
VERIFY_VARIABLE = "NEURONCORE_VERIFY"
SWITCH = {"1": True, "true": True, "0": False, "false": False}


class Observer(Protocol):
    """An observer of launches. `begun` is called with the first core when a launch begins. `done`
    is called with the Launch of each rank at the end."""

    def begun(self, core: Core) -> None: ...

    def done(self, *ranks: Launch) -> None: ...


class Settings(NamedTuple):
    """Settings of launches. The arguments of `launch` take precedence.

    `keeps`: whether a launch keeps copies of the arrays among its arguments
    `verify`: whether launches are compared with the plain reading, a second implementation in numpy
        (neuroncore.plain)
    `originals`: copies arguments before instructions write to them; inherited by nested settings"""

    target: str | None = None
    options: Options | None = None
    observer: Observer | None = None
    keeps: bool = False
    verify: bool = False
    originals: Originals | None = None


_settings: ContextVar[Settings | None] = ContextVar("settings", default=None)
_process = Settings()  # for threads without settings, because a thread begins with an empty context


def current_settings() -> Settings:
    return _settings.get() or _process


def verifies() -> bool:
    """Return whether launches are verified, because of the settings or the environment variable
    NEURONCORE_VERIFY. The variable is 1, or the name of a file to which each launch appends a line
    of JSON."""
    return current_settings().verify or os.environ.get(VERIFY_VARIABLE, "0") not in ("", "0")


@contextmanager
def settings(
    target: str | None = None,
    options: Options | None = None,
    observer: Observer | None = None,
    *,
    keeps: bool = False,
    verify: bool = False,
    originals: Originals | None = None,
    in_every_thread: bool = False,
) -> Iterator[None]:
    """A context manager: kernels are launched with these settings, from this thread or from every
    thread. With `keeps`, a launch keeps copies of the arrays among its arguments, so that an
    observer can execute the launch again."""
    global _process
    originals = originals or current_settings().originals
    new, before = Settings(target, options, observer, keeps, verify, originals), _process
    token = _settings.set(new)
    if in_every_thread:
        _process = new
    try:
        yield
    finally:
        _process = before
        _settings.reset(token)


def notify(*ranks: Launch) -> bool:
    """Report a finished launch, one Launch per rank, to the observer. Return whether there is an
    observer."""
    observer = current_settings().observer
    if observer is not None:
        observer.done(*ranks)
    return observer is not None


class _LastLaunch:
    """An observer that keeps the last launch on a single rank. It reports all launches to `outer`,
    the observer that was set before."""

    def __init__(self, outer: Observer | None) -> None:
        self.outer = outer
        self.run: Launch | None = None

    def begun(self, core: Core) -> None:
        if self.outer is not None:
            self.outer.begun(core)

    def done(self, *ranks: Launch) -> None:
        if len(ranks) == 1:
            self.run = ranks[0]
        if self.outer is not None:
            self.outer.done(*ranks)


def last_launch(
    kernel: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    target: str | None = None,
    options: Options | None = None,
    originals: Originals | None = None,
) -> Launch:
    """Call a function that launches kernels, and return the last launch on a single rank. Raises
    UsageError without such a launch.

    `target`, `options`, `originals`: settings for this call; None for the current ones"""
    current = current_settings()
    last = _LastLaunch(current.observer)
    target, options = target or current.target, options or current.options
    keeps, verify = current.keeps, current.verify
    with settings(target, options, last, keeps=keeps, verify=verify, originals=originals):
        kernel(*args, **kwargs)
    if last.run is None:
        raise UsageError(f"{getattr(kernel, '__name__', kernel)!r} launched no kernel")
    return last.run


@contextmanager
def unobserved() -> Iterator[None]:
    """A context manager: this thread launches kernels without an observer and without warnings."""
    current = current_settings()
    with settings(current.target, current.options, _LastLaunch(None), verify=current.verify):
        yield


def target_machine(name: str | None = None) -> Machine:
    """Return the machine to run on. Its name is the first of four that is set: `name`, the target
    of the settings, the environment variable TARGET_VARIABLE, and trn2."""
    target = name or current_settings().target or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET
    return machine.load(target)


def environment_options() -> Options:
    """Return the options that the vendor's environment variables set. NKI_SIMULATOR=1 needs no
    option, because kernels are always simulated.

    Raises UsageError for a switch that is neither on nor off, and for a seed that isn't an unsigned
    number of 32 bits."""
    options = documented if _switched(PRECISE_VARIABLE, True) else ideal
    if not _switched(STOCHASTIC_VARIABLE, False):
        return options
    seed = os.environ.get(SEED_VARIABLE) or "0"
    if not (seed.isdecimal() and int(seed) < 1 << 32):
        raise UsageError(f"{SEED_VARIABLE} is {seed!r}; it must be from 0 to 2^32 - 1")
    return replace(options, stochastic=True, stochastic_seed=int(seed))


def compiler_flags(option: str | None = None) -> list[str]:
    """Return the flags of the compiler, as words, from the environment and from `option`."""
    return f"{os.environ.get(FLAGS_VARIABLE, '')} {option or ''}".split()


def _switched(variable: str, default: bool) -> bool:
    """Return whether an environment variable is on, or `default` if it is not set. Raises
    UsageError for a value that is not in SWITCH."""
    value = os.environ.get(variable, "")
    if not value:
        return default
    if value.lower() not in SWITCH:
        raise UsageError(f"{variable} is {value!r}; it must be 0 or 1")
    return SWITCH[value.lower()]


def precision_of(
    kernel: Callable[..., Any],
    *args: Any,
    bound: float | None = None,
    target: str | None = None,
    **kwargs: Any,
) -> Precision:
    """Launch a kernel together with a computation in float64, and return the numeric errors.

    `kernel` is a function decorated with `nki.jit`, of either API, or any function that launches a
    kernel. If it launches several kernels, the errors of the last launch are returned. Results with
    a relative L2 error of at least `bound` are reported. Raises UsageError if nothing was
    launched."""
    options = current_settings().options or environment_options()
    options = replace(options, precision=True, precision_bound=bound)
    precision = last_launch(kernel, args, kwargs, target, options).precision
    assert precision is not None  # the option sets it
    return precision
