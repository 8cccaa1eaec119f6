"""Small arrays are cast by ml_dtypes and large ones by loops, with the same bits and the same
errors."""

import warnings
from itertools import product

import numpy as np
import pytest
from every import for_all

from neuroncore import numerics
from neuroncore.base.errors import UsageError
from neuroncore.numerics import codec, convert, quick
from neuroncore.numerics.formats import float32

FORMS = [*quick.FORMS.values()]
LOW = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)  # halves of a float32


def numbers(form):
    """Every code of a narrow format; float32 with every upper half, so with every exponent."""
    if form is float32:
        codes = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | LOW
        return codes.reshape(-1).view(np.float32)
    return np.arange(1 << form.bits).astype(form.code_type).view(form.numpy)


def bits(array):
    return array.view(f"u{array.itemsize}")


@for_all("target", FORMS)
@for_all("source", FORMS)
def test_small_and_large_arrays_get_the_same_bits(source, target):
    given = numbers(source)
    loops = codec.cast(source, target, given.view(source.storage))
    most, kept, _, loop = quick._plan(given.dtype, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if most > 0:
            small = quick.QUIET.copy().run(given.astype, kept, "C")
            assert small.dtype == kept and np.array_equal(bits(loops), bits(small))
        if loop is not None:
            assert np.array_equal(bits(loops), bits(loop(given)))


def test_all_formats_but_those_with_other_rules_are_cast_by_ml_dtypes():
    """In ml_dtypes, NaN in float4_e2m1fn is -0, and 0 in float8_e8m0fnu is NaN."""
    small = {form for form in FORMS if quick._plan(np.dtype("bfloat16"), form)[0] > 0}
    assert {*FORMS} - small == {"bfloat16", "float4_e2m1fn", "float8_e8m0fnu"}


def test_the_order_of_elements_and_the_number_of_axes_stay():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4).T
    for given, form in product((x, x[::2, :, 1:], np.float32(3).reshape(())), ("bf16", "fp16")):
        found = quick.cast(given, form)
        assert found.shape == given.shape and found.flags.c_contiguous
        assert (found.astype(np.float32) == given).all()


@pytest.mark.parametrize("dtype", ["tf32", "mxfp8", "float32", "int8", ["a list"]])
def test_casts_that_may_differ_use_the_loops(dtype):
    x = np.array([0.3, -2.0], np.float32)
    if dtype in ("mxfp8", ["a list"]):
        with pytest.raises(UsageError):
            numerics.cast(x, dtype)
    else:
        assert quick.cast(x, dtype) is None
        assert np.array_equal(
            bits(numerics.cast(x, dtype)), bits(convert._cast(x, dtype, "nearest", 0, False))
        )


def test_saturation_a_mode_and_the_other_byte_order_are_kept():
    x = np.array([1e6, -1e6, 0.3], np.float32)
    assert numerics.cast(x, "e4m3", saturate=True).astype(float).tolist()[:2] == [448, -448]
    assert numerics.cast(x.astype(">f4"), "bf16").astype(float).tolist()[0] == 999424.0
    with pytest.raises(UsageError):
        numerics.cast(x, "bf16", seed="none")
