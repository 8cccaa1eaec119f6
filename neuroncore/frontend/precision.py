"""The sources of a kernel's numerical error, as a function for Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from neuroncore.frontend.settings import current_settings, environment_options, last_launch
from neuroncore.precision.findings import Precision


def precision_of(
    kernel: Callable[..., Any],
    *args: Any,
    bound: float | None = None,
    target: str | None = None,
    **kwargs: Any,
) -> Precision:
    """Launch a kernel together with a computation in float64, and return the errors.

    `kernel` is a function decorated with `nki.jit`, of either API, or anything that launches one;
    the last of several launches counts. `bound` is the least relative L2 error of a result that is
    reported. Raises UsageError if nothing was launched.
    """
    options = current_settings().options or environment_options()
    options = replace(options, precision=True, precision_bound=bound)
    precision = last_launch(kernel, args, kwargs, target, options).precision
    assert precision is not None  # the option sets it
    return precision
