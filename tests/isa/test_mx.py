"""quantize_mx: groups of 8 partitions x 4 elements that share a power of two."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from device import Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from microscaling import EIGHT, rows

from neuroncore.numerics.formats import lookup

RULES, E5M2 = ("ocp_x2", "ocp"), "float8_e5m2_x4"


def spread(shape, dtype, seed=0, binades=20):
    """Return numbers whose groups have very different magnitudes."""
    rng = np.random.default_rng([seed, *shape])
    size = 2.0 ** rng.integers(-binades, binades, (shape[0] // 8, shape[1] // 4))
    size = np.repeat(np.repeat(size, 8, axis=0), 4, axis=1)
    return (rng.normal(size=shape) * size).astype(dtype)


def quantize(device, values, element):
    p, f = values.shape
    dst, scale = device.empty((p, f // 4), f"{element}_x4"), device.empty((p, f // 4), "uint8")
    device.issue("quantize_mx", dst, device.tile(values), scale)
    return dst.codes(), scale.codes()[rows(p)]


# --- quantize_mx ----------------------------------------------------------------------------------


@for_all("element, rule", product(EIGHT, RULES))
def test_groups_are_quantized_separately(element, rule):
    device = Device("trn3", mx_scale=rule)
    for shape, dtype in product([(32, 4), (64, 36), (96, 8), (128, 128)], ["bfloat16", "float16"]):
        quantize(device, spread(shape, dtype, binades=20 if dtype == "bfloat16" else 7), element)
    device.agrees()
    assert not device.findings


@given(st.integers(0, 10**6), st.sampled_from(EIGHT), st.sampled_from(RULES))
def test_any_bits_are_quantized(seed, element, rule):
    """These include NaN, infinities, subnormal numbers and the largest numbers."""
    device = Device("trn3", mx_scale=rule)
    codes = np.random.default_rng(seed).integers(0, 1 << 16, (32, 8), np.uint16)
    codes[:, 4:] &= 0x81FF  # a column of groups without large numbers
    quantize(device, codes.view(ml_dtypes.bfloat16), element)
    device.agrees()


def group_of(value, dtype="bfloat16"):
    values = np.zeros((32, 4), np.float32)
    values[0, 1] = value
    return values.astype(dtype)


@for_all(
    "element, rule, value, scale, code",
    [
        ("float8_e4m3fn", {}, 1.0, 120, 0x70),  # 1 = 128 * 2^-7
        ("float8_e4m3fn", {"mx_scale": "ocp"}, 1.0, 119, 0x78),  # 1 = 256 * 2^-8
        ("float8_e5m2", {}, -1.0, 113, 0xF4),  # 1 = 2^14 * 2^-14
        ("float8_e5m2", {"mx_scale": "ocp"}, 1.0, 112, 0x78),
        ("float8_e4m3fn", {"mx_scale": "ocp_x2"}, 1.9921875, 120, 0x78),  # 255 rounds to 256
        ("float8_e4m3fn", {"mx_scale": "ocp"}, 1.9921875, 119, 0x7E),  # 510 is cut to 448
        ("float8_e4m3fn", {}, 2.0**-126, 0, 0x40),  # 2^-133 is not representable: 2^-127
    ],
)
def test_scales_by_hand(element, rule, value, scale, code):
    codes, scales = quantize(Device("trn3", **rule), group_of(value), element)
    assert scales.tolist() == [[scale], [0], [0], [0]]
    assert codes[0, 0] == code << 8 and not codes[1:].any()


@for_all("special", [np.nan, -np.nan, np.inf, -np.inf])
@for_all("element", EIGHT)
def test_a_group_with_nan_or_infinity_is_nan(element, special):
    values = np.ones((32, 8), "bfloat16")
    values[9, 2] = special
    codes, scales = quantize(Device("trn3"), values, element)
    assert np.flatnonzero(scales == 0xFF).tolist() == [2]
    elements = codes.view(np.uint8).view(element).astype(np.float32).reshape(32, 2, 4)
    assert np.isnan(elements[8:16, 0]).all()
    elements[8:16, 0] = 128.0 if element == "float8_e4m3fn" else 2.0**14
    assert (elements == elements[0, 0, 0]).all()


@for_all("partitions", [32, 64, 128])
def test_scales_go_to_their_quadrant_and_nowhere_else(partitions):
    device = Device("trn3")
    for offset, kind in product([0, 4, 8, 12], ["uint8", "float8_e8m0fnu"]):
        values, dst = spread((partitions, 12), "bfloat16"), device.empty((partitions, 3), E5M2)
        scale = device.tile(np.full((128, 3), 77, np.uint8)).view(lookup(kind))
        device.issue("quantize_mx", dst, device.tile(values), scale[offset:])
    device.agrees()


def test_other_scales_stay_uninitialized():
    device = Device("trn3")
    scale = device.empty((64, 3), "uint8")
    src = device.tile(spread((64, 12), "bfloat16"))
    device.issue("quantize_mx", device.empty((64, 3), "float8_e5m2_x4"), src, scale)
    assert np.array_equal(~scale.unwritten().all(axis=1), np.isin(np.arange(64), rows(64)))


def test_data_may_be_in_any_quadrant():
    device = Device("trn3")
    dst, scale = device.zeros((128, 3), "uint32").view(E5M2), device.zeros((128, 3), "uint8")
    values = device.tile(spread((128, 12), "bfloat16"))
    device.issue("quantize_mx", dst[64:96], values[64:96], scale[72:96])
    device.agrees()


def test_four_elements_of_a_partition_in_a_cycle():
    def cycles(columns):
        device = Device("trn3")
        tiles = quantize_tiles(device, 32, columns)
        device.issue("quantize_mx", *tiles)
        return device.timeline().busy[-1] * device.core.machine.engines["vector"].clock_ghz

    assert cycles(4096) - cycles(2048) == pytest.approx(512)


# --- quantize_mx: what is refused -----------------------------------------------------------------


def quantize_tiles(device, partitions=64, columns=16, dst="float8_e5m2_x4", src="bfloat16"):
    shape = (partitions, columns // 4)
    source = device.zeros((partitions, columns), src)
    return device.empty(shape, dst), source, device.empty(shape, "uint8")
