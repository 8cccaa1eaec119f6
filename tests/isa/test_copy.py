"""tensor_copy and memset: results, legal memories, and refusals."""

from itertools import product

import numpy as np
from calls import values
from device import TARGETS, Device, converted, noise, same
from every import for_all
from nki.isa import engine

from neuroncore.numerics.formats import FORMATS, lookup

UNITS = (engine.vector, engine.scalar, engine.gpsimd)


# --- tensor_copy ----------------------------------------------------------------------------------


@for_all("unit", UNITS)
def test_copies_between_all_pairs_of_formats(unit):
    device = Device("trn3")
    for before, after in product(FORMATS, FORMATS):
        src = device.tile(values(before, (3, 65)), before)
        device.issue("tensor_copy", device.empty((3, 65), after), src, engine=unit)
    device.agrees()
    assert not device.findings


@for_all("unit", UNITS)
def test_a_copy_between_equal_formats_moves_bits(unit):
    device = Device()
    for dtype in ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "tfloat32"):
        width = f"uint{8 * lookup(dtype).itemsize}"
        src = device.tile(noise((16, 24), width)).view(dtype)  # NaN payloads and all
        dst = device.empty((16, 24), width)
        device.issue("tensor_copy", dst.view(dtype), src, engine=unit)
        assert np.array_equal(dst.numpy(), noise((16, 24), width))


def test_sources_may_be_broadcast_or_transposed_views():
    device = Device()
    src = device.tile(noise((8, 1, 5)))
    device.issue("tensor_copy", device.empty((8, 4, 5), "float16"), src.broadcast(1, 4))
    turned = device.tile(noise((8, 3, 5))).permute((0, 2, 1))
    device.issue("tensor_copy", device.empty((8, 5, 3)), turned)
    device.agrees()


@for_all("first", [0, 1, 7, 20, 35, 40])
def test_copies_onto_their_own_source_in_another_format(first):
    device = Device()
    for rows, narrow in product((1, 3), ("bfloat16", "float16", "int16")):
        tile = device.tile(noise((rows, 40), special=False))
        device.issue("tensor_copy", tile.view(narrow)[:, first : first + 40], tile)
        tile = device.tile(noise((rows, 80), narrow))
        device.issue("tensor_copy", tile.view(np.float32), tile[:, first : first + 40])
    device.agrees()


@for_all("target, start", product(TARGETS, [0, 32, 64, 96]))
def test_tiles_may_be_in_any_quadrant_and_overlap(target, start):
    device, numbers = Device(target), noise((32, 6))
    src = device.tile(numbers, address=(start, 64))
    dst = device.empty((32, 6), "bfloat16", "psum", address=((start + 32) % 128, 2048))
    device.issue("tensor_copy", dst, src)
    same(dst.numpy(), converted(numbers, "bfloat16"))
    device.issue("tensor_copy", device.empty((32, 6), address=(start, 68)), src)
    same(src.numpy(), np.hstack([numbers[:, :1], numbers[:, :5]]))


# --- memset ---------------------------------------------------------------------------------------


@for_all("unit", [engine.vector, engine.gpsimd, engine.unknown])
def test_fills(unit):
    device = Device("trn3")
    for dtype, form in FORMATS.items():
        numbers = [0, -0.0, 1.5, -3, 0.1, 1e-7, np.inf, -np.inf, np.nan]
        if form.is_integer:
            low, high = (int(n) for n in form.range)
            numbers = [low, high, 0, 1, -1, high - 1, np.int32(7)]
        for value in numbers if dtype != "bool" else [0, 1]:
            device.issue("memset", device.empty((5, 3, 2), dtype), value, engine=unit)
    device.agrees()


def test_integers_are_filled_exactly():
    device = Device()
    dst = device.empty((128, 3), "int32")
    device.issue("memset", dst, 2**31 - 1)
    assert (dst.numpy() == 2**31 - 1).all()


def test_a_fill_writes_every_element():
    device = Device()
    dst = device.empty((3, 4))
    device.issue("memset", dst[:, :2], 1.0)
    device.issue("tensor_copy", device.empty((3, 2)), dst[:, :2])
    assert device.findings == []
    device.issue("tensor_copy", device.empty((3, 4)), dst)
    assert device.findings == ["UNINIT_READ"]
