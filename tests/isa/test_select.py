"""tensor_copy_predicated and select_reduce: one of two values, element by element."""

import numpy as np
import pytest
from device import TARGETS, Device, bits, converted, noise, same
from every import for_all
from nki.isa import reduce_cmd

from neuroncore.base.errors import (
    UninitialisedError,
)

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3), (5, 2, 3, 4))
RESET = reduce_cmd.reset_reduce


def mask(shape, dtype="uint8", seed=5):
    """About a third zeros; every bit of the others may be set."""
    values = noise(shape, dtype, seed, special=False)
    return np.where(np.random.default_rng(seed).random(shape) < 0.35, 0, values).astype(dtype)


# --- tensor_copy_predicated -----------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [0, 1, None, np.True_, np.False_])
def test_a_predicate_is_reversed_by_any_truth(reverse):
    device = Device()
    data, chosen, zero = noise((4, 6), "float32"), mask((4, 6)), device.zeros((4, 1))
    copied, selected = device.zeros((4, 6)), device.zeros((4, 6))
    tiles = device.tile(chosen), device.tile(data)
    device.issue("tensor_copy_predicated", copied, *reversed(tiles), reverse_pred=reverse)
    device.issue("select_reduce", selected, *tiles, zero, reverse_pred=reverse)
    want = np.where((chosen != 0) ^ bool(reverse), data, np.float32(0))
    same(copied.numpy(), want)
    same(selected.numpy(), want)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@for_all("dtype", [*FLOATS, *INTEGERS])
def test_chosen_elements_are_copied_bit_by_bit(dtype, shape, reverse):
    device = Device()
    old, new, chosen = noise(shape, dtype), noise(shape, dtype, 1), mask(shape)
    dst = device.tile(old)
    device.issue(
        "tensor_copy_predicated", dst, device.tile(new), device.tile(chosen), reverse_pred=reverse
    )
    want = np.where((chosen != 0) ^ reverse, bits(new), bits(old))
    assert np.array_equal(bits(dst.numpy()), want)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_any_bit_of_a_predicate_chooses(dtype):
    device = Device()
    width = np.dtype(dtype).itemsize * 8
    chosen = np.array([[0, *(1 << n for n in range(width))]], dtype)
    dst = device.tile(np.zeros(chosen.shape, np.float32))
    device.issue("tensor_copy_predicated", dst, 1.0, device.tile(chosen))
    assert dst.numpy().tolist() == [[0] + [1] * width]


def test_a_predicate_may_be_bool():
    device = Device()
    dst = device.tile(np.zeros((1, 3), np.float32))
    device.issue("tensor_copy_predicated", dst, 1.0, device.tile(np.array([[True, False, True]])))
    assert dst.numpy().tolist() == [[1, 0, 1]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [1, -0.0, 0.1, np.inf, np.nan, np.float32(3)])
def test_a_number_is_rounded_to_dst(dtype, value):
    device = Device()
    old, chosen = noise((5, 6), dtype), mask((5, 6))
    dst = device.tile(old)
    device.issue("tensor_copy_predicated", dst, value, device.tile(chosen))
    same(dst.numpy(), np.where(chosen != 0, np.float32(value).astype(dtype), old))


def test_a_number_for_integers_is_exact():
    device = Device()
    chosen = mask((5, 6))
    dst = device.tile(np.zeros((5, 6), np.int32))
    device.issue("tensor_copy_predicated", dst, 2**31 - 1, device.tile(chosen))
    assert np.array_equal(dst.numpy(), np.where(chosen != 0, 2**31 - 1, 0))


