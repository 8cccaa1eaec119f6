"""tensor_reduce: the last free axes are folded away, from the left."""

import nki.language as nl
import numpy as np
import pytest
from alu import LOGICAL, PLAIN, alu
from device import TARGETS, Device, converted, noise, same
from every import for_all

from neuroncore.base.errors import ShapeError

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((1, 1), (3, 7), (128, 33), (33, 130), (96, 5, 3), (5, 2, 3, 4), (4, 2, 3, 2, 3))
BITVEC = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def folded(op, values, axes):
    """(((x0 <op> x1) <op> x2) ...) over the last axes, in float32."""
    kept = values.shape[: values.ndim - axes]
    rows = values.astype(np.float32).reshape(*kept, -1)
    state = rows[..., 0]
    for i in range(1, rows.shape[-1]):
        state = alu(op, state, rows[..., i])
    return state.astype(np.float32)


def reduced(device, op, data, axis, dtype="float32", shape=None, **options):
    axes = 1 if isinstance(axis, int) else len(axis)
    dst = device.empty(shape or (*data.shape[:-axes], *[1] * (data.ndim - axes == 1)), dtype)
    device.issue("tensor_reduce", dst, getattr(nl, op), device.tile(data), axis, **options)
    assert device.findings == []
    return dst.numpy()


@for_all("shape", SHAPES)
@pytest.mark.parametrize("op", [*PLAIN, *LOGICAL])
def test_every_operator_over_every_choice_of_axes(op, shape):
    data = noise(shape, special=False)
    data = np.where(noise(shape, seed=4, special=False) > 0, data, 1).astype(np.float32)
    for axes in range(1, len(shape)):
        axis = tuple(range(len(shape) - axes, len(shape)))
        got = reduced(Device(), op, data, axis)
        want = folded(op, data, axes)
        same(got, want.reshape(got.shape))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [1, (1,), [1], -1, (-1,)])
def test_an_axis_is_written_in_many_ways(axis, target):
    data = noise((9, 5), special=False)
    same(reduced(Device(target), "add", data, axis), folded("add", data, 1)[:, None])


@pytest.mark.parametrize("axis", [(1, 2), [1, 2], (2, 1), (-2, -1), (1, -1), [-1, 1]])
def test_so_are_two(axis):
    data = noise((9, 5, 4), special=False)
    same(reduced(Device(), "add", data, axis), folded("add", data, 2)[:, None])


