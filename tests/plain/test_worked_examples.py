"""Worked examples: numbers from the documentation or computed by hand, in the emulator and in the
plain reading."""

import nki.language as nl
import numpy as np
import pytest
from device import Device

from neuroncore.base.enums import reduce_cmd

F = np.float32


def result(device, dst):
    """Return the contents of a tile in the emulator, after a comparison with the plain reading."""
    device.agrees()
    return dst.numpy()


def test_a_sum_of_the_two_level_kind():
    """PSUM is added to once for each product: 2^24 + 1 + 1 stays, 1 + 1 in one product counts."""
    device = Device()
    dst = device.empty((1, 1), buffer="psum")
    for s in ([2.0**24, 0], [1, 0], [1, 1]):
        one = device.tile(np.ones((2, 1), F))
        device.issue("nc_matmul", dst, device.tile(np.array(s, F)[:, None]), one)
    assert result(device, dst) == 2.0**24 + 2


def test_nan_spreads_in_a_transpose_of_the_first_generation_and_not_later():
    x = np.array([[1, np.nan], [-0.0, 4]], F)
    for target, want in (("trn1", [[1, 0], [np.nan, np.nan]]), ("trn2", [[1, -0.0], [np.nan, 4]])):
        device = Device(target)
        dst = device.empty((2, 2), buffer="psum")
        device.issue("nc_transpose", dst, device.tile(x))
        np.testing.assert_array_equal(result(device, dst), want)


def test_int32_is_rounded_twice_on_its_way_to_bfloat16():
    device = Device()
    dst = device.empty((1, 1), "bfloat16")
    device.issue("tensor_copy", dst, device.tile(np.array([[2**30 + 2**22 + 1]], np.int32)))
    assert result(device, dst).astype(F) == 2.0**30


def test_pairs_of_match_and_replace():
    """The example of nc_match_replace8: equal values take occurrences from the last one on."""
    device = Device()
    data = device.tile(np.array([[3, 1, 3, 2, 5, 5, 0, 7]], F))
    vals = device.tile(np.array([[3, 3, 9, 5, 1, 2, 0, 7]], F))
    dst, index = device.empty((1, 8)), device.empty((1, 8), "uint32")
    device.issue("nc_match_replace8", dst, data, vals, -1.0, index)
    none = 0xFFFFFFFF
    assert result(device, dst).tolist() == [[-1, -1, -1, -1, -1, 5, -1, -1]]
    assert index.numpy().tolist() == [[2, 0, none, 4, 1, 3, 6, 7]]


def test_bounds_of_runs():
    device = Device()
    dst = device.empty((1, 2, 5), "int32")
    device.issue("sequence_bounds", dst, device.tile(np.array([[4, 4, 7, 0, 7]], np.int32)))
    assert result(device, dst).tolist() == [[[0, 0, 2, 5, 4], [2, 2, 3, -1, 5]]]


def test_counts_and_places_of_what_is_not_zero():
    device = Device()
    dst = device.empty((1, 6), "int32")
    src = device.tile(np.array([[0, 2, -1, 0, 3]], np.int32))
    device.issue("nonzero_with_count", dst, src, 10)
    assert result(device, dst).tolist() == [[11, 12, 14, -1, -1, 3]]


def test_a_scan_by_hand():
    device = Device()
    a, b = device.tile(np.array([[2, 3, 4]], F)), device.tile(np.array([[1, 1, 1]], F))
    dst = device.empty((1, 3))
    device.issue("tensor_tensor_scan", dst, a, b, 1.0, nl.multiply, nl.add)
    assert result(device, dst).tolist() == [[3, 10, 41]]


def test_accumulators_go_on_from_one_instruction_to_the_next():
    device = Device()
    x, dst, total = device.tile(np.array([[1, 2]], F)), device.empty((1, 2)), device.empty((1, 1))
    for command in (reduce_cmd.reset_reduce, reduce_cmd.reduce):
        device.issue(
            "activation", dst, nl.square, x, reduce_op=nl.add, reduce_res=total, reduce_cmd=command
        )
    assert result(device, total) == 10


def test_statistics_of_even_and_odd_elements():
    device = Device()
    dst = device.empty((1, 6))
    device.issue("bn_stats", dst, device.tile(np.array([[1, 10, 3, 20, 5]], F)))
    assert result(device, dst).tolist() == [[3, 3, 8, 2, 15, 50]]


@pytest.mark.parametrize("rule, scale, first", [("ocp_x2", 120, 128.0), ("ocp", 119, 256.0)])
def test_a_group_of_microscaling_by_hand(rule, scale, first):
    """amax = 1 = 2^0 and emax = 8: X = 2^-7, or 2^-8 by the older rule."""
    device = Device("trn3", mx_scale=rule)
    x = np.zeros((32, 4), F)
    x[0] = [1, 0.5, 0.25, -1]
    dst, scales = device.empty((32, 1), "float8_e4m3fn_x4"), device.empty((4, 1), "uint8")
    device.issue("quantize_mx", dst, device.tile(x, "bfloat16"), scales)
    assert result(device, scales).tolist() == [[scale], [0], [0], [0]]
    element = dst.numpy().view("float8_e4m3fn").astype(F).reshape(32, 4)
    assert element[0].tolist() == [first, first / 2, first / 4, -first]


def test_ten_bits_of_tf32_in_a_product():
    """x = 1 + 2^-11 + 2^-23 is read as 1 + 2^-10: the nearest with ten bits."""
    device, x = Device(), np.array([[1 + 2.0**-11 + 2.0**-23]], F)
    dst = device.empty((1, 1), buffer="psum")
    one = device.tile(np.ones((1, 1), F)).view("tfloat32")
    device.issue("nc_matmul", dst, one, device.tile(x).view("tfloat32"))
    assert result(device, dst) == 1 + 2.0**-10
