"""Numerics of microscaling (MX) formats: conformance tests X1 to X6, whose ids are in the names of
tests, and the orders in which packed products may be added."""

import json
from pathlib import Path

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from chains import chain
from device import Device, bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from microscaling import EIGHT, ELEMENTS, matmul_operand, pack, rows

from neuroncore.numerics.formats import lookup

RULES = ("ocp_x2", "ocp")
EMAX = {"float8_e4m3fn": 8, "float8_e5m2": 15}
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
RESULTS = json.loads((Path(__file__).parents[1] / "data/mx_device_results.json").read_text())


def quantize(values, element, rule="ocp_x2", offset=0):
    """Codes of the elements [P, F/4, 4] and the whole scale tile, 77 where nothing was written."""
    device = Device("trn3", mx_scale=rule)
    p, f = values.shape
    dst = device.empty((p, f // 4), f"{element}_x4")
    scale = device.tile(np.full((128, f // 4), 77, np.uint8))
    device.issue("quantize_mx", dst, device.tile(values, "bfloat16"), scale[offset:])
    return dst.codes().copy().view(np.uint8).reshape(p, -1, 4), scale.codes().copy()


def product(s, ss, x, xs, dst="float32", **options):
    """nc_matmul_mx of elements [K, M, 4] and [K, N, 4] and of their scales."""
    device = Device("trn3", **options)
    left, right = matmul_operand(device, s, ss), matmul_operand(device, x, xs)
    out = device.empty((s.shape[1], x.shape[1]), dst, "psum")
    device.issue("nc_matmul_mx", out, left[0], right[0], left[1], right[1])
    assert device.findings == []
    return out.numpy()


def numbers(shape, element, seed=0):
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * 2).astype(element)


def scales(shape, low, high, seed=0):
    return np.random.default_rng([seed, *shape]).integers(low, high + 1, shape).astype(np.uint8)


def dequantized(data, scale):
    """float64: elements [K, F, 4] times the scales [K/8, F] of their groups."""
    power = np.repeat(scale, 8, axis=0)[:, :, None].astype(int) - 127
    return data.astype(np.float64) * 2.0**power


# --- X1: layout -----------------------------------------------------------------------------------


def test_X1_elements_are_packed_from_the_lowest_bits_up():
    values = np.zeros((32, 4), np.float32)
    values[0] = [1, 2, -1, 0.5]
    device = Device("trn3")
    dst = device.empty((32, 1), "float8_e4m3fn_x4")
    device.issue(
        "quantize_mx", dst, device.tile(values, "bfloat16"), device.empty((32, 1), "uint8")
    )
    # 2 is 128 * 2^-6: 64, 128, -64, 32 are codes 68, 70, E8, 60
    assert dst.codes()[0, 0] == 0x60E87068
    four = np.array([[[1, 2, -1, 0.5]]], "float4_e2m1fn").view(np.uint8)
    assert pack(four, "float4_e2m1fn").item() == 0x1A42
    packed = np.repeat(pack(four, "float4_e2m1fn"), 32, axis=0)
    s = device.tile(np.repeat(packed, 2, axis=1)).view(lookup("float4_e2m1fn_x4"))
    one = np.zeros((32, 4, 4))
    one[0] = np.eye(4)
    x, xs = matmul_operand(device, one.astype("float8_e5m2"), np.full((4, 4), 127, np.uint8))
    out = device.empty((2, 4), buffer="psum")
    device.issue("nc_matmul_mx", out, s, x, device.tile(np.full((32, 2), 127, np.uint8)), xs)
    assert out.numpy().tolist() == [[1, 2, -1, 0.5]] * 2


@pytest.mark.parametrize("offset", [0, 4, 8, 12])
def test_X1_scales_of_a_quadrant_are_in_four_rows_of_it(offset):
    """Group g of 8 partitions has magnitude 2^g, and so scale 120 + g."""
    values = np.repeat(2.0 ** np.arange(16), 8)[:, None] * np.ones(4)
    _, scale = quantize(values, "float8_e4m3fn", offset=offset)
    want = np.full(128, 77)
    for quadrant in range(4):
        first = 32 * quadrant + offset
        want[first : first + 4] = 120 + 4 * quadrant + np.arange(4)
    assert np.array_equal(scale[:, 0], want)


# --- X2 to X4: quantization -----------------------------------------------------------------------


@pytest.mark.parametrize("element", EIGHT)
@pytest.mark.parametrize("rule", RULES)
def test_X2_scales_and_elements_of_65536_groups(element, rule):
    """The exponent field of the largest magnitude gives the scale; elements saturate."""
    rng = np.random.default_rng(2)
    for _ in range(16):
        size = np.exp2(rng.integers(-60, 60, (16, 1, 256, 1)))
        values = (rng.normal(size=(16, 8, 256, 4)) * size).astype("bfloat16").astype(np.float32)
        field = (bits(np.abs(values).max(axis=(1, 3))) >> 23).astype(int)
        want = field - EMAX[element] + (rule == "ocp_x2")
        inside = values * 2.0 ** (127.0 - want)[:, None, :, None]
        elements = np.clip(inside, -LARGEST[element], LARGEST[element]).astype(element)
        codes, scale = quantize(values.reshape(128, 1024), element, rule)
        assert np.array_equal(scale[rows(128)], want)
        assert np.array_equal(codes, elements.view(np.uint8).reshape(128, 256, 4))


@pytest.mark.parametrize("element", EIGHT)
def test_X2_the_newer_scale_is_twice_the_older_and_cuts_nothing_off(element):
    values = np.random.default_rng(3).normal(size=(128, 1024))
    (newer, new_scale), (older, old_scale) = (quantize(values, element, r) for r in RULES)
    assert (new_scale[rows(128)].astype(int) - old_scale[rows(128)] == 1).all()
    top = np.array(LARGEST[element]).astype(element).view(np.uint8)
    assert not (newer & 0x7F == top).any() and (older & 0x7F == top).any()


@pytest.mark.parametrize("element", EIGHT)
@pytest.mark.parametrize("rule", RULES)
def test_X3_zeros_and_the_least_and_the_largest_scale(element, rule):
    values = np.zeros((32, 4), np.float32)
    values[8:16], values[16:24] = 2.0**-133, 2.0**127
    codes, scale = quantize(values, element, rule)
    assert not codes[:8].any()
    assert scale[:4, 0].tolist() == [0, 0, 254 - EMAX[element] + (rule == "ocp_x2"), 0]
    assert (codes[8:16].view(element).astype(np.float32) == 2.0**-6).all()


@pytest.mark.parametrize("element", EIGHT)
def test_X4_what_was_quantized_is_quantized_to_itself(element):
    """Under the older rule, where each group has an element of the largest exponent."""
    rng = np.random.default_rng(4)
    data = rng.integers(0, 256, (128, 64, 4), np.uint8).view(element)
    data = np.where(np.isfinite(data.astype(np.float32)), data, np.array(1, element))
    data[::8, :, 0] = np.array(2.0 ** EMAX[element]).astype(element)
    scale = scales((16, 64), 100, 140, 4)
    codes, got = quantize(dequantized(data, scale).reshape(128, 256), element, "ocp")
    assert np.array_equal(codes, data.view(np.uint8))
    assert np.array_equal(got[rows(128)], scale)


# --- X5: products ---------------------------------------------------------------------------------


@for_all("order", ["group", "chain"])
@for_all("mode", ["chain", "blas"])
@for_all(("s", "x"), [(s, x) for s in ELEMENTS for x in ELEMENTS])
def test_X5_exact_sums_agree_with_einsum(s, x, mode, order):
    whole = np.array([0, 1, 2, 3, 4, -1, -2, -3, -4])
    rng = np.random.default_rng(5)
    left, right = (rng.choice(whole, (128, n, 4)).astype(e) for n, e in ((34, s), (65, x)))
    ss, xs = scales((16, 34), 125, 129, 1), scales((16, 65), 125, 129, 2)
    want = np.einsum("kmi,kni->mn", dequantized(left, ss), dequantized(right, xs), optimize=True)
    got = product(left, ss, right, xs, matmul=mode, mx_order=order)
    assert np.array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize("order", ["group", "chain"])
def test_X5_a_scale_of_ff_is_nan(order):
    left, right = numbers((32, 4, 4), "float8_e5m2"), numbers((32, 3, 4), "float4_e2m1fn", 1)
    ss, xs = np.full((4, 4), 127, np.uint8), np.full((4, 3), 127, np.uint8)
    ss[1, 2] = 255
    assert np.isnan(product(left, ss, right, xs, mx_order=order)).all(axis=1).tolist() == [
        *(False, False, True, False)
    ]


@for_all("order", ["group", "chain"])
@for_all(("ss", "xs"), [(254, 0), (0, 254), (250, 10)])
def test_X5_scales_that_cancel_do_not_overflow_on_the_way(ss, xs, order):
    left, right = np.ones((32, 4, 4), "float8_e4m3fn"), np.ones((32, 3, 4), "float8_e4m3fn")
    scale = np.full((4, 4), ss, np.uint8), np.full((4, 3), xs, np.uint8)
    got = product(left, scale[0], right, scale[1], mx_order=order)
    assert (got == 128 * 2.0 ** (ss + xs - 254)).all()


# --- the order of packed products -----------------------------------------------------------------


def one_by_one(s, ss, x, xs):
    """Each product, scaled and rounded to float32, joins the sum by itself."""
    out = np.zeros((s.shape[1], x.shape[1]), np.float32)
    left, right = dequantized(s, ss), dequantized(x, xs)
    for k in range(len(s)):
        for i in range(4):
            with np.errstate(all="ignore"):
                term = np.outer(left[k, :, i], right[k, :, i]).astype(np.float32)
                out = out + term
    return out


@for_all("spread", [0, 20, 44, 60, 100])
@for_all(("s", "x"), [("float8_e5m2", "float8_e4m3fn"), (ELEMENTS[2], EIGHT[1])])
def test_products_may_join_the_sum_one_by_one(s, x, spread):
    """Whatever the scales: near to 1 they are multiplied with the operands."""
    left, right = numbers((64, 10, 4), s), numbers((64, 37, 4), x, 1)
    ss, xs = (scales((8, n), 127 - spread, 127 + spread, n) for n in (10, 37))
    got = product(left, ss, right, xs, mx_order="chain")
    assert np.array_equal(bits(got), bits(one_by_one(left, ss, right, xs)))
    if spread < 45:
        wide = [dequantized(*pair).swapaxes(1, 2).reshape(256, -1) for pair in
                ((left, ss), (right, xs))]  # fmt: skip
        assert np.array_equal(bits(got), bits(chain(*(w.astype(np.float32) for w in wide))))


def test_the_order_of_packed_products_changes_a_sum():
    """2^24 in one row and 1 + 1 in the next: together they count, one by one they are lost."""
    s, x = np.zeros((32, 2, 4), "float8_e5m2"), np.ones((32, 1, 4), "float8_e5m2")
    s[0, :, 0], x[0, 0, 0] = 2.0**15, 2.0**9
    s[1, :, :2] = 1
    ones = np.full((4, 2), 127, np.uint8), np.full((4, 1), 127, np.uint8)
    found = [product(s, ones[0], x, ones[1], mx_order=o)[0, 0] for o in ("group", "chain")]
    assert found == [2.0**24 + 2, 2.0**24]


@given(st.integers(0, 10**6), st.sampled_from(ELEMENTS), st.integers(0, 254), st.integers(0, 127))
def test_one_by_one_with_any_scales(seed, element, middle, spread):
    left, right = numbers((32, 4, 4), element, seed), numbers((32, 3, 4), element, seed + 1)
    ss = scales((4, 4), max(middle - spread, 0), min(middle + spread, 254), seed)
    xs = scales((4, 3), max(254 - middle - spread, 0), min(254 - middle + spread, 254), seed)
    got = product(left, ss, right, xs, mx_order="chain")
    assert np.array_equal(got, one_by_one(left, ss, right, xs), equal_nan=True)


# --- X6: output of a device -----------------------------------------------------------------------


def test_X6_results_of_a_device_are_the_reference_rounded_to_even():
    """71 of 72. The other differs by 9e-5 where bfloat16 has steps of 1.2e-4 and a float32 chain
    errs by 2e-6: either the device's sums are shorter than float32, or that number is another's."""
    device, reference = (
        np.array([run[which] for run in RESULTS["runs"]]).reshape(-1)
        for which in ("device", "reference")
    )
    core = Device("trn3")
    one, values = core.tile(np.ones((1, 1), np.float32)), core.tile(reference[None].astype("f4"))
    dst = core.empty((1, 72), "bfloat16", "psum")
    core.issue("nc_matmul", dst, one, values)
    got = dst.numpy().astype(np.float64)[0]
    printed = np.abs(got - device) <= 5e-9 + 5e-9 * np.abs(device)  # to eight digits
    assert np.flatnonzero(~printed).tolist() == [0]
    assert (device[0], reference[0]) == (0.02526855, 0.02535721)
