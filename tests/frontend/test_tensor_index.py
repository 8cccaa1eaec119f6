"""The meaning of `tensor[...]`, with constants and with values known only at run time."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all

from neuroncore.base.errors import (
    DynamicControlError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    StartPartitionError,
    ViewError,
)

VALUES = np.arange(4 * 6 * 5, dtype=np.float32).reshape(4, 6, 5)


def tiles():
    device = Device()
    return device.tile(VALUES), device.tile(VALUES, buffer="hbm")


# --- constants ------------------------------------------------------------------------------------


@for_all(
    ("key", "on_chip", "in_hbm"),
    [
        (..., (4, 6, 5), (4, 6, 5)),
        ((), (4, 6, 5), (4, 6, 5)),
        (0, (1, 6, 5), (6, 5)),
        (-1, (1, 6, 5), (6, 5)),
        ((slice(None), 0), (4, 5), (4, 5)),
        ((slice(None), 0, 3), (4, 1), (4,)),
        ((0, 0, 3), (1, 1), (1,)),
        ((..., 2), (4, 6), (4, 6)),
        ((0, ..., slice(None)), (1, 6, 5), (6, 5)),
        ((0, 1, 2, ...), (1, 1), (1,)),
        ((slice(1, 3), slice(0, 6, 4)), (2, 2, 5), (2, 2, 5)),
        ((slice(-3, -1),), (2, 6, 5), (2, 6, 5)),
        ((nl.ds(1, 2), nl.ds(0, 6)), (2, 6, 5), (2, 6, 5)),
        ((np.int64(2), slice(np.int32(1), np.int8(3))), (1, 2, 5), (2, 5)),
    ],
)
def test_shapes_of_indexed_tensors(key, on_chip, in_hbm):
    chip, hbm = tiles()
    assert chip[key].shape == on_chip
    assert hbm[key].shape == in_hbm


@for_all(
    "key", [..., (0, 1, 2), (-1, -2, -3), (slice(1, 4, 2), ..., -1), (2, slice(1, None)), (..., 3)]
)
def test_indices_select_the_same_elements_as_in_numpy(key):
    for tile in tiles():
        assert np.array_equal(tile[key].numpy().ravel(), VALUES[key].ravel())
    assert all(type(n) is int for n in (*tile[key].shape, *tile[key].strides, tile[key].offset))


def test_loop_variables_index_like_constants():
    chip, _ = tiles()
    rows = [chip[:, i, 2:4].numpy() for i in nl.affine_range(6)]
    assert np.array_equal(np.stack(rows, 1), VALUES[:, :, 2:4])


@for_all(
    ("key", "kind", "says"),
    [
        (4, OutOfBoundsError, "index 4 exceeds axis 0 of size 4"),
        (-5, OutOfBoundsError, "index -5 exceeds axis 0 of size 4"),
        ((0, 6), OutOfBoundsError, "index 6 exceeds axis 1 of size 6"),
        ((slice(None), slice(3, 7)), OutOfBoundsError, "index range [3, 6] exceeds axis 1"),
        (slice(-5, 2), OutOfBoundsError, "axis 0 of size 4"),
        (slice(5, None), OutOfBoundsError, "axis 0 of size 4"),
        (slice(3, 1), OutOfBoundsError, "axis 0 of size 4"),
        (nl.ds(3, 2), OutOfBoundsError, "index range [3, 4] exceeds axis 0"),
        (nl.ds(-1, 2), OutOfBoundsError, "axis 0 of size 4"),
        (nl.ds(0, 5), OutOfBoundsError, "a range of 5 elements exceeds axis 0"),
        (nl.ds(0, -1), OutOfBoundsError, "a range of -1 elements"),
        (nl.ds(5, 0), OutOfBoundsError, "exceeds axis 0"),
        ((0, 0, 0, 0), OutOfBoundsError, "3 axes, but the index has 4 items"),
        ((..., 0, ...), SignatureError, "only one `...`"),
        (slice(None, None, -1), SignatureError, "steps by -1"),
        (slice(None, None, 0), SignatureError, "steps by 0"),
        (slice(0, 1.5), SignatureError, "sliced with float"),
        (1.0, SignatureError, "indexed with float"),
        (True, SignatureError, "indexed with bool"),
        (None, SignatureError, "indexed with NoneType"),
        ([0, 1], SignatureError, "indexed with list"),
        ("x", SignatureError, "indexed with str"),
        (np.array([0, 1]), SignatureError, "indexed with ndarray"),
    ],
)
def test_bad_indices_are_refused(key, kind, says):
    for tile in tiles():
        with pytest.raises(kind) as refused:
            tile[key]
        assert says in str(refused.value)


@for_all(
    ("key", "axis"),
    [
        *[(slice(4, None), 0), (slice(2, 2), 0), (nl.ds(0, 0), 0), (nl.ds(4, 0), 0)],
        *[((slice(1, 3), slice(2, 2)), 1), ((0, nl.ds(3, 0), slice(1, 4)), 1)],
    ],
)
def test_a_view_may_be_empty_but_cannot_be_read(key, axis):
    """If there are too few rows for all cores, a kernel makes an empty view for a core and does not
    use it."""
    device = Device()
    for buffer in ("sbuf", "hbm"):
        view = device.tile(VALUES, buffer=buffer)[key]
        assert 0 in view.shape and view[...].shape == view.shape
        for part in (view, view[...]):
            with pytest.raises(ShapeError, match="has no elements"):
                device.issue("dma_copy", device.empty((1, 1)), part)
    assert not device.opcodes


def test_an_index_error_is_also_an_index_error_of_python():
    with pytest.raises(IndexError):
        tiles()[0][4]


def test_iteration_over_a_tensor_ends():
    assert [row.shape for row in tiles()[1]] == [(6, 5)] * 4


@for_all(
    ("make", "first", "reported"),
    [
        (lambda t: t[:, 4:12].ap([[20, 2], [1, 3]], 2), 2, True),
        (lambda t: t[:, 4:12].ap([[20, 2], [1, 3]]), 4, False),
        (lambda t: t.ap([[20, 2], [1, 3]], 2), 2, False),
        (lambda t: t[:, 4:12].ap([[8, 2], [1, 3]], 2), 6, False),  # a row of the view
    ],
)
def test_an_offset_counts_from_the_start_of_the_tensor_which_is_noted_for_views(
    make, first, reported
):
    device, values = Device(), np.arange(40, dtype=np.float32).reshape(2, 20)
    view = device.call(make, device.tile(values))
    np.testing.assert_array_equal(view.numpy(), values[:, first : first + 3])
    assert [one.code for one in device.core.findings] == ["OFFSET_OF_VIEW"] * reported


# --- known at run time ----------------------------------------------------------------------------


def read_row(make, target="sbuf"):
    """Return the elements that dma_copy reads from `make(tensor of VALUES, register, index
    tile)`."""
    device = Device()
    tensor = device.tile(VALUES, buffer=target)
    index = device.tile(np.array([[3]], np.int32))
    register = device.call(nisa.register_alloc, 3)
    view = device.call(make, tensor, register, index)
    assert view.is_indirect()
    dst = device.empty(view.shape, buffer="hbm")
    device.issue("dma_copy", dst, view)
    return dst.numpy()


@for_all(
    ("make", "expected"),
    [
        (lambda t, r, i: t[:, r], VALUES[:, 3]),
        (lambda t, r, i: t[:, i], VALUES[:, 3]),
        (lambda t, r, i: t[:, nl.ds(r, 2)], VALUES[:, 3:5]),
        (lambda t, r, i: t[:, 2:][:, r], VALUES[:, 5]),
        (lambda t, r, i: t[:, r][:, 1:3], VALUES[:, 3, 1:3]),
        (lambda t, r, i: t[:, ::2, 1:].select(2, r), VALUES[:, ::2, 4]),
        (lambda t, r, i: t.select(1, r), VALUES[:, 3]),
        (lambda t, r, i: t.select(-1, i), VALUES[:, :, 3]),
        (lambda t, r, i: t.select(1, np.int64(3))[:, r], VALUES[:, 3, 3:4]),
        (lambda t, r, i: t.ap([[30, 4], [1, 2]], 0, scalar_offset=r, indirect_dim=1), "15:17"),
    ],
)
def test_a_register_or_a_tile_selects_rows(make, expected):
    if isinstance(expected, str):
        expected = VALUES.reshape(4, 30)[:, 15:17]
    assert np.array_equal(read_row(make), expected)


@for_all(
    ("make", "expected"),
    [
        (lambda t, r, i: t[r], VALUES[3]),
        (lambda t, r, i: t[i, 1], VALUES[3, 1]),
        (lambda t, r, i: t.select(0, i), VALUES[3]),
        (lambda t, r, i: t.ap([[5, 2], [1, 5]], 0, scalar_offset=i), VALUES[3, :2]),
        (lambda t, r, i: t[r].ap([[5, 2], [1, 5]]), VALUES[3, :2]),
        (lambda t, r, i: t[nl.ds(r, 1), 1].ap([[10, 2], [1, 4]]), VALUES[3, 1:4:2, :4]),
    ],
)
def test_hbm_rows_may_be_selected_at_run_time(make, expected):
    assert np.array_equal(read_row(make, "hbm"), expected)


def test_a_pattern_of_wider_elements_keeps_an_offset_of_whole_elements():
    device = Device()
    bytes_of = {4: device.zeros((8, 4), "uint8", "hbm"), 6: device.zeros((8, 6), "uint8", "hbm")}
    row = {width: tensor[device.call(nisa.register_alloc, 2)] for width, tensor in bytes_of.items()}
    assert row[4].ap([[1, 1]], dtype="int32").dynamic[0].step == 1
    with pytest.raises(ViewError, match="multiples of 6 bytes"):
        row[6].ap([[1, 1]], dtype="int32")


def test_a_register_is_read_when_the_instruction_runs():
    device = Device()
    tensor, dst = device.tile(VALUES), device.empty((4, 5))
    register = device.call(nisa.register_alloc, 0)
    view = tensor[:, register]
    for row in (1, 5, 2):
        device.issue("register_move", register, row)
        device.issue("tensor_copy", dst, view)
        assert np.array_equal(dst.numpy(), VALUES[:, row])


@pytest.mark.parametrize("row", [6, -1, 1 << 20])
def test_a_run_time_index_past_the_end_stops_and_writes_nothing(row):
    device = Device()
    tensor, dst = device.tile(VALUES), device.tile(np.zeros((4, 5), np.float32))
    register = device.call(nisa.register_alloc, row)
    message = device.refuses(OutOfBoundsError, "tensor_copy", dst, tensor[:, register])
    assert message.expected == "use an index from 0 to 5"


def test_each_partition_may_have_its_own_row():
    device = Device()
    rows = np.array([[3], [0], [3]], np.int32)
    gathered = device.tile(VALUES, buffer="hbm").vector_select(0, device.tile(rows))
    assert gathered.shape == (3, 6, 5) and gathered.is_indirect()
    with pytest.raises(ViewError, match="or an index, so ap can't change its pattern"):
        gathered.ap([[30, 3], [1, 5]])
    dst = device.empty((3, 6, 5))
    device.issue("dma_copy", dst, gathered)
    assert np.array_equal(dst.numpy(), VALUES[rows[:, 0]])


@for_all(
    ("make", "kind", "says"),
    [
        (lambda t, r, i: t[r], DynamicControlError, "partition"),
        (lambda t, r, i: t[nl.ds(r, 2)], DynamicControlError, "partition"),
        (lambda t, r, i: t.select(0, i), DynamicControlError, "partition"),
        (lambda t, r, i: t[:, r:4], DynamicControlError, "nl.ds(register, size)"),
        (lambda t, r, i: t[:, 0:r], DynamicControlError, "nl.ds(register, size)"),
        (lambda t, r, i: t[:, nl.ds(r, 7)], OutOfBoundsError, "a range of 7 elements"),
        (lambda t, r, i: t[:, i][:, i], ViewError, "one run-time offset"),
        (
            lambda t, r, i: t.ap([[30, 4], [1, 2]], scalar_offset=r, vector_offset=i),
            SignatureError,
            "but not both",
        ),
        (lambda t, r, i: t.ap([[30, 4], [1, 2]], vector_offset=i), ViewError, "hbm"),
        (lambda t, r, i: t[:, r].ap([[30, 4], [1, 2]], 0), ViewError, "can't add another"),
        (
            lambda t, r, i: t[:, r].ap([[30, 4], [1, 2]], scalar_offset=i, indirect_dim=1),
            ViewError,
            "can't add another",
        ),
        (lambda t, r, i: t[:, i[:, nl.ds(r, 1)]], ViewError, "not a run-time offset"),
        (
            lambda t, r, i: (
                t[:, :, 0:1].broadcast(2, 3).ap([[30, 4], [1, 2]], scalar_offset=r, indirect_dim=2)
            ),
            ViewError,
            "moves nothing",
        ),
    ],
)
def test_run_time_indices_that_are_refused(make, kind, says):
    device = Device()
    tensor, index = device.tile(VALUES), device.tile(np.array([[3]], np.int32))
    register = device.call(nisa.register_alloc, 3)
    with pytest.raises(kind) as refused:
        device.call(make, tensor, register, index)
    assert says in str(refused.value)


@for_all(
    "make",
    [
        lambda t: t[0],
        lambda t: t.select(0, 0),
        lambda t: t[1:],
        lambda t: t.permute((1, 0, 2)),
        lambda t: t.expand_dim(0),
        lambda t: t.flatten_dims(0, 1),
        lambda t: t.reshape((1, 3, 30)),
        lambda t: t.vector_select(0, t),
    ],
)
def test_the_gathered_axis_is_kept(make):
    device = Device()
    rows = device.tile(np.array([[3], [0], [3]], np.int32))
    gathered = device.tile(VALUES, buffer="hbm").vector_select(0, rows)
    with pytest.raises(ViewError):
        make(gathered)
    assert gathered[:, 1:3, 0].shape == (3, 2)


# --- limits of instructions -----------------------------------------------------------------------


def test_an_access_has_four_free_axes():
    device = Device()
    values = np.arange(2 * 3**5, dtype=np.float32).reshape(2, 3, 3, 3, 3, 3)
    tile = device.tile(values)
    four = (slice(None), *[slice(0, 2)] * 3, slice(None))
    dst = device.empty((2, 2, 2, 2, 3, 3))
    device.issue("tensor_copy", dst, tile[four])
    assert np.array_equal(dst.numpy(), values[four])
    five = (slice(None), *[slice(0, 2)] * 5)
    dst = device.empty((2, 2, 2, 2, 2, 2))
    device.refuses(ShapeError, "tensor_copy", dst, tile[five], words=["src", "5 free axes", "4"])


def test_contiguous_axes_count_as_one():
    device = Device()
    values = np.arange(2 * 2**6, dtype=np.float32).reshape(2, *[2] * 6)
    dst = device.empty((2, 64))
    device.issue("tensor_copy", dst, device.tile(values))
    assert np.array_equal(dst.numpy(), values.reshape(2, 64))


def test_engines_need_consecutive_partitions():
    device = Device()
    values = np.arange(8 * 3, dtype=np.float32).reshape(8, 3)
    tile, dst = device.tile(values), device.tile(np.zeros((4, 3), np.float32))
    device.refuses(StartPartitionError, "tensor_copy", dst, tile[::2], words=["src", "partitions"])
    device.refuses(StartPartitionError, "memset", tile[1::7], 0.0)
    device.issue("dma_copy", dst, tile[::2])
    assert np.array_equal(dst.numpy(), values[::2])
    device.issue("tensor_copy", dst[0:1], tile[0:1:2])
