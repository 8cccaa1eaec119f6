"""tensor_reduce: the last free axes are reduced from left to right."""

from itertools import product

import nki.language as nl
import numpy as np
from alu import LOGICAL, PLAIN
from device import TARGETS, Device, noise, same
from every import for_all

from neuroncore.base.errors import ShapeError

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((1, 1), (3, 7), (33, 12), (5, 5, 3), (5, 2, 3, 4), (4, 2, 3, 2, 3))


def reduced(device, op, data, axis, dtype="float32", shape=None, **options):
    """Reduce an array or a tile, and return the result."""
    axes = 1 if isinstance(axis, int) else len(axis)
    left = len(data.shape) - axes
    dst = device.empty(shape or (*data.shape[:left], *[1] * (left == 1)), dtype)
    data = device.tile(data) if isinstance(data, np.ndarray) else data
    device.issue("tensor_reduce", dst, getattr(nl, op), data, axis, **options)
    return dst.numpy()


@for_all("target", TARGETS)
def test_every_operator_over_every_choice_of_axes(target):
    device = Device(target)
    for shape, op in product(SHAPES, [*PLAIN, *LOGICAL]):
        for first in range(1, len(shape)):
            axis = tuple(range(first, len(shape)))
            for special in (False, True):
                reduced(device, op, noise(shape, special=special), axis)
    device.agrees()
    assert not device.findings


def test_an_axis_can_be_written_in_many_ways():
    device, data = Device(), noise((9, 5), special=False)
    for axis in (1, (1,), [1], -1, (-1,)):
        same(reduced(device, "add", data, axis), reduced(device, "add", data, 1))
    data = noise((9, 5, 4), special=False)
    for axis in ((1, 2), [1, 2], (2, 1), (-2, -1), (1, -1), [-1, 1]):
        same(reduced(device, "add", data, axis), reduced(device, "add", data.reshape(9, 20), 1))
    device.agrees()


@for_all(
    ("shape", "axis", "folded"),
    [
        *[((9, 5, 4), a, 1) for a in (1, (1,), 4, (4,))],
        *[((9, 3, 5, 4), a, n) for a, n in ((1, 1), ((1, 2), 2), ((2, 1), 2), ((3, 4), 2))],
        ((9, 2, 3, 5, 4), (1, 2, 3), 3),
    ],
)
def test_releases_before_0_3_counted_axes_from_the_innermost(shape, axis, folded):
    device, x = Device(), np.random.default_rng(0).standard_normal(shape, np.float32)
    data, left = device.tile(x), shape[: len(shape) - folded]
    for wrong in ((*left, 2), left[:-1] if len(left) > 1 else (9, 7)):
        device.refuses(ShapeError, "tensor_reduce", device.empty(wrong), nl.add, data, axis)
    dst = device.empty(left if len(left) > 1 else (*left, 1))
    device.issue("tensor_reduce", dst, nl.add, data, axis)
    device.agrees()
    assert device.findings == ["AXIS_FROM_WITHIN"]


def test_axes_counted_from_the_front_have_no_finding():
    device, x = Device(), noise((9, 5, 4))
    for axis, left in ((2, (9, 5)), ((1, 2), (9, 1)), (-1, (9, 5))):
        device.issue("tensor_reduce", device.empty(left), nl.add, device.tile(x), axis)
    assert not device.findings


def test_sums_run_from_left_to_right():
    data = np.float32([[2**24, 1, 1, -(2**24)], [1, 1, 2**24, -(2**24)]])
    assert reduced(Device(), "add", data, 1).tolist() == [[0], [2]]


def test_differences_and_products_run_from_left_to_right():
    device = Device()
    assert reduced(device, "subtract", np.float32([[10, 1, 2, 3]]), 1) == 4
    tiny = np.float32([[1e-30, 1e-30, 1e30, 1e30], [1e30, 1e-30, 1e30, 1e-30]])
    got = reduced(device, "multiply", tiny, 1)
    assert got[0] == 0 and abs(got[1] - 1) < 1e-6


def test_partial_sums_are_not_rounded_to_dst():
    data = np.array([[256, 1, 1]], "bfloat16")
    assert reduced(Device(), "add", data, 1, "bfloat16").astype(np.float32) == 258


def test_a_single_element_is_unchanged():
    device, data = Device(), np.float32([[-0.0], [np.inf], [1e-40]])
    for op in PLAIN:
        same(reduced(device, op, data, 1), data)


def test_negate_multiplies_by_minus_one():
    device, data = Device(), np.float32([[0, 0], [1, 2], [-np.inf, 1]])
    same(reduced(device, "add", data, 1, negate=True), np.float32([[-0.0], [-3], [np.inf]]))
    same(reduced(device, "minimum", data, 1, negate=True), np.float32([[-0.0], [-1], [np.inf]]))


def test_kept_dimensions_are_ones():
    device, data = Device(), noise((6, 3, 4, 5), special=False)
    for keepdims, shape in ((True, (6, 3, 1, 1)), (False, (6, 3))):
        reduced(device, "add", data, (2, 3), shape=shape, keepdims=keepdims)
    device.agrees()


def test_strided_and_broadcast_views_keep_their_order():
    device = Device()
    data, row = device.tile(noise((6, 9, 10), special=False)), device.tile(noise((6, 1, 5)))
    for op in ("add", "subtract", "maximum"):
        dst = device.tile(noise((6, 8), "float16", 1))
        view = data[:, ::3, 1:9:2].permute((0, 2, 1))
        device.issue("tensor_reduce", dst[:, ::2], getattr(nl, op), view, 2)
        reduced(device, op, row.broadcast(1, 3), (1, 2))  # is added each time
    device.agrees()


def test_the_result_may_be_part_of_the_data():
    device = Device()
    for column, form in product((0, 3, 6), ("float32", "bfloat16")):
        tile = device.tile(noise((5, 7, 4), form, special=False))
        device.issue("tensor_reduce", tile[:, :, 3], nl.add, tile, 2)
        device.issue("tensor_reduce", tile[:, column, 0:1], nl.maximum, tile, (1, 2))
    device.agrees()


def test_bits_are_reduced_without_conversion():
    device = Device()
    for op, dtype in product(("bitwise_and", "bitwise_or", "bitwise_xor"), INTEGERS):
        data = noise((5, 3, 5), dtype)
        got = reduced(device, op, data, 2, dtype)
        same(got, getattr(np, op).reduce(data, axis=2, dtype=dtype))
        reduced(device, op, data, (1, 2), dtype)
    device.agrees()
