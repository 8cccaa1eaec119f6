"""dma_copy: transfers between memories, and conversions of formats."""

from itertools import product

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from calls import values
from device import Device, noise
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import dge_mode, oob_mode

from neuroncore.base.errors import OutOfBoundsError
from neuroncore.numerics.formats import FORMATS, lookup

PLACES = [("hbm", "sbuf"), ("sbuf", "hbm"), ("hbm", "hbm"), ("sbuf", "sbuf")]


def test_every_conversion():
    device = Device("trn3")
    for before, after in product(FORMATS, FORMATS):
        src = device.tile(values(before, (3, 65)), before, "hbm")
        device.issue("dma_copy", device.empty((3, 65), after), src)
    device.agrees()


@for_all("dtype", ["float32", "bfloat16", "float16", "float8_e4m3", "tfloat32"])
def test_a_transfer_without_conversion_copies_bits(dtype):
    device, width = Device(), f"uint{8 * lookup(dtype).itemsize}"
    codes, dst = noise((2, 128), width), device.empty((2, 128), width, "hbm")
    device.issue("dma_copy", dst.view(dtype), device.tile(codes).view(dtype))
    assert np.array_equal(dst.numpy(), codes)


# --- places and shapes ----------------------------------------------------------------------------


SHAPES = [((6, 4), (3, 8)), ((24, 1), (4, 6)), ((2, 3, 4), (8, 3)), ((128, 2), (1, 256))]


@for_all("source, where", PLACES)
def test_elements_keep_their_row_major_order_in_another_shape(source, where):
    device = Device()
    for before, after in SHAPES:
        numbers = np.arange(np.prod(before)).reshape(before)
        src, dst = device.tile(numbers, "float32", source), device.empty(after, "int32", where)
        device.issue("dma_copy", dst, src)
        assert np.array_equal(dst.numpy().reshape(-1), numbers.reshape(-1))


def test_partitions_may_start_anywhere_and_views_have_any_axes():
    device = Device()
    whole = device.zeros((128, 4))
    for start in (1, 7, 100):
        device.issue("dma_copy", whole[start : start + 9], device.tile(noise((9, 4)), buffer="hbm"))
    for form in ("float32", "bfloat16"):
        src, dst = device.tile(noise((4, 5, 6)), buffer="hbm"), device.zeros((5, 3, 24), form)
        device.issue("dma_copy", dst[1:4, ::2, 2::8], src[1:, 1:3, ::2])
    six = device.tile(noise((3,) * 6), buffer="hbm")[:2, :2, :2, :2, :2, :2]
    device.issue("dma_copy", device.empty((2, 32)), six)
    device.agrees()


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 30))
def test_overlapping_pieces_of_one_tensor_read_first(to, origin, size):
    device = Device()
    for shape in ((40,), (40, 2), (40, 100)):
        tensor = device.tile(noise(shape), buffer="hbm")
        device.issue("dma_copy", tensor[to : to + size], tensor[origin : origin + size])
    device.agrees()


@pytest.mark.parametrize("buffer", ["sbuf", "hbm"])
def test_a_tensor_may_be_reversed_in_place(buffer):
    device = Device()
    tensor = device.tile(np.arange(12, dtype=np.int16).reshape(2, 6), buffer=buffer)
    device.issue("dma_copy", tensor, tensor.ap([[6, 2], [-1, 6]], offset=5))
    assert np.array_equal(tensor.numpy(), [[5, 4, 3, 2, 1, 0], [11, 10, 9, 8, 7, 6]])


# --- access patterns ------------------------------------------------------------------------------


PATTERNS = [
    ([[8, 5], [1, 8]], 0),
    ([[8, 5], [-1, 8]], 7),
    ([[-8, 5], [1, 8]], 32),
    ([[0, 3], [1, 4]], 9),
    ([[1, 8], [8, 5]], 0),
    ([[3, 4], [2, 3], [-1, 2]], 11),
    ([[0, 2], [0, 3]], 39),
    ([[1, 40]], 0),
]


