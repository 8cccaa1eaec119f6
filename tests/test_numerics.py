"""neuroncore.numerics: conversions against golden vectors, gfloat and numpy, and what it says."""

import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from device import bits
from numbers_of_formats import IN_NUMPY, LAYOUT, around, magnitudes

from neuroncore import codec, numerics, stochastic
from neuroncore.errors import UsageError
from neuroncore.formats import CONFIGURABLE, FLOATS, FORMATS, OPAQUE, PACKED, lookup

GOLDEN = json.loads((Path(__file__).parent / "data/golden_vectors.json").read_text())
SHORT = {
    "bf16": "bfloat16",
    "fp16": "float16",
    **{short: f"float8_{short}" for short in ("e5m2", "e4m3", "e4m3fn", "e3m4")},
    **{f"{sign[0]}{width}": f"{sign}{width}" for sign in ("int", "uint") for width in (8, 16, 32)},
}
NARROW = [f for f in FLOATS if f.bits <= 16]
narrow = pytest.mark.parametrize("form", NARROW, ids=str)


# --- published vectors ----------------------------------------------------------------------------


@pytest.mark.parametrize("short", GOLDEN["rne"])
def test_golden_nearest(short):
    given, plain, saturated = np.array(GOLDEN["rne"][short], np.uint32).T
    values = given.copy().view(np.float32)
    assert np.array_equal(numerics.encode(values, SHORT[short]), plain)
    assert np.array_equal(numerics.encode(values, SHORT[short], saturate=True), saturated)


@pytest.mark.parametrize("short", GOLDEN["sr"])
def test_golden_stochastic(short):
    given, words, want = np.array(GOLDEN["sr"][short], np.uint32).T
    form, values = FORMATS[SHORT[short]], given.copy().view(np.float32)
    got = stochastic.encode_with(form, values, words.copy()).view(form.code_type)
    assert np.array_equal(got, want)
    one = [stochastic.encode_one(form, float(v), int(r)) for v, r in zip(values, words)]
    assert one == want.tolist()


@pytest.mark.parametrize("short", GOLDEN["f2i"])
def test_golden_integers(short):
    given, want = np.array(GOLDEN["f2i"][short], np.int64).T
    values = given.astype(np.uint32).view(np.float32)
    assert np.array_equal(numerics.cast(values, SHORT[short]).astype(np.int64), want)


@pytest.mark.parametrize("value, pattern, signed, unsigned", GOLDEN["int_via_fp32"])
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


def neighbours(name):
    """Every value of an 8-bit format, all halves, quarters and eighths between, and float32 beside
    those, of both signs, to beyond the largest; of wider formats a million around their range."""
    if LAYOUT[name][0] + LAYOUT[name][1] > 7:
        return around(name, 1_000_000)
    table = magnitudes(name)
    table = np.append(table, table[-1] + np.arange(1, 5) * (table[-1] - table[-2]))
    parts = np.arange(8) / 8
    between = table[:-1, None] + parts * np.diff(table)[:, None]
    middle = between.reshape(-1).astype(np.float32)
    close = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    every = np.concatenate([middle, *close])
    return np.concatenate([every, -every])


def same(ours, theirs):
    theirs = theirs.astype(np.float32)
    nan = np.isnan(theirs)
    assert np.array_equal(np.isnan(ours), nan)
    assert np.array_equal(bits(ours)[~nan], bits(theirs)[~nan])


@pytest.mark.parametrize("name", LAYOUT)
@pytest.mark.parametrize("saturate", [False, True])
def test_gfloat_rounds_to_nearest_as_we_do(name, saturate):
    gfloat = pytest.importorskip("gfloat")
    values, form = neighbours(name), gfloat_format(gfloat, name)
    sat = saturate or name == "float4_e2m1fn"  # which can do nothing else
    want = gfloat.round_ndarray(form, values.astype(np.float64), sat=sat)
    same(numerics.round(values, name, saturate=saturate), want)


@pytest.mark.parametrize("name", LAYOUT)
def test_gfloat_rounds_stochastically_as_we_do(name):
    """There R' joins the fraction, upwards if they reach 1: our R is 2^20 - 1 - R', in the upper
    bits. 20 of them: their float64 then adds exactly all but the smallest fractions."""
    gfloat = pytest.importorskip("gfloat")
    values, form = neighbours(name), gfloat_format(gfloat, name)
    exponent = np.frexp(values.astype(np.float64))[1]
    *_, mantissa, bias = LAYOUT[name][:3]
    values = values[exponent > 2 - bias - mantissa - 20]
    given = np.random.default_rng(5).integers(0, 1 << 20, len(values))
    how = gfloat.RoundMode.StochasticFastest
    sat = name == "float4_e2m1fn"
    theirs = gfloat.round_ndarray(form, values.astype(np.float64), how, sat, given, 20)
    words = ((1 << 20) - 1 - given << 12 | 0xFFF).astype(np.uint32)
    ours = lookup(name) if name in FORMATS else codec_element()
    codes = stochastic.encode_with(ours, values, words)
    same(codec.decode(ours, codes), theirs)