@pytest.mark.parametrize(
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
    want = x.sum(axis=tuple(range(len(left), len(shape))))
    np.testing.assert_allclose(dst.numpy().reshape(want.shape), want, rtol=1e-5, atol=1e-5)
    assert device.findings == ["AXIS_FROM_WITHIN"]


def test_axes_counted_from_the_front_need_no_remark():
    device, x = Device(), noise((9, 5, 4))
    for axis, left in ((2, (9, 5)), ((1, 2), (9, 1)), (-1, (9, 5))):
        device.issue("tensor_reduce", device.empty(left), nl.add, device.tile(x), axis)
    assert not device.findings


def test_sums_run_from_left_to_right():
    values = np.float32([[2**24, 1, 1, -(2**24)], [1, 1, 2**24, -(2**24)]])
    assert reduced(Device(), "add", values, 1).tolist() == [[0], [2]]


def test_differences_and_products_too():
    values = np.float32([[10, 1, 2, 3]])
    assert reduced(Device(), "subtract", values, 1) == 4
    tiny = np.float32([[1e-30, 1e-30, 1e30, 1e30], [1e30, 1e-30, 1e30, 1e-30]])
    got = reduced(Device(), "multiply", tiny, 1)
    assert got[0] == 0 and abs(got[1] - 1) < 1e-6


@for_all("after", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("before", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("negate", [False, True])
def test_every_format(before, after, negate):
    data = noise((16, 9), before, special=False)
    for op in ("add", "maximum"):
        want = folded(op, data, 1)[:, None]
        got = reduced(Device(), op, data, 1, after, negate=negate)
        same(got, converted(-want if negate else want, after))


def test_partial_sums_are_not_rounded_to_dst():
    values = np.array([[256, 1, 1]], "bfloat16")
    assert reduced(Device(), "add", values, 1, "bfloat16").astype(np.float32) == 258


@pytest.mark.parametrize("op", PLAIN)
def test_special_values_propagate(op):
    data = noise((128, 12))
    same(reduced(Device(), op, data, 1), folded(op, data, 1)[:, None])


def test_one_element_stays_as_it_is():
    data = np.float32([[-0.0], [np.inf], [1e-40]])
    for op in PLAIN:
        same(reduced(Device(), op, data, 1), data)


@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("op", ["add", "minimum"])
def test_negate_multiplies_by_minus_one(op, negate):
    data = np.float32([[0, 0], [1, 2], [-np.inf, 1]])
    want = folded(op, data, 1)[:, None]
    same(reduced(Device(), op, data, 1, negate=negate), -want if negate else want)


@pytest.mark.parametrize("keepdims", [False, True])
def test_kept_dimensions_are_ones(keepdims):
    data = noise((6, 3, 4, 5), special=False)
    shape = (6, 3, 1, 1) if keepdims else (6, 3)
    got = reduced(Device(), "add", data, (2, 3), shape=shape, keepdims=keepdims)
    same(got, folded("add", data, 2).reshape(shape))


@pytest.mark.parametrize(
    "where", [("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf"), ("psum",) * 2]
)
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_memories(op, where):
    device = Device()
    data = noise((96, 3, 7), "bfloat16", special=False)
    dst = device.empty((96, 3), buffer=where[0])
    device.issue("tensor_reduce", dst, getattr(nl, op), device.tile(data, buffer=where[1]), 2)
    same(dst.numpy(), folded(op, data, 1))


@pytest.mark.parametrize("op", ["add", "subtract", "maximum"])
def test_strided_views_keep_their_order(op):
    device = Device()
    data, old = noise((6, 9, 10), special=False), noise((6, 8), "float16", 1)
    view, dst = device.tile(data)[:, ::3, 1:9:2].permute((0, 2, 1)), device.tile(old)
    device.issue("tensor_reduce", dst[:, ::2], getattr(nl, op), view, 2)
    want = old.copy()
    want[:, ::2] = folded(op, data[:, ::3, 1:9:2].transpose(0, 2, 1), 1).astype(np.float16)
    same(dst.numpy(), want)


def test_a_broadcast_axis_counts_every_time():
    device = Device()
    data = noise((6, 1, 5), special=False)
    dst = device.empty((6, 1))
    device.issue("tensor_reduce", dst, nl.add, device.tile(data).broadcast(1, 3), (1, 2))
    same(dst.numpy(), folded("add", np.repeat(data, 3, axis=1), 2)[:, None])


@pytest.mark.parametrize("form", ["float32", "bfloat16"])
@pytest.mark.parametrize("column", [0, 3, 6])
def test_the_result_may_be_part_of_the_data(column, form):
    device = Device()
    values = noise((5, 7, 4), form, special=False)
    tile = device.tile(values)
    device.issue("tensor_reduce", tile[:, :, 3], nl.add, tile, 2)
    want = values.copy()
    want[:, :, 3] = converted(folded("add", values, 1), form)
    same(tile.numpy(), want)
    device.issue("tensor_reduce", tile[:, column, 0:1], nl.maximum, tile, (1, 2))
    want[:, column, 0] = converted(folded("maximum", want.copy(), 2), form)
    same(tile.numpy(), want)


# --- bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", BITVEC)
def test_bits_are_folded_without_conversion(op, dtype):
    data = noise((16, 3, 5), dtype)
    same(reduced(Device(), op, data, 2, dtype), BITVEC[op].reduce(data, axis=2, dtype=dtype))
    got = reduced(Device(), op, data, (1, 2), dtype)
    same(got, BITVEC[op].reduce(data.reshape(16, -1), axis=1, dtype=dtype, keepdims=True))


# --- what is refused ------------------------------------------------------------------------------
