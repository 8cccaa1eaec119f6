"""Products and transposes of the older API compared with numpy."""

import ml_dtypes
import numpy as np
import pytest
from every import for_all
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older

from neuroncore.base.errors import FreeSizeError, KernelError, ShapeError

SHAPES = [(1, 1, 1), (5, 7, 9), (128, 128, 512), (33, 1, 65), (128, 3, 511)]


def numbers(shape, dtype="float32", seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def product(a, b):
    return a.T.astype(np.float64) @ b.astype(np.float64)


def close(got, want, rows):
    """Sums of `rows` products in float32."""
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.sqrt(rows))


@for_all("dtype", ["float32", "bfloat16", "float16"])
@for_all("shape", SHAPES)
def test_a_product_is_numpy_s(shape, dtype):
    k, m, n = shape
    a, b = numbers((k, m), dtype), numbers((k, n), dtype, 1)
    device = Older()
    got = device.call(nisa.nc_matmul, device.tile(a), device.tile(b))
    assert (got.shape, got.dtype, got.region.value) == ((m, n), "float32", "psum")
    close(got.numpy(), product(a, b), k)


def test_free_axes_of_moving_stay():
    a, b = numbers((8, 4)), numbers((8, 3, 5), seed=1)
    device = Older()
    got = device.call(nisa.nc_matmul, device.tile(a), device.tile(b))
    want = product(a, b.reshape(8, 15)).reshape(4, 3, 5)
    assert got.shape == want.shape
    close(got.numpy(), want, 8)


def test_operands_can_be_passed_by_name_in_any_order():
    a, b = numbers((8, 4)), numbers((8, 6), seed=1)
    device = Older()
    got = device.call(nisa.nc_matmul, moving=device.tile(b), stationary=device.tile(a))
    close(got.numpy(), product(a, b), 8)


@pytest.mark.parametrize("columns", [4, 6])
def test_a_mask_is_over_moving_even_if_stationary_has_as_many_columns(columns):
    a, b = numbers((8, columns)), numbers((8, 6), seed=1)
    device = Older()
    k, n = nl.arange(8)[:, None], nl.arange(6)[None, :]
    got = device.call(nisa.nc_matmul, device.tile(a), device.tile(b), mask=(k < 5) & (n >= 2))
    close(got[:, 2:6].numpy(), product(a[:5], b[:5, 2:]), 5)
    assert got.unwritten()[:, :2].all() and not got.unwritten()[:, 2:].any()


def test_a_mask_over_stationary_is_refused_with_a_hint():
    device = Older()
    a, b = device.tile(numbers((8, 4))), device.tile(numbers((8, 6), seed=1))
    with pytest.raises(ShapeError, match=r"(?s)over the axes of the moving .* stationary\[mask\]"):
        device.call(nisa.nc_matmul, a, b, mask=nl.arange(4)[None, :] < 2)


def test_a_stationary_operand_of_too_many_columns_is_named():
    device = Older()
    a, b = device.tile(numbers((8, 129))), device.tile(numbers((8, 6), seed=1))
    for product_of in (nisa.nc_matmul, lambda a, b: nl.matmul(a, b, transpose_x=True)):
        with pytest.raises(FreeSizeError, match=r"8 x 129 .* can't be the stationary operand"):
            device.call(product_of, a, b)


def test_parts_of_a_bank_take_their_own_products():
    a, b = numbers((8, 4)), numbers((8, 6), seed=1)
    device = Older()
    x, y = device.tile(a), device.tile(b)

    def kernel():
        p = nl.ndarray((4, 12), dtype=nl.float32, buffer=nl.psum)
        p[:, 0:6] = nisa.nc_matmul(x, y)
        p[:, 6:12] = nl.matmul(x, y, transpose_x=True)
        p[:, 0:6] += nisa.nc_matmul(x, y)
        return p

    want = product(a, b)
    close(device.call(kernel).numpy(), np.concatenate([2 * want, want], 1), 8)
    assert len([op for op in device.opcodes if "COPY" in op or "MEMSET" in op]) == 0


@pytest.mark.parametrize("buffers", [("psum", "sbuf"), ("sbuf", "psum"), ("psum", "psum")])
def test_operands_in_psum_are_copied_for_the_array(buffers):
    a, b = numbers((8, 4)), numbers((8, 6), seed=1)
    device = Older()
    x, y = (device.tile(v, buffer=where) for v, where in zip((a, b), buffers, strict=True))
    close(device.call(nisa.nc_matmul, x, y).numpy(), product(a, b), 8)
    assert len(device.opcodes) == 1 + buffers.count("psum")


