"""max8, nc_find_index8 and nc_match_replace8: eight values looked for in every lane."""

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from device import TARGETS, Device, converted, noise, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import (
    FreeSizeError,
)

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = [(1, 8), (3, 9), (128, 33), (96, 5, 3), (32, 4, 4)]
NONE = 0xFFFFFFFF

FEW = st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.0, np.inf])
ROWS = st.lists(FEW, min_size=8, max_size=20)
EIGHT = st.lists(FEW, min_size=8, max_size=8)


def occurrences(data, vals, order):
    """Walk through vals in this order; each takes the first position that is still free."""
    found = np.full(vals.shape, NONE, np.uint32)
    for p, row in enumerate(data):
        free = set(range(len(row)))
        for i in order:
            for j in sorted(free):
                if row[j] == vals[p, i]:
                    found[p, i] = j
                    free.remove(j)
                    break
    return found


def single(values):
    """[P, F] as the lanes see them."""
    return values.reshape(len(values), -1).astype(np.float32)


# --- max8 -----------------------------------------------------------------------------------------


@for_all("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_eight_greatest_in_descending_order(shape, dtype):
    device = Device()
    values = noise(shape, dtype, special=False)
    dst = device.empty((shape[0], 8), "float32")
    device.issue("max8", dst, device.tile(values))
    assert np.array_equal(dst.numpy(), -np.sort(-single(values), axis=1)[:, :8])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_they_are_rounded_to_the_format_of_dst(target, dtype):
    device = Device(target)
    values = noise((5, 40), special=False)
    dst = device.empty((5, 8), dtype)
    device.issue("max8", dst, device.tile(values))
    same(dst.numpy(), converted(-np.sort(-values, axis=1)[:, :8], dtype))


def test_equal_elements_count_one_by_one():
    device = Device()
    dst = device.empty((1, 8))
    device.issue("max8", dst, device.tile(np.float32([[2, 7, 7, 1, 7, 0, 2, 2, -1, -9]])))
    assert dst.numpy().tolist() == [[7, 7, 7, 2, 2, 2, 1, 0]]


def test_infinities_are_the_ends_and_nan_is_above():
    device = Device()
    row = np.float32([[-np.inf, 1, np.nan, np.inf, -0.0, 0.0, -3, -np.nan, 3e38, -3e38]])
    dst = device.empty((1, 8))
    device.issue("max8", dst, device.tile(row))
    same(dst.numpy(), np.float32([[np.nan, np.nan, np.inf, 3e38, 1, 0.0, -0.0, -3]]))


def test_integers_are_compared_as_float32():
    device = Device()
    dst = device.empty((1, 8), "int32")
    device.issue("max8", dst, device.tile(np.int32([[2**24 + 1, 2**24 + 3, *range(6)]])))
    assert dst.numpy().tolist() == [[2**24 + 4, 2**24, 5, 4, 3, 2, 1, 0]]


@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_sources_may_have_strides_and_be_in_psum(buffer):
    device = Device()
    values = noise((64, 40), special=False)
    tile = device.tile(values, buffer=buffer)
    dst = device.empty((64, 3, 8), buffer=buffer)
    device.issue("max8", dst[:, 1, :], tile[:, 1:40:2])
    assert np.array_equal(dst.codes()[:, 1], -np.sort(-values[:, 1:40:2], axis=1)[:, :8])
    assert dst.unwritten().sum() == 64 * 16


def test_a_row_may_be_as_long_as_the_counter():
    device = Device()
    values = noise((2, 16384), special=False)
    dst = device.empty((2, 8))
    device.issue("max8", dst, device.tile(values))
    assert np.array_equal(dst.numpy(), -np.sort(-values, axis=1)[:, :8])
    longer = device.zeros((2, 16385))
    device.refuses(FreeSizeError, "max8", dst, longer, words=["src", "16385", "16384"])


# --- nc_find_index8 -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index", ["uint16", "uint32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_greatest_are_found_where_they_are(target, index, shape):
    device = Device(target)
    values = noise(shape, special=False)
    top, dst = device.empty((shape[0], 8)), device.empty((shape[0], 8), index)
    src = device.tile(values)
    device.issue("max8", top, src)
    device.issue("nc_find_index8", dst, src, top)
    order = np.argsort(-single(values), axis=1, kind="stable")[:, :8]
    assert np.array_equal(dst.numpy(), order)


@given(st.lists(st.tuples(ROWS, EIGHT), min_size=1, max_size=3))
def test_equal_values_take_their_occurrences_in_order(pairs):
    length = min(len(row) for row, _ in pairs)
    data = np.float32([row[:length] for row, _ in pairs])
    vals = np.float32([v for _, v in pairs])
    device = Device()
    dst = device.empty(vals.shape, "uint32")
    device.issue("nc_find_index8", dst, device.tile(data), device.tile(vals))
    assert np.array_equal(dst.numpy(), occurrences(data, vals, range(8)))


@pytest.mark.parametrize(("index", "none"), [("uint16", 0xFFFF), ("uint32", NONE)])
def test_what_is_not_there_is_all_ones(index, none):
    device = Device()
    data = np.float32([[5, 6, 7, np.nan, 6, 0, 1, -0.0, 2]])
    vals = np.float32([[6, 8, 6, 6, np.nan, 0, 0.0, 0]])
    dst = device.empty((1, 8), index)
    device.issue("nc_find_index8", dst, device.tile(data), device.tile(vals))
    assert dst.numpy().tolist() == [[1, none, 4, none, none, 5, 7, none]]


@pytest.mark.parametrize("data", FLOATS + INTEGERS)
@pytest.mark.parametrize("vals", ["float32", "bfloat16", "int8"])
def test_formats_meet_in_float32(data, vals):
    device = Device()
    row = np.array([[0, 3, 1, 5, 2, 7, 6, 4, 8]], np.float32)
    wanted = np.array([[7, 1, 0, 2, 100, 8, 5, 3]], np.float32)
    dst = device.empty((1, 8), "uint32")
    device.issue("nc_find_index8", dst, device.tile(row, data), device.tile(wanted, vals))
    assert dst.numpy().tolist() == [[5, 2, 0, 4, NONE, 8, 3, 1]]


def test_values_may_be_one_value_repeated_by_its_stride():
    device = Device()
    data = device.tile(np.float32([[1, 4, 4, 0, 4, 2, 3, 4], [0, 0, 4, 1, 1, 1, 1, 1]]))
    value = device.tile(np.float32([[4], [0]]))
    vals = value.window((2, 8), (value.strides[0], 0), value.offset)
    dst = device.empty((2, 8), "uint32")
    device.issue("nc_find_index8", dst, data, vals)
    assert dst.numpy().tolist() == [[1, 2, 4, 7, *[NONE] * 4], [0, 1, *[NONE] * 6]]


# --- nc_match_replace8 ----------------------------------------------------------------------------


@given(st.lists(st.tuples(ROWS, EIGHT), min_size=1, max_size=3), FEW)
def test_equal_values_are_replaced_from_the_last_slot_on(pairs, imm):
    length = min(len(row) for row, _ in pairs)
    data = np.float32([row[:length] for row, _ in pairs])
    vals = np.float32([v for _, v in pairs])
    device = Device()
    dst, index = device.empty(data.shape), device.empty(vals.shape, "uint32")
    device.issue("nc_match_replace8", dst, device.tile(data), device.tile(vals), imm, index)
    want = occurrences(data, vals, range(7, -1, -1))
    assert np.array_equal(index.numpy(), want)
    for p, found in enumerate(want):
        data[p, found[found != NONE]] = imm
    same(dst.numpy(), data)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index", ["uint16", "uint32"])
def test_the_published_example_of_duplicates(target, index):
    device = Device(target)
    data = device.tile(np.float32([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]]))
    found = device.empty((1, 8), index)
    device.issue(
        "nc_match_replace8", data, data, device.tile(np.float32([[3] + [8] * 7])), -1.0, found
    )
    assert found.numpy().tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
    assert data.numpy().tolist() == [[1, 2, -1, 4] + [-1] * 7]


