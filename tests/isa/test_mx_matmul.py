"""nc_matmul_mx: products of four packed elements in each row, scaled by powers of two."""

import itertools

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki.isa as nisa
import numpy as np
import pytest
from device import Device, bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from microscaling import ELEMENTS, matmul_operand, matmul_tiles

from neuroncore.report.summary import summary

SHAPES = [(32, 2, 1), (64, 6, 5), (96, 34, 33), (128, 128, 512)]
PAIRS = [(s, x) for s in ELEMENTS for x in ELEMENTS]
FOUR_BITS = "float4_e2m1fn"


def whole(shape, element, seed=0):
    """Return small integers that every format represents."""
    numbers = np.array([0, 1, 2, 3, 4, -1, -2, -3, -4])
    return np.random.default_rng([seed, *shape]).choice(numbers, shape).astype(element)


def numbers(shape, element, seed=0):
    values = np.random.default_rng([seed, *shape]).normal(size=shape) * 2
    return values.astype(element)


def product(device, s, ss, x, xs, dst="float32", offsets=(0, 0), **options):
    left, left_scale = matmul_operand(device, s, ss, offsets[0])
    right, right_scale = matmul_operand(device, x, xs, offsets[1], "uint8")
    out = device.empty((s.shape[1], x.shape[1]), dst, "psum")
    device.issue("nc_matmul_mx", out, left, right, left_scale, right_scale, **options)
    return out


def scales_near(value, shape, seed=0, spread=3):
    low, high = max(value - spread, 0), min(value + spread, 254)
    return np.random.default_rng([seed, *shape]).integers(low, high + 1, shape).astype(np.uint8)


# --- the product ----------------------------------------------------------------------------------


