"""tensor_copy_predicated and select_reduce: selection of one of two values for each element."""

from itertools import product

import numpy as np
from calls import values
from device import Device, noise, same
from every import for_all
from nki.isa import reduce_cmd

from neuroncore.base.errors import UninitializedError
from neuroncore.numerics.formats import FORMATS

RESET = reduce_cmd.reset_reduce
PREDICATES = ("bool", "uint8", "uint16", "uint32")


def mask(shape, dtype="uint8", seed=5):
    """Return a mask with about a third zeros; every bit of the others may be set."""
    numbers = noise(shape, dtype, seed, special=False) if dtype != "bool" else np.ones(shape)
    return np.where(np.random.default_rng(seed).random(shape) < 0.35, 0, numbers).astype(dtype)


@for_all("reverse", [0, 1, None, np.True_, np.False_])
def test_any_true_value_reverses_a_predicate(reverse):
    device = Device()
    data, chosen, zero = noise((4, 6), "float32"), mask((4, 6)), device.zeros((4, 1))
    copied, selected = device.zeros((4, 6)), device.zeros((4, 6))
    tiles = device.tile(chosen), device.tile(data)
    device.issue("tensor_copy_predicated", copied, *reversed(tiles), reverse_pred=reverse)
    device.issue("select_reduce", selected, *tiles, zero, reverse_pred=reverse)
    want = np.where((chosen != 0) ^ bool(reverse), data, np.float32(0))
    same(copied.numpy(), want)
    same(selected.numpy(), want)


# --- tensor_copy_predicated -----------------------------------------------------------------------


def test_selected_elements_are_copied_bit_by_bit():
    device = Device("trn3")
    for dtype, shape in product(FORMATS, ((1, 1), (3, 7), (5, 2, 3, 4))):
        for predicate, reverse in product(PREDICATES, (False, True)):
            dst, src = (device.tile(values(dtype, shape, n), dtype) for n in (0, 1))
            chosen = device.tile(mask(shape, predicate))
            device.issue("tensor_copy_predicated", dst, src, chosen, reverse_pred=reverse)
    device.agrees()


def test_any_bit_of_a_predicate_makes_it_true():
    device = Device()
    for dtype in PREDICATES[1:]:
        width = np.dtype(dtype).itemsize * 8
        chosen = np.array([[0, *(1 << n for n in range(width))]], dtype)
        dst = device.tile(np.zeros(chosen.shape, np.float32))
        device.issue("tensor_copy_predicated", dst, 1.0, device.tile(chosen))
        assert dst.numpy().tolist() == [[0] + [1] * width]


def test_a_number_is_rounded_to_dst_and_exact_for_integers():
    device, chosen = Device("trn3"), mask((5, 6))
    for dtype, form in FORMATS.items():
        numbers = [1, -0.0, 0.1, np.inf, np.nan, np.float32(3)]
        if form.is_integer:
            numbers = [1, 0, *map(int, form.range)]
        for value in numbers:
            dst = device.tile(values(dtype, (5, 6)), dtype)
            device.issue("tensor_copy_predicated", dst, value, device.tile(chosen))
    device.agrees()


@for_all("dtype", [d for d, form in FORMATS.items() if form.is_integer and d != "bool"])
def test_a_float_without_a_fraction_is_an_integer(dtype):
    """The documentation declares src as a float or a tensor."""
    device, chosen = Device("trn3"), mask((5, 6))
    for value in (1.0, np.float32(7), 127.0, -1, -2.0):
        dst = device.tile(values(dtype, (5, 6)), dtype)
        device.issue("tensor_copy_predicated", dst, value, device.tile(chosen))
        expected = np.array(int(value)).astype(dst.numpy().dtype)
        assert (dst.numpy()[chosen != 0] == expected).all()
    device.agrees()


def test_elements_that_are_not_selected_stay_uninitialized():
    device = Device()
    chosen = mask((3, 4))
    dst = device.empty((3, 4))
    device.issue("tensor_copy_predicated", dst, 2.0, device.tile(chosen))
    assert device.findings == []
    device.issue("tensor_copy", device.empty((3, 4)), dst)
    assert device.findings == ["UNINIT_READ"]
    same(dst.numpy(), np.where(chosen != 0, np.float32(2), np.float32(np.nan)))


# --- select_reduce --------------------------------------------------------------------------------


def test_the_maximum_is_computed_before_rounding():
    device = Device()
    data, ones = np.float32([[1.001, 1.002, 0.5]]), device.tile(np.ones((1, 3), np.uint8))
    dst, largest = device.empty((1, 3), "bfloat16"), device.empty((1, 1))
    device.issue("select_reduce", dst, ones, device.tile(data), 0.0, largest, reduce_cmd=RESET)
    assert largest.numpy() == np.float32(1.002) and dst.numpy().max() == 1


def test_lowest_float32_becomes_minus_infinity_in_narrow_formats():
    device = Device()
    predicate, ones = device.tile(np.array([[0, 1]], np.uint8)), np.ones((1, 2), np.float32)
    for dtype in ("bfloat16", "float16", "float8_e4m3", "float8_e5m2"):
        dst = device.empty((1, 2), dtype)
        device.issue("select_reduce", dst, predicate, device.tile(ones), -3.4028235e38)
        assert dst.numpy().astype(np.float32).tolist() == [[-np.inf, 1]]


def test_nan_is_the_maximum_of_all():
    device = Device()
    data, chosen = np.float32([[1, np.nan, 3], [1, 2, 3]]), device.tile(np.ones((2, 3), np.uint8))
    dst, largest = device.empty((2, 3)), device.empty((2, 1), "bfloat16")
    device.issue("select_reduce", dst, chosen, device.tile(data), 0.0, largest, reduce_cmd=RESET)
    same(largest.numpy(), np.float32([[np.nan], [3]]).astype("bfloat16"))


@for_all("uninitialized", ["report", "zeros", "raise"])
def test_a_select_from_uninitialized_memory_is_reported_or_refused(uninitialized):
    device = Device(uninitialized=uninitialized)
    dst, chosen = device.tile(noise((3, 4))), device.tile(mask((3, 4)))
    given = dst, chosen, device.empty((3, 4)), 1.0
    if uninitialized == "raise":
        device.refuses(UninitializedError, "select_reduce", *given, words=["on_true"])
        return
    device.issue("select_reduce", *given)
    assert device.findings == ["UNINIT_READ"]
    taken = 0.0 if uninitialized == "zeros" else np.nan
    assert np.array_equal(dst.numpy(), np.where(mask((3, 4)) != 0, taken, 1.0), equal_nan=True)
