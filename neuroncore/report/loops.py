"""The compiled loop that compares a result with its reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled

Array = npt.NDArray[Any]
LANES = 16  # independent partial sums, so that vector instructions add them


@compiled
def distance(got: Array, want: Array) -> tuple[float, float, float]:
    """Return the sum of (got - want)^2, the sum of want^2, and the largest |got - want|.

    All are float64. A sum is NaN if an element is NaN."""
    errors, squares, worst = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    whole = got.size // LANES * LANES
    for i in range(0, whole, LANES):
        for j in range(LANES):
            wanted = np.float64(want[i + j])
            error = np.float64(got[i + j]) - wanted
            errors[j] += error * error
            squares[j] += wanted * wanted
            if abs(error) > worst[j]:
                worst[j] = abs(error)
    for i in range(whole, got.size):
        wanted = np.float64(want[i])
        error = np.float64(got[i]) - wanted
        errors[0] += error * error
        squares[0] += wanted * wanted
        worst[0] = max(worst[0], abs(error))
    return errors.sum(), squares.sum(), worst.max()
