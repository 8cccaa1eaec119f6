"""range_select and sequence_bounds: selection of elements by their indices."""

from itertools import product

import nki.isa as nisa
import nki.language as nl
import numpy as np
from calls import values
from device import TARGETS, Device, noise
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.numerics.formats import FORMATS, lookup

LEAST = np.finfo(np.float32).min
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
COMPARISONS = (nl.equal, nl.less, nl.less_equal, nl.greater, nl.greater_equal)


def some_bounds(device, partitions, size, start=0):
    rng = np.random.default_rng([partitions, size])
    low = start + rng.integers(-1, size, (partitions, 1))
    high = low + rng.integers(0, size + 1, low.shape)
    return [device.tile(bound.astype(np.float32)) for bound in (low, high)]


def select(
    device, src, bounds, op0=nl.greater_equal, op1=nl.less, dst="float32", as_tiles=True, **more
):
    """Select from an array or a tile, with bounds that are tiles or one number for all
    partitions, which becomes a tile if `as_tiles` is set."""
    src = device.tile(src) if isinstance(src, np.ndarray) else src
    columns = [
        device.tile(np.full((src.shape[0], 1), b, np.float32))
        if as_tiles and isinstance(b, int | float)
        else b
        for b in bounds
    ]
    out = device.empty(src.shape, dst)
    device.issue("range_select", out, src, op0, op1, *columns, **more)
    return out.numpy()


@for_all("target", ["trn2", "trn3"])
def test_both_comparisons_must_be_true(target):
    device = Device(target)
    for (op0, op1), dtype in product(product(COMPARISONS, COMPARISONS), ("float32", "bfloat16")):
        bounds = some_bounds(device, 5, 9, start=100)
        data = device.tile(values(dtype, (5, 9)), dtype)
        select(device, data, bounds, op0, op1, range_start=100)
    for shape in ((1, 1), (3, 7), (5, 2, 3, 4)):
        select(device, noise(shape), some_bounds(device, shape[0], 12))
    device.agrees()


def test_a_bound_is_a_column_or_a_number_of_the_instruction():
    device = Device("trn2")
    low, high = some_bounds(device, 5, 9)
    data = noise((5, 9), special=False)
    for bounds in ((low, 4.5), (2.0, high), (3, 7.0)):
        select(device, data, bounds, as_tiles=False)
    device.agrees()
    assert (select(device, data, (3, 7.0), as_tiles=False)[:, 3:7] == data[:, 3:7]).all()


def test_the_fill_value_becomes_infinite_in_formats_with_a_smaller_range():
    device = Device("trn3")
    bounds = some_bounds(device, 7, 12)
    for dtype in FORMATS:
        got = select(device, noise((7, 12), special=False), bounds, dst=dtype)
        if dtype in FLOATS[1:]:
            assert (got.astype(np.float32) == -np.inf).any()
    device.agrees()


def test_indices_are_compared_in_float32():
    device = Device()
    for start in (2**24 - 2, 2**24, -(2**24) - 3, 2**31 - 4, -(2**31)):
        data, bounds = noise((4, 9), special=False), (start + 4, start + 6)
        select(device, data, bounds, nl.greater_equal, nl.less_equal, range_start=start)
    device.agrees()


def test_a_bound_of_nan_selects_nothing():
    got = select(Device(), noise((1, 5), special=False), (np.nan, 100), nl.less, nl.less)
    assert (got == LEAST).all()


def test_the_maximum_of_range_select_is_computed_before_rounding():
    device = Device()
    for dtype in ("float32", "bfloat16"):
        most = device.empty((9, 1))
        select(device, noise((9, 8)), some_bounds(device, 9, 8), dst=dtype, reduce_res=most)
    device.agrees()


def test_a_maximum_continues_through_several_instructions():
    device, commands = Device(), nisa.reduce_cmd
    src = device.tile(noise((32, 40), special=False))
    given = nl.greater_equal, nl.less, *some_bounds(device, 32, 40)
    dst, most = device.empty((32, 20)), device.empty((32, 1))
    first, second = src[:, 0:20], src[:, 20:40]
    device.issue("range_select", dst, first, *given)
    device.issue("range_select", dst, second, *given, commands.reduce, most, range_start=20)
    device.agrees()
    device.issue("range_select", dst, first, *given, commands.reset, most)
    assert (most.numpy() == -np.inf).all()
    device.issue("range_select", dst, first, *given, commands.idle)
    device.issue("range_select", dst, first, *given, commands.reduce, most)
    assert np.isnan(most.numpy()).all()


def test_the_constant_may_be_rounded():
    device, data = Device(), noise((1, 5), special=False)
    for value in (-3.4028235e38, LEAST, float(LEAST)):
        got = select(device, data, (2, 100), nl.less, nl.less, on_false_value=value)
        assert got.tolist() == [[*data[0, :2].tolist(), LEAST, LEAST, LEAST]]


# --- sequence_bounds ------------------------------------------------------------------------------


def bounds(device, ids, source="int32", target="int32"):
    ids = np.array([ids]) if isinstance(ids, list) else ids
    dst = device.empty((1, 2, ids.size), target)
    device.issue("sequence_bounds", dst, device.tile(ids, source))
    return dst.numpy()


@for_all("machine", TARGETS)
def test_the_published_example(machine):
    device = Device(machine)
    for source, target in product(("float32", "int32"), ("float32", "int32")):
        got = bounds(device, [0, 1, 1, 2, 2, 2, 0, 3, 3], source, target)
        assert got.dtype == lookup(target)
        assert got.tolist() == [[[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_every_element_has_the_bounds_of_its_run(ids):
    device = Device()
    bounds(device, ids)
    device.agrees()


def test_short_and_long_sequences():
    device = Device()
    for ids in ([0], [1], [0, 0], [5, 5], [2**31 - 1, 2**31 - 2], [1, 0, 1]):
        bounds(device, ids)
    ids = np.sort(np.random.default_rng(0).integers(0, 90, 1024)).astype(np.int32)
    dst = device.empty((1, 2, 32, 32), "int32")
    device.issue("sequence_bounds", dst, device.tile(ids.reshape(1, 32, 32)))
    device.agrees()


def test_ids_are_compared_exactly():
    ids = [2**24, 2**24 + 1, 2**24 + 1]
    assert bounds(Device(), ids).tolist() == [[[0, 1, 1], [1, 3, 3]]]
