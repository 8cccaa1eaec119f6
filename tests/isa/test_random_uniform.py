"""rand2 and dropout: uses of random numbers."""

from itertools import product

import numpy as np
from calls import values
from device import TARGETS, Device, bits, noise
from every import for_all

from neuroncore.base.errors import OperatorError
from neuroncore.numerics.formats import FORMATS

# --- rand2 ----------------------------------------------------------------------------------------


def test_rand2_is_uniform_between_its_bounds():
    """low + u (high - low) in float32, where u is the upper 24 bits of rng's number."""
    for bounds in ((0.0, 1.0), (-1, 2), (1e-30, 1e30), (5.0, 5.0000005)):
        device = Device("trn3")
        for shape, where in product([(1, 1), (3, 7), (33, 5), (9, 5, 3)], ("sbuf", "psum")):
            device.issue("rand2", device.empty(shape, "float32", where), *bounds)
        device.agrees()
    device, other = Device("trn3"), Device("trn3")
    dst = device.empty((3, 7))
    device.issue("rand2", dst, -1.0, 2.0)
    u = (other.random((3, 7)) >> 8).astype(np.float32) / np.float32(2**24)
    assert np.array_equal(bits(dst.numpy()), bits(u * np.float32(3) + np.float32(-1)))


def test_rand2_rounds_once_and_saturates_integers():
    device = Device("trn3")
    for dtype in FORMATS:
        if dtype not in ("bool", "float8_e4m3fn", "float8_e3m4"):
            device.issue("rand2", device.empty((3, 40), dtype), -300.0, 300.0)
    device.agrees()


def test_each_partition_has_separate_bounds():
    device = Device("trn3")
    low, high = np.arange(9.0).reshape(9, 1), 10 + 2 * np.arange(9.0).reshape(9, 1)
    low, high = device.tile(low, "float32"), device.tile(high, "float32", "psum")
    for bounds in ((low, high), (low, 99.0), (-1.0, high)):
        device.issue("rand2", device.empty((9, 20)), *bounds)
    device.agrees()


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


@for_all("target", TARGETS)
def test_dropout_zeroes_some_and_keeps_the_bits_of_the_others(target):
    device = Device(target)
    forms = [form for form in FORMATS if form != "float8_e4m3fn" or target == "trn3"]
    for dtype, shape in product(forms, [(1, 1), (3, 7), (9, 5, 3)]):
        data = device.tile(values(dtype, shape), dtype)
        device.issue("dropout", device.empty(shape, dtype), data, 0.3)
    for prob, buffer in product((0.0, 0, 1.0, 1, 0.5), ("sbuf", "psum")):
        data = device.tile(noise((5, 12)), buffer=buffer)
        device.issue("dropout", device.empty((5, 3, 4), buffer=buffer), data, prob)
    device.agrees()


@for_all("target", TARGETS)
def test_the_share_of_dropped_elements_is_the_probability(target):
    for prob in (0, 0.01, 0.5, 0.9, 1):
        device = Device(target)
        dst = device.empty((128, 512))
        device.issue("dropout", dst, device.tile(np.ones((128, 512), np.float32)), prob)
        n = dst.size
        count = (dst.numpy() == 0).sum()
        assert abs(count - n * prob) <= 5 * np.sqrt(n * prob * (1 - prob))


def test_each_partition_has_a_separate_probability():
    device = Device()
    for dtype in ("float32", "bfloat16", "float16", "float8_e5m2"):
        prob = device.tile(np.array([0, 0.25, 0.5, 1]).reshape(4, 1), dtype)
        device.issue("dropout", device.empty((4, 100)), device.tile(noise((4, 100))), prob)
    device.agrees()


def test_a_refused_instruction_draws_nothing():
    device, other = Device(), Device()
    device.refuses(OperatorError, "dropout", device.zeros((3, 5)), device.zeros((3, 5)), 2.0)
    assert np.array_equal(device.random((3, 5)), other.random((3, 5)))
