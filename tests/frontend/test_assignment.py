"""The effect of `tensor[...] = value`, by the memory of the tensor and the kind of value."""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
)

SHAPE = (5, 3, 4)
NUMBERS = np.arange(60, dtype=np.float32).reshape(SHAPE) - 20
DTYPES = ("float32", "bfloat16", "float16", "float8_e4m3", "int32", "uint8", "int8", "uint16")
DMA, MEMSET, COPY = "DMA_DIRECT2D", "MEMSET", "COPY"


def assigned(value, *, key=..., to="hbm", dtype="float32", shape=SHAPE):
    """Return the contents of a tensor of zeros after `tensor[key] = value`, and the opcodes that
    were issued. `value` is a function of the device, or is assigned itself."""
    device = Device()
    tensor = device.zeros(shape, dtype, to)
    given = value(device) if callable(value) else value
    device.call(tensor.__setitem__, key, given)
    assert not device.findings
    return tensor.numpy(), device.opcodes


def tile(values, buffer="sbuf"):
    return lambda device: device.tile(values, buffer=buffer)


# --- to HBM ---------------------------------------------------------------------------------------

KEYS = (
    *(..., (), 2, -1, (0, 1), (0, 1, 2), (slice(1, 3),), (..., 3), (slice(None), 0)),
    *((slice(0, 5, 2), slice(1, 3), slice(None, None, 3)), (slice(None), slice(1, None))),
)


@for_all("key", KEYS)
def test_a_tile_is_stored_where_numpy_would_store_it(key):
    part = NUMBERS[key]
    want = np.zeros(SHAPE, np.float32)
    want[key] = part
    two_axes = part.shape if part.ndim > 1 else (part.size, 1)
    got, opcodes = assigned(tile(part.reshape(two_axes)), key=key)
    np.testing.assert_array_equal(got, want)
    assert opcodes == [DMA]


@for_all("shape", ((4, 1), (1, 4), (1, 4, 1), (4, 1, 1)))
def test_axes_of_size_1_do_not_count(shape):
    got, _ = assigned(tile(np.ones(shape, np.float32)), key=(1, 2))
    assert got.sum() == 4 and (got[1, 2] == 1).all()


@for_all("to", DTYPES)
@for_all("of", DTYPES)
def test_a_store_converts_like_nl_store(of, to):
    values = (abs(NUMBERS) % 16).astype(ml_dtypes.bfloat16).astype(of)
    got, opcodes = assigned(tile(values), dtype=to)
    np.testing.assert_array_equal(got.astype(np.float32), values.astype(np.float32))
    assert got.dtype == to and opcodes == [DMA]


def test_a_region_of_hbm_is_copied_by_one_dma():
    got, opcodes = assigned(lambda device: device.tile(NUMBERS, buffer="hbm")[1:3, ::2], key=0,
                            shape=(2, 2, 2, 4))  # fmt: skip
    np.testing.assert_array_equal(got[0], NUMBERS[1:3, ::2])
    assert opcodes == [DMA] and not got[1].any()


@for_all("dtype", DTYPES)
@for_all("number", (3, True, np.int64(5)))
def test_a_number_is_stored_through_a_tile(number, dtype):
    got, opcodes = assigned(number, key=(slice(1, 4), ..., slice(0, 4, 3)), dtype=dtype)
    want = np.zeros(SHAPE, dtype)
    want[1:4, :, ::3] = number
    np.testing.assert_array_equal(got, want)
    assert opcodes == [MEMSET, DMA]


@for_all("number", (0.3, np.float32(0.3), float("inf")))
def test_a_float_is_rounded_and_refused_for_integers(number):
    got, _ = assigned(number, dtype="bfloat16")
    np.testing.assert_array_equal(got, np.full(SHAPE, number, ml_dtypes.bfloat16))
    refused(DtypeError, number, "but int8 holds only integers", dtype="int8")


@for_all("shape", ((1,), (131,), (256,), (251, 3), (300, 7, 2)))
def test_a_number_fills_tensors_of_more_rows_than_partitions(shape):
    got, opcodes = assigned(7, shape=shape, dtype="int32")
    assert (got == 7).all() and opcodes == [MEMSET, DMA]


def test_a_number_that_is_assigned_to_no_element_is_a_finding():
    device = Device()
    tensor = device.zeros(SHAPE, "float32", "hbm")
    device.call(tensor.__setitem__, slice(2, 2), 3.0)
    assert set(device.findings) == {"NO_ELEMENTS"} and not tensor.numpy().any()


@for_all("shape", ((1, 65539), (2, 65539, 1), (1024, 8192)))
def test_a_number_fills_rows_that_are_larger_than_sbuf(shape):
    got, opcodes = assigned(3.0, shape=shape)
    parts = len(opcodes) // 2
    assert (got == 3).all() and parts > 1 and opcodes == [MEMSET, DMA] * parts


