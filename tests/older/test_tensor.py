"""Indexing and views of the older API's tensors compared with numpy's."""

import numpy as np
import pytest
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older

from neuroncore.base.errors import (
    KernelError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    ViewError,
)

SHAPES = st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple)


def numbers(shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def filled(shape, dtype=np.float32, buffer="hbm"):
    """A tensor of counted elements, and the same in numpy."""
    values = numbers(shape, dtype)
    return Older().tile(values, buffer=buffer), values


@st.composite
def indexed(draw):
    """A shape, and an index of it by ints, slices, nl.ds and `...`: for neuroncore and for
    numpy."""
    shape = draw(SHAPES)
    ours, numpys = [], []
    for size in shape:
        first = draw(st.integers(0, size - 1))
        stop, step = draw(st.integers(first + 1, size)), draw(st.integers(1, 3))
        choices = (
            (first, first),
            (first - size, first - size),
            (slice(first, stop, step), slice(first, stop, step)),
            (slice(first - size, None), slice(first - size, None)),
            (nl.ds(first, stop - first), slice(first, stop)),
        )
        our, numpy = draw(st.sampled_from(choices))
        ours.append(our)
        numpys.append(numpy)
    count = draw(st.integers(0, len(shape)))
    if draw(st.booleans()):
        keep = len(shape) - count
        return shape, (..., *ours[keep:]), (..., *numpys[keep:])
    return shape, tuple(ours[:count]), tuple(numpys[:count])


@given(indexed())
def test_ranges_select_the_same_elements_as_in_numpy(drawn):
    shape, ours, numpys = drawn
    tensor, values = filled(shape)
    part, want = tensor[ours], values[numpys]
    assert part.shape == (want.shape or (1,))
    assert np.array_equal(part.numpy().reshape(want.shape), want)


@given(indexed())
def test_on_the_chip_an_int_keeps_the_partition_axis(drawn):
    shape, ours, numpys = drawn
    tensor, values = filled(shape, buffer="sbuf")
    part, want = tensor[ours], values[numpys]
    assert not (numpys and isinstance(numpys[0], int)) or part.shape[0] == 1
    assert part.size == want.size
    assert np.array_equal(part.numpy().reshape(want.shape), want)


@given(st.data(), st.integers(2, 6), st.integers(2, 6), st.integers(1, 3), st.integers(1, 3))
def test_expressions_select_the_same_elements_as_index_arrays(data, rows, columns, down, across):
    tensor, values = filled((rows * down, columns * across + 2))
    start = data.draw(st.integers(0, 2))
    p, f = np.arange(rows), np.arange(columns)
    part = tensor[nl.arange(rows)[:, None] * down, nl.arange(columns)[None, :] * across + start]
    assert np.array_equal(part.numpy(), values[p[:, None] * down, f * across + start])
    swapped = tensor[nl.arange(rows)[None, :] * down, nl.arange(columns)[:, None] * across]
    assert np.array_equal(swapped.numpy(), values[p * down, f[:, None] * across])
    diagonal = tensor[nl.arange(1)[:, None], nl.arange(columns)[None, :]]
    assert np.array_equal(diagonal.numpy(), values[:1, :columns])


def test_a_grid_is_an_index():
    """SDK 2.26, test_nki_isa_reciprocal.py: in_tensor[nl.mgrid[0:128, 0:512]]."""
    tile, values = filled((6, 8))
    assert np.array_equal(tile[nl.mgrid[1:5, 2:8:3]].numpy(), values[1:5, 2:8:3])


def test_axes_of_an_expression_may_share_an_axis_of_the_tensor():
    tensor, values = filled((3, 30), buffer="sbuf")
    p, x, y = nl.mgrid[0:3, 0:4, 0:5]
    i, j, k = np.mgrid[0:3, 0:4, 0:5]
    assert np.array_equal(tensor[p, x * 7 + y].numpy(), values[i, j * 7 + k])
    assert np.array_equal(tensor[p, 29 - x * 7 - y].numpy(), values[i, 29 - j * 7 - k])


def test_expressions_slices_and_ints_can_be_combined():
    tensor, values = filled((4, 5, 6))
    p, f = nl.arange(3)[:, None], nl.arange(4)[None, :]
    i, j = np.arange(3)[:, None], np.arange(4)
    assert np.array_equal(tensor[p, 2, f + 1].numpy(), values[i, 2, j + 1])
    assert np.array_equal(tensor[2, p, f].numpy(), values[2, i, j])
    assert np.array_equal(tensor[1 + p, f].numpy(), values[1 + i, j])


def test_an_expression_of_one_axis_is_refused():
    tensor, _ = filled((4, 5))
    with pytest.raises(ShapeError, match="one axis"):
        _ = tensor[nl.arange(4), nl.arange(4)]


def test_partitions_are_the_first_axis_of_a_tile():
    tensor, values = filled((4, 5), buffer="sbuf")
    p, f = nl.arange(4), nl.arange(5)
    assert np.array_equal(tensor[p[:, None], f[None, :]].numpy(), values)
    with pytest.raises(ViewError, match="partition"):
        _ = tensor[p[None, :], f[:, None]]


# --- out of bounds --------------------------------------------------------------------------------


@for_all(
    "key", [np.s_[4], np.s_[-5], np.s_[:, 2:2], np.s_[0, 0, 0], np.s_[:, ::-1], np.s_[..., ...]]
)
def test_indices_outside_are_refused(key):
    tensor, _ = filled((4, 5))
    with pytest.raises(OutOfBoundsError):
        _ = tensor[key]


@pytest.mark.parametrize("key", [np.s_[:, 2:2], np.s_[:, ::-1], np.s_[3:1], nl.ds(2, 0)])
def test_empty_and_backward_ranges_are_refused_as_such(key):
    tensor, _ = filled((4, 5))
    with pytest.raises(OutOfBoundsError, match="is not a range of axis"):
        _ = tensor[key]


def test_a_slice_beyond_the_end_is_refused_where_it_is_used():
    device = Older()
    values = numbers((4, 5))
    x = device.tile(values, buffer="hbm")
    for key in (np.s_[:, 5:7], np.s_[2:6], np.s_[:, 3:9:2]):
        with pytest.raises(OutOfBoundsError, match="exceeds axis"):
            device.call(nl.load, x[key])
    assert not device.opcodes
    rows = nl.arange(4)[:, None]
    loaded = device.call(nl.load, x[2:6], mask=rows < 2)
    assert np.array_equal(loaded[0:2].numpy(), values[2:])


@pytest.mark.parametrize("dropped", [(0,), (0, 0)])
def test_an_axis_that_an_index_drops_is_not_that_of_a_slice_beyond_the_end(dropped):
    device = Older()
    values = numbers((4, 5))
    x = device.tile(values, buffer="hbm").reshape((*(1 for _ in dropped), 4, 5))
    columns, rows = nl.arange(6)[None, :], nl.arange(8)[:, None]
    loaded = device.call(nl.load, x[(*dropped, slice(None), slice(3, 9))], mask=columns < 2)
    assert np.array_equal(loaded[:, 0:2].numpy(), values[:, 3:])
    loaded = device.call(nl.load, x[(*dropped, slice(0, 8))], mask=rows < 4)
    assert np.array_equal(loaded[0:4].numpy(), values)
    with pytest.raises(OutOfBoundsError, match=f"exceeds axis {len(dropped) + 1} of size 5"):
        device.call(nl.load, x[(*dropped, slice(None), slice(3, 9))])


@pytest.mark.parametrize("function", [np.mean, np.sum, np.max, np.amin])
def test_reductions_of_numpy_are_those_of_the_language(function):
    device = Older()
    values = numbers((4, 5))
    tile = device.tile(values)
    got = device.call(function, tile, axis=[1])
    assert np.allclose(got.numpy(), function(values, axis=1, keepdims=True), rtol=1e-6)
    with pytest.raises(KernelError, match="numpy's cumsum can't"):
        np.cumsum(tile, axis=1)


def test_a_part_of_a_part_is_inside_where_its_own_elements_are():
    """The convolution of waahm7/asst4-trainium selects a row of 225 columns, whose last is past the
    end, and reads 222 of them. Its compiled program exists and gives the numbers of numpy."""
    device = Older()
    values = numbers((4, 5))
    tile = device.call(nl.load, device.tile(values, buffer="hbm"))
    p, f = nl.arange(4)[:, None], nl.arange(3)[None, :]
    for part in (tile[:, 2:7][:, 0:3], tile[:, 2:7][p, f], tile[p, 2 * f + 1][:, 0:2]):
        assert part.fault is None
    assert np.array_equal(tile[1:9][1:3, 2:7][:, 1:3].numpy(), values[2:4, 3:5])
    for part in (tile[:, 2:7][:, 1:4], tile[:, 2:7][p, f + 1], tile[p, 2 * f + 1][:, 1:3]):
        with pytest.raises(OutOfBoundsError, match=r"\[[13], 5\] exceeds axis 1 of size 5"):
            device.call(nl.copy, part)
    shaped = tile[:, 2:7].reshape((4, 5, 1))
    assert shaped[p, 0, 0:1].fault is None and shaped[p, 3, 0:1].fault is not None
    assert tile[:, 2:7].view(nl.uint16)[:, 0:2].fault is not None  # its indices are not tracked


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_an_index_beyond_the_end_of_a_view_is_reported_with_the_view_s_axes(axes):
    device = Older()
    values = numbers((4, 5))
    x = device.tile(values, buffer="hbm")
    view = x
    for _ in range(axes - 2):
        view = device.call(nl.expand_dims, view, 1)
    key = (slice(None),) * (axes - 1)
    with pytest.raises(OutOfBoundsError, match=f"exceeds axis {axes - 1} of size 5"):
        device.call(nl.load, view[*key, 3:7])
    p, f = nl.arange(4)[:, None], nl.arange(4)[None, :]
    middle = (0,) * (axes - 2)
    with pytest.raises(OutOfBoundsError, match=f"exceeds axis {axes - 1} of size 5"):
        device.call(nl.load, view[p, *middle, f + 3])
    loaded = device.call(nl.load, view[p, *middle, f + 3], mask=f < 2)
    assert np.array_equal(loaded[:, 0:2].numpy(), values[:, 3:])


def test_an_expression_outside_is_refused_where_it_is_used():
    device = Older()
    x = device.tile(numbers((4, 5)), buffer="hbm")
    p, f = nl.arange(4)[:, None], nl.arange(8)[None, :]
    part = x[p, f]
    with pytest.raises(OutOfBoundsError, match=r"\[0, 7\] exceeds axis 1 of size 5"):
        device.call(nl.load, part)
    with pytest.raises(OutOfBoundsError, match="exceeds axis 1"):
        device.call(nl.load, part, mask=f < 6)
    with pytest.raises(OutOfBoundsError, match="exceeds axis 0"):
        device.call(nl.load, x[p + 1, f], mask=f < 5)
    with pytest.raises(OutOfBoundsError, match=r"\[-1, 3\] exceeds"):
        device.call(nl.load, x[p, f - 1], mask=f < 5)
    assert not device.opcodes


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 3))
def test_a_mask_makes_an_expression_outside_legal(rows, columns, start):
    device = Older()
    values = numbers((rows, columns))
    x = device.tile(values, buffer="hbm")
    p, f = nl.arange(8)[:, None], nl.arange(16)[None, :]
    mask = (p < rows) & (start + f < columns)
    loaded = device.call(nl.load, x[p, start + f], mask=mask)
    want = values[:, start:]
    assert loaded.shape == (8, 16)
    got = loaded[: want.shape[0], : want.shape[1]] if want.size else None
    assert got is None or np.array_equal(got.numpy(), want)
    assert len(device.opcodes) == (want.size > 0)


