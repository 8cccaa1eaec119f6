"""Where a kernel's error comes from, for Python."""

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
    """Launch a kernel with float64 beside it; what that says of the errors.

    `kernel` is a function decorated with `nki.jit`, of either API, or anything that launches one;
    of several launches the last counts. `bound` is the relative L2 error of a result that is worth
    being told of. Raises UsageError if nothing was launched.
    """
    options = current_settings().options or environment_options()
    options = replace(options, precision=True, precision_bound=bound)
    found = last_launch(kernel, args, kwargs, target, options).precision
    assert found is not None  # by the option
    return found
