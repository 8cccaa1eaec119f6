"""nc_transpose on the Tensor and the Vector engine."""

from itertools import product

import numpy as np
from device import Device, bits
from every import for_all
from nki.isa import engine

from neuroncore.numerics.formats import FORMATS

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
UNITS = (engine.tensor, engine.vector)
WHERE = {engine.tensor: "psum", engine.vector: "sbuf"}


def noise(device, shape, dtype, buffer="sbuf", seed=0):
    """Return a tile of arbitrary bit patterns: every NaN, infinity and subnormal of a format."""
    tile = device.empty(shape, dtype, buffer)
    raw = np.random.default_rng(seed).bytes(tile.size * tile.dtype.itemsize)
    if dtype == "bool":
        raw = bytes(byte & 1 for byte in raw)
    tile.codes()[...] = np.frombuffer(raw, tile.dtype.storage).reshape(shape)
    return device.enter(tile)


def transposed(device, data, where, unit=engine.unknown, dtype=None):
    dst = device.empty((data.free_size, data.shape[0]), dtype or data.dtype, where)
    device.issue("nc_transpose", dst, data, unit)
    return dst.numpy()


def flipped(data):
    return bits(data.numpy()).reshape(data.shape[0], -1).T


@for_all("target", ["trn1", "trn2", "trn3"])
def test_the_vector_engine_moves_bits(target):
    device = Device(target)
    forms = [form for form in FORMATS if form != "float8_e4m3fn" or target == "trn3"]
    for dtype, shape in product(forms, [(1, 1), (3, 7), (32, 32), (31, 2), (1, 32)]):
        data = noise(device, shape, dtype)
        got = transposed(device, data, "psum", engine.vector)
        assert np.array_equal(bits(got), flipped(data))
    device.agrees()
    assert not device.findings


def test_the_tensor_engine_of_v2_moves_finite_values():
    device = Device("trn1")
    for dtype in FLOATS[:4]:
        numbers = np.random.default_rng(1).choice([-3, -1, 0, 0.5, 7], (33, 20))
        data = device.tile(numbers, dtype)
        assert np.array_equal(bits(transposed(device, data, "psum")), flipped(data))
        got = transposed(device, data, "psum", dtype="float32")  # its sums may stay so
        assert np.array_equal(got, data.numpy().astype(np.float32).T)
    device.agrees()


@for_all("unit", UNITS)
def test_strided_free_axes_count_as_one(unit):
    device = Device()
    transposed(device, noise(device, (20, 3, 5), "bfloat16"), WHERE[unit], unit)
    data = noise(device, (64, 4, 15), "float16")[32:57, 1:3, ::3]
    dst = device.tile(np.zeros((10, 50)), "float16", WHERE[unit])
    device.issue("nc_transpose", dst[:, 1::2], data, unit)
    assert (dst.numpy()[:, ::2] == 0).all()
    device.agrees()


def test_a_tile_may_be_transposed_in_place():
    device = Device()
    data = noise(device, (32, 32), "int32")
    want = flipped(data)
    device.issue("nc_transpose", data, data)
    assert np.array_equal(bits(data.numpy()), want)


def test_memories_determine_the_engine_if_none_is_requested():
    device = Device()
    for source, where, unit, asked in (
        ("sbuf", "psum", engine.tensor, engine.unknown),
        ("sbuf", "sbuf", engine.vector, engine.unknown),
        ("psum", "sbuf", engine.vector, engine.unknown),
        ("psum", "psum", engine.vector, engine.unknown),
        ("sbuf", "psum", engine.tensor, engine.tensor),
        ("sbuf", "psum", engine.vector, engine.vector),
    ):
        transposed(device, noise(device, (8, 8), "float32", source), where, asked)
        program = device.core.program
        assert program.calls[program.columns().call[-1]].engine is unit