@for_all("pattern, offset", PATTERNS)
def test_patterns_walk_hbm_in_any_direction(pattern, offset):
    device, tensor = Device(), np.arange(40, dtype=np.float32).reshape(5, 8)
    dst = device.empty([count for _, count in pattern], buffer="hbm")
    device.issue("dma_copy", dst, device.tile(tensor, buffer="hbm").ap(pattern, offset))
    places = offset
    for step, count in pattern:
        places = np.add.outer(places, step * np.arange(count))
    assert np.array_equal(dst.numpy(), tensor.reshape(-1)[places])


def test_patterns_walk_within_partitions_and_as_destinations():
    device = Device()
    tile = device.tile(noise((3, 24)))
    for pattern, offset in (
        ([[24, 3], [-1, 6]], 5), ([[24, 2], [0, 3], [4, 2]], 27), ([[24, 1], [5, 4], [2, 3]], 2),
    ):  # fmt: skip
        dst = device.empty([count for _, count in pattern], buffer="hbm")
        device.issue("dma_copy", dst, tile.ap(pattern, offset))
    dst = device.zeros((4, 6), buffer="hbm").ap([[12, 2], [-2, 3]], offset=5)
    device.issue("dma_copy", dst, device.tile(noise((2, 3))))
    device.agrees()


@for_all(
    ("buffer", "pattern", "offset"),
    [
        ("hbm", [[8, 5], [1, 9]], 0),
        ("hbm", [[8, 5], [-1, 8]], 6),
        ("hbm", [[8, 6], [1, 1]], 0),
        ("hbm", [[1, 1]], 40),
        ("hbm", [[1, 1]], -1),
        ("sbuf", [[8, 5], [1, 9]], 0),
        ("sbuf", [[8, 5], [1, 8]], 1),
        ("sbuf", [[8, 6], [1, 8]], 0),
        ("sbuf", [[8, 4], [1, 8]], 16),
        ("sbuf", [[8, 5], [-1, 8]], 6),
    ],
)
def test_a_pattern_that_leaves_its_tensor_is_refused(buffer, pattern, offset):
    device = Device()
    tensor = device.tile(np.zeros((5, 8), np.float32), buffer=buffer)
    outside = tensor.ap(pattern, offset)  # published kernels make such patterns without using them
    words = ["reaches elements"]
    device.refuses(OutOfBoundsError, "dma_copy", outside, outside, words=words)
    device.refuses(OutOfBoundsError, "dma_copy", outside[:1], outside[:1], words=words)


# --- modes ----------------------------------------------------------------------------------------


def pair(device, after="float32"):
    return device.empty((3, 4), after), device.tile(np.ones((3, 4), np.float32), buffer="hbm")


@for_all("mode", list(dge_mode))
@for_all("target", ["trn2", "trn3"])
def test_descriptors_may_come_from_anywhere(target, mode):
    device = Device(target)
    dst, src = pair(device)
    device.issue("dma_copy", dst, src, dge_mode=mode)
    assert (dst.numpy() == 1).all()


@pytest.mark.parametrize("mode", list(oob_mode))
def test_the_oob_mode_of_a_static_copy_has_no_effect(mode):
    device = Device()
    dst, src = pair(device)
    device.issue("dma_copy", dst, src, oob_mode=mode)
    assert (dst.numpy() == 1).all()


# --- what was never written -----------------------------------------------------------------------


@pytest.mark.parametrize("buffer", ["sbuf", "hbm"])
def test_copying_uninitialized_memory_is_reported(buffer):
    device = Device()
    src = device.empty((4, 6), buffer=buffer)
    device.issue("dma_copy", src[1:3], device.tile(np.ones((2, 6), np.float32)))
    dst = device.empty((2, 6))
    device.issue("dma_copy", dst, src[1:3])
    assert device.findings == []
    device.issue("dma_copy", device.empty((4, 6)), src)
    assert device.findings == ["UNINIT_READ"]