VIEWS = {
    "expand_dims": lambda x: x.expand_dims(1),
    "reshape": lambda x: x.reshape((4, 2, 3)),
    "view": lambda x: x.view(nl.int32),
    "narrow": lambda x: x.view(nl.uint16),
    "permuted": lambda x: x.reshape((4, 2, 3)).permuted((0, 2, 1)),
    "stretched": lambda x: x.expand_dims(1).stretched((4, 5, 6)),
    "shaped": lambda x: x.shaped((4, 1, 6)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_an_expression_outside_stays_outside_after_a_mask(name):
    device = Older()
    view, row = VIEWS[name], nl.arange(4)[:, None]
    x = device.tile(numbers((8, 6)))
    beside = view(x[row, 1 + nl.arange(6)[None, :]])
    rows = (nl.arange(4) < 2)[(slice(None), *(None for _ in beside.shape[1:]))]
    with pytest.raises(OutOfBoundsError, match=r"\[1, 6\] exceeds axis 1 of size 6"):
        device.call(nisa.tensor_copy, beside, mask=rows)
    below = view(x[6 + row, nl.arange(6)[None, :]])
    with pytest.raises(OutOfBoundsError, match=r"\[6, 9\] exceeds axis 0 of size 8"):
        device.call(nisa.tensor_copy, below)
    assert below.within(((0, 2), *((0, n) for n in below.shape[1:]))).fault is None


@given(st.data(), st.integers(1, 5), st.integers(1, 5), st.integers(1, 4))
def test_within_is_the_part_of_the_array(data, rows, columns, depth):
    tensor, values = filled((rows, columns, depth), buffer="sbuf")
    box = []
    for size in (rows, columns, depth):
        first = data.draw(st.integers(0, size - 1))
        box.append((first, data.draw(st.integers(1, size - first))))
    want = values[tuple(slice(first, first + count) for first, count in box)]
    assert np.array_equal(tensor.within(tuple(box)).numpy(), want)


def test_none_in_a_subscript_is_refused_with_a_hint():
    tensor, _ = filled((4, 6), buffer="sbuf")
    for key in ((slice(None), None, slice(None)), (None, 0), None):
        with pytest.raises(KernelError, match="expand_dims"):
            _ = tensor[key]


def test_a_mask_chooses_a_part_of_a_tile():
    tensor, values = filled((4, 6), buffer="sbuf")
    p, f = nl.arange(4)[:, None], nl.arange(6)[None, :]
    assert np.array_equal(tensor[(p < 3) & (f >= 2)].numpy(), values[:3, 2:])
    assert np.array_equal(tensor[f < 4][p > 1].numpy(), values[2:, :4])
    assert np.array_equal(tensor[True].numpy(), values)
    for mask, count in ((f != 3, "2"), (p > 3, "0"), (False, "0")):
        with pytest.raises(SignatureError, match=f"selects {count} rectangles"):
            _ = tensor[mask]


# --- dynamic indices ------------------------------------------------------------------------------


def test_a_tile_chooses_rows_in_hbm():
    device = Older()
    values = numbers((9, 4))
    x, rows = device.tile(values, buffer="hbm"), device.tile(np.int32([[7], [0], [3]]))
    loaded = device.call(nl.load, x[rows, nl.arange(4)[None, :]])
    assert np.array_equal(loaded.numpy(), values[[7, 0, 3]])
    part = device.call(nl.load, x[rows, nl.arange(2)[None, :] + 1])
    assert np.array_equal(part.numpy(), values[[7, 0, 3], 1:3])


def test_a_tile_of_one_element_is_an_offset():
    device = Older()
    values = numbers((2, 9))
    x, place = device.tile(values), device.tile(np.int32([[5]]))
    got = device.call(nisa.tensor_copy_dynamic_src, x[nl.arange(2)[:, None], place[0, 0]])
    assert np.array_equal(got.numpy(), values[:, 5:6])


def test_two_run_time_axes_are_refused():
    device = Older()
    x, rows = device.tile(numbers((9, 4)), buffer="hbm"), device.tile(np.int32([[1], [2]]))
    with pytest.raises(ViewError, match="run time"):
        _ = x[rows, rows]


# --- views ----------------------------------------------------------------------------------------


@given(SHAPES, st.data())
def test_reshape_is_numpy_s(shape, data):
    tensor, values = filled(shape)
    flat = (shape[0], values.size // shape[0])
    for other in (shape[::-1], flat, (-1,), (values.size,), (1, *shape)):
        assert np.array_equal(tensor.reshape(other).numpy(), values.reshape(other))
    on_chip, _ = filled(shape, buffer="sbuf")
    assert np.array_equal(on_chip.reshape(flat).numpy(), values.reshape(flat))
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    assert np.array_equal(tensor.expand_dims(axis).numpy(), np.expand_dims(values, axis))


def test_a_reshape_keeps_the_partitions_and_the_number_of_elements():
    tensor, _ = filled((4, 6), buffer="sbuf")
    for wrong in ((6, 4), (24,), (4, 7), (4, 2, 2)):
        with pytest.raises(ShapeError):
            tensor.reshape(wrong)
    assert tensor.reshape((4, 2, 3)).shape == (4, 2, 3)
    with pytest.raises(ShapeError):
        tensor[:, 0:4].reshape((8, 2))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "bfloat16", "int32", "float32"])
def test_view_is_numpy_s(dtype):
    tensor, values = filled((3, 8), np.uint16)
    want = values.view(dtype)
    assert tensor.view(dtype).shape == want.shape
    assert np.array_equal(tensor.view(dtype).numpy().view(np.uint8), want.view(np.uint8))


def test_a_view_needs_whole_contiguous_elements():
    tensor, values = filled((3, 8), np.uint16)
    assert np.array_equal(tensor[:, 2:6].view("uint32").numpy(), values[:, 2:6].copy().view("u4"))
    for part in (tensor[:, 1:5], tensor[:, ::2], tensor[:, 0:3]):
        with pytest.raises(ViewError):
            part.view("uint32")


def test_broadcast_repeats_without_moving_anything():
    device = Older()
    values = numbers((3, 1))
    x = device.tile(values)
    wide = device.call(x.broadcast_to, (3, 5))
    assert np.array_equal(wide.numpy(), np.broadcast_to(values, (3, 5)))
    assert not device.opcodes
    row = device.tile(numbers((1, 4)))
    assert np.array_equal(
        device.call(row.broadcast_to, (7, 4)).numpy(), np.broadcast_to(numbers((1, 4)), (7, 4))
    )
    for wrong in ((5, 5), (3, 5, 5, 5, 2, 1)):
        with pytest.raises(KernelError):
            device.call(device.tile(numbers((3, 4))).broadcast_to, wrong)


def test_the_text_of_a_tensor():
    tensor, _ = filled((3, 8), np.float16)
    assert (tensor.ndim, tensor.itemsize, tensor.shape) == (2, 2, (3, 8))
    assert tensor.assert_shape((3, 8)) is tensor
    with pytest.raises(ShapeError, match="which assert_shape requires"):
        tensor.assert_shape((8, 3))
    assert (tensor is None, tensor == None, tensor != None) == (False, False, True)  # noqa: E711


def test_each_axis_that_is_left_is_named_with_its_own_size():
    device = Older()
    tensor = device.tile(np.zeros((4, 7), np.float32), buffer="hbm")
    part = tensor[nl.arange(5)[:, None], nl.arange(9)[None, :]]
    with pytest.raises(OutOfBoundsError, match=r"\[0, 8\] exceeds axis 1 of size 7"):
        device.call(nl.load, part)
