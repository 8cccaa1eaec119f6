"""nki.language: random tensors, dropout, transposed loads and gathers, and their instructions."""

import ml_dtypes
import nki
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, bits, called
from every import for_all
from published_machines import since

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    NotEmulated,
    OutOfBoundsError,
    PartitionLimitError,
    ShapeError,
)

BUFFERS = {"sbuf": nl.sbuf, "psum": nl.psum, "hbm": nl.shared_hbm}
LOWERED = {
    target: ["RAND2"] if target in since(4) else ["RNG", "TENSOR_SCALAR", "TENSOR_SCALAR"]
    for target in TARGETS
}


def seed(device, value):
    device.call(nl.random_seed, device.tile([[value]], "int32"))


def rand(device, *args, **options):
    return device.call(nl.rand, *args, **options).numpy()


# --- rand and random_seed -------------------------------------------------------------------------


@for_all("target", TARGETS)
@for_all("shape", [(1, 1), (3, 7), (128, 33), (96, 5, 3)])
@for_all("buffer", BUFFERS)
def test_rand_is_the_upper_24_bits_of_rng(target, shape, buffer):
    device = Device(target)
    tensor = device.call(nl.rand, shape, nl.float32, BUFFERS[buffer], "noise")
    rows = shape if buffer != "hbm" else next(
        (n, tensor.size // n) for n in range(min(128, tensor.size), 0, -1) if tensor.size % n == 0
    )  # fmt: skip
    want = (Device(target).random(rows) >> 8).astype(np.float32) / 2**24
    assert np.array_equal(bits(tensor.numpy()), bits(want.reshape(shape)))
    assert device.opcodes == LOWERED[target] + ["DMA_DIRECT2D"] * (buffer == "hbm")
    assert (tensor.buffer, tensor.name) == (BUFFERS[buffer], "noise")
    assert not device.findings


def test_rand_fills_tensors_of_hbm_that_are_larger_than_sbuf():
    device = Device("trn2")
    x = rand(device, (128, 60_000), nl.bfloat16, nl.shared_hbm).astype(np.float32)
    assert x.min() >= 0 and x.max() <= 1 and not np.array_equal(x[:64], x[64:])
    assert not device.findings


@pytest.mark.parametrize("target", TARGETS)
def test_rand_is_uniform(target):
    x = np.sort(rand(Device(target), (128, 512), nl.float32).ravel().astype(np.float64))
    n = x.size
    assert x[0] >= 0 and x[-1] < 1
    assert abs(x.mean() - 1 / 2) < 5 / np.sqrt(12 * n)
    assert abs(x.var() - 1 / 12) < 5 / np.sqrt(180 * n)
    assert np.abs(np.arange(1, n + 1) / n - x).max() < 2.2 / np.sqrt(n)


@for_all("target", TARGETS)
@for_all("dtype", ["bfloat16", "float16", "float8_e4m3", "uint8", "int32"])
def test_rand_rounds_to_other_formats(target, dtype):
    exact = rand(Device(target), (16, 50), nl.float32)
    want = np.rint(exact).astype(dtype) if "int" in dtype else exact.astype(dtype)
    assert np.array_equal(bits(rand(Device(target), (16, 50), dtype)), bits(want))


@pytest.mark.parametrize("target", TARGETS)
def test_a_seed_repeats_rand_and_dropout(target):
    device = Device(target)
    ones = device.tile(np.ones((16, 50), np.float32))
    outcomes = []
    for value in (42, 42, 43):
        seed(device, value)
        dropped = device.call(nl.dropout, ones, 0.5).numpy()
        outcomes.append([rand(device, (16, 50), nl.float32), dropped])
    assert np.array_equal(outcomes[0], outcomes[1])
    assert not np.array_equal(outcomes[0][0], outcomes[2][0])
    assert not np.array_equal(outcomes[0][1], outcomes[2][1])
    assert device.opcodes[0] == "SET_RNG_SEED"


def test_two_calls_differ():
    device = Device()
    assert not (rand(device, (16, 50), nl.float32) == rand(device, (16, 50), nl.float32)).all()


@pytest.mark.parametrize("grid", [1, 2])
def test_a_second_launch_draws_the_same_numbers(grid):
    @nki.jit
    def noise(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), nl.rand(x.shape, nl.float32)))
        return out

    x = np.zeros((8, 9), np.float32)
    launch = noise if grid == 1 else noise[grid]
    first = np.array(nki.simulate(launch)(x))
    assert np.array_equal(first, np.array(nki.simulate(launch)(x)))
    assert first.any()


