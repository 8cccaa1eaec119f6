"""range_select and sequence_bounds: elements chosen by where they are."""

import operator

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, converted, noise, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

LEAST = np.finfo(np.float32).min
V3_ON = ("trn2", "trn3")
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
COMPARISONS = {
    "equal": operator.eq,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
SHAPES = [(1, 1), (3, 7), (128, 33), (96, 5, 3)]


def selected(values, op0, op1, bounds, start=0):
    """The numpy equivalent of the documentation."""
    flat = values.reshape(len(values), -1).astype(np.float32)
    places = (start + np.arange(flat.shape[1])).astype(np.float32)[np.newaxis]
    mask = COMPARISONS[op0](places, bounds[0]) & COMPARISONS[op1](places, bounds[1])
    return np.where(mask, flat, LEAST).reshape(values.shape)


def some_bounds(partitions, size, start=0):
    rng = np.random.default_rng([partitions, size])
    low = start + rng.integers(-1, size, (partitions, 1))
    return low.astype(np.float32), (low + rng.integers(0, size + 1, low.shape)).astype(np.float32)


def select(device, values, op0, op1, bounds, dst="float32", buffer="sbuf", **more):
    out = device.empty(values.shape, dst, buffer)
    tiles = [device.tile(b) for b in bounds]
    src = device.tile(values, buffer=buffer)
    ops = getattr(nl, op0), getattr(nl, op1)
    device.issue("range_select", out, src, *ops, *tiles, **more)
    return out.numpy()


@pytest.mark.parametrize("op0", COMPARISONS)
@pytest.mark.parametrize("op1", COMPARISONS)
def test_both_comparisons_must_hold(op0, op1):
    values, bounds = noise((5, 9), special=False), some_bounds(5, 9)
    same(select(Device(), values, op0, op1, bounds), selected(values, op0, op1, bounds))


@pytest.mark.parametrize("target", V3_ON)
@pytest.mark.parametrize("shape", SHAPES)
@for_all("dtype", FLOATS)
@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_a_range_of_each_partition_is_kept(target, shape, dtype, buffer):
    values = noise(shape, dtype)
    bounds = some_bounds(shape[0], values[0].size, start=100)
    ops = "greater_equal", "less"
    got = select(Device(target), values, *ops, bounds, buffer=buffer, range_start=100)
    same(got, selected(values, *ops, bounds, 100))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_the_filling_becomes_infinite_where_a_format_does_not_reach_it(dtype):
    values, bounds = noise((7, 12), special=False), some_bounds(7, 12)
    got = select(Device(), values, "greater", "less_equal", bounds, dst=dtype)
    same(got, converted(selected(values, "greater", "less_equal", bounds), dtype))
    if dtype in FLOATS[1:]:
        assert (got.astype(np.float32) == -np.inf).any()


@pytest.mark.parametrize("start", [2**24 - 2, 2**24, -(2**24) - 3, 2**31 - 4, -(2**31)])
def test_places_are_compared_in_float32(start):
    values = noise((4, 9), special=False)
    bounds = np.float32([[start + 4]] * 4), np.float32([[start + 6]] * 4)
    got = select(Device(), values, "greater_equal", "less_equal", bounds, range_start=start)
    same(got, selected(values, "greater_equal", "less_equal", bounds, start))


def test_from_two_to_the_24_on_two_places_are_one():
    values = np.arange(4, dtype=np.float32)[np.newaxis]
    bounds = np.float32([[2**24]]), np.float32([[2**24]])
    got = select(Device(), values, "equal", "equal", bounds, range_start=2**24 - 1)
    assert got.tolist() == [[LEAST, 1, 2, LEAST]]


def test_a_bound_that_is_nan_holds_nothing():
    values = noise((1, 5), special=False)
    bounds = np.float32([[np.nan]]), np.float32([[100]])
    assert (select(Device(), values, "less", "less", bounds) == LEAST).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_maximum_is_of_float32_before_rounding(dtype):
    device = Device()
    values, bounds = noise((64, 30), special=False), some_bounds(64, 30)
    bounds[1][5] = bounds[0][5]  # an empty range
    most = device.empty((64, 1))
    select(device, values, "greater_equal", "less", bounds, dst=dtype, reduce_res=most)
    want = selected(values, "greater_equal", "less", bounds).max(axis=1, keepdims=True)
    same(most.numpy(), want)
    assert most.numpy()[5] == LEAST


def test_a_row_of_filling_and_its_maximum_cancel():
    device = Device()
    most = device.empty((1, 1))
    empty = np.float32([[5]]), np.float32([[5]])
    out = select(device, noise((1, 4)), "greater", "less", empty, reduce_res=most)
    assert (out - most.numpy() == 0).all()


def test_a_maximum_runs_on_through_several_instructions():
    device = Device()
    values, bounds = noise((32, 40), special=False), some_bounds(32, 40)
    src, tiles = device.tile(values), [device.tile(b) for b in bounds]
    dst, most = device.empty((32, 20)), device.empty((32, 1))
    commands = nisa.reduce_cmd
    ops = nl.greater_equal, nl.less
    first, second = src[:, 0:20], src[:, 20:40]
    device.issue("range_select", dst, first, *ops, *tiles)
    device.issue("range_select", dst, second, *ops, *tiles, commands.reduce, most, range_start=20)
    want = selected(values, "greater_equal", "less", bounds).max(axis=1, keepdims=True)
    same(most.numpy(), want)
    device.issue("range_select", dst, first, *ops, *tiles, commands.reset, most)
    assert (most.numpy() == -np.inf).all()
    device.issue("range_select", dst, first, *ops, *tiles, commands.idle)
    device.issue("range_select", dst, first, *ops, *tiles, commands.reduce, most)
    assert np.isnan(most.numpy()).all()


def test_in_place_and_through_strides():
    device = Device()
    values, bounds = noise((33, 6, 10), special=False), some_bounds(33, 12)
    tile = device.tile(values)
    part = tile[:, 1:4, 0:10:3]
    tiles = [device.tile(b) for b in bounds]
    device.issue("range_select", part, part, nl.greater_equal, nl.less, *tiles)
    values[:, 1:4, 0:10:3] = selected(values[:, 1:4, 0:10:3], "greater_equal", "less", bounds)
    assert np.array_equal(tile.numpy(), values)


def test_the_constant_may_be_written_short():
    values, bounds = noise((1, 5), special=False), some_bounds(1, 5)
    for value in (-3.4028235e38, LEAST, float(LEAST)):
        got = select(Device(), values, "less", "less", bounds, on_false_value=value)
        same(got, selected(values, "less", "less", bounds))


# --- sequence_bounds ------------------------------------------------------------------------------


def bounds_of(ids):
    """Start and end of the run that each element is in; (n, -1) for padding."""
    n = len(ids)
    starts, ends = [], []
    for i, value in enumerate(ids):
        first = last = i
        while first > 0 and ids[first - 1] == value:
            first -= 1
        while last + 1 < n and ids[last + 1] == value:
            last += 1
        starts.append(first if value else n)
        ends.append(last + 1 if value else -1)
    return [[starts, ends]]


def bounds(ids, source="int32", target="int32", machine="trn2"):
    device = Device(machine)
    dst = device.empty((1, 2, len(ids)), target)
    device.issue("sequence_bounds", dst, device.tile(np.array([ids]), source))
    assert dst.unwritten() is None
    return dst.numpy()


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("source", ["float32", "int32"])
@pytest.mark.parametrize("target", ["float32", "int32"])
def test_the_published_example(machine, source, target):
    got = bounds([0, 1, 1, 2, 2, 2, 0, 3, 3], source, target, machine)
    assert got.dtype == target
    assert got.tolist() == [[[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_every_element_knows_its_run(ids):
    assert bounds(ids).tolist() == bounds_of(ids)


@pytest.mark.parametrize("ids", [[0], [1], [0, 0], [5, 5], [2**31 - 1, 2**31 - 2], [1, 0, 1]])
def test_short_sequences(ids):
    assert bounds(ids).tolist() == bounds_of(ids)


def test_ids_are_compared_exactly():
    ids = [2**24, 2**24 + 1, 2**24 + 1]
    assert bounds(ids).tolist() == [[[0, 1, 1], [1, 3, 3]]]


def test_long_sequences_in_other_shapes():
    device = Device()
    ids = np.sort(np.random.default_rng(0).integers(0, 90, 4096)).astype(np.int32)
    dst = device.empty((1, 2, 64, 64), "int32")
    device.issue("sequence_bounds", dst, device.tile(ids.reshape(1, 64, 64)))
    assert dst.numpy().reshape(1, 2, -1).tolist() == bounds_of(ids.tolist())