def codec_element():
    return lookup("float4_e2m1fn_x4").element


@pytest.mark.parametrize("name", LAYOUT)
def test_gfloat_reads_every_code_as_we_do(name):
    gfloat = pytest.importorskip("gfloat")
    form, width = gfloat_format(gfloat, name), 1 + sum(LAYOUT[name][:2])
    if name == "tfloat32":
        codes = np.arange(1 << width)
        ours = numerics.decode((codes << 13).astype(np.uint32), name)
    else:
        codes, ours = np.arange(1 << width), numerics.encodings(name)["value"].astype(np.float32)
    same(ours, gfloat.decode_ndarray(form, codes))


def test_tfloat32_is_rounded_in_steps_of_its_own():
    values = around("tfloat32", 100_000)
    step = np.ldexp(1.0, np.maximum(np.frexp(values.astype(np.float64))[1] - 11, -136))
    want = np.rint(values / step) * step
    want[np.abs(want) >= 2.0**128] = np.copysign(np.inf, want[np.abs(want) >= 2.0**128])
    got = numerics.round(values, "tf32")
    same(got, want)
    assert not (bits(got) & 0x1FFF).any()
    assert np.array_equal(bits(numerics.round(values, "fp32r")), bits(got))


# --- arrays in, arrays out ------------------------------------------------------------------------


@pytest.mark.parametrize("form", [*FORMATS.values(), *OPAQUE.values()], ids=str)
@pytest.mark.parametrize("shape", [(4,), (3, 8), (2, 0, 4), (1, 3, 12)])
def test_shapes_and_types(form, shape):
    values = np.random.default_rng(1).uniform(0, 4, shape)
    codes = numerics.encode(values, form)
    packed = form.element is not None
    assert codes.dtype == form.code_type
    assert codes.shape == ((*shape[:-1], shape[-1] // 4) if packed else shape)
    back = numerics.decode(codes, form)
    assert back.dtype == np.float32 and back.shape == shape
    assert np.array_equal(back, numerics.round(values, form))
    assert np.array_equal(numerics.round(back, form), back)
    assert np.array_equal(numerics.decode(codes.view(form.numpy), form), back)


def test_numbers_lists_and_single_numbers_will_do():
    assert (
        numerics.round(1.03, "float8_e4m3") == 1 and numerics.round(1.03, "float8_e4m3").shape == ()
    )
    assert numerics.encode([1, 2], "bfloat16").tolist() == [0x3F80, 0x4000]
    assert numerics.decode([0x3F80, 0x4000], "bfloat16").tolist() == [1, 2]
    assert numerics.decode(0x7E, ml_dtypes.float8_e4m3fn) == 448
    assert numerics.round(np.array([1.5, 2.5]), ml_dtypes.float4_e2m1fn).tolist() == [1.5, 2]
    assert numerics.decode(np.array([-3], np.int8), "int8") == -3


def test_wider_numbers_are_float32_first():
    tie = 1 + 2.0**-8
    assert numerics.round(np.array([tie + 2.0**-40, tie + 2.0**-20]), "bfloat16").tolist() == [
        1,
        1 + 2.0**-7,
    ]
    assert numerics.round(np.array([2**30 + 2**22 + 1]), "bfloat16") == 2**30


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "uint16"])
def test_the_order_of_bytes_does_not_matter(dtype):
    here = np.array([1, 2, 300], dtype)
    other = here.astype(here.dtype.newbyteorder())
    for function in (numerics.cast, numerics.encode):
        a, b = function(here, "bfloat16"), function(other, "bfloat16")
        assert a.dtype == b.dtype and np.array_equal(a, b)
    assert np.array_equal(numerics.decode(other, dtype), [1, 2, 300])
    assert numerics.cast(other, dtype).dtype == here.dtype


def test_results_are_new_arrays():
    values = np.ones(4, np.float32)
    for made in (
        numerics.encode(values, "float32"),
        numerics.decode(values, "float32"),
        numerics.round(values, "float32"),
        numerics.cast(values, "float32"),
    ):
        assert not np.shares_memory(made, values)


