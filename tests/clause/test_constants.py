"""The numbers that are legal constants for a tile's format."""

import numpy as np
from device import Device
from every import for_all

from neuroncore.base.errors import DtypeError

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]


@for_all("dtype", INTEGERS)
def test_zero_of_any_type_is_a_constant_of_every_integer_format(dtype):
    device = Device()
    for zero in (0, 0.0, np.float32(0)):
        tile = device.tile(np.full((3, 7), 5, dtype))
        device.issue("memset", tile, zero)
        assert not tile.numpy().any()


@for_all("dtype", INTEGERS)
def test_any_other_float_is_refused_for_an_integer_format(dtype):
    device = Device()
    tile = device.tile(np.full((3, 7), 5, dtype))
    for value in (2.0, 0.5, -1.0, float("nan")):
        device.refuses(DtypeError, "memset", tile, value, words=["holds only integers", dtype])
    assert (tile.numpy() == 5).all()


@for_all("width", [8, 16, 32])
def test_an_unsigned_format_stores_the_bits_of_a_negative_integer(width):
    device = Device()
    tile = device.tile(np.zeros((3, 7), f"uint{width}"))
    for value in (-1, -(2 ** (width - 1))):
        device.issue("memset", tile, value)
        assert (tile.numpy() == value % 2**width).all()
    device.refuses(
        DtypeError, "memset", tile, -(2 ** (width - 1)) - 1, words=["holds only integers"]
    )


def test_a_predicated_copy_takes_floats_that_are_integers():
    device = Device()
    tile = device.tile(np.arange(6, dtype=np.int32).reshape(2, 3))
    where = device.tile(np.array([[1, 0, 1], [0, 1, 1]], np.uint8))
    device.refuses(DtypeError, "tensor_copy_predicated", tile, 2.5, where)
    device.issue("tensor_copy_predicated", tile, 2.0, where)
    assert np.array_equal(tile.numpy(), [[2, 1, 2], [3, 2, 2]])
