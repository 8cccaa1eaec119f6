"""iota and affine_select: what the GpSimd engine makes of an affine pattern."""

from itertools import product
from math import prod

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki.language as nl
import numpy as np
import pytest
from device import Device, noise
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import (
    BufferKindError,
    OperatorError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
    StartPartitionError,
)
from neuroncore.numerics.formats import FORMATS, lookup

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
PATTERNS = [
    ([[1, 5]], 0, 0),
    ([[3, 4]], -2, 10),
    ([[-1, 6]], 5, 1),
    ([[0, 3], [1, 4]], 0, -1),
    ([[100, 2], [-10, 3], [1, 2]], 7, 1000),
    ([[8, 2], [4, 2], [2, 2], [1, 2]], 0, 16),
    ([[5, 1], [0, 2]], 0, 0),
]


# --- iota -----------------------------------------------------------------------------------------


def size(pattern):
    return prod(count for _, count in pattern)


def test_iota_counts_along_the_pattern():
    device = Device("trn3")
    for (pattern, *more), rows in product(PATTERNS, (1, 3, 128)):
        for shape in ((rows, size(pattern)), (rows, *(count for _, count in pattern))):
            device.issue("iota", device.empty(shape, "int32"), pattern, *more)
    for dtype in FORMATS:
        device.issue("iota", device.empty((5, 40), dtype), [[37, 8], [-1, 5]], -70, 11)
    device.agrees()


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
)
def test_iota_wraps_around_in_32_bits(pattern, offset, multiplier):
    device = Device()
    device.issue("iota", device.empty((7, size(pattern)), "int32"), pattern, offset, multiplier)
    device.agrees()


def test_iota_rounds_to_float32_beyond_24_bits():
    device = Device()
    dst = device.empty((1, 4), "float32")
    device.issue("iota", dst, [[1, 4]], 2**24)
    assert np.array_equal(dst.numpy()[0], [2**24, 2**24, 2**24 + 2, 2**24 + 4])


PATTERN_TWINS = [
    ([[1, 4]], ["pattern", "4 elements", "5"]),
    ([[1, 6]], ["pattern", "6 elements", "5"]),
    ([[1, 5], [1, 2]], ["pattern", "10 elements"]),
    ([[1, 0]], ["pattern"]),
    ([[1, -5], [1, -1]], ["pattern"]),
    ([], ["pattern"]),
    ([[1, 5], [0, 1], [0, 1], [0, 1], [0, 1]], ["pattern", "5 axes", "1 to 4"]),
]


@pytest.mark.parametrize(("pattern", "words"), PATTERN_TWINS)
def test_a_pattern_that_does_not_fit_is_refused(pattern, words):
    device = Device()
    dst = device.tile(np.full((3, 5), 9, np.int32))
    device.refuses(ShapeError, "iota", dst, pattern, words=words)
    tile = device.tile(np.ones((3, 5), np.float32))
    out = device.tile(np.full((3, 5), 9, np.float32))
    device.refuses(ShapeError, "affine_select", out, pattern, 1, tile, 0.0, words=words)


@pytest.mark.parametrize("pattern", [[1, 5], 5, [[1, 5, 2]], [["a", 5]], None])
def test_what_is_no_pattern_is_refused(pattern):
    device = Device()
    dst = device.tile(np.full((3, 5), 9, np.int32))
    device.refuses(SignatureError, "iota", dst, pattern, words=["pattern"])


@pytest.mark.parametrize("name", ["offset", "channel_multiplier", "on_false_value"])
@pytest.mark.parametrize("junk", ["abc", object(), [1, 2], None])
def test_constants_are_numbers(name, junk):
    device = Device()
    dst, tile = device.empty((3, 5)), device.tile(np.ones((3, 5), np.float32))
    given = {"channel_multiplier": 1, "on_true_tile": tile, "on_false_value": 0.0, name: junk}
    device.refuses(
        SignatureError, "affine_select", dst, [[1, 5]], **given, words=[name, type(junk).__name__]
    )
    if name != "on_false_value":
        device.refuses(SignatureError, "iota", dst, [[1, 5]], **{name: junk}, words=[name])
        device.issue("iota", dst, np.array([[1, 5]]), **{name: np.int16(3)})