@pytest.mark.parametrize("shape", [*SHAPES, (2, 3)])
def test_rounds_of_eight_sort_a_row(shape):
    device = Device()
    values = noise(shape, special=False)
    size = values[0].size
    data, top = device.tile(values), device.empty((shape[0], -(-size // 8), 8))
    padded = device.empty((shape[0], size + 8))
    device.issue("memset", padded, -np.inf)
    device.issue("tensor_copy", padded[:, 0:size], data)
    for i in range(top.shape[1]):
        device.issue("max8", top[:, i, :], padded)
        device.issue("nc_match_replace8", padded, padded, top[:, i, :], -np.inf)
    found = top.numpy().reshape(shape[0], -1)[:, :size]
    assert np.array_equal(found, -np.sort(-single(values), axis=1))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_what_stays_keeps_its_bits(dtype):
    device = Device()
    values = noise((7, 12), "float32" if dtype == "bool" else dtype)
    values = values > 0 if dtype == "bool" else values
    with np.errstate(all="ignore"):
        vals = np.full((7, 8), 1e30, np.float32)
    dst = device.empty((7, 12), dtype)
    device.issue("nc_match_replace8", dst, device.tile(values), device.tile(vals), 1.0)
    same(dst.numpy(), values)


@for_all("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("imm", [0.0, 2.5, -1e9, np.inf, np.nan])
def test_imm_and_other_formats_are_rounded_to_dst(dtype, imm):
    device = Device()
    values = noise((6, 20), special=False)
    dst = device.empty((6, 20), dtype)
    device.issue("nc_match_replace8", dst, device.tile(values), device.tile(values[:, 4:12]), imm)
    values[:, 4:12] = imm
    same(dst.numpy(), converted(values, dtype))


@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_replacing_through_strides_leaves_the_gaps(buffer):
    device = Device()
    values = noise((33, 6, 10), special=False)
    tile = device.tile(values, buffer=buffer)
    part = tile[:, 1:4, 0:10:3]
    device.issue("nc_match_replace8", part, part, device.tile(values[:, 2, 0:8]), 0.5)
    values[:, 2, [0, 3, 6]] = 0.5
    assert np.array_equal(tile.numpy(), values)
