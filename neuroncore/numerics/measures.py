"""The distance between numbers: in decibels, and in units in the last place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.numerics.convert import decode, step
from neuroncore.numerics.formats import float32, lookup_any
from neuroncore.numerics.libraries import of_any_library

Array = npt.NDArray[Any]


@of_any_library
def sqnr(reference: npt.ArrayLike, result: npt.ArrayLike) -> float:
    """Return the signal-to-quantization-noise ratio in decibels, computed in float64: 10
    log10(sum(reference^2) / sum((reference - result)^2)).

    Equal arrays give infinity. Raises UsageError for arrays of different shapes."""
    expected, actual = _pair(reference, result)
    noise = float(np.sum((expected - actual) ** 2))
    signal = float(np.sum(expected**2))
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


@of_any_library
def ulps(result: npt.ArrayLike, reference: npt.ArrayLike, dtype: Any = None) -> Array:
    """Return the errors of a result in units in the last place of a format, as float64.

    An error is (result - reference), divided by the distance between adjacent numbers at the
    reference. For a reference below the smallest normal number, or above the largest number, the
    distance at that number is used. `dtype` is by default the format of `result`, or float32 for 64
    bits.

    The error is 0 for equal infinities, and for two NaN. It is not finite for any other infinity or
    NaN. Raises UsageError for arrays of different shapes."""
    form = lookup_any(dtype) if dtype is not None else _format(result)
    actual, expected = _pair(result, reference)
    with np.errstate(invalid="ignore"):
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        errors: Array = np.where(same, 0, (actual - expected) / step(form, expected))
    return errors


def _format(result: npt.ArrayLike) -> Any:
    dtype = np.asarray(result).dtype
    return float32 if dtype.itemsize > float32.itemsize else lookup_any(dtype)


def _pair(reference: npt.ArrayLike, other: npt.ArrayLike) -> tuple[Array, Array]:
    first, second = _wide(reference), _wide(other)
    if first.shape != second.shape:
        raise UsageError(f"the shapes differ: {first.shape} and {second.shape}")
    return first, second


def _wide(values: npt.ArrayLike) -> Array:
    """Return the numbers as float64, exactly."""
    array = np.asarray(values)
    if array.dtype.itemsize > 2 or array.dtype.kind in "biu":
        return array.astype(np.float64)
    return np.asarray(decode(array, array.dtype), np.float64)