def test_a_large_integer_is_stored_exactly():
    assert (assigned(2**24 + 1, dtype="int32")[0] == 2**24 + 1).all()


def test_the_index_may_be_known_only_at_run_time():
    @nki.jit
    def kernel(x, places):
        out = nl.ndarray((6, 128, 8), x.dtype, buffer=nl.shared_hbm)
        out[...] = 0
        chosen = nl.load(places)
        for i in range(2):
            register = nisa.register_alloc()
            nisa.register_load(register, chosen[0:1, i : i + 1])
            out[register, :, 2:6] = nl.load(x)
        out[5, 0:64, nl.ds(register, 2)] = nl.load(x[0:64, 0:2])
        return out

    x = np.random.default_rng(0).standard_normal((128, 4)).astype(np.float32)
    want = np.zeros((6, 128, 8), np.float32)
    want[4, :, 2:6] = want[1, :, 2:6] = x
    want[5, :64, 1:3] = x[:64, :2]
    np.testing.assert_array_equal(kernel(x, np.array([[4, 1]], np.int32)), want)


def test_a_kernel_writes_its_result_and_its_argument():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 6), x.dtype, buffer=nl.shared_hbm)
        for i in range(3):
            out[:, 2 * i : 2 * i + 2] = nl.multiply(nl.load(x), float(i))
        x[:, 0:1] = 5.0
        return out

    x = np.ones((128, 2), np.float32)
    np.testing.assert_array_equal(kernel(x), np.repeat([[0, 0, 1, 1, 2, 2]], 128, axis=0))
    np.testing.assert_array_equal(x, [[5, 1]] * 128)


def refused(kind, value, says, *, key=..., to="hbm", dtype="float32"):
    """Return the error of an assignment, which leaves no trace."""
    device = Device()
    tensor = device.tile(NUMBERS, dtype, to)
    given = value(device) if callable(value) else value
    with pytest.raises(kind, match=says) as caught:
        device.call(tensor.__setitem__, key, given)
    np.testing.assert_array_equal(tensor.numpy(), NUMBERS.astype(dtype))
    assert not device.opcodes
    return caught.value


def test_a_tile_in_psum_is_not_stored_to_hbm():
    error = refused(BufferKindError, tile(NUMBERS, "psum"), "the value is in psum")
    assert "nl.copy" in error.hint


@pytest.mark.parametrize("shape", [(5, 4, 3), (5, 3, 1), (5, 12), (1, 3, 4), (4, 3, 4)])
def test_a_tile_of_another_shape_is_refused(shape):
    error = refused(ShapeError, tile(np.zeros(shape, np.float32)), "can't be assigned")
    assert "nl.broadcast_to" in error.hint


@pytest.mark.parametrize("value", [NUMBERS, "1", None, [1.0], 1j])
def test_a_value_that_is_neither_a_tensor_nor_a_number_is_refused(value):
    error = refused(SignatureError, value, "can't be assigned")
    assert "a number" in error.expected


def test_an_index_past_the_end_is_refused():
    refused(OutOfBoundsError, 1.0, "exceeds axis 1", key=(0, 3))


# --- on the chip ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [nl.sbuf, nl.psum])
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16])
def test_a_tile_is_assigned_by_a_copy(where, dtype):
    @nki.jit
    def kernel(x):
        blocks = nl.ndarray((96, 3, 5), dtype, buffer=where)
        for i in range(3):
            blocks[0:96, i, 0:5] = nl.load(x[i])
        whole = nl.ndarray((96, 3, 5), nl.float32)
        whole[...] = blocks
        out = nl.ndarray((96, 3, 5), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, whole)
        return out

    x = np.random.default_rng(0).integers(-9, 9, (3, 96, 5)).astype(np.float32)
    assert (kernel(x) == x.swapaxes(0, 1)).all()


def test_a_copy_is_one_instruction():
    assert assigned(tile(NUMBERS), to="psum")[1] == [COPY]


@for_all("to", ["sbuf", "psum"])
@for_all(
    ("value", "call"),
    [
        *((1.0, "nisa.memset"), (np.float32(1), "nisa.memset"), (NUMBERS, "shared_constant")),
        (tile(NUMBERS, "hbm"), "nisa.dma_copy"),
    ],
)
@for_all("key", [..., 0, (slice(None), slice(0, 2))])
def test_assignments_without_a_copy_instruction_are_refused_with_a_hint(key, value, call, to):
    assert call in refused(SignatureError, value, "can't be assigned", key=key, to=to).hint


def test_a_tile_of_another_shape_is_not_copied():
    refused(ShapeError, tile(NUMBERS[:, :2].copy()), "tensor_copy", to="sbuf")
