"""iota and affine_select: what the GpSimd engine makes of an affine pattern."""

import itertools
import operator

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, bits
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.errors import (
    BufferKindError,
    OperatorError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
    StartPartitionError,
)

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
COMPARISONS = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "less": operator.lt,
    "less_equal": operator.le,
}
PATTERNS = [
    ([[1, 5]], 0, 0),
    ([[3, 4]], -2, 10),
    ([[-1, 6]], 5, 1),
    ([[0, 3], [1, 4]], 0, -1),
    ([[100, 2], [-10, 3], [1, 2]], 7, 1000),
    ([[8, 2], [4, 2], [2, 2], [1, 2]], 0, 16),
    ([[5, 1], [0, 2]], 0, 0),
]


def affine(partitions, pattern, offset=0, multiplier=0):
    """The value at each partition and index, outermost axis first, as 32-bit integers."""
    rows = []
    for p in range(partitions):
        indices = itertools.product(*(range(count) for _, count in pattern))
        steps = [step for step, _ in pattern]
        rows.append(
            [offset + p * multiplier + sum(map(operator.mul, index, steps)) for index in indices]
        )
    return [[(value + 2**31) % 2**32 - 2**31 for value in row] for row in rows]


def rounded(values, dtype):
    """Integers to a format: through float32, and saturated where the format is an integer."""
    if dtype in ("int32", "uint32"):  # one width: the bits stay
        return np.array(values, np.int64).astype(dtype)
    if dtype == "bool":
        return np.array(values) != 0
    single = np.array(values, np.int64).astype(np.float32)
    if dtype in INTEGERS:
        return np.clip(single, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    return single.astype(dtype)


# --- iota -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pattern", "offset", "multiplier"), PATTERNS)
@pytest.mark.parametrize("partitions", [1, 3, 128])
def test_iota_counts_along_the_pattern(partitions, pattern, offset, multiplier):
    device = Device()
    want = affine(partitions, pattern, offset, multiplier)
    dst = device.empty((partitions, len(want[0])), "int32")
    device.issue("iota", dst, pattern, offset, multiplier)
    assert np.array_equal(dst.numpy(), want)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
@pytest.mark.parametrize("target", TARGETS)
def test_iota_in_every_format(target, dtype):
    device = Device(target)
    dst = device.empty((5, 40), dtype)
    device.issue("iota", dst, [[37, 8], [-1, 5]], -70, 11)
    want = rounded(affine(5, [[37, 8], [-1, 5]], -70, 11), dtype)
    assert np.array_equal(bits(dst.numpy()), bits(want))


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
)
def test_iota_wraps_around_in_32_bits(pattern, offset, multiplier):
    device = Device()
    want = affine(7, pattern, offset, multiplier)
    dst = device.empty((7, len(want[0])), "int32")
    device.issue("iota", dst, pattern, offset, multiplier)
    assert np.array_equal(dst.numpy(), want)


def test_iota_rounds_to_float32_beyond_24_bits():
    device = Device()
    dst = device.empty((1, 4), "float32")
    device.issue("iota", dst, [[1, 4]], 2**24)
    assert np.array_equal(dst.numpy()[0], [2**24, 2**24, 2**24 + 2, 2**24 + 4])


def test_iota_rounds_twice_to_narrow_floats():
    """2^30 + 2^22 + 1 to float32 loses the one, and what is left is a tie."""
    device = Device()
    dst = device.empty((1, 1), "bfloat16")
    device.issue("iota", dst, [[0, 1]], 1077936129)
    assert dst.numpy() == 2.0**30


@pytest.mark.parametrize("shape", [(3, 2, 6), (3, 12), (3, 3, 2, 2)])
def test_only_the_number_of_elements_matters(shape):
    device = Device()
    dst = device.empty(shape, "int32")
    device.issue("iota", dst, [[10, 4], [1, 3]])
    assert np.array_equal(dst.numpy().reshape(3, 12), affine(3, [[10, 4], [1, 3]]))