@pytest.mark.parametrize("shape", [(1, 2), (2, 1)])
def test_a_seed_is_one_number(shape):
    device = Device()
    with pytest.raises(ShapeError, match="src_seeds"):
        device.call(nl.random_seed, device.zeros(shape, "int32"))


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_a_seed_has_32_bits(dtype):
    device = Device()
    with pytest.raises(DtypeError, match="src_seeds"):
        device.call(nl.random_seed, device.zeros((1, 1), dtype))


# --- dropout --------------------------------------------------------------------------------------


@for_all("target", TARGETS)
@for_all("dtype", [np.float32, ml_dtypes.bfloat16, np.int16])
def test_dropout_keeps_the_format_and_does_not_scale(target, dtype):
    data = np.arange(1, 801).reshape(16, 50).astype(dtype)
    found, opcodes = called(nl.dropout, data, 0.25, target=target)
    u = (Device(target).random((16, 50)) >> 8) / 2**24
    assert np.array_equal(found, np.where(u < 0.25, 0, data).astype(dtype))
    assert found.dtype == dtype and opcodes == ["DROPOUT"]


def test_dropout_to_another_format():
    data = np.arange(1, 801, dtype=np.float32).reshape(16, 50) / 7
    exact, _ = called(nl.dropout, data, 0.5)
    found, opcodes = called(nl.dropout, data, 0.5, dtype=nl.bfloat16)
    assert np.array_equal(bits(found), bits(exact.astype(ml_dtypes.bfloat16)))
    assert opcodes == ["DROPOUT", "COPY"]
    assert called(nl.dropout, data, 0.5, dtype=nl.float32)[1] == ["DROPOUT"]


def test_each_partition_can_have_its_own_rate():
    data = np.ones((2, 50), np.float32)
    found, _ = called(nl.dropout, data, np.array([[0], [1]], np.float32))
    assert found[0].all() and not found[1].any()


def test_dropout_reads_psum():
    found, opcodes = called(nl.dropout, np.ones((2, 50), np.float32), 0.0, tiles_in="psum")
    assert found.all() and opcodes == ["DROPOUT"]


# --- load_transpose2d -----------------------------------------------------------------------------


@for_all("target", TARGETS)
@for_all("shape", [(1, 1), (3, 7), (2048, 128), (33, 100)])
@for_all("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32])
def test_a_transposed_load(target, shape, dtype):
    data = np.random.default_rng(0).normal(size=shape).astype(dtype)
    found, opcodes = called(nl.load_transpose2d, data, target=target, tiles_in="hbm")
    assert np.array_equal(bits(found), bits(data.T)) and opcodes == ["DMA_TRANSPOSE"]


def test_a_transposed_load_of_another_format():
    data = np.random.default_rng(0).normal(size=(9, 40)).astype(np.float32)
    found, opcodes = called(nl.load_transpose2d, data, tiles_in="hbm", dtype=nl.bfloat16)
    assert np.array_equal(bits(found), bits(data.T.astype(ml_dtypes.bfloat16)))
    assert opcodes == ["DMA_TRANSPOSE", "COPY"]
    assert called(nl.load_transpose2d, data, tiles_in="hbm", dtype="float32")[1] == opcodes[:1]


@pytest.mark.parametrize("shape", [(9, 40, 1), (1, 40, 1, 1), (9, 1, 1)])
def test_axes_of_size_1_behind_the_second_do_not_count(shape):
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found, opcodes = called(nl.load_transpose2d, data, tiles_in="hbm")
    assert np.array_equal(found, data.reshape(shape[:2]).T) and opcodes == ["DMA_TRANSPOSE"]


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (1, 3, 4), (3, 4, 1, 2)])
def test_a_transposed_load_has_two_axes(shape):
    with pytest.raises(ShapeError, match="two axes"):
        called(nl.load_transpose2d, np.zeros(shape, np.float32), tiles_in="hbm")


