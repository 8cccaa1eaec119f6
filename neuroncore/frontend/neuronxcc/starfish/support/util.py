"""The comparison of results that published tests call."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["allclose"]


def allclose(
    actual: Any, desired: Any, rtol: float = 1e-5, atol: float = 1e-8, verbose: int = 0, **_: Any
) -> bool:
    """Return whether |actual - desired| <= atol + rtol * max |desired| everywhere."""
    a, b = (np.asarray(x).astype(np.float64) for x in (actual, desired))
    limit = atol + rtol * (np.abs(b).max() if b.size else 0.0)
    return bool(a.shape == b.shape and (np.abs(a - b) <= limit).all())


def __dir__() -> list[str]:
    return __all__
