"""nc_matmul with perf_mode=double_row: K = 256, with two rows of 8-bit floats in each row of the
array."""

import itertools

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from device import Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import matmul_perf_mode

from neuroncore.report.summary import summary

DOUBLE = matmul_perf_mode.double_row
OLD = ("float8_e4m3", "float8_e5m2")
NEW = ("float8_e4m3fn", "float8_e5m2")
PAIRS = [
    *(("trn2", s, x) for s, x in itertools.product(OLD, OLD)),
    *(("trn3", s, x) for s, x in itertools.product(OLD, OLD)),
    *(("trn3", s, x) for s, x in itertools.product(NEW, NEW)),
]
SHAPES = [(1, 1, 1), (3, 7, 5), (128, 128, 512), (127, 9, 129), (64, 8, 32), (128, 33, 1)]


def numbers(shape, dtype, seed=0, spread=4):
    rng = np.random.default_rng([seed, *shape])
    values = rng.normal(size=shape) * 2.0 ** rng.integers(-spread, spread, shape)
    return values.astype(dtype)


def whole(shape, dtype, seed=0):
    """Return small integers whose products and sums are exact in any order."""
    return np.random.default_rng([seed, *shape]).integers(-8, 9, shape).astype(dtype)


def operands(device, k=4, m=6, n=5, s="float8_e4m3", x="float8_e4m3", dst="float32"):
    stationary = device.tile(whole((k, 2, m), s))
    moving = device.tile(whole((k, 2, n), x, 1))
    return device.empty((m, n), dst, "psum"), stationary, moving


def product(device, s, x, mode=DOUBLE, **options):
    dst = device.empty((s.shape[2], x.shape[2]), buffer="psum")
    device.issue("nc_matmul", dst, device.tile(s), device.tile(x), perf_mode=mode, **options)
    return dst


@for_all("target", ["trn2", "trn3"])
def test_every_pair_of_formats_and_shape(target):
    device = Device(target)
    for s, x in (pair for name, *pair in PAIRS if name == target):
        product(device, numbers((128, 2, 33), s), numbers((128, 2, 65), x, 1))
    for k, m, n in SHAPES:
        product(device, numbers((k, 2, m), "float8_e4m3"), numbers((k, 2, n), "float8_e5m2", 1))
    device.agrees()


def test_pairs_of_rows_are_added_first():
    """2^24 + 1 + 1 + 1 - 2^24: pairs are added before they are added to the large number."""
    s = np.zeros((3, 2, 1), np.float32)
    s[:, :, 0] = [[2.0**12, 0], [1, 1], [-(2.0**12), 1]]
    x = np.zeros((3, 2, 1), np.float32)
    x[:, :, 0] = [[2.0**12, 0], [1, 1], [2.0**12, 1]]
    s, x = s.astype("float8_e5m2"), x.astype("float8_e5m2")
    # 2^24 + 2 + (1 - 2^24) = 3 is exact; if added one by one, the ones would be lost
    assert product(Device(), s, x).numpy().item() == 3
    one_by_one = Device()
    dst = one_by_one.empty((1, 1), buffer="psum")
    s, x = (one_by_one.tile(a.reshape(6, 1)) for a in (s, x))
    one_by_one.issue("nc_matmul", dst, s, x)
    assert dst.numpy().item() == 1


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 70), st.integers(0, 99))
def test_double_rows_of_any_shape(k, m, n, seed):
    device = Device()
    s, x = numbers((k, 2, m), "float8_e4m3", seed), numbers((k, 2, n), "float8_e5m2", seed)
    product(device, s, x)
    device.agrees()


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_special_values_stay_in_their_row(special):
    s, x = whole((4, 2, 3), "float8_e5m2"), np.ones((4, 2, 5), "float8_e5m2")
    s[2, 1, 1] = special
    got = product(Device(), s, x).numpy()
    assert np.isfinite(got[[0, 2]]).all()
    assert np.array_equal(got[1], np.full(5, special, np.float32), equal_nan=True)


def test_the_mode_may_be_a_member_or_its_name():
    s, x = whole((4, 2, 3), "float8_e4m3"), whole((4, 2, 5), "float8_e4m3", 1)
    named, member = (product(Device(), s, x, mode).numpy() for mode in ("double_row", DOUBLE))
    assert np.array_equal(named, member)


@pytest.mark.parametrize("mode", [matmul_perf_mode.none, "none"])
def test_no_mode_is_the_plain_product(mode):
    device = Device()
    s, x = device.tile(whole((4, 6), "float8_e4m3")), device.tile(whole((4, 5), "float8_e4m3", 1))
    device.issue("nc_matmul", device.empty((6, 5), buffer="psum"), s, x, perf_mode=mode)
    device.agrees()


def test_operands_and_sums_may_have_any_layout():
    """The halves need not be adjacent, and further free axes are columns."""
    device = Device("trn3")
    s, x = device.tile(whole((9, 2, 2, 3), "float8_e4m3")), device.tile(whole((9, 2, 4, 5), NEW[1]))
    device.issue("nc_matmul", device.empty((6, 4, 5), buffer="psum"), s, x, perf_mode=DOUBLE)
    s, x = device.tile(whole((8, 4, 7), "float8_e4m3")), device.tile(whole((8, 2, 20), NEW[1]))
    parts = s[:, 0:4:2, 1:7], x[:, :, 3:14]
    for form, start in (("float32", None), ("bfloat16", None), ("float32", False)):
        dst = device.empty((6, 11), form, "psum")
        for accumulate in (start, True, None):
            device.issue("nc_matmul", dst, *parts, accumulate=accumulate, perf_mode=DOUBLE)
    device.issue("nc_matmul", dst, *parts, accumulate=False, perf_mode=DOUBLE)
    device.agrees()
    assert not device.findings


def test_the_library_product_agrees_on_whole_numbers():
    s, x = whole((128, 2, 33), "float8_e4m3"), whole((128, 2, 65), "float8_e4m3", 1)
    got, want = (product(Device(matmul=mode), s, x).numpy() for mode in ("blas", "chain"))
    assert np.array_equal(got, want)


def test_rows_of_the_array_may_be_tiled():
    device = Device()
    s, x = whole((32, 2, 33), "float8_e4m3"), whole((32, 2, 65), "float8_e4m3", 1)
    product(device, s, x, tile_position=(64, 0), tile_size=(32, 128))
    device.agrees()


def test_double_rows_take_the_time_of_half_the_work():
    """The rate is per column: 512 columns with twice the rows take the same time."""
    single, double = Device(), Device()
    s, x = single.zeros((128, 128), "float8_e4m3"), single.zeros((128, 512), "float8_e4m3")
    single.issue("nc_matmul", single.empty((128, 512), buffer="psum"), s, x)
    double.issue("nc_matmul", *operands(double, 128, 128, 512), perf_mode=DOUBLE)
    assert single.timeline().total_ns == double.timeline().total_ns
    assert np.array_equal(single.timeline().busy, double.timeline().busy)


def test_the_report_counts_both_rows():
    device = Device()
    device.issue("nc_matmul", *operands(device, 100, 6, 5), perf_mode=DOUBLE)
    assert summary(device.timeline())["hardware_flops"] == 2 * 200 * 6 * 5
