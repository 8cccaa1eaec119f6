"""Products that are deferred and distributed over threads have the bits of products that are
computed at once."""

import os

import numpy as np
import pytest
from device import Device

from neuroncore.core import later
from neuroncore.frontend.nki import language as nl

BANK = 2
THREADS = (1, 2, 5)


@pytest.fixture
def sums(monkeypatch):
    """Defer small products too, and return the deferred sums."""
    made, put_off = [], later.put_off
    monkeypatch.setattr(later, "WORTH", 1)
    monkeypatch.setattr(later, "put_off", lambda *given: made.append(put_off(*given)) or made[-1])
    return made


def products(monkeypatch, count, kernel, rows=128):
    """Return the result of a kernel with this number of threads, and its device."""
    monkeypatch.setenv(later.THREADS, str(count))
    random = np.random.default_rng(5)
    device = Device()
    total = device.tile(np.full((rows, BANK, 512), np.nan, np.float32), buffer="psum")
    operands = [device.tile(random.standard_normal((96, n), np.float32)) for n in (rows, 512, 512)]
    kernel(device, total, *operands)
    return total.numpy().view(np.uint32)


def long_sum(device, total, s, *moving):
    """Issue more products than are deferred at a time, with operands that change in between."""
    for number in range(later.MOST + 9):
        x = moving[number % 2]
        device.issue("nc_matmul", total[:, 0], s, x, accumulate=number > 0)
        if number % 9 == 0:
            device.issue("tensor_scalar", x, x, nl.multiply, 0.5)
        if number % 20 == 3:
            device.issue("tensor_copy", s, x[:, : s.shape[1]])


def interrupted_sums(device, total, s, *moving):
    """Write two windows of a storage alternately; one is read and written between products."""
    for number in range(6):
        for half, x in enumerate(moving):
            device.issue("nc_matmul", total[:, half], s, x, accumulate=number > 0)
        if number % 2:
            device.issue("tensor_copy", moving[0][: s.shape[1] // 2], total[: s.shape[1] // 2, 1])
            device.issue("memset", total[:, 0, 7:9], 2.0)


@pytest.mark.parametrize("kernel", [long_sum, interrupted_sums])
@pytest.mark.parametrize("rows", [128, 72, 12])
def test_the_bits_do_not_depend_on_the_number_of_threads(monkeypatch, sums, kernel, rows):
    expected, *others = [products(monkeypatch, count, kernel, rows) for count in THREADS]
    for found in others:
        np.testing.assert_array_equal(found, expected)
    assert any(sums)


def test_a_deferred_sum_at_an_address_is_visible_to_other_tensors_with_its_bytes(monkeypatch, sums):
    monkeypatch.setenv(later.THREADS, "2")
    device = Device()
    total, same = (device.empty((128, 512), buffer="psum", address=(0, 0)) for _ in range(2))
    s, x = device.tile(np.ones((9, 128), np.float32)), device.tile(np.ones((9, 512), np.float32))
    for _ in range(3):
        device.issue("nc_matmul", total, s, x)
    assert (same.numpy() == 27).all() and not any(sums)


def test_a_fork_ends_the_threads(monkeypatch, sums):
    before = products(monkeypatch, 3, long_sum)
    process = os.fork()
    if process == 0:
        os._exit(int(not np.array_equal(products(monkeypatch, 3, long_sum), before)))
    assert os.waitpid(process, 0)[1] == 0
    np.testing.assert_array_equal(products(monkeypatch, 3, long_sum), before)


def test_products_that_are_never_read_are_never_computed(monkeypatch, sums):
    monkeypatch.setenv(later.THREADS, "2")
    device = Device()
    total = device.empty((128, 512), buffer="psum")
    s, x = device.tile(np.ones((9, 128), np.float32)), device.tile(np.ones((9, 512), np.float32))
    device.issue("nc_matmul", total, s, x)
    assert total.storage.pending is not None
    assert (total.numpy() == 9).all() and total.storage.pending is None
