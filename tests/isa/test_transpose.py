"""nc_transpose on the Tensor and the Vector engine."""

import numpy as np
import pytest
from device import Device, bits, same
from every import for_all
from nki.isa import engine

FLOATS = ("float32", "tfloat32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")
WHERE = {engine.tensor: ("sbuf", "psum"), engine.vector: ("sbuf", "sbuf")}
SHAPES = [(1, 1), (3, 7), (32, 32), (31, 2), (1, 32)]


def noise(device, shape, dtype, buffer="sbuf", seed=0):
    """A tile of arbitrary bit patterns: every NaN, infinity and subnormal of a format."""
    tile = device.empty(shape, dtype, buffer)
    raw = np.random.default_rng(seed).bytes(tile.size * tile.dtype.itemsize)
    if dtype == "bool":
        raw = bytes(byte & 1 for byte in raw)
    tile.codes()[...] = np.frombuffer(raw, tile.dtype.storage).reshape(shape)
    tile.mark_written()
    return tile


def transposed(device, data, where, unit=engine.unknown):
    dst = device.empty((data.free_size, data.shape[0]), data.dtype, where)
    device.issue("nc_transpose", dst, data, unit)
    return dst.numpy()


def flipped(data):
    return bits(data.numpy()).reshape(data.shape[0], -1).T


@pytest.mark.parametrize("shape", SHAPES)
@for_all("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("source", ["sbuf", "psum"])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_vector_engine_moves_bits(target, source, dtype, shape):
    device = Device(target)
    data = noise(device, shape, dtype, source)
    for where in ("sbuf", "psum"):
        assert np.array_equal(bits(transposed(device, data, where, engine.vector)), flipped(data))
    assert device.findings == []


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (128, 128), (128, 33), (5, 128), (96, 2)])
@for_all("dtype", [*FLOATS, *INTEGERS])
def test_from_v3_on_the_tensor_engine_moves_bits(dtype, shape):
    device = Device("trn2")
    data = noise(device, shape, dtype)
    assert np.array_equal(bits(transposed(device, data, "psum", engine.tensor)), flipped(data))


def test_ocp_fp8_on_v4():
    device = Device("trn3")
    data = noise(device, (33, 128), "float8_e4m3fn")
    assert np.array_equal(bits(transposed(device, data, "psum")), flipped(data))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3"])
def test_the_tensor_engine_of_v2_moves_finite_values(dtype):
    device = Device("trn1")
    data = device.tile(np.random.default_rng(1).choice([-3, -1, 0, 0.5, 7], (128, 65)), dtype)
    assert np.array_equal(bits(transposed(device, data, "psum")), flipped(data))


def test_the_tensor_engine_of_v2_multiplies_by_one_and_zero():
    """NaN fills its row of the result, an infinity makes the rest of its row NaN, -0 turns +0."""
    device = Device("trn1")
    data = np.array([[1, np.nan, 3, -0.0], [2, 5, np.inf, 4], [6, 7, 8, 9]], np.float32)
    got = transposed(device, device.tile(data), "psum")
    nan, inf = np.nan, np.inf
    want = [[1, 2, 6], [nan, nan, nan], [nan, inf, nan], [0, 4, 9]]
    assert np.array_equal(got, want, equal_nan=True)
    assert not np.signbit(got[3, 0])


@pytest.mark.parametrize("unit", [engine.tensor, engine.vector])
def test_free_axes_run_on_as_one(unit):
    device = Device()
    data = noise(device, (20, 3, 5), "bfloat16")
    assert np.array_equal(bits(transposed(device, data, WHERE[unit][1], unit)), flipped(data))


@pytest.mark.parametrize("unit", [engine.tensor, engine.vector])
def test_strided_views_on_both_sides(unit):
    device = Device()
    whole = noise(device, (64, 4, 15), "float16")
    data = whole[32:57, 1:3, ::3]
    dst = device.tile(np.zeros((10, 50)), "float16", WHERE[unit][1])
    device.issue("nc_transpose", dst[:, 1::2], data, unit)
    assert np.array_equal(bits(dst.numpy()[:, 1::2]), flipped(data))
    assert (dst.numpy()[:, ::2] == 0).all()


def test_a_tile_may_be_transposed_in_place():
    device = Device()
    data = noise(device, (32, 32), "int32")
    want = flipped(data)
    device.issue("nc_transpose", data, data)
    assert np.array_equal(bits(data.numpy()), want)


# --- which engine ---------------------------------------------------------------------------------


def unit_of_last(device):
    program = device.core.program
    return program.calls[program.columns().call[-1]].engine


@pytest.mark.parametrize(
    ("source", "where", "unit"),
    [
        ("sbuf", "psum", engine.tensor),
        ("sbuf", "sbuf", engine.vector),
        ("psum", "sbuf", engine.vector),
        ("psum", "psum", engine.vector),
    ],
)
def test_the_memories_choose_the_engine(source, where, unit):
    device = Device()
    transposed(device, noise(device, (8, 8), "float32", source), where)
    assert unit_of_last(device) is unit


@pytest.mark.parametrize("unit", [engine.tensor, engine.vector])
def test_the_engine_can_be_asked_for(unit):
    device = Device()
    transposed(device, noise(device, (8, 8), "float32"), "psum", unit)
    assert unit_of_last(device) is unit


# --- sizes and formats ----------------------------------------------------------------------------


NARROW = ("float8_e4m3", "float8_e5m2")


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (128, 33)])
@for_all("wide", ["bfloat16", "float16", "uint16", "int16"])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_from_v3_on_8_bits_may_leave_as_16(target, dtype, wide, shape):
    """The word is the code, its upper half zero: nothing is converted."""
    device = Device(target)
    data = noise(device, shape, dtype)
    dst = device.empty(shape[::-1], wide, "psum")
    device.issue("nc_transpose", dst, data)
    assert np.array_equal(bits(dst.numpy()), flipped(data).astype(np.uint16))


def test_reading_what_nothing_wrote_is_found():
    device = Device()
    data = device.empty((4, 4))
    device.issue("nc_transpose", device.empty((4, 4), buffer="psum"), data)
    assert device.findings == ["UNINIT_READ"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3"])
def test_the_sums_of_v2_may_stay_float32(dtype):
    device = Device("trn1")
    data = device.tile(np.arange(660).reshape(33, 20) % 16, dtype)
    dst = device.empty((20, 33), "float32", "psum")
    device.issue("nc_transpose", dst, data)
    same(dst.numpy(), data.numpy().astype(np.float32).T)