@pytest.mark.parametrize("form", PACKED, ids=str)
def test_packed_numbers_are_those_of_the_element(form):
    values = around(form.element, 4000).reshape(10, 400)
    codes = numerics.encode(values, form)
    parts = codes[..., None] >> form.element.bits * np.arange(4) & (1 << form.element.bits) - 1
    assert np.array_equal(parts.reshape(values.shape), numerics.encode(values, form.element))
    some = numerics.encode(values, form, "stochastic", 3)
    same(numerics.decode(some, form), numerics.round(values, form.element, "stochastic", 3))


@pytest.mark.parametrize("source", IN_NUMPY)
@pytest.mark.parametrize("target", IN_NUMPY)
def test_a_cast_has_the_other_type(source, target):
    if "float4_e2m1fn" in (source, target):
        return
    codes = np.arange(256).astype(FORMATS[source].code_type)
    given = codes.view(IN_NUMPY[source])
    got = numerics.cast(given, target)
    assert got.dtype == IN_NUMPY[target]
    if source == target:
        assert np.array_equal(bits(got), codes)
    else:
        same(got.astype(np.float32), given.astype(np.float32).astype(IN_NUMPY[target]))


def test_a_copy_keeps_what_nan_carry():
    given = np.array([0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    assert np.array_equal(bits(numerics.cast(given, "float32")), bits(given))
    assert bits(numerics.cast(given, "tfloat32")).tolist() == [0x7FC00000, 0xFFC00000]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "tf32"])
def test_stochastic_modes_repeat_and_go_on_where_a_part_ended(dtype):
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    whole = numerics.round(values, dtype, "stochastic", seed=7)
    assert np.array_equal(whole, numerics.round(values, dtype, "stochastic", numerics.Stream(7)))
    assert not np.array_equal(whole, numerics.round(values, dtype, "stochastic", seed=8))
    rest = numerics.round(values[333:], dtype, "stochastic", 7, first=333)
    assert np.array_equal(whole[333:], rest)
    step = np.abs(numerics.round(values, dtype) - whole)
    assert (step > 0).mean() > 0.1


# --- cFP8 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", CONFIGURABLE, ids=str)
@pytest.mark.parametrize("more", ["least", -5, 1, 4, "most"])
def test_another_bias_is_another_power_of_two(base, more):
    bias = {"least": -64, "most": 120}.get(more, base.bias + more if more in (-5, 1, 4) else 0)
    form, factor = numerics.cfp8(base, bias), 2.0 ** (bias - base.bias)
    assert form.bias == bias and form.max == base.max / factor
    values = numerics.encodings(base)["value"]
    assert np.array_equal(numerics.encodings(form)["value"], values / factor, equal_nan=True)
    given = neighbours(str(base))
    given = np.concatenate([given, np.float32([np.inf, -np.inf, np.nan])])
    scaled = (given.astype(np.float64) / factor).astype(np.float32)
    exact = scaled.astype(np.float64) * factor == given
    exact |= ~np.isfinite(given)
    assert exact.mean() > 0.9
    for mode in ("nearest", "stochastic"):
        for saturate in (False, True):
            want = numerics.encode(given, base, mode, 3, saturate=saturate)
            got = numerics.encode(scaled, form, mode, 3, saturate=saturate)
            assert np.array_equal(got[exact], want[exact])
    one = [codec.encode_one(form, float(v)) for v in scaled[::7]]
    assert np.array_equal(numerics.encode(scaled[::7], form), one)


def test_a_bias_of_its_own_is_the_format_itself():
    assert numerics.cfp8("float8_e4m3", 7) is lookup("float8_e4m3")
    form = numerics.cfp8("float8_e4m3", 9)
    assert form is numerics.cfp8("float8_e4m3", 9) is pickle.loads(pickle.dumps(form))
    assert form != "float8_e4m3"


