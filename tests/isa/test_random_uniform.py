"""rand2 and dropout: random numbers put to use."""

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from device import TARGETS, Device, bits
from every import for_all

from neuroncore.base.errors import (
    OperatorError,
)

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")


# --- rand2 ----------------------------------------------------------------------------------------


def uniform(low, high, shape):
    """low + u (high - low) in float32, u the upper 24 bits of what rng draws."""
    u = (Device("trn3").random(shape) >> 8).astype(np.float32) / np.float32(2**24)
    low, high = np.float32(low), np.float32(high)
    return u * (high - low) + low


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (128, 33), (96, 5, 3)])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1, 2), (1e-30, 1e30), (5.0, 5.0000005)])
@pytest.mark.parametrize("where", ["sbuf", "psum"])
def test_rand2_is_uniform_between_its_bounds(shape, bounds, where):
    device = Device("trn3")
    dst = device.empty(shape, "float32", where)
    device.issue("rand2", dst, *bounds)
    assert np.array_equal(bits(dst.numpy()), bits(uniform(*bounds, shape)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_rand2_rounds_once_to_other_floats(dtype):
    device = Device("trn3")
    dst = device.empty((16, 40), dtype)
    device.issue("rand2", dst, -3.0, 3.0)
    assert np.array_equal(bits(dst.numpy()), bits(uniform(-3, 3, (16, 40)).astype(dtype)))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_rand2_rounds_and_saturates_integers(dtype):
    device = Device("trn3")
    dst = device.empty((16, 40), dtype)
    device.issue("rand2", dst, -300.0, 300.0)
    want = np.rint(uniform(-300, 300, (16, 40)))
    limits = np.iinfo(dtype)
    assert np.array_equal(dst.numpy(), np.clip(want, limits.min, limits.max).astype(dtype))


def test_rand2_to_tfloat32_keeps_ten_bits():
    device = Device("trn3")
    dst = device.empty((16, 40), "tfloat32")
    device.issue("rand2", dst, 0.0, 1.0)
    want = uniform(0, 1, (16, 40))
    assert not (dst.numpy().view(np.uint32) & 0x1FFF).any()
    assert (np.abs(dst.numpy() - want) <= np.spacing(want) * 2**12).all()


def test_each_partition_has_bounds_of_its_own():
    low, high = np.arange(9.0).reshape(9, 1), 10 + 2 * np.arange(9.0).reshape(9, 1)
    for kinds in [(1, 1), (1, 0), (0, 1)]:
        device = Device("trn3")
        dst = device.empty((9, 20))
        given_low = device.tile(low, "float32") if kinds[0] else -1.0
        given_high = device.tile(high, "float32", "psum") if kinds[1] else 99.0
        device.issue("rand2", dst, given_low, given_high)
        bounds = (low if kinds[0] else -1.0, high if kinds[1] else 99.0)
        assert np.array_equal(dst.numpy(), uniform(*bounds, (9, 20)))


def test_the_moments_of_rand2():
    device = Device("trn3")
    dst = device.empty((128, 512))
    device.issue("rand2", dst, 2.0, 5.0)
    x = np.sort((dst.numpy().astype(np.float64).ravel() - 2) / 3)
    n = x.size
    assert x[0] >= 0 and x[-1] <= 1
    assert abs(x.mean() - 1 / 2) < 5 / np.sqrt(12 * n)
    assert abs(x.var() - 1 / 12) < 5 / np.sqrt(180 * n)
    steps = np.arange(1, n + 1) / n
    assert np.abs(steps - x).max() < 2.2 / np.sqrt(n)  # Kolmogorov-Smirnov, p about 1e-4


# --- dropout --------------------------------------------------------------------------------------


def dropped(prob, shape):
    """Where dropout of a new core writes zeros."""
    u = (Device().random(shape) >> 8) / 2**24
    return u < np.float32(prob)


def patterns(shape, dtype):
    """Values of a format, of all bit patterns."""
    raw = np.random.default_rng(0).integers(1, 2**32, shape, dtype=np.uint32)
    form = np.dtype(dtype)
    return (raw >> 32 - 8 * form.itemsize).astype(f"uint{8 * form.itemsize}").view(form)


@for_all("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (128, 33), (96, 5, 3)])
def test_dropout_zeroes_some_and_keeps_the_bits_of_the_others(dtype, shape):
    device = Device()
    data = patterns(shape, dtype)
    dst = device.empty(shape, dtype)
    device.issue("dropout", dst, device.tile(data), 0.3)
    assert np.array_equal(bits(dst.numpy()), np.where(dropped(0.3, shape), 0, bits(data)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("prob", "kept"), [(0.0, 1), (0, 1), (1.0, 0), (1, 0)])
def test_probability_zero_keeps_all_and_one_drops_all(target, prob, kept):
    device = Device(target)
    data = patterns((128, 512), "float32")
    dst = device.empty(data.shape)
    device.issue("dropout", dst, device.tile(data), prob)
    assert np.array_equal(bits(dst.numpy()), bits(data) * kept)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("prob", [0.01, 0.5, 0.9])
def test_as_many_are_dropped_as_the_probability_says(target, prob):
    device = Device(target)
    dst = device.empty((128, 512))
    device.issue("dropout", dst, device.tile(np.ones((128, 512), np.float32)), prob)
    n = dst.size
    count = (dst.numpy() == 0).sum()
    assert abs(count - n * prob) < 5 * np.sqrt(n * prob * (1 - prob))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e5m2"])
def test_each_partition_has_a_probability_of_its_own(dtype):
    device = Device()
    prob = np.array([0, 0.25, 0.5, 1]).reshape(4, 1)
    data = np.ones((4, 100), np.float32)
    dst = device.empty(data.shape)
    device.issue("dropout", dst, device.tile(data), device.tile(prob, dtype))
    assert np.array_equal(dst.numpy() == 0, dropped(prob, data.shape))


@pytest.mark.parametrize("where", [("sbuf", "psum"), ("psum", "sbuf"), ("psum", "psum")])
def test_dropout_between_memories(where):
    device = Device()
    data = patterns((5, 12), "float32")
    dst = device.empty((5, 3, 4), "float32", where[1])
    device.issue("dropout", dst, device.tile(data, buffer=where[0]), 0.5)
    want = np.where(dropped(0.5, (5, 12)), 0, bits(data)).reshape(5, 3, 4)
    assert np.array_equal(bits(dst.numpy()), want)


def test_dropout_in_place_and_shifted_in_place():
    for start in (0, 1):
        device = Device()
        data = np.arange(1, 25, dtype=np.float32).reshape(2, 12)
        whole = device.tile(data)
        device.issue("dropout", whole[:, start : start + 10], whole[:, :10], 0.5)
        want = data.copy()
        want[:, start : start + 10] = np.where(dropped(0.5, (2, 10)), 0, data[:, :10])
        assert np.array_equal(whole.numpy(), want)


def test_a_refused_instruction_draws_nothing():
    device, other = Device(), Device()
    device.refuses(OperatorError, "dropout", device.zeros((3, 5)), device.zeros((3, 5)), 2.0)
    assert np.array_equal(device.random((3, 5)), other.random((3, 5)))
