"""Casts to nearest that cost little time per call: ml_dtypes for small arrays, compiled loops for
large ones.

ml_dtypes returns the same bits for the formats of `SAME`, except for the pairs in `NAN_DIFFERS`
(tests/numerics/test_quick.py compares all codes)."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.numerics import codec
from neuroncore.numerics.formats import (
    Format,
    bfloat16,
    float4_e2m1fn,
    float8_e3m4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
    lookup_any,
)
from neuroncore.numerics.loops import codec as native

Array = npt.NDArray[Any]
Loop = Callable[[Array], Array]

BYTES = (float8_e5m2, float8_e4m3, float8_e4m3fn, float8_e3m4)
SAME = (float32, bfloat16, float16, *BYTES)
NAN_DIFFERS = {(float32, float16), (float16, float32)}  # numpy keeps the payload of a NaN
# By source and target: the largest number of elements for which ml_dtypes is faster than a loop.
# ml_dtypes vectorizes casts between float32 and bfloat16.
MOST = {(float32, bfloat16): 1 << 15, (bfloat16, float32): 1 << 62}
MOST_OF_OTHERS = 1 << 8
FORMS = {form.numpy: form for form in (*SAME, float4_e2m1fn, float8_e8m0fnu)}
# ml_dtypes warns about signaling NaNs and overflows; the loops do not. Since 2.0, numpy keeps its
# settings for warnings in the context.
IN_CONTEXT = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
QUIET = copy_context()
if IN_CONTEXT:
    QUIET.run(np.seterr, invalid="ignore", over="ignore")


def cast(array: Array, dtype: Any) -> Array | None:
    """Return a copy of a numpy array in another format, rounded to nearest; None if this module
    does not support the cast. Raises UsageError for an unknown format."""
    try:
        most, result_type, exact, loop = _plan(array.dtype, dtype)
    except TypeError:  # dtype can't be the key of a dict
        return None
    if array.size > most:
        return None if loop is None else loop(array)
    return (
        array.astype(result_type, "C")
        if exact
        else QUIET.copy().run(array.astype, result_type, "C")
    )


@lru_cache(maxsize=512)
def _plan(
    dtype_of_array: np.dtype[Any], dtype: Any
) -> tuple[int, np.dtype[Any], bool, Loop | None]:
    """Return how to cast from the numpy type `dtype_of_array`: (most elements for ml_dtypes, or -1;
    numpy type of the result; whether it is wider; loop for larger arrays, or None)."""
    source, target = FORMS.get(dtype_of_array), lookup_any(dtype)
    if source is None or target is source or target not in FORMS.values():
        return -1, dtype_of_array, False, None
    result_type, loop = target.numpy, _loop(source, target)
    exact = dtype_of_array.itemsize < result_type.itemsize
    same = {source, target} <= {*SAME} and (source, target) not in NAN_DIFFERS
    most = MOST.get((source, target), MOST_OF_OTHERS) if same and (exact or IN_CONTEXT) else -1
    return most, result_type, exact, loop


def _loop(source: Format, target: Format) -> Loop | None:
    """Return the compiled cast between two formats; None unless one of them is float32."""
    if float32 not in (source, target):
        return None
    steps = _encoding(target) if source is float32 else _decoding(source)
    loop, read_as, written_as, numbers = steps
    return partial(_looped, loop, read_as, written_as, numbers, target.numpy)


def _encoding(form: Format) -> tuple[Any, ...]:
    """Return how to convert float32 to a format: (loop, numpy type of its input, numpy type of its
    output, constants)."""
    if form is bfloat16:
        return native.wide_from, float32.numpy, form.code_type, ()
    if form is float8_e8m0fnu:
        return native.scales_from, float32.code_type, form.code_type, ()
    return native.narrow_from, float32.numpy, form.code_type, (codec.narrow_numbers(form),)


def _decoding(form: Format) -> tuple[Any, ...]:
    """Return how to convert a format to float32, in the form of `_encoding`."""
    types = form.code_type, float32.code_type
    if form is bfloat16:
        return native.float32_from_bfloat16, *types, ()
    if form is float8_e8m0fnu:
        return native.float32_from_scales, *types, ()
    return native.float32_from_narrow, *types, (codec.widening(form),)


def _looped(
    loop: Callable[..., None],
    read_as: np.dtype[Any],
    written_as: np.dtype[Any],
    numbers: tuple[Array, ...],
    dtype: np.dtype[Any],
    array: Array,
) -> Array:
    """Run a loop on an array, as elements of type `read_as` and `written_as`. Return the results as
    `dtype`."""
    out = np.empty(array.size, written_as)
    loop(array.ravel().view(read_as), out, *numbers)
    return out.view(dtype).reshape(array.shape)
