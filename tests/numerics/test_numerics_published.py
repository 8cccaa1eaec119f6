"""neuroncore.numerics compared with published vectors, gfloat and numpy."""

import json
from pathlib import Path

import numpy as np
import pytest
from device import bits, same
from every import for_all
from numbers_of_formats import LAYOUT, around, codes_with, narrow, neighbors

from neuroncore import numerics
from neuroncore.numerics import codec, stochastic
from neuroncore.numerics.formats import FORMATS, lookup_any

GOLDEN = json.loads((Path(__file__).parents[1] / "data/golden_vectors.json").read_text())
SHORT = {
    "bf16": "bfloat16",
    "fp16": "float16",
    **{short: f"float8_{short}" for short in ("e5m2", "e4m3", "e4m3fn", "e3m4")},
    **{f"{sign[0]}{width}": f"{sign}{width}" for sign in ("int", "uint") for width in (8, 16, 32)},
}


# --- published vectors ----------------------------------------------------------------------------


@for_all("short", GOLDEN["rne"])
def test_golden_nearest(short):
    given, plain, saturated = np.array(GOLDEN["rne"][short], np.uint32).T
    values = given.copy().view(np.float32)
    assert np.array_equal(numerics.encode(values, SHORT[short]), plain)
    assert np.array_equal(numerics.encode(values, SHORT[short], saturate=True), saturated)


@for_all("short", GOLDEN["sr"])
def test_golden_stochastic(short):
    given, words, want = np.array(GOLDEN["sr"][short], np.uint32).T
    form, values = FORMATS[SHORT[short]], given.copy().view(np.float32)
    got = codes_with(form, values, words.copy()).view(form.code_type)
    assert np.array_equal(got, want)
    one = [stochastic.encode_one(form, float(v), int(r)) for v, r in zip(values, words)]
    assert one == want.tolist()


@for_all("short", GOLDEN["f2i"])
def test_golden_integers(short):
    given, want = np.array(GOLDEN["f2i"][short], np.int64).T
    values = given.astype(np.uint32).view(np.float32)
    assert np.array_equal(numerics.cast(values, SHORT[short]).astype(np.int64), want)


@for_all("value, pattern, signed, unsigned", GOLDEN["int_via_fp32"])
def test_golden_wide_integers(value, pattern, signed, unsigned):
    given = np.array([value], np.int32)
    assert bits(numerics.decode(given, "int32")) == pattern
    assert numerics.cast(numerics.cast(given, "float32"), "int32") == signed
    assert numerics.cast(given, "uint32") == unsigned


def test_golden_four_bits():
    assert numerics.encodings("float4_e2m1fn")["value"][:8].tolist() == GOLDEN["fp4_e2m1"]


# --- other libraries ------------------------------------------------------------------------------


@narrow
def test_every_upper_half_of_a_float32_with_sixteen_lower_ones(form):
    """1,048,576 values against ml_dtypes and numpy; all 2^32 are in bench/formats.py."""
    low = np.array([0, 1, 2, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x3FFF, 0x4000, 0x7FFF, 0x8000,
                    0x8001, 0xBFFF, 0xC000, 0xFFFF], np.uint32)  # fmt: skip
    pattern = (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | low).reshape(-1)
    values = pattern.view(np.float32)
    with np.errstate(all="ignore"):
        want = bits(values.astype(form.numpy))
    got = numerics.encode(values, form)
    nan = np.isnan(values)
    assert np.array_equal(got[~nan], want[~nan])
    sign = np.where(np.signbit(values), 1 << form.bits - 1, 0)
    assert np.array_equal(got[nan], (sign | form.nan_code)[nan])


def gfloat_format(gfloat, name):
    exponent, mantissa, bias, infinite, nan = LAYOUT[name]
    return gfloat.FormatInfo(
        name=name,
        k=1 + exponent + mantissa,
        precision=mantissa + 1,
        bias=bias,
        has_nz=True,
        domain=gfloat.Domain.Extended if infinite else gfloat.Domain.Finite,
        num_high_nans=(1 << mantissa) - 1 if infinite else int(nan),
        has_subnormals=True,
        is_signed=True,
        is_twos_complement=False,
    )


GFLOAT = [pytest.param(n, id=n) for n in LAYOUT]


@pytest.mark.parametrize("name", LAYOUT)
@pytest.mark.parametrize("saturate", [False, True])
def test_rounding_to_nearest_agrees_with_gfloat(name, saturate):
    gfloat = pytest.importorskip("gfloat")
    values, form = neighbors(name), gfloat_format(gfloat, name)
    sat = saturate or only_saturates(name)
    want = gfloat.round_ndarray(form, values.astype(np.float64), sat=sat)
    same(numerics.round(values, name, saturate=saturate), want.astype(np.float32))


@pytest.mark.parametrize("name", LAYOUT)
def test_stochastic_rounding_agrees_with_gfloat(name):
    """gfloat adds a random R' to the fraction and rounds up if the sum reaches 1. neuroncore's R is
    2^20 - 1 - R', in the upper bits. With 20 bits, gfloat's float64 sum is exact except for the
    smallest fractions."""
    gfloat = pytest.importorskip("gfloat")
    values, form = neighbors(name), gfloat_format(gfloat, name)
    exponent = np.frexp(values.astype(np.float64))[1]
    *_, mantissa, bias = LAYOUT[name][:3]
    values = values[exponent > 2 - bias - mantissa - 20]
    given = np.random.default_rng(5).integers(0, 1 << 20, len(values))
    how = gfloat.RoundMode.StochasticFastest
    exact = values.astype(np.float64)
    theirs = gfloat.round_ndarray(form, exact, how, only_saturates(name), given, 20)
    words = ((1 << 20) - 1 - given << 12 | 0xFFF).astype(np.uint32)
    ours = lookup_any(name)
    codes = codes_with(ours, values, words)
    same(codec.decode(ours, codes), theirs.astype(np.float32))


def only_saturates(name):
    """Return whether a format has neither infinities nor NaN."""
    return LAYOUT[name][3:] == (False, False)


@pytest.mark.parametrize("name", LAYOUT)
def test_every_code_is_read_like_in_gfloat(name):
    gfloat = pytest.importorskip("gfloat")
    form, width = gfloat_format(gfloat, name), 1 + sum(LAYOUT[name][:2])
    if name == "tfloat32":
        codes = np.arange(1 << width)
        ours = numerics.decode((codes << 13).astype(np.uint32), name)
    else:
        codes, ours = np.arange(1 << width), numerics.encodings(name)["value"].astype(np.float32)
    same(ours, gfloat.decode_ndarray(form, codes).astype(np.float32))


def test_tfloat32_is_rounded_to_its_own_steps():
    values = around("tfloat32", 100_000)
    step = np.ldexp(1.0, np.maximum(np.frexp(values.astype(np.float64))[1] - 11, -136))
    want = np.rint(values / step) * step
    want[np.abs(want) >= 2.0**128] = np.copysign(np.inf, want[np.abs(want) >= 2.0**128])
    got = numerics.round(values, "tf32")
    same(got, want.astype(np.float32))
    assert not (bits(got) & 0x1FFF).any()
    assert np.array_equal(bits(numerics.round(values, "fp32r")), bits(got))