@for_all("k, m, n", SHAPES)
def test_the_product_has_the_values_of_the_codes(k, m, n):
    """Whole numbers and scales of a few powers make the product exact in any order."""
    left, right = whole((k, m, 4), FOUR_BITS), whole((k, n, 4), "float8_e4m3fn", 1)
    ss, xs = scales_near(127, (k // 8, m), 2), scales_near(127, (k // 8, n), 3)
    wide = [
        data.astype(float) * 2.0 ** (np.repeat(scale, 8, axis=0)[:, :, None].astype(int) - 127)
        for data, scale in ((left, ss), (right, xs))
    ]
    want = np.einsum("kmi,kni->mn", *wide, optimize=True)
    got = product(Device("trn3"), left, ss, right, xs).numpy()
    assert np.array_equal(got, want.astype(np.float32))


def test_every_pair_of_formats_and_shape():
    device = Device("trn3")
    for (s, x), spread in itertools.product(PAIRS, [0, 20, 100]):
        left, right = numbers((64, 10, 4), s), numbers((64, 17, 4), x, 1)
        ss, xs = scales_near(127, (8, 10), 2, spread), scales_near(127, (8, 17), 3, spread)
        product(device, left, ss, right, xs)
    for k, m, n in SHAPES:
        left, right = numbers((k, m, 4), FOUR_BITS), numbers((k, n, 4), "float8_e5m2")
        product(device, left, scales_near(127, (k // 8, m)), right, scales_near(127, (k // 8, n)))
    device.agrees()
    assert not device.findings


@given(st.integers(0, 10**6), st.sampled_from(ELEMENTS), st.integers(0, 254), st.integers(0, 127))
def test_any_scales(seed, element, middle, spread):
    device = Device("trn3")
    left, right = numbers((32, 4, 4), element, seed), numbers((32, 3, 4), element, seed + 1)
    ss = scales_near(middle, (4, 4), seed, spread)
    product(device, left, ss, right, scales_near(254 - middle, (4, 3), seed, spread))
    device.agrees()


@pytest.mark.parametrize("zeros", [0, 254])
def test_the_scale_of_zeros_has_no_effect(zeros):
    left, right = numbers((32, 4, 4), "float8_e5m2"), numbers((32, 3, 4), "float8_e5m2", 1)
    left[8:16] = 0
    ss, xs = np.full((4, 4), 127, np.uint8), np.full((4, 3), 120, np.uint8)
    want = product(Device("trn3"), left, ss, right, xs)
    ss[1] = zeros
    got = product(Device("trn3"), left, ss, right, xs)
    assert np.array_equal(bits(got.numpy()), bits(want.numpy()))


def test_the_scale_ff_is_nan_even_for_zeros():
    left, right = np.zeros((32, 4, 4), "float8_e5m2"), numbers((32, 3, 4), "float8_e5m2")
    ss, xs = np.full((4, 4), 127, np.uint8), np.full((4, 3), 127, np.uint8)
    ss[2, 1] = 255
    got = product(Device("trn3"), left, ss, right, xs).numpy()
    assert np.isnan(got[1]).all() and not got[[0, 2, 3]].any()


@for_all("k, offsets", itertools.product([32, 128], [(0, 0), (4, 12), (8, 4), (12, 0)]))
def test_scales_may_start_at_four_places(k, offsets):
    device = Device("trn3")
    left, right = whole((k, 6, 4), FOUR_BITS), whole((k, 5, 4), "float8_e5m2", 1)
    ss, xs = scales_near(127, (k // 8, 6)), scales_near(127, (k // 8, 5), 1)
    product(device, left, ss, right, xs, offsets=offsets)
    device.agrees()


def test_four_scale_tensors_share_a_tile():
    """quantize_mx leaves them in this layout, in which neighbors belong to other tensors."""
    device = Device("trn3")
    scale, data = device.empty((64, 6), "uint8"), []
    for i in range(2):
        data.append(device.empty((64, 6), "float8_e5m2_x4"))
        numbers = device.tile(whole((64, 24), "bfloat16", i))
        device.issue("quantize_mx", data[i], numbers, scale[4 * i :])
    dst = device.empty((6, 6), buffer="psum")
    device.issue("nc_matmul_mx", dst, *data, scale[0:], scale[4:])
    device.agrees()
    assert not device.findings


def test_uninitialized_scales_are_reported():
    device = Device("trn3")
    dst, s, x, ss, _ = matmul_tiles(device)
    xs = device.empty((128, 5), "uint8")
    device.issue("nc_matmul_mx", dst, s, x, ss, xs)
    assert device.findings == ["UNINIT_READ"]
    assert "moving_scale" in device.core.findings[0].message


# --- sums in PSUM ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dst", ["float32", "bfloat16"])
def test_scaled_products_accumulate_in_psum(dst):
    """A bfloat16 sum is rounded at each product."""
    device = Device("trn3")
    left, right = numbers((64, 6, 4), "float8_e5m2"), numbers((64, 12, 4), FOUR_BITS, 1)
    s, s_scale = matmul_operand(device, left, scales_near(127, (8, 6)))
    x, x_scale = matmul_operand(device, right, scales_near(127, (8, 12), 1))
    out, s, x = device.empty((6, 3, 4), dst, "psum"), s.reshape((64, 1, 6)), x.reshape((64, 3, 4))
    for accumulate in (None, None, True, False, True):
        device.issue("nc_matmul_mx", out, s, x, s_scale, x_scale, accumulate=accumulate)
    device.agrees()
    assert not device.findings


@for_all("k, position", [(32, 96), (32, 0), (64, 64), (32, 64)])
def test_rows_may_be_tiled(k, position):
    device = Device("trn3")
    left, right = whole((k, 6, 4), FOUR_BITS), whole((k, 5, 4), FOUR_BITS, 1)
    ss, xs = scales_near(127, (k // 8, 6)), scales_near(127, (k // 8, 5), 1)
    tiling = {"tile_position": (position, 0), "tile_size": (k, 128)}
    product(device, left, ss, right, xs, **tiling)
    device.agrees()


def test_the_library_product_agrees_on_whole_numbers():
    left, right = whole((128, 6, 4), "float8_e5m2"), whole((128, 5, 4), "float8_e5m2", 1)
    ss, xs = scales_near(127, (16, 6)), scales_near(127, (16, 5), 1)
    devices = (Device("trn3", matmul=mode) for mode in ("blas", "chain"))
    got, want = (product(device, left, ss, right, xs).numpy() for device in devices)
    assert np.array_equal(got, want)


def test_four_times_the_work_takes_the_time_of_one():
    quick, plain = Device("trn3"), Device("trn3")
    quick.issue("nc_matmul_mx", *matmul_tiles(quick, 128, 128, 512))
    s, x = plain.zeros((128, 128), "float8_e5m2"), plain.zeros((128, 512), "float8_e5m2")
    plain.issue("nc_matmul", plain.empty((128, 512), buffer="psum"), s, x)
    assert np.array_equal(quick.timeline().busy[-1:], plain.timeline().busy[-1:])
    assert nisa.nc_matmul_mx.__doc__.startswith("dst[m, n] (+)=")


def test_the_report_counts_all_four():
    device = Device("trn3")
    device.issue("nc_matmul_mx", *matmul_tiles(device, 96, 6, 5))
    assert summary(device.timeline())["hardware_flops"] == 2 * 4 * 96 * 6 * 5
