"""Families of hidden inputs. A kernel that is correct for random numbers may be wrong for large,
equal or extreme numbers, so some hidden inputs are changed into such numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.numerics.formats import lookup

Array = npt.NDArray[Any]
Variation = Callable[[Array, np.random.Generator], Array]
LARGE, TINY = 32.0, 2.0**-20  # factors; float32 sums of such numbers stay finite
NONZERO = 0.05  # the fraction of a sparse array that is not zero


def _scaled(by: float) -> Variation:
    return lambda array, _: (array.astype(np.float64) * by).astype(array.dtype)


def _constant(array: Array, _: np.random.Generator) -> Array:
    return np.full_like(array, array.reshape(-1)[0]) if array.size else array


def _sorted(array: Array, _: np.random.Generator) -> Array:
    order = np.argsort(array.astype(np.float64), axis=None)
    return array.reshape(-1)[order].reshape(array.shape)


def _sparse(array: Array, random: np.random.Generator) -> Array:
    return np.where(random.random(array.shape) < NONZERO, array, np.zeros_like(array))


def _ends(array: Array, random: np.random.Generator) -> Array:
    """Return an array whose elements are each the smallest or the largest value of `array`, at
    random. If `array` contains indices, these two values are the ends of the range of indices."""
    if not array.size:
        return array
    ends = np.array([array.min(), array.max()], array.dtype)
    return ends[random.integers(0, 2, array.shape)]


# Each family has a variation for arrays of floats, and a variation for arrays of integers. None
# leaves these arrays unchanged.
FAMILIES: dict[str, tuple[Variation | None, Variation | None]] = {
    "usual": (None, None),
    "large": (_scaled(LARGE), None),
    "tiny": (_scaled(TINY), None),
    "constant": (_constant, None),
    "sorted": (_sorted, None),
    "sparse": (_sparse, None),
    "ends": (None, _ends),
    "repeats": (None, _constant),
}


def varied(family: str, seed: int, value: Any) -> Any:
    """Return the argument `value` after the change that `family` makes. Values that the family does
    not change, such as numbers and strings, are returned unchanged. `seed` determines the random
    choices."""
    if not isinstance(value, np.ndarray):
        return value
    of_floats, of_integers = FAMILIES[family]
    change = of_integers if lookup(value.dtype).is_integer else of_floats
    return value if change is None else change(value, np.random.default_rng(seed))