@pytest.mark.parametrize("where", ["psum", "hbm"])
def test_iota_writes_sbuf(where):
    device = Device()
    dst = device.empty((3, 5), "int32", where)
    device.refuses(BufferKindError, "iota", dst, [[1, 5]], words=["dst", "sbuf", where])


def test_iota_starts_on_a_quadrant():
    device = Device()
    whole = device.empty((64, 5), "int32")
    device.refuses(StartPartitionError, "iota", whole[1:3], [[1, 5]], words=["dst", "partition 1"])
    device.issue("iota", whole[32:34], [[1, 5]])


def test_there_are_128_channels():
    with pytest.raises(PartitionLimitError, match="129"):
        Device().empty((129, 5), "int32")


# --- affine_select --------------------------------------------------------------------------------


def test_affine_select_keeps_where_the_comparison_holds():
    device = Device()
    for (pattern, offset, multiplier), name in product(PATTERNS, COMPARISONS):
        data = device.tile(noise((9, size(pattern))))
        options = {"cmp_op": getattr(nl, name), "offset": offset - 20}
        dst = device.empty(data.shape)
        device.issue("affine_select", dst, pattern, multiplier, data, -7.3, **options)
    device.agrees()


def test_equal_is_the_default():
    device = Device()
    data = device.tile(np.arange(1, 10, dtype=np.float32).reshape(3, 3))
    dst = device.empty((3, 3))
    device.issue("affine_select", dst, [[-1, 3]], 1, data, 0.0)
    assert np.array_equal(dst.numpy(), np.diag([1, 5, 9]))


def test_the_predicate_wraps_around_too():
    device = Device()
    dst = device.empty((1, 3))
    tile = device.tile(np.ones((1, 3), np.float32))
    device.issue("affine_select", dst, [[1, 3]], 0, tile, 0.0, cmp_op=nl.greater, offset=2**31 - 2)
    assert np.array_equal(dst.numpy(), [[1, 1, 0]])


def test_the_predicate_is_exact_beyond_24_bits():
    device = Device()
    dst = device.empty((1, 2))
    tile = device.tile(np.ones((1, 2), np.float32))
    device.issue("affine_select", dst, [[2**24, 2]], 0, tile, 0.0, offset=-(2**24) + 0)
    assert np.array_equal(dst.numpy(), [[0, 1]])
    device.issue("affine_select", dst, [[2**24 + 1, 2]], 0, tile, 0.0, offset=-(2**24))
    assert np.array_equal(dst.numpy(), [[0, 0]])


@for_all("dtype", FLOATS)
def test_one_format_keeps_bits(dtype):
    device, width = Device(), f"uint{8 * lookup(dtype).itemsize}"
    data = device.tile(noise((2, 128), width))
    dst = device.empty((2, 128), width)
    device.issue("affine_select", dst.view(dtype), [[0, 128]], 0, data.view(dtype), 0.0)
    assert np.array_equal(dst.numpy(), data.numpy())


@pytest.mark.parametrize("name", ["dst", "on_true_tile"])
@pytest.mark.parametrize("where", ["psum", "hbm"])
def test_affine_select_works_in_sbuf(name, where):
    device = Device()
    tiles = {"dst": device.empty((3, 5)), "on_true_tile": device.tile(np.ones((3, 5), np.float32))}
    tiles[name] = device.tile(np.ones((3, 5), np.float32), buffer=where)
    device.refuses(
        BufferKindError, "affine_select", pattern=[[1, 5]], channel_multiplier=0,
        on_false_value=0.0, words=[name, "sbuf", where], **tiles,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 5), (3, 6)])
def test_the_tile_fits_dst(shape):
    device = Device()
    dst, tile = device.empty((3, 5)), device.tile(np.ones(shape, np.float32))
    arguments = (dst, [[1, 5]], 0, tile, 0.0)
    device.refuses(ShapeError, "affine_select", *arguments, words=["on_true_tile", "dst"])


@pytest.mark.parametrize("op", [nl.add, nl.maximum, nl.logical_and, nl.bitwise_and])
def test_cmp_op_compares(op):
    device = Device()
    dst, tile = device.empty((3, 5)), device.tile(np.ones((3, 5), np.float32))
    arguments = (dst, [[1, 5]], 0, tile, 0.0)
    device.refuses(OperatorError, "affine_select", *arguments, cmp_op=op, words=["cmp_op"])
