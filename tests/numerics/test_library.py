"""Numbers with scales, measures, and arrays of other libraries."""

import importlib.util
import math
import re
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from accepted import module
from device import Device, bits
from every import for_all

from neuroncore import numerics
from neuroncore.base.errors import UsageError


def numbers(shape=(16, 64), seed=0):
    """Rows of very different sizes."""
    rng = np.random.default_rng([seed, *shape])
    wide = rng.standard_normal(shape) * 2.0 ** rng.uniform(-12, 12, (*shape[:-1], 1))
    return wide.astype(np.float32)


# --- scales ---------------------------------------------------------------------------------------

PER = {"tensor": (16, 64), "row": (1, 64), 32: (1, 32), (8, 4): (8, 4)}


@for_all("per", PER)
@for_all("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float16", "int8"])
def test_the_largest_of_a_block_becomes_the_largest_of_the_format(dtype, per):
    x, (down, across) = numbers(), PER[per]
    values, scale = numerics.quantize(x, dtype, per)
    assert scale.shape == (16 // down, 64 // across) and values.dtype == dtype
    each = np.repeat(np.repeat(scale, down, 0), across, 1)
    blocks = np.abs(x).reshape(16 // down, down, 64 // across, across).max((1, 3))
    assert np.array_equal(scale, blocks / np.float32(numerics.info(dtype).max))
    assert np.array_equal(bits(values), bits(numerics.cast(x / each, dtype, saturate=True)))
    back = numerics.dequantize(values, scale)
    assert np.array_equal(back, values.astype(np.float32) * each)


@for_all("dtype", ["mxfp8", "mxfp8_e5m2"])
@for_all("rule", ["ocp_x2", "ocp"])
def test_microscaling_is_that_of_the_instruction(dtype, rule):
    x = numbers((32, 64)).astype(ml_dtypes.bfloat16)
    element = "float8_e5m2" if "e5" in dtype else "float8_e4m3fn"
    device = Device("trn3", mx_scale=rule)
    dst, scales = device.empty((32, 16), f"{element}_x4"), device.empty((32, 16), "uint8")
    device.issue("quantize_mx", dst, device.tile(x, "bfloat16"), scales)
    found = numerics.quantize(x, dtype, (8, 4), rule=rule)
    assert np.array_equal(bits(found.values).view(np.uint32), dst.codes().view(np.uint32))
    assert np.array_equal(bits(found.scale), scales.codes()[:4])


@for_all("dtype, emax", [("mxfp8", 8), ("mxfp8_e5m2", 15), ("mxfp4", 2)])
def test_microscaling_of_neighbors_is_the_formula(dtype, emax):
    x = numbers()
    values, scale = numerics.quantize(x, dtype, rule="ocp")
    power = np.floor(np.log2(np.abs(x.reshape(16, 2, 32)).max(2))) - emax
    assert np.array_equal(scale.astype(np.float64), 2.0**power)
    scaled = x / np.repeat(2.0**power, 32, axis=1)
    most = float(ml_dtypes.finfo(values.dtype).max)
    assert np.array_equal(bits(values), bits(np.clip(scaled, -most, most).astype(values.dtype)))
    again = numerics.quantize(numerics.dequantize(values, scale), dtype, rule="ocp")
    assert np.array_equal(bits(again.values), bits(values))
    usual = numerics.quantize(x, dtype, rule="ocp" if dtype == "mxfp4" else "ocp_x2")
    assert np.array_equal(numerics.quantize(x, dtype).scale, usual.scale)
    twice = numerics.quantize(x, dtype, rule="ocp_x2")
    assert np.array_equal(twice.scale.astype(float), 2 * scale.astype(float))
    other = numerics.quantize(x, dtype, scale=scale)
    assert np.array_equal(bits(other.values), bits(values))


def test_scales_that_are_given_and_codes_of_them():
    x = numbers((4, 32))
    for scale in (2.0, np.full((4, 1), 2.0), np.full((4, 1), 128, np.uint8)):
        values, scales = numerics.quantize(x, "fp8", scale=scale)
        assert np.array_equal(bits(values), bits(numerics.cast(x / 2, "fp8", saturate=True)))
        assert np.array_equal(numerics.dequantize(bits(values), scales, "fp8"),
                              2 * values.astype(np.float32))  # fmt: skip


def test_zeros_and_what_is_not_finite():
    x = np.zeros((3, 32), np.float32)
    x[1, :2], x[2, :2] = (np.inf, 3), (np.nan, 3)
    values, scale = numerics.quantize(x, "fp8", "row")
    assert scale.ravel().tolist() == [1, np.float32(3 / 448), np.float32(3 / 448)]
    assert values[1, :2].tolist() == [448, 448] and np.isnan(values[2, 0])
    assert bits(numerics.quantize(x, "mxfp8").scale).ravel().tolist() == [0, 255, 255]
    assert numerics.quantize(np.zeros((0, 32)), "mxfp8").scale.shape == (0, 1)
    assert numerics.quantize(np.float32(7), "fp8").scale.shape == ()


def test_rounding_is_that_of_casts():
    x = numbers()
    values, scale = numerics.quantize(x, "fp8", mode="stochastic", seed=3)
    wanted = numerics.stochastic_round(x / scale, "fp8", 3, saturate=True)
    assert np.array_equal(bits(values), bits(wanted))
    cast = numerics.cast(x, "bf16", "stochastic", 5)
    assert np.array_equal(bits(numerics.stochastic_round(x, "bf16", 5)), bits(cast))
    assert numerics.cast([0.1, 2**60], "fp32").tolist() == [np.float32(0.1), 2.0**60]


# --- measures -------------------------------------------------------------------------------------


def test_the_ratio_of_signal_to_noise():
    x = np.array([3.0, 4.0])
    assert numerics.sqnr(x, 1.1 * x) == pytest.approx(20)
    assert numerics.sqnr(x, x) == math.inf and numerics.sqnr(0 * x, x) == -math.inf
    eight, sixteen = (numerics.sqnr(numbers(), numerics.round(numbers(), d)) for d in
                      ("e5m2", "bf16"))  # fmt: skip
    assert sixteen - eight == pytest.approx(20 * math.log10(2**5), abs=1)


def test_units_in_the_last_place():
    near = np.nextafter(np.float32(1), np.float32(2))
    assert numerics.ulps(near, np.float32(1)) == 1
    assert numerics.ulps([1.0078125, -2, np.inf, np.nan], [1, -2.0078125, np.inf, np.nan],
                         "bf16").tolist() == [1, 0.5, 0, 0]  # fmt: skip
    x = numbers()
    assert np.abs(numerics.ulps(numerics.cast(x, "bf16"), x)).max() <= 0.5
    table = numerics.compare_casts(x, ("e4m3",))
    assert np.array_equal(
        numerics.ulps(table["result"], table["value"], "e4m3"), table["ulps"], equal_nan=True
    )


def test_limits_under_the_names_of_numpy():
    for name in ("float16", "bfloat16", "float8_e4m3fn", "float4_e2m1fn"):
        ours, theirs = numerics.finfo(name), ml_dtypes.finfo(name)
        for field in ("bits", "max", "min", "eps", "tiny", "smallest_normal", "nexp", "nmant"):
            assert getattr(ours, field) == getattr(theirs, field), (name, field)
        assert ours.smallest_subnormal == theirs.smallest_subnormal and str(ours.dtype) == name


# --- arrays of other libraries --------------------------------------------------------------------


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(numbers())
    for name in ("bfloat16", "float16", "float8_e5m2"):
        got, wanted = numerics.cast(x, name), x.to(getattr(torch, name))
        assert got.dtype == wanted.dtype and torch.equal(got.float(), wanted.float())
        assert torch.equal(numerics.cast(got, "fp32"), got.float())
    values, scale = numerics.quantize(x.bfloat16(), "mxfp8")
    assert (values.dtype, scale.dtype) == (torch.float8_e4m3fn, torch.float8_e8m0fnu)
    back = numerics.dequantize(values, scale)
    assert back.dtype == torch.float32 and 25 < numerics.sqnr(x, back) < 40
    assert numerics.ulps(back, x).dtype == torch.float64
    assert isinstance(numerics.quantize(x, "mxfp4").values, np.ndarray)  # torch lacks it


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(numbers())
    values, scale = numerics.quantize(x, jax.numpy.float8_e4m3fn, "row")
    assert isinstance(scale, jax.Array) and values.dtype == jax.numpy.float8_e4m3fn
    assert isinstance(numerics.dequantize(values, scale), jax.Array)


# --- the page -------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs/formats.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.source
def test_the_recipes_run(capsys):
    names = {}
    for program in PROGRAM.findall(PAGE.read_text()):
        needed = re.match(r"# needs (\w+)", program)
        if needed is None or importlib.util.find_spec(needed[1]):
            exec(program, names)
    assert "mxfp4 ocp 18.7 dB" in capsys.readouterr().out


@pytest.mark.source
def test_the_comparison_with_other_libraries_is_current():
    for library in ("torch", "torchao"):
        pytest.importorskip(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        page = module("formats")
        assert page.page() == page.PAGE.read_text(), "run docs/generate/formats.py"


# --- what is refused ------------------------------------------------------------------------------


@for_all(
    "call, said",
    [
        (lambda x: numerics.quantize(x, "fp32"), "dtype is float32"),
        (lambda x: numerics.quantize(x, "uint8"), "dtype is uint8"),
        (lambda x: numerics.quantize(x, "mxfp9"), "not a NeuronCore number format"),
        (lambda x: numerics.quantize(x, "mxfp8", 16), "have 32 numbers"),
        (lambda x: numerics.quantize(x, "mxfp8", rule="even"), "'ocp_x2' or 'ocp'"),
        (lambda x: numerics.quantize(x, "mxfp8", mode="stochastic"), "nearest even"),
        (lambda x: numerics.quantize(x, "mxfp8", scale=3.0), "powers of two"),
        (lambda x: numerics.quantize(x, "fp8", 48), "pad the array"),
        (lambda x: numerics.quantize(x, "fp8", "column"), "per is 'column'"),
        (lambda x: numerics.quantize(x, "fp8", "row", axis=2), "axis is 2"),
        (lambda x: numerics.quantize(x, "fp8", scale=np.ones((3, 1))), "don't fit"),
        (lambda x: numerics.dequantize(x, np.ones(3)), "don't fit"),
        (lambda x: numerics.sqnr(x, x[0]), "shapes differ"),
        (lambda x: numerics.finfo("int8"), "not a float"),
    ],
)
def test_errors_of_wrong_calls_name_the_right_call(call, said):
    with pytest.raises(UsageError, match=said):
        call(numbers())
