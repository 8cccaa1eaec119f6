"""nc_matmul: the product, which is a chain of fused multiply-adds."""

import numpy as np
import pytest
from chains import normal
from device import TARGETS, Device, bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from published_machines import PUBLISHED

NARROW = ("bfloat16", "float16", "float8_e4m3", "float8_e5m2")
PAIRS = [
    *(("trn2", s, x) for s in NARROW for x in NARROW),
    *(("trn2", s, x) for s in ("float32", "tfloat32") for x in ("float32", "tfloat32")),
    *(("trn1", f, f) for f in (*NARROW, "tfloat32", "float32")),
    *(("trn3", "float8_e4m3fn", x) for x in ("float8_e4m3fn", "float8_e5m2", "bfloat16")),
    *(("trn3", f, f) for f in (*NARROW, "tfloat32", "float32")),
]
SHAPES = [(1, 1, 1), (3, 7, 5), (128, 33, 1), (1, 128, 512), (127, 9, 129), (64, 8, 32)]


def product(device, s, x, **options):
    dst = device.empty((s.free_size, x.free_size), buffer="psum")
    device.issue("nc_matmul", dst, s, x, **options)
    return dst.numpy()


def features(target):
    return PUBLISHED[target].features_of


@for_all("target", TARGETS)
def test_every_pair_of_formats(target):
    device = Device(target)
    listed = next(n for n, one in PUBLISHED.items() if one.generation == features(target))
    for form, other in (pair for name, *pair in PAIRS if name == listed):
        s, x = device.tile(normal((19, 11), 1), form), device.tile(normal((19, 37), 2), other)
        product(device, s, x)
    device.agrees()
    assert device.findings == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_shape(dtype):
    device = Device()
    for k, m, n in SHAPES:
        product(
            device, device.tile(normal((k, m), k), dtype), device.tile(normal((k, n), n), dtype)
        )
    device.agrees()


@given(st.integers(1, 20), st.integers(1, 40), st.integers(1, 70))
def test_odd_sizes_have_complete_results(k, m, n):
    device = Device()
    product(
        device, device.tile(normal((k, m)), "bfloat16"), device.tile(normal((k, n)), "bfloat16")
    )
    device.agrees()


def test_nan_and_infinity_spread_along_their_column_and_row_only():
    device = Device()
    s, x = np.zeros((4, 3), np.float32), np.ones((4, 5), np.float32)
    s[2, 1] = np.nan
    x[3, 4] = np.inf  # times 0
    got = product(device, device.tile(s), device.tile(x))
    want = np.zeros((3, 5), bool)
    want[1, :] = want[:, 4] = True
    assert np.array_equal(np.isnan(got), want)


def test_a_sum_of_negative_zeros_is_zero():
    device = Device()
    got = product(device, *(device.tile(np.float32([[v]] * 3)) for v in (-0.0, 1)))
    assert bits(got) == 0


def test_overflow_is_infinity():
    device = Device()
    big = device.tile(np.full((2, 1), 3e38, np.float32))
    assert product(device, big, device.tile(np.ones((2, 1), np.float32))) == np.inf


def test_operands_of_any_layout_in_any_quadrant():
    device = Device()
    dst = device.empty((8, 3, 5), buffer="psum")
    device.issue("nc_matmul", dst, device.tile(normal((6, 2, 4))), device.tile(normal((6, 3, 5))))
    for dtype in ("float32", "bfloat16"):
        s, x = device.tile(normal((96, 3, 20), 1), dtype), device.tile(normal((96, 40), 2), dtype)
        product(device, s[:, :, 1:18:2], x[:, 3:40:4])
        product(device, s[:, 1, ::3], x.ap([[40, 96], [0, 3], [-1, 5]], offset=9))
    s, x = device.tile(normal((128, 16), 1)), device.tile(normal((128, 24), 2))
    for k in (1, 32, 33, 64):
        product(device, s[64 : 64 + k], x[:k])
    device.agrees()


def test_a_strided_destination_keeps_the_elements_in_between():
    device = Device()
    s, x = device.tile(normal((5, 8), 1)), device.tile(normal((5, 32), 2))
    dst = device.tile(np.full((8, 64), 7, np.float32), buffer="psum")
    device.issue("nc_matmul", dst[:, ::2], s, x, accumulate=False)
    device.agrees()


@for_all("shape", [(128, 37, 60), (37, 5, 11)])
@for_all("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_blas_agrees_within_rounding(shape, dtype):
    k, m, n = shape
    results = []
    for mode in ("blas", "chain"):
        device = Device(matmul=mode)
        s, x = device.tile(normal((k, m), 1), dtype), device.tile(normal((k, n), 2), dtype)
        dst = device.empty((m, n), buffer="psum")
        for _ in range(2):
            device.issue("nc_matmul", dst, s, x)
        results.append(dst.numpy().astype(np.float64))
    magnitude = 2 * np.abs(s.numpy().astype(float)).T @ np.abs(x.numpy().astype(float))
    assert (np.abs(results[0] - results[1]) <= 2 * k * 2.0**-24 * magnitude).all()


@pytest.mark.parametrize("hint", ["is_stationary_onezero", "is_moving_onezero"])
def test_hints_change_no_bit(hint):
    device = Device()
    s, x = device.tile(normal((9, 4), 1)), device.tile(normal((9, 6), 2))
    assert np.array_equal(bits(product(device, s, x)), bits(product(device, s, x, **{hint: True})))


POSITIONS = [
    *(
        ("trn1", p, s)
        for p, s in [((0, 0), (128, 128)), ((64, 0), (64, 128)), ((64, 64), (64, 64))]
    ),
    *(("trn2", (p, 0), (32, 128)) for p in (0, 32, 64, 96)),
    ("trn3", (96, 96), (32, 32)),
    ("trn2", [0, 64], [128, 64]),
]


@for_all("target, position, size", POSITIONS)
def test_a_part_of_the_array_computes_the_same(target, position, size):
    device = Device(target)
    s, x = device.tile(normal(size, 1)), device.tile(normal((size[0], 20), 2))
    product(device, s, x, tile_position=position, tile_size=size)
    device.agrees()


@for_all("target", TARGETS)
@for_all("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("wrong", ["stationary", "moving"])
def test_a_wrong_hint_of_zeros_and_ones_is_reported(target, dtype, wrong):
    """The hint has no effect on formats other than float32. It may be wrong for one operand only,
    and right at the next call."""
    device, numbers = Device(target), np.random.default_rng(0).standard_normal((77, 33))
    ones = (numbers > 0).astype(np.float32)
    for values in (ones, np.where(ones, 1, -0.0), ones * numbers, ones):
        tiles = {"stationary": ones, "moving": ones, wrong: values}
        tiles = {name: device.tile(tile, dtype) for name, tile in tiles.items()}
        hints = {"is_stationary_onezero": True, "is_moving_onezero": True}
        device.issue("nc_matmul", device.empty((33, 33), buffer="psum"), **tiles, **hints)
        other = {"stationary": "moving", "moving": "stationary"}[wrong]
        hint = {f"is_{other}_onezero": True}
        device.issue("nc_matmul", device.empty((33, 33), buffer="psum"), **tiles, **hint)
    assert device.findings == (["NOT_ONEZERO"] if dtype == "float32" else [])
