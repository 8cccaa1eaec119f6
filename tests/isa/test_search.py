"""max8, nc_find_index8 and nc_match_replace8: searches for eight values in every lane."""

from itertools import product

import numpy as np
from calls import values
from device import TARGETS, Device, noise, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.numerics.formats import FORMATS

SHAPES = [(1, 8), (3, 9), (33, 12), (5, 5, 3), (4, 4, 4)]
NONE = 0xFFFFFFFF

FEW = st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.0, np.inf])
ROWS = st.lists(FEW, min_size=8, max_size=20)
EIGHT = st.lists(FEW, min_size=8, max_size=8)
PAIRS = st.lists(st.tuples(ROWS, EIGHT), min_size=1, max_size=3)


def max8(device, data, dtype="float32"):
    data = device.tile(data) if isinstance(data, np.ndarray) else data
    dst = device.empty((data.shape[0], 8), dtype)
    device.issue("max8", dst, data)
    return dst


def find(device, data, vals, dtype="uint32"):
    dst = device.empty((len(data), 8), dtype)
    device.issue("nc_find_index8", dst, device.tile(data), device.tile(vals))
    return dst.numpy()


def tiles_of(device, pairs):
    """Return tiles with rows of one length, and the eight values to find in each row."""
    length = min(len(row) for row, _ in pairs)
    rows = [row[:length] for row, _ in pairs], [vals for _, vals in pairs]
    return [device.tile(np.float32(each)) for each in rows]


# --- max8 -----------------------------------------------------------------------------------------


@for_all("target", TARGETS)
def test_the_eight_greatest_in_descending_order(target):
    device = Device(target)
    for shape, special in product(SHAPES, (False, True)):
        max8(device, noise(shape, special=special))
    integers = (form for form in FORMATS.values() if form.is_integer)
    for before, after in product(("float32", "bfloat16", "int16"), ("float16", *integers)):
        max8(device, noise((3, 12), before), after)
    device.agrees()
    data = noise((3, 40), special=False)
    assert np.array_equal(max8(device, data).numpy(), -np.sort(-data, axis=1)[:, :8])


def test_infinities_are_the_extremes_and_nan_is_greater():
    row = np.float32([[-np.inf, 1, np.nan, np.inf, -0.0, 0.0, -3, -np.nan, 3e38, -3e38]])
    want = np.float32([[np.nan, np.nan, np.inf, 3e38, 1, 0.0, -0.0, -3]])
    same(max8(Device(), row).numpy(), want)


def test_integers_are_compared_as_float32():
    dst = max8(Device(), np.int32([[2**24 + 1, 2**24 + 3, *range(6)]]), "int32")
    assert dst.numpy().tolist() == [[2**24 + 4, 2**24, 5, 4, 3, 2, 1, 0]]


def test_a_row_may_have_as_many_elements_as_the_counter_can_count():
    data = noise((2, 16384), special=False)
    assert np.array_equal(max8(Device(), data).numpy(), -np.sort(-data, axis=1)[:, :8])


# --- nc_find_index8 -------------------------------------------------------------------------------


@for_all("target", TARGETS)
def test_the_indices_of_the_greatest_are_found(target):
    device = Device(target)
    for shape, index in product(SHAPES, ("uint16", "uint32")):
        src, dst = device.tile(noise(shape, special=False)), device.empty((shape[0], 8), index)
        device.issue("nc_find_index8", dst, src, max8(device, src))
        flat = src.numpy().reshape(shape[0], -1)
        order = np.argsort(-flat, axis=1, kind="stable")[:, :8]
        assert np.array_equal(dst.numpy(), order)
    device.agrees()


@given(PAIRS)
def test_equal_values_match_their_occurrences_in_order(pairs):
    device = Device()
    data, vals = tiles_of(device, pairs)
    device.issue("nc_find_index8", device.empty(vals.shape, "uint32"), data, vals)
    device.agrees()


def test_formats_are_compared_in_float32():
    device = Device()
    row = np.array([[0, 3, 1, 5, 2, 7, 6, 4, 8]], np.float32)
    wanted = np.array([[7, 1, 0, 2, 100, 8, 5, 3]], np.float32)
    for data, vals in product(("float32", "float16", "uint8", "int32"), ("bfloat16", "int8")):
        got = find(device, row.astype(data), wanted.astype(vals))
        assert got.tolist() == [[5, 2, 0, 4, NONE, 8, 3, 1]]


def test_values_may_be_one_value_repeated_by_its_stride():
    device = Device()
    data = device.tile(np.float32([[1, 4, 4, 0, 4, 2, 3, 4], [0, 0, 4, 1, 1, 1, 1, 1]]))
    value = device.tile(np.float32([[4], [0]]))
    vals = value.window((2, 8), (value.strides[0], 0), value.offset)
    dst = device.empty((2, 8), "uint32")
    device.issue("nc_find_index8", dst, data, vals)
    assert dst.numpy().tolist() == [[1, 2, 4, 7, *[NONE] * 4], [0, 1, *[NONE] * 6]]


# --- nc_match_replace8 ----------------------------------------------------------------------------


@given(PAIRS, FEW)
def test_equal_values_are_replaced_from_the_last_slot_on(pairs, imm):
    device = Device()
    data, vals = tiles_of(device, pairs)
    results = device.empty(data.shape), data, vals, imm, device.empty(vals.shape, "uint32")
    device.issue("nc_match_replace8", *results)
    device.agrees()


def test_rounds_of_eight_sort_a_row():
    for shape in (*SHAPES, (2, 3)):
        device, data = Device(), noise(shape, special=False)
        size = data[0].size
        tile, top = device.tile(data), device.empty((shape[0], -(-size // 8), 8))
        padded = device.empty((shape[0], size + 8))
        device.issue("memset", padded, -np.inf)
        device.issue("tensor_copy", padded[:, 0:size], tile)
        for i in range(top.shape[1]):
            device.issue("max8", top[:, i, :], padded)
            device.issue("nc_match_replace8", padded, padded, top[:, i, :], -np.inf)
        found = top.numpy().reshape(shape[0], -1)[:, :size]
        assert np.array_equal(found, -np.sort(-data.reshape(shape[0], -1), axis=1))


def test_other_elements_keep_their_bits_and_imm_is_rounded():
    device = Device("trn3")
    for dtype in FORMATS:
        data, vals = device.tile(values(dtype, (3, 12)), dtype), device.tile(noise((3, 8)))
        device.issue("nc_match_replace8", device.empty((3, 12), dtype), data, vals, 1.0)
        for imm in (0.0, 2.5, -1e9, np.inf, np.nan):
            src, dst = device.tile(noise((3, 20), special=False)), device.empty((3, 20), dtype)
            device.issue("nc_match_replace8", dst, src, src[:, 4:12], imm)
    device.agrees()