@pytest.mark.parametrize("dtype", ["int32", "bfloat16"])
def test_iota_into_a_strided_view(dtype):
    device = Device()
    whole = device.tile(np.full((64, 4, 9), 99), dtype)
    device.issue("iota", whole[32:37, 1:3, ::4], [[1, 6]], 0, 6)
    want = np.full((64, 4, 9), 99)
    want[32:37, 1:3, ::4] = np.arange(30).reshape(5, 2, 3)
    assert np.array_equal(whole.numpy().astype(int), want)


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


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize(("pattern", "offset", "multiplier"), PATTERNS)
def test_affine_select_keeps_where_the_comparison_holds(name, pattern, offset, multiplier):
    device = Device()
    values = np.array(affine(9, pattern, offset - 20, multiplier))
    data = np.random.default_rng(0).normal(size=values.shape).astype(np.float32)
    dst = device.empty(values.shape)
    device.issue(
        "affine_select", dst, pattern, multiplier, device.tile(data), -7.5,
        cmp_op=getattr(nl, name), offset=offset - 20,
    )  # fmt: skip
    assert np.array_equal(dst.numpy(), np.where(COMPARISONS[name](values, 0), data, -7.5))


def test_equal_is_the_default():
    device = Device()
    data = device.tile(np.arange(1, 10, dtype=np.float32).reshape(3, 3))
    dst = device.empty((3, 3))
    device.issue("affine_select", dst, [[-1, 3]], 1, data, 0.0)
    assert np.array_equal(dst.numpy(), np.diag([1, 5, 9]))


def test_a_causal_mask():
    device = Device()
    scores = np.random.default_rng(0).normal(size=(128, 128)).astype(np.float32)
    dst = device.empty((128, 128))
    device.issue(
        "affine_select", dst, [[-1, 128]], 1, device.tile(scores), -9984.0, cmp_op=nl.greater_equal
    )
    assert np.array_equal(dst.numpy(), np.where(np.tri(128, dtype=bool), scores, -9984))


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


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_format_keeps_bits(dtype):
    device = Device()
    codes = np.arange(256, dtype=f"uint{8 * np.dtype(dtype).itemsize}").reshape(2, 128)
    data = (codes * (1 if codes.itemsize == 1 else 257)).astype(codes.dtype).view(dtype)
    dst = device.empty(data.shape, dtype)
    tile = device.tile(data)
    device.issue("affine_select", dst, [[0, 128]], 0, tile, 0.0)
    assert np.array_equal(bits(dst.numpy()), bits(data))


@pytest.mark.parametrize("before", ["float32", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize(
    "after", ["float32", "bfloat16", "float16", "float8_e5m2", "int8", "uint8"]
)
def test_formats_convert_through_float32(before, after):
    device = Device()
    data = (np.random.default_rng(0).normal(size=(4, 6)) * 100).astype(before)
    dst = device.empty((4, 6), after)
    device.issue("affine_select", dst, [[1, 6]], 0, device.tile(data), 2.5, offset=-2)
    both = np.full((4, 6), 2.5, np.float32)
    both[:, 2] = data[:, 2].astype(np.float32)
    if after in INTEGERS:
        both = np.clip(np.rint(both), np.iinfo(after).min, np.iinfo(after).max)
    assert np.array_equal(dst.numpy(), both.astype(after))


def test_in_place_and_in_strided_views():
    device = Device()
    whole = device.tile(np.arange(96, dtype=np.float32).reshape(4, 2, 12))
    view = whole[:, :, 1::2]
    want = whole.numpy()
    want[:, :, 1::2] = np.where(np.array(affine(4, [[1, 12]], -5)).reshape(4, 2, 6) < 0,
                                want[:, :, 1::2], -1)  # fmt: skip
    device.issue("affine_select", view, [[1, 12]], 0, view, -1.0, cmp_op=nl.less, offset=-5)
    assert np.array_equal(whole.numpy(), want)


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
