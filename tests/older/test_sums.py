"""In-place sums, tensors that begin with a number, and assigned numbers: their instructions and
results."""

import numpy as np
import pytest
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older, run

from neuroncore.base.errors import SignatureError

A = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
B = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)
MEMSET, TT = "MEMSET", "TENSOR_TENSOR"


# --- += -------------------------------------------------------------------------------------------


def test_the_first_product_of_a_sum_in_psum_overwrites():
    def kernel(a, b):
        p = nl.zeros((6, 6), np.float32, buffer=nl.psum)
        for _ in nl.affine_range(3):
            p += nisa.nc_matmul(a, b)
        return nl.copy(p)

    got, device = run(kernel, A, B)
    assert np.allclose(got, 3 * A.T.astype(np.float64) @ B, rtol=1e-6, atol=1e-6)
    assert MEMSET not in device.opcodes and TT not in device.opcodes


def test_a_sum_in_psum_continues_with_its_contents():
    def kernel(a, b):
        p = nl.ndarray((6, 6), dtype=np.float32, buffer=nl.psum)
        p[...] = nisa.nc_matmul(a, b)
        p += nisa.nc_matmul(a, b)
        p[:, :] += nl.matmul(a, b, transpose_x=True)
        return nl.copy(p)

    got, device = run(kernel, A, B)
    assert np.allclose(got, 3 * A.T.astype(np.float64) @ B, rtol=1e-6, atol=1e-6)
    assert MEMSET not in device.opcodes and TT not in device.opcodes


def test_pieces_of_a_sum_begin_separately():
    def kernel(a, b):
        p = nl.zeros((6, 6), np.float32, buffer=nl.psum)
        for half in nl.affine_range(2):
            part = nl.ds(half * 3, 3)
            for _ in nl.affine_range(2):
                p[:, part] += nisa.nc_matmul(a, b[:, part])
        return nl.copy(p)

    got, device = run(kernel, A, B)
    assert np.allclose(got, 2 * A.T.astype(np.float64) @ B, rtol=1e-6, atol=1e-6)
    assert MEMSET not in device.opcodes


def test_updates_of_sbuf_are_one_instruction_each():
    def kernel(a, b):
        a += b
        a[:, 0:3] *= b[:, 0:3]
        a -= 2.0
        return a

    want = A + B
    want[:, :3] *= B[:, :3]
    got, device = run(kernel, A, B)
    assert np.array_equal(got, want - np.float32(2))
    assert len(device.opcodes) == 3


def test_a_product_added_to_sbuf_is_computed_in_psum_first():
    def kernel(a, b):
        t = nl.zeros((6, 6), np.float32)
        t += nisa.nc_matmul(a, b)
        t[...] += nisa.nc_matmul(a, b)
        return t

    got, device = run(kernel, A, B)
    assert np.allclose(got, 2 * A.T.astype(np.float64) @ B, rtol=1e-6, atol=1e-6)
    assert device.opcodes.count(TT) == 2


# --- nl.zeros and nl.full -------------------------------------------------------------------------


def test_zeros_that_are_overwritten_cost_nothing():
    def kernel(a):
        t = nl.zeros((4, 6), np.float32)
        t[...] = nl.copy(a)
        return t

    got, device = run(kernel, A)
    assert np.array_equal(got, A)
    assert MEMSET not in device.opcodes


def test_zeros_that_are_read_are_one_memset():
    def kernel(a):
        t = nl.full((4, 6), 3.0, np.float32)
        first = nl.add(a, t)
        return nl.add(first, t)

    got, device = run(kernel, A)
    assert np.array_equal(got, (A + 3) + 3)
    assert device.opcodes.count(MEMSET) == 1


def test_partly_overwritten_zeros_are_zeros_elsewhere():
    def kernel(a):
        t = nl.zeros((4, 6), np.float32)
        t[:, 0:2] = nl.copy(a[:, 0:2])
        return nl.add(t, 1.0)

    want = np.ones((4, 6), np.float32)
    want[:, :2] += A[:, :2]
    got, device = run(kernel, A)
    assert np.array_equal(got, want)
    assert device.opcodes.count(MEMSET) == 1


@pytest.mark.parametrize(("start", "count"), [(0, 5), (32, 5), (64, 33), (0, 95)])
def test_rows_of_psum_next_to_a_product_are_zeros_at_any_start(start, count):
    """No engine starts at partition 5, and DMA does not reach PSUM."""
    x = np.random.default_rng(3).normal(size=(4, count)).astype(np.float32)

    def kernel(a, b):
        p = nl.zeros((128, 9), np.float32, buffer=nl.psum)
        part = nl.ds(start, count), nl.ds(2, 6)
        p[part] += nisa.nc_matmul(a, b)
        before = nl.copy(p)
        p[part] += nisa.nc_matmul(a, b)
        return nl.subtract(nl.copy(p), before)

    want = np.zeros((128, 9))
    want[start : start + count, 2:8] = x.T.astype(np.float64) @ B
    got, _ = run(kernel, x, B)
    assert np.allclose(got, want, rtol=1e-5, atol=1e-5)


def test_zeros_in_an_update_are_added_to():
    def kernel(a):
        t = nl.zeros((4, 6), np.float32)
        for _ in nl.sequential_range(3):
            t += a
        return t

    got, device = run(kernel, A)
    assert np.array_equal(got, A + A + A)
    assert device.opcodes.count(MEMSET) == 1


def test_unused_zeros_are_never_filled():
    def kernel(a):
        nl.zeros((4, 6), np.float32)
        return nl.copy(a)

    assert MEMSET not in run(kernel, A)[1].opcodes


# --- numbers --------------------------------------------------------------------------------------


def test_a_number_assigned_fills():
    def kernel(a):
        a[:, 0:2] = 7.5
        a[0:4, 5] = np.float32(-1)
        return a

    want = A.copy()
    want[:, :2], want[:, 5] = 7.5, -1
    got, device = run(kernel, A)
    assert np.array_equal(got, want)
    assert device.opcodes == [MEMSET] * 2


@pytest.mark.parametrize("value", ["x", None, np.zeros((4, 6), np.float32)])
def test_only_tiles_and_numbers_can_be_assigned(value):
    def kernel(a):
        a[...] = value

    with pytest.raises(SignatureError, match="can't be assigned"):
        run(kernel, A)


def test_zeros_next_to_a_sum_are_set_by_an_instruction():
    a, b = (np.random.default_rng(i).normal(size=(8, 4)).astype(np.float32) for i in range(2))
    device = Older()
    x, y = device.tile(a), device.tile(b)

    def kernel():
        total = nl.zeros((4, 12), nl.float32, buffer=nl.psum)
        total[:, 4:8] += nisa.nc_matmul(x, y)
        return nl.copy(total)

    want = np.zeros((4, 12))
    want[:, 4:8] = a.T.astype(np.float64) @ b
    np.testing.assert_allclose(device.call(kernel).numpy(), want, rtol=1e-5, atol=1e-5)
    assert device.opcodes.count("MEMSET") == 2
