"""iota and affine_select: results for affine patterns."""

from itertools import product
from math import prod

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki.language as nl
import numpy as np
from alu import COMPARISONS
from device import Device, noise
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.numerics.formats import FORMATS, lookup

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
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


# --- affine_select --------------------------------------------------------------------------------


def test_affine_select_keeps_elements_where_the_comparison_is_true():
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


def test_the_predicate_is_exact_beyond_24_bits():
    device = Device()
    dst = device.empty((1, 2))
    tile = device.tile(np.ones((1, 2), np.float32))
    device.issue("affine_select", dst, [[2**24, 2]], 0, tile, 0.0, offset=-(2**24) + 0)
    assert np.array_equal(dst.numpy(), [[0, 1]])
    device.issue("affine_select", dst, [[2**24 + 1, 2]], 0, tile, 0.0, offset=-(2**24))
    assert np.array_equal(dst.numpy(), [[0, 0]])


@for_all("dtype", FLOATS)
def test_equal_formats_keep_bits(dtype):
    device, width = Device(), f"uint{8 * lookup(dtype).itemsize}"
    data = device.tile(noise((2, 128), width))
    dst = device.empty((2, 128), width)
    device.issue("affine_select", dst.view(dtype), [[0, 128]], 0, data.view(dtype), 0.0)
    assert np.array_equal(dst.numpy(), data.numpy())