def test_columns_become_partitions():
    with pytest.raises(PartitionLimitError, match="129"):
        called(nl.load_transpose2d, np.zeros((4, 129), np.float32), tiles_in="hbm")


def test_bytes_are_not_transposed():
    with pytest.raises(DtypeError, match="1 byte"):
        called(nl.load_transpose2d, np.zeros((4, 4), np.int8), tiles_in="hbm")


def test_a_transposed_load_does_not_reach_psum():
    with pytest.raises(BufferKindError, match="psum"):
        called(nl.load_transpose2d, np.zeros((4, 4), np.float32), tiles_in="psum")


# --- gather_flattened -----------------------------------------------------------------------------


@for_all("target", TARGETS)
@for_all("shape", [(1, 1), (3, 7), (128, 33), (96, 5, 3)])
@for_all("counts", [(1,), (600,), (4, 5)])
def test_elements_are_gathered_in_each_partition(target, shape, counts):
    rng = np.random.default_rng(0)
    data = rng.normal(size=shape).astype(np.float32)
    flat = data.reshape(shape[0], -1)
    indices = rng.integers(0, flat.shape[1], (shape[0], *counts)).astype(np.uint32)
    found, opcodes = called(nl.gather_flattened, data, indices, target=target)
    want = np.take_along_axis(flat, indices.reshape(shape[0], -1), 1).reshape(indices.shape)
    assert np.array_equal(found, want) and opcodes == ["NC_N_GATHER"]


def test_a_gather_to_another_format_and_from_psum():
    data = np.random.default_rng(0).normal(size=(3, 9)).astype(np.float32)
    indices = np.array([[8, 0], [1, 1], [5, 2]], np.uint32)
    want = np.take_along_axis(data, indices, 1)
    found, opcodes = called(nl.gather_flattened, data, indices, dtype=nl.float16)
    assert np.array_equal(found, want.astype(np.float16)) and opcodes == ["NC_N_GATHER", "COPY"]
    found, opcodes = called(nl.gather_flattened, data, indices, tiles_in="psum")
    assert np.array_equal(found, want) and opcodes == ["COPY", "COPY", "NC_N_GATHER"]


def test_an_index_past_the_end_is_refused():
    with pytest.raises(OutOfBoundsError, match="is 9"):
        called(nl.gather_flattened, np.zeros((1, 9), np.float32), np.array([[9]], np.uint32))


@pytest.mark.parametrize("form", [np.int32, np.uint16, np.uint8])
def test_other_integers_become_uint32_indices(form):
    data, indices = np.arange(9, dtype=np.float32)[None], np.array([[8, 0, 3]], form)
    found, opcodes = called(nl.gather_flattened, data, indices)
    assert np.array_equal(found, [[8, 0, 3]]) and opcodes == ["COPY", "NC_N_GATHER"]
    with pytest.raises(DtypeError, match="indices"):
        called(nl.gather_flattened, data, indices.astype(np.float32))


def test_other_axes_of_a_gather_are_refused():
    indices = np.array([[0]], np.uint32)
    with pytest.raises(NotEmulated, match="axis 1"):
        called(nl.gather_flattened, np.zeros((1, 9), np.float32), indices, axis=1)
