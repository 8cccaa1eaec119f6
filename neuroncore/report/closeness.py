"""Text about a result that differs from its reference.

The text shows the worst element, and a histogram of errors in units in the last place (ulps)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.numerics.measures import ulps
from neuroncore.report.compare import Comparison

Array = npt.NDArray[Any]
BAR = 40  # characters of the longest bar


def described(got: Any, want: Any, comparison: Comparison, allowed: float) -> str:
    """Return lines about a result `got` and its reference `want`.

    The lines state the relative L2 error, the `allowed` L2 error, the worst element, and a
    histogram of errors by powers of 2. Errors are in units in the last place of the result's
    format."""
    errors = np.abs(ulps(got, want))
    form = np.asarray(got).dtype
    place, worst = list(comparison.worst), errors[comparison.worst]
    lines = [
        f"the result differs from the reference: relative L2 error {comparison.rel_l2:.3g}, "
        f"allowed {allowed:g}",
        f"worst element {place}: {comparison.got:.9g}, expected {comparison.want:.9g}, "
        f"off by {worst:.3g} ulps of {form}",
        f"{'ulps':>12}  elements",
    ]
    return "\n".join([*lines, *_histogram(errors.ravel())])


def _histogram(errors: Array) -> Iterator[str]:
    """Yield a line for each range of errors that has an element. `errors` are absolute, in ulps."""
    finite = errors[np.isfinite(errors)]
    level = np.where(finite >= 1, np.floor(np.log2(np.maximum(finite, 1))) + 1, 0).astype(np.int64)
    counts = np.bincount(level)
    rows = [(_range(n), int(counts[n])) for n in np.flatnonzero(counts).tolist()]
    if not_finite := errors.size - finite.size:
        rows.append(("not finite", not_finite))
    most = max(count for _, count in rows)
    for name, count in rows:
        yield f"{name:>12}  {count:<9,} {'#' * -(-count * BAR // most)}"


def _range(level: int) -> str:
    if level == 0:
        return "below 1"
    return f"{1 << level - 1} to {1 << level}"