@pytest.mark.parametrize("where", [("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
@pytest.mark.parametrize("dst_in", ["sbuf", "psum"])
def test_one_input_may_be_in_psum(dst_in, where):
    device = Device()
    old, new, chosen = noise((9, 5)), noise((9, 5), seed=1), mask((9, 5))
    dst = device.tile(old, buffer=dst_in)
    src, predicate = device.tile(new, buffer=where[0]), device.tile(chosen, buffer=where[1])
    device.issue("tensor_copy_predicated", dst, src, predicate)
    same(dst.numpy(), np.where(chosen != 0, new, old))


def test_the_source_may_be_a_shifted_part_of_dst():
    device = Device()
    old, chosen = noise((6, 20)), mask((6, 19))
    dst = device.tile(old)
    device.issue("tensor_copy_predicated", dst[:, 1:], dst[:, :-1], device.tile(chosen))
    want = old.copy()
    want[:, 1:] = np.where(chosen != 0, old[:, :-1], old[:, 1:])
    same(dst.numpy(), want)


def test_the_predicate_may_be_a_part_of_dst():
    device = Device()
    old = mask((6, 20))
    dst = device.tile(old)
    device.issue("tensor_copy_predicated", dst[:, 1:], 7, dst[:, :-1])
    want = old.copy()
    want[:, 1:] = np.where(old[:, :-1] != 0, 7, old[:, 1:])
    assert np.array_equal(dst.numpy(), want)


def test_predicates_have_their_own_free_shape():
    device = Device()
    old, new, chosen = noise((4, 2, 6)), noise((4, 12), seed=1), mask((4, 3, 4))
    dst = device.tile(old)
    device.issue("tensor_copy_predicated", dst, device.tile(new), device.tile(chosen))
    same(dst.numpy(), np.where(chosen.reshape(4, 2, 6) != 0, new.reshape(4, 2, 6), old))


def test_what_is_not_chosen_stays_unwritten():
    device = Device()
    chosen = mask((3, 4))
    dst = device.empty((3, 4))
    device.issue("tensor_copy_predicated", dst, 2.0, device.tile(chosen))
    assert device.findings == []
    device.issue("tensor_copy", device.empty((3, 4)), dst)
    assert device.findings == ["UNINIT_READ"]
    same(dst.numpy(), np.where(chosen != 0, np.float32(2), np.float32(np.nan)))


# --- select_reduce --------------------------------------------------------------------------------


@for_all("after", ["float32", "bfloat16", "float8_e4m3", "int16", "uint8"])
@pytest.mark.parametrize("before", [*FLOATS, "int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("reverse", [False, True])
def test_each_element_is_one_of_two(before, after, reverse):
    device = Device()
    data, chosen, other = noise((64, 9), before), mask((64, 9)), noise((64, 1), seed=2)
    dst = device.empty((64, 9), after)
    device.issue(
        "select_reduce",
        *(dst, device.tile(chosen), device.tile(data), device.tile(other)),
        reverse_pred=reverse,
    )
    chosen = (chosen != 0) ^ reverse
    same(dst.numpy(), converted(np.where(chosen, data.astype(np.float32), other), after))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_not_chosen_is_a_number(shape, dtype):
    device = Device()
    data, chosen = noise(shape, "bfloat16"), mask(shape, dtype)
    dst, largest = device.empty(shape), device.empty((shape[0], 1))
    device.issue(
        "select_reduce",
        *(dst, device.tile(chosen), device.tile(data), -9999.0, largest),
        reduce_cmd=RESET,
    )
    want = np.where(chosen != 0, data.astype(np.float32), np.float32(-9999))
    same(dst.numpy(), want)
    same(largest.numpy(), want.reshape(shape[0], -1).max(axis=1, keepdims=True))


def test_the_maximum_is_that_of_the_unrounded_values():
    device = Device()
    data = np.float32([[1.001, 1.002, 0.5]])
    dst, largest = device.empty((1, 3), "bfloat16"), device.empty((1, 1))
    device.issue(
        "select_reduce",
        *(dst, device.tile(np.ones((1, 3), np.uint8)), device.tile(data), 0.0, largest),
        reduce_cmd=RESET,
    )
    assert largest.numpy() == np.float32(1.002) and dst.numpy().max() == 1


def test_lowest_float32_becomes_minus_infinity_in_narrow_formats():
    device = Device()
    predicate = device.tile(np.array([[0, 1]], np.uint8))
    for dtype in ("bfloat16", "float16", "float8_e4m3", "float8_e5m2"):
        dst = device.empty((1, 2), dtype)
        device.issue(
            "select_reduce", dst, predicate, device.tile(np.ones((1, 2), np.float32)), -3.4028235e38
        )
        assert dst.numpy().astype(np.float32).tolist() == [[-np.inf, 1]]


def test_nan_is_the_maximum_of_all():
    device = Device()
    data = np.float32([[1, np.nan, 3], [1, 2, 3]])
    largest = device.empty((2, 1), "bfloat16")
    chosen = device.tile(np.ones((2, 3), np.uint8))
    device.issue(
        "select_reduce",
        *(device.empty((2, 3)), chosen, device.tile(data), 0.0, largest),
        reduce_cmd=RESET,
    )
    same(largest.numpy(), np.float32([[np.nan], [3]]).astype("bfloat16"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("where", [("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
def test_select_takes_one_input_from_psum(where, target):
    device = Device(target)
    data, chosen = noise((9, 5)), mask((9, 5))
    dst = device.empty((9, 5), buffer="psum")
    device.issue(
        "select_reduce",
        *(dst, device.tile(chosen, buffer=where[0]), device.tile(data, buffer=where[1]), 1.0),
    )
    same(dst.numpy(), np.where(chosen != 0, data, np.float32(1)))


@pytest.mark.parametrize("shift", [0, 1])
def test_select_reads_all_before_it_writes(shift):
    device = Device()
    old, chosen = noise((6, 20)), mask((6, 19))
    tile = device.tile(old)
    first = 1 - shift
    device.issue(
        "select_reduce",
        *(tile[:, 1:], device.tile(chosen), tile[:, first : first + 19], tile[:, 4:5]),
    )
    want = old.copy()
    want[:, 1:] = np.where(chosen != 0, old[:, first : first + 19], old[:, 4:5])
    same(tile.numpy(), want)


@pytest.mark.parametrize("uninitialised", ["report", "zeros", "raise"])
def test_a_select_of_nothing_is_reported_or_refused(uninitialised):
    device = Device(uninitialised=uninitialised)
    dst, chosen = device.tile(noise((3, 4))), device.tile(mask((3, 4)))
    given = dst, chosen, device.empty((3, 4)), 1.0
    if uninitialised == "raise":
        device.refuses(UninitialisedError, "select_reduce", *given, words=["on_true"])
        return
    device.issue("select_reduce", *given)
    assert device.findings == ["UNINIT_READ"]
    taken = 0.0 if uninitialised == "zeros" else np.nan
    assert np.array_equal(dst.numpy(), np.where(mask((3, 4)) != 0, taken, 1.0), equal_nan=True)