@pytest.mark.parametrize(
    "dtype, bias, said",
    [
        ("float8_e4m3fn", 3, "fixed bias"),
        ("bfloat16", 120, "fixed bias"),
        ("float8_e4m3", 121, "from -64 to 120"),
        ("float8_e4m3", -65, "from -64 to 120"),
        ("float8_e4m3", 1.5, "from -64 to 120"),
    ],
)
def test_other_biases_are_refused(dtype, bias, said):
    with pytest.raises(UsageError, match=said):
        numerics.cfp8(dtype, bias)


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IN_NUMPY)
def test_the_table_of_codes(name):
    table, width = numerics.encodings(name), 1 + sum(LAYOUT[name][:2])
    exponent, mantissa, bias, *_ = LAYOUT[name]
    assert table["code"].tolist() == [*range(1 << width)]
    stored = np.uint8 if width <= 8 else np.uint16
    with np.errstate(invalid="ignore"):  # NaN that signal
        want = table["code"].astype(stored).view(IN_NUMPY[name]).astype(np.float64)
    assert np.array_equal(table["value"], want, equal_nan=True)
    together = (table["sign"].astype(int) << exponent | table["exponent"]) << mantissa
    assert np.array_equal(together | table["fraction"], table["code"])
    normal = table[table["kind"] == "normal"]
    formula = np.ldexp(
        1 + normal["fraction"] / 2.0**mantissa, normal["exponent"].astype(int) - bias
    )
    assert np.array_equal(np.where(normal["sign"], -formula, formula), normal["value"])
    counts = {k: int((table["kind"] == k).sum()) for k in ("zero", "subnormal", "infinity")}
    assert counts["zero"] == 2 and counts["subnormal"] == 2 * ((1 << mantissa) - 1)
    assert counts["infinity"] == (2 if LAYOUT[name][3] else 0)


def test_tables_of_integers_and_scales():
    assert numerics.encodings("int8")["value"].tolist() == [*range(128), *range(-128, 0)]
    assert numerics.encodings("bool")["value"].tolist() == [0, 1]
    scales = numerics.encodings("float8_e8m0fnu")
    assert scales["value"][:255].tolist() == [math.ldexp(1, b - 127) for b in range(255)]
    assert scales["kind"][255] == "nan" and set(scales["kind"][:255]) == {"normal"}


@pytest.mark.parametrize("dtype", ["float32", "tf32", "int32", "float4_e2m1fn_x4"])
def test_wide_formats_have_no_table(dtype):
    with pytest.raises(
        UsageError,
        match=f"no table of the codes of {lookup('tfloat32') if dtype == 'tf32' else dtype}",
    ):
        numerics.encodings(dtype)


@pytest.mark.parametrize("form", FLOATS, ids=str)
def test_info_of_floats(form):
    found = numerics.info(form)
    assert (found.name, found.bits, found.kind) == (form.name, form.bits, "float")
    if form != "float32":
        exponent, mantissa, bias, infinite, _ = LAYOUT[form]
        table = magnitudes(form)
        assert (found.exponent_bits, found.mantissa_bits, found.bias) == (exponent, mantissa, bias)
        assert (found.max, found.min, found.min_subnormal) == (table[-1], -table[-1], table[1])
        assert found.min_normal == table[1 << mantissa] and found.eps == 2.0**-mantissa
        assert found.overflow == table[-1] + (table[-1] - table[-2]) / 2
        assert (found.infinity is None) is not infinite
        edge = np.float32(found.overflow)
        got = numerics.round([np.nextafter(edge, np.float32(s)) for s in (0, np.inf)], form)
        assert got[0] == found.max and not np.isfinite(got[1])
    assert np.isnan(numerics.decode([found.nan], form)).all()
    if found.infinity is not None:
        assert numerics.decode([found.infinity], form) == np.inf


def test_info_of_the_others():
    assert (numerics.info("int8").min, numerics.info("int8").max) == (-128, 127)
    packed = numerics.info("float4_e2m1fn_x4")
    assert (packed.bits, packed.element, packed.max) == (16, "float4_e2m1fn", 6)
    scale = numerics.info("float8_e8m0fnu")
    assert (scale.min, scale.max, scale.nan) == (2.0**-127, 2.0**127, 255)
    assert numerics.info(numerics.cfp8("float8_e3m4", 10)).bias == 10


def test_casts_side_by_side():
    values = [0.1, 448.0, 500.0, 1e-9, np.inf, np.nan, -0.0]
    table = numerics.compare_casts(values, ("float8_e4m3", "float8_e4m3fn", "int8"))
    assert table.shape == (3, 7) and table["dtype"][:, 0].tolist() == [
        "float8_e4m3", "float8_e4m3fn", "int8"]  # fmt: skip
    assert table["outcome"].tolist() == [
        ["rounded", "overflow", "overflow", "underflow", "exact", "nan", "exact"],
        ["rounded", "exact", "overflow", "underflow", "overflow", "nan", "exact"],
        ["underflow", "saturated", "saturated", "underflow", "saturated", "nan", "exact"],
    ]
    first = table[0, 0]
    assert first["code"] == 0x1D and first["result"] == 0.1015625
    exact = Fraction(0.1015625) - Fraction(float(np.float32(0.1)))
    assert first["error"] == float(exact) and first["ulps"] == float(exact * 128)
    assert numerics.compare_casts(np.ones((2, 3))).shape == (len(FLOATS), 2, 3)


