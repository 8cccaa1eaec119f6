"""Where a kernel's error comes from, for Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from neuroncore.core.core import Core
from neuroncore.errors import UsageError
from neuroncore.frontend.launch import Run
from neuroncore.frontend.settings import current_settings, environment_options, settings
from neuroncore.precision.findings import Precision


class _Last:
    """Keeps the last launch."""

    def __init__(self) -> None:
        self.run: Run | None = None

    def begun(self, core: Core) -> None:
        pass

    def done(self, run: Run) -> None:
        self.run = run


def precision_of(
    kernel: Callable[..., Any],
    *args: Any,
    bound: float | None = None,
    target: str | None = None,
    **kwargs: Any,
) -> Precision:
    """Launch a kernel with float64 beside it; what that says of the errors.

    `kernel` is a function decorated with `nki.jit`, of either API, or anything that launches one;
    of several launches the last counts. `bound` is the relative L2 error of a result that is worth
    being told of. Raises UsageError if nothing was launched.
    """
    current, last = current_settings(), _Last()
    options = current.options or environment_options()
    options = replace(options, precision=True, precision_bound=bound)
    with settings(target or current.target, options, last):
        kernel(*args, **kwargs)
    if last.run is None or last.run.precision is None:
        raise UsageError(f"{getattr(kernel, '__name__', kernel)!r} launched no kernel")
    return last.run.precision
