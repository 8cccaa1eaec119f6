"""neuroncore.numerics: its arguments, results and errors."""

import math
import pickle
import subprocess
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from device import bits, same
from every import for_all
from numbers_of_formats import IN_NUMPY, LAYOUT, around, magnitudes, narrow, neighbors

from neuroncore import numerics
from neuroncore.base.errors import UsageError
from neuroncore.numerics import codec
from neuroncore.numerics.formats import CONFIGURABLE, FLOATS, FORMATS, OPAQUE, PACKED, lookup

# --- arrays in, arrays out ------------------------------------------------------------------------


@for_all("form", [*FORMATS.values(), *OPAQUE.values()])
@for_all("shape", [(4,), (3, 8), (2, 0, 4), (1, 3, 12)])
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


def test_arguments_may_be_lists_or_single_numbers():
    assert (
        numerics.round(1.03, "float8_e4m3") == 1 and numerics.round(1.03, "float8_e4m3").shape == ()
    )
    assert numerics.encode([1, 2], "bfloat16").tolist() == [0x3F80, 0x4000]
    assert numerics.decode([0x3F80, 0x4000], "bfloat16").tolist() == [1, 2]
    assert numerics.decode(0x7E, ml_dtypes.float8_e4m3fn) == 448
    assert numerics.round(np.array([1.5, 2.5]), ml_dtypes.float4_e2m1fn).tolist() == [1.5, 2]
    assert numerics.decode(np.array([-3], np.int8), "int8") == -3


def test_wider_numbers_are_rounded_to_float32_first():
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


@for_all("source", IN_NUMPY)
@for_all("target", IN_NUMPY)
def test_a_cast_has_the_other_type(source, target):
    if not {source, target} <= set(FORMATS):  # an element of packs
        return
    codes = np.arange(256).astype(FORMATS[source].code_type)
    given = codes.view(IN_NUMPY[source])
    got = numerics.cast(given, target)
    assert got.dtype == IN_NUMPY[target]
    if source == target:
        assert np.array_equal(bits(got), codes)
    else:
        want = given.astype(np.float32).astype(IN_NUMPY[target])
        same(got.astype(np.float32), want.astype(np.float32))


def test_a_copy_keeps_what_nan_carry():
    given = np.array([0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    assert np.array_equal(bits(numerics.cast(given, "float32")), bits(given))
    assert bits(numerics.cast(given, "tfloat32")).tolist() == [0x7FC00000, 0xFFC00000]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "tf32"])
def test_stochastic_modes_repeat_and_can_be_continued(dtype):
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
@for_all("more", ["least", -5, 1, 4, "most"])
def test_another_bias_is_another_power_of_two(base, more):
    bias = {"least": -64, "most": 120}.get(more, base.bias + more if more in (-5, 1, 4) else 0)
    form, factor = numerics.cfp8(base, bias), 2.0 ** (bias - base.bias)
    assert form.bias == bias and form.max == base.max / factor
    values = numerics.encodings(base)["value"]
    assert np.array_equal(numerics.encodings(form)["value"], values / factor, equal_nan=True)
    given = neighbors(str(base))
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


def test_the_default_bias_gives_the_format_itself():
    assert numerics.cfp8("float8_e4m3", 7) is lookup("float8_e4m3")
    form = numerics.cfp8("float8_e4m3", 9)
    assert form is numerics.cfp8("float8_e4m3", 9) is pickle.loads(pickle.dumps(form))
    assert form != "float8_e4m3"


@pytest.mark.parametrize(
    "dtype, bias, said",
    [
        ("float8_e4m3fn", 3, "is fixed"),
        ("bfloat16", 120, "is fixed"),
        ("float8_e4m3", 121, "from -64 to 120"),
        ("float8_e4m3", -65, "from -64 to 120"),
        ("float8_e4m3", 1.5, "from -64 to 120"),
    ],
)
def test_other_biases_are_refused(dtype, bias, said):
    with pytest.raises(UsageError, match=said):
        numerics.cfp8(dtype, bias)


# --- tables ---------------------------------------------------------------------------------------


@for_all("name", IN_NUMPY)
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


@for_all("form", FLOATS)
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


@for_all(
    "how, said",
    [
        ({"dtype": "float32"}, "not stochastic"),
        ({"dtype": "int8"}, "not stochastic"),
        ({"dtype": "bfloat16", "value": 1.5}, "always becomes 1.5"),
        ({"dtype": "float8_e4m3", "value": 244.0}, "always becomes 240.0"),
        ({"dtype": "bfloat16", "value": 1e39}, "always becomes inf"),
        ({"dtype": "bfloat16", "draws": 100}, "more than 1024 draws, but got 100"),
        ({"dtype": "bfloat16", "draws": -1}, "draws, but got "),
        ({"dtype": "bfloat16", "results": np.full(5000, 3.0)}, "must be 1.0 or 1.0078125"),
    ],
)
def test_wrong_arguments_of_the_stochastic_test_are_refused(how, said):
    with pytest.raises(UsageError, match=said):
        numerics.stochastic_test(**how)


# --- what is refused ------------------------------------------------------------------------------


@for_all(
    "call, said",
    [
        (lambda: numerics.encode([1], "bfloat61"), "did you mean .*bfloat16"),
        (lambda: numerics.encode([1], np.float64), "not a NeuronCore number format"),
        (lambda: numerics.cast(np.zeros(2, complex), "bfloat16"), "'complex128' is not"),
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
def test_errors_of_wrong_calls_name_the_right_call(call, said):
    with pytest.raises(UsageError, match=said):
        call()


def test_numerics_works_without_a_kernel_and_without_numba():
    code = "import sys, neuroncore; neuroncore.numerics.info('bfloat16')\n"
    code += "print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