@pytest.mark.parametrize(("target", "form"), [("trn1", "float32"), ("trn2", "bfloat16")])
def test_transposed_bfloat16_is_float32_where_it_is_a_product(target, form):
    x = numbers((5, 7), "bfloat16")
    device = Older(target)
    data, identity = device.tile(x), device.tile(np.eye(5, dtype=ml_dtypes.bfloat16))
    got = device.call(nisa.nc_matmul, data, identity, is_transpose=True)
    assert got.dtype == form
    assert np.array_equal(got.numpy().astype(np.float32), x.T.astype(np.float32))


@pytest.mark.parametrize(
    ("k", "m", "n"), [(8, 129, 4), (8, 4, 513), (8, 4, 4)], ids=["wide", "long", "fits"]
)
def test_products_that_are_too_large_are_refused(k, m, n):
    device = Older()
    x, y = device.zeros((k, m)), device.zeros((k, n))
    if (m, n) == (4, 4):
        device.call(nisa.nc_matmul, x, y)
        return
    with pytest.raises(KernelError):
        device.call(nisa.nc_matmul, x, y)
    assert not device.opcodes


# --- transposes -----------------------------------------------------------------------------------


@for_all("dtype", ["float32", "bfloat16"])
@for_all("shape", [(1, 1), (5, 7), (128, 128), (33, 128), (128, 3)])
def test_the_tensor_engine_transposes(shape, dtype):
    x = numbers(shape, dtype)
    device = Older()
    got = device.call(nisa.nc_transpose, device.tile(x), engine=nisa.tensor_engine)
    assert (got.region.value, got.dtype) == ("psum", dtype)
    assert np.array_equal(got.numpy(), x.T)
    assert len(device.opcodes) == 1


@for_all("shape", [(1, 1), (5, 7), (32, 32), (128, 64), (100, 70), (33, 31)])
@for_all("dtype", ["float32", "bfloat16", "uint8"])
def test_the_vector_engine_transposes_in_squares(shape, dtype):
    x = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    device = Older()
    got = device.call(nisa.nc_transpose, device.tile(x), engine=nisa.vector_engine)
    assert got.region.value == "sbuf"
    assert np.array_equal(got.numpy(), x.T)
    assert len(device.opcodes) == -(-shape[0] // 32) * -(-shape[1] // 32)


def test_a_small_tile_is_the_vector_engine_s_and_a_large_one_is_not():
    device = Older()
    assert device.call(nisa.nc_transpose, device.zeros((32, 32))).region.value == "sbuf"
    assert device.call(nisa.nc_transpose, device.zeros((32, 33))).region.value == "psum"


@pytest.mark.parametrize(("shape", "opcodes"), [((128, 128), 2), ((32, 33), 2), ((32, 32), 1)])
def test_a_large_tile_in_psum_is_copied_for_the_array_to_transpose(shape, opcodes):
    x = numbers(shape)
    device = Older()
    tile = device.tile(x, buffer="psum")
    assert np.array_equal(device.call(nisa.nc_transpose, tile).numpy(), x.T)
    assert len(device.opcodes) == opcodes
    assert np.array_equal(device.call(nl.transpose, tile).numpy(), x.T)


@pytest.mark.parametrize("engine", [nisa.tensor_engine, nisa.vector_engine])
def test_a_named_engine_reads_the_memories_that_it_can(engine):
    device = Older()
    tile = device.tile(numbers((128, 128)), buffer="psum")
    if engine is nisa.vector_engine:
        device.call(nisa.nc_transpose, tile, engine=engine)
        return
    with pytest.raises(KernelError):
        device.call(nisa.nc_transpose, tile, engine=engine)


def test_the_mask_of_a_transpose_is_transposed():
    x = numbers((6, 8))
    device = Older()
    got = device.call(nisa.nc_transpose, device.tile(x), mask=nl.arange(6)[:, None] < 4)
    assert np.array_equal(got[:, 0:4].numpy(), x[:4].T)
    assert got.unwritten()[:, 4:].all()


def test_dtype_converts_a_transpose():
    x = numbers((6, 8))
    device = Older()
    got = device.call(nisa.nc_transpose, device.tile(x), dtype=nl.bfloat16)
    assert got.dtype == "bfloat16"
    assert np.array_equal(got.numpy(), x.T.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("shape", [(4, 129), (4, 500)])
def test_more_columns_than_partitions_are_refused(shape):
    device = Older()
    with pytest.raises(KernelError, match=f"{shape[1]}"):
        device.call(nisa.nc_transpose, device.zeros(shape))
    assert not device.opcodes