@narrow
def test_nearest_is_within_half_a_step(form):
    values = around(str(form), 20_000)
    values = values[np.abs(values) <= form.max]
    table = numerics.compare_casts(values, (form,))
    assert np.abs(table["ulps"]).max() == 0.5
    assert ((table["error"] == 0) == (table["outcome"] == "exact")).all()


# --- a test of stochastic rounding ----------------------------------------------------------------


def test_the_test_finds_what_is_wrong():
    good = numerics.stochastic_test("bfloat16", 1 + 2.0**-9, 1 << 16)
    assert good.worst < 4.5 and good.fraction == 0.25 and (good.below, good.above) == (1, 1 + 2**-7)
    truth = np.random.default_rng(0).random(1 << 16)
    biased = np.where(truth < 0.27, good.above, good.below)
    found = numerics.stochastic_test("bfloat16", 1 + 2.0**-9, results=biased)
    assert found.z > 8 and found.draws == 1 << 16
    twice = np.repeat(np.where(truth < 0.25, good.above, good.below), 2)
    found = numerics.stochastic_test("bfloat16", 1 + 2.0**-9, results=twice)
    assert found.lags[1] > 50 and abs(found.lags[2]) < 4.5
    nearest = np.full(5000, good.below)
    assert numerics.stochastic_test("bfloat16", 1 + 2.0**-9, results=nearest).z < -30


def test_negative_numbers_are_tested_alike():
    found = numerics.stochastic_test("float8_e4m3", -1.03, 1 << 16)
    assert (found.below, found.above) == (-1, -1.125) and found.worst < 4.5


@pytest.mark.parametrize(
    "how, said",
    [
        ({"dtype": "float32"}, "not stochastic"),
        ({"dtype": "int8"}, "not stochastic"),
        ({"dtype": "bfloat16", "value": 1.5}, "becomes 1.5 always"),
        ({"dtype": "float8_e4m3", "value": 244.0}, "not between two numbers"),
        ({"dtype": "bfloat16", "value": 1e39}, "becomes inf always"),
        ({"dtype": "bfloat16", "draws": 100}, "100 draws are too few"),
        ({"dtype": "bfloat16", "draws": -1}, "draws are too few"),
        ({"dtype": "bfloat16", "results": np.full(5000, 3.0)}, "must be 1.0 or 1.0078125"),
    ],
)
def test_what_cannot_be_tested_is_refused(how, said):
    with pytest.raises(UsageError, match=said):
        numerics.stochastic_test(**how)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: numerics.encode([1], "bfloat61"), "did you mean .*bfloat16"),
        (lambda: numerics.encode([1], np.float64), "not a NeuronCore number format"),
        (lambda: numerics.cast(np.zeros(2), "bfloat16"), "'float64' is not a NeuronCore"),
        (lambda: numerics.encode([1], "int8", "floor"), "'nearest' or 'stochastic'"),
        (lambda: numerics.encode(["x"], "int8"), "must be numbers"),
        (lambda: numerics.encode([1j], "int8"), "must be numbers"),
        (lambda: numerics.encode([10**400], "int8"), "must be numbers"),
        (lambda: numerics.encode([1], "bfloat16", "stochastic", -1), "seed is -1"),
        (lambda: numerics.encode([1], "bfloat16", "stochastic", 0.5), "seed is 0.5"),
        (lambda: numerics.encode([1], "bfloat16", "stochastic", first=-1), "first is -1"),
        (lambda: numerics.encode([1, 2, 3], "float4_e2m1fn_x4"), r"packs four .* \(3,\)"),
        (lambda: numerics.encode(1, "float4_e2m1fn_x4"), r"packs four .* \(\)"),
        (lambda: numerics.decode(np.zeros(3, np.uint16), "float8_e4m3"), "uint8.*uint16"),
        (lambda: numerics.decode([256], "float8_e4m3"), r"from 0 to 2\^8 - 1"),
        (lambda: numerics.decode([-1], "float8_e4m3"), r"from 0 to 2\^8 - 1"),
        (lambda: numerics.compare_casts([1], ("float4_e2m1fn_x4",)), "compare float4_e2m1fn"),
    ],
)
def test_wrong_calls_say_what_is_right(call, said):
    with pytest.raises(UsageError, match=said):
        call()


def test_it_is_there_without_a_kernel_and_without_numba():
    code = "import sys, neuroncore; neuroncore.numerics.info('bfloat16')\n"
    code += "print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
