"""Casts of small arrays by ml_dtypes' own casts, which have less fixed cost than compiled loops.

Their results are the same, bit for bit, between the formats of `SAME` (compared for all codes by
tests/numerics/test_quick.py). Loops are faster for large arrays.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.numerics.formats import (
    bfloat16,
    float8_e3m4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float32,
    lookup_any,
)

Array = npt.NDArray[Any]

BYTES = (float8_e5m2, float8_e4m3, float8_e4m3fn, float8_e3m4)
SAME = {form.numpy: form for form in (float32, bfloat16, *BYTES)}
# The most elements for which a loop is slower, by target and source. ml_dtypes vectorizes casts
# between float32 and bfloat16.
MOST = 1 << 11
VECTORIZED = {(bfloat16, float32): 1 << 15, (float32, bfloat16): 1 << 62}


@lru_cache(maxsize=512)
def _target(source: np.dtype[Any], dtype: Any) -> tuple[np.dtype[Any], int] | None:
    """Return numpy's type of a format and the most elements for which its cast is faster; None if
    the cast may differ."""
    if source not in SAME:
        return None
    form = lookup_any(dtype)
    if form not in SAME.values() or form is SAME[source]:
        return None
    return form.numpy, VECTORIZED.get((form, SAME[source]), MOST)


def cast(array: Array, dtype: Any) -> Array | None:
    """Return a copy of a small numpy array in another format, rounded to nearest; None if it is
    large or in other formats. Raises UsageError for an unknown format."""
    try:
        found = _target(array.dtype, dtype)
    except TypeError:  # of what can't be a key
        return None
    if found is None or array.size > found[1]:
        return None
    if array.itemsize < found[0].itemsize:
        return array.astype(found[0], order="C")
    return _quietly(array, found[0])


@np.errstate(invalid="ignore")
def _quietly(array: Array, dtype: np.dtype[Any]) -> Array:
    """A signaling NaN becomes a quiet one without a warning, as in the loops."""
    return array.astype(dtype, order="C")
