"""dma_copy with addresses that are known only while the kernel runs."""

from itertools import product

import numpy as np
import pytest
from device import Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import dge_mode, oob_mode, register_alloc

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    DynamicControlError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    ViewError,
)

SKIP = {"oob_mode": oob_mode.skip}
TABLE = np.arange(60, dtype=np.float32).reshape(10, 6)


def index(device, rows, dtype="int32", buffer="sbuf"):
    return device.tile(np.asarray(rows).reshape(-1, 1), dtype, buffer)


def chosen(device, tensor, rows, dtype="int32"):
    """Return rows of a tensor in HBM, by number."""
    return tensor.vector_select(0, index(device, rows, dtype))


def number(device, value, kind):
    """Return a run-time number: in a register, or in a [1, 1] tile."""
    if kind == "register":
        return device.call(register_alloc, value)
    return index(device, [value])


# --- one offset for all ---------------------------------------------------------------------------

KINDS = ["register", "tile"]


@for_all("kind, start", product(KINDS, [0, 3, 7]))
def test_a_scalar_offset_moves_the_source(kind, start):
    device = Device()
    table, dst = device.tile(TABLE, buffer="hbm"), device.empty((3, 4))
    moved = table.ap([[6, 3], [1, 4]], 1, scalar_offset=number(device, start, kind), indirect_dim=0)
    device.issue("dma_copy", dst, moved)
    assert np.array_equal(dst.numpy(), TABLE[start : start + 3, 1:5])


@for_all("kind, buffer", product(KINDS, ["sbuf", "hbm"]))
def test_a_scalar_offset_moves_the_destination(kind, buffer):
    device = Device()
    table = device.tile(TABLE, buffer=buffer)
    moved = table.ap([[6, 10], [1, 2]], scalar_offset=number(device, 4, kind), indirect_dim=1)
    device.issue("dma_copy", moved, device.tile(-1 - TABLE[:, :2], buffer="hbm"))
    assert np.array_equal(table.numpy(), np.hstack([TABLE[:, :4], -1 - TABLE[:, :2]]))


@for_all("axis", [0, 1, 2])
def test_select_reads_one_element_of_an_axis(axis):
    device, numbers = Device(), TABLE.reshape(3, 4, 5)
    src = device.tile(numbers, buffer="hbm").select(axis, number(device, 2, "tile"))
    dst = device.empty(src.shape)
    device.issue("dma_copy", dst, src)
    assert np.array_equal(dst.numpy(), np.take(numbers, 2, axis))


def test_both_sides_may_have_an_offset():
    device = Device()
    table, out = device.tile(TABLE, buffer="hbm"), device.tile(TABLE * 0, buffer="hbm")
    here, there = (number(device, row, "register") for row in (8, 2))
    device.issue("dma_copy", out[there], table[here])
    device.issue("dma_copy", chosen(device, table, [3, 0, 1, 2]), table[:4])
    device.agrees()


@for_all("kind", KINDS)
@pytest.mark.parametrize("name", ["dst", "src"])
@for_all("start", [-1, 8, 2**31 - 1])
def test_an_offset_out_of_bounds_stops_the_device(kind, name, start):
    device = Device()
    table, tile = device.tile(TABLE, buffer="hbm"), device.tile(np.ones((3, 6), np.float32))
    moved = table.ap([[6, 3], [1, 6]], scalar_offset=number(device, start, kind))
    tiles = {"dst": tile, "src": tile, name: moved}
    device.refuses(OutOfBoundsError, "dma_copy", words=[name, str(start), "0 to 7"], **tiles)


@pytest.mark.parametrize("name", ["dst", "src"])
def test_an_offset_out_of_bounds_can_be_skipped(name):
    device = Device()
    table, tile = device.tile(TABLE, buffer="hbm"), device.tile(np.ones((3, 6), np.float32))
    moved = table.ap([[6, 3], [1, 6]], scalar_offset=number(device, 8, "register"))
    device.issue("dma_copy", **{"dst": tile, "src": tile, name: moved}, **SKIP)
    assert np.array_equal(table.numpy(), TABLE)
    assert (tile.numpy() == 1).all()


@for_all("kind", KINDS)
def test_the_last_row_that_exists_is_not_skipped(kind):
    device = Device()
    table, dst = device.tile(TABLE, buffer="hbm"), device.zeros((3, 4))
    last = number(device, 7, kind)
    moved = table.ap([[6, 3], [1, 4]], 1, scalar_offset=last, indirect_dim=0)
    device.issue("dma_copy", dst, moved, **SKIP)
    assert np.array_equal(dst.numpy(), TABLE[7:, 1:5])


@pytest.mark.parametrize(("start", "legal"), [(12, True), (13, False)])
def test_on_the_chip_an_offset_ends_with_its_partition(start, legal):
    """The next element in memory is in the next partition, which the engine cannot reach."""
    device = Device()
    table = device.tile(np.arange(128, dtype=np.float32).reshape(8, 16))
    moved = table.ap(
        [[16, 4], [1, 4]], scalar_offset=number(device, start, "register"), indirect_dim=1
    )
    dst = device.tile(np.zeros((4, 4), np.float32))
    if legal:
        device.issue("dma_copy", dst, moved)
        assert np.array_equal(dst.numpy(), table.numpy()[:4, 12:])
    else:
        device.refuses(OutOfBoundsError, "dma_copy", dst, moved, words=["src", "13", "0 to 12"])


def test_the_partition_is_fixed():
    device = Device()
    table, row = device.tile(TABLE), number(device, 1, "register")
    for make in (
        lambda: table.ap([[6, 3], [1, 6]], scalar_offset=row),
        lambda: table.select(0, row),
        lambda: table[row],
    ):
        with pytest.raises(DynamicControlError, match="partition"):
            make()


# --- an offset for each partition -----------------------------------------------------------------


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_gather_and_scatter(rows):
    device = Device()
    table, dst = device.tile(TABLE, buffer="hbm"), device.empty((len(rows), 6))
    device.issue("dma_copy", dst, chosen(device, table, rows))
    new = device.tile(-1 - np.arange(len(rows) * 6, dtype=np.float32).reshape(-1, 6))
    device.issue("dma_copy", chosen(device, table, rows), new)  # the later partition's stays
    device.agrees()


def test_indices_of_every_integer_format():
    device = Device()
    table = device.tile(TABLE, buffer="hbm")
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        device.issue("dma_copy", device.empty((3, 6)), chosen(device, table, [9, 0, 4], dtype))
    reshaped = device.empty((3, 2, 3), "bfloat16")
    device.issue("dma_copy", reshaped, chosen(device, table, [1, 1, 8]))
    device.agrees()


def test_a_pattern_selects_pieces_of_rows():
    """The step of the pattern's first axis has no effect: the step of the tensor is used."""
    device = Device()
    table, rows = device.tile(TABLE, buffer="hbm"), index(device, [7, 2, 7])
    for first in (6, 1, 999):
        dst = device.empty((3, 2, 2))
        src = table.ap([[first, 3], [3, 2], [-1, 2]], 1, vector_offset=rows)
        device.issue("dma_copy", dst, src)
        assert np.array_equal(dst.numpy(), TABLE[[7, 2, 7]][:, [[1, 0], [4, 3]]])


@pytest.mark.parametrize("rows", [[0, 10, 1], [0, -1, 1], [3, 2, 2**31 - 1]])
def test_a_row_that_does_not_exist_stops_the_device(rows):
    device = Device()
    table, tile = device.tile(TABLE, buffer="hbm"), device.tile(np.ones((3, 6), np.float32))
    bad = next(p for p, row in enumerate(rows) if not 0 <= row < 10)
    words = [f"partition {bad}", f"row {rows[bad]}", "0 to 9"]
    picked = chosen(device, table, rows)
    device.refuses(OutOfBoundsError, "dma_copy", tile, picked, words=["src", *words])
    device.refuses(OutOfBoundsError, "dma_copy", picked, tile, words=["dst", *words])


def test_a_skipped_row_keeps_its_contents():
    device = Device()
    table, rows = device.tile(TABLE, buffer="hbm"), [4, 10, -1, 9]
    dst = device.tile(np.full((4, 6), -5, np.float32))
    device.issue("dma_copy", dst, chosen(device, table, rows), **SKIP)
    assert np.array_equal(dst.numpy()[[0, 3]], TABLE[[4, 9]])
    assert (dst.numpy()[1:3] == -5).all()
    device.issue("dma_copy", chosen(device, table, rows), dst, **SKIP)
    assert np.array_equal(table.numpy(), TABLE)


def test_gather_and_scatter_at_once():
    device = Device()
    table, out = device.tile(TABLE, buffer="hbm"), device.tile(TABLE * 0, buffer="hbm")
    pair = [chosen(device, out, [1, 2, 10, 1]), chosen(device, table, [9, 10, 8, 7])]
    device.refuses(OutOfBoundsError, "dma_copy", *pair, words=["row 10"])
    device.issue("dma_copy", *pair, **SKIP)
    device.agrees()


@for_all("mode", list(dge_mode))
def test_a_scalar_offset_works_with_any_descriptors(mode):
    device = Device()
    table, dst = device.tile(TABLE, buffer="hbm"), device.empty((1, 6))
    device.issue("dma_copy", dst, table[number(device, 3, "register")], dge_mode=mode)
    assert np.array_equal(dst.numpy(), TABLE[3:4])


# --- legal indices --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_indices_are_integers(dtype):
    device = Device()
    table, wrong = device.tile(TABLE, buffer="hbm"), index(device, [1, 2], dtype)
    for make in (
        lambda: table.vector_select(0, wrong),
        lambda: table.ap([[6, 2], [1, 6]], vector_offset=wrong),
        lambda: table.ap([[6, 2], [1, 6]], scalar_offset=wrong[:1]),
        lambda: table.select(0, wrong[:1]),
    ):
        with pytest.raises(DtypeError, match=dtype):
            make()


@pytest.mark.parametrize("buffer", ["psum", "hbm"])
def test_indices_are_in_sbuf(buffer):
    device = Device()
    table, wrong = device.tile(TABLE, buffer="hbm"), index(device, [1, 2], buffer=buffer)
    with pytest.raises(BufferKindError, match="sbuf"):
        table.vector_select(0, wrong)
    with pytest.raises(BufferKindError, match="sbuf"):
        table.ap([[6, 2], [1, 6]], scalar_offset=wrong[:1])


def test_a_scalar_offset_is_one_number():
    device = Device()
    table = device.tile(TABLE, buffer="hbm")
    with pytest.raises(ShapeError, match=r"\(1, 1\)"):
        table.ap([[6, 2], [1, 6]], scalar_offset=index(device, [1, 2]))
    with pytest.raises(SignatureError, match="register or a tile"):
        table.ap([[6, 2], [1, 6]], scalar_offset=1)
    with pytest.raises(SignatureError, match="but not both"):
        one = index(device, [1])
        table.ap([[6, 1], [1, 6]], scalar_offset=one, vector_offset=one)


def test_a_register_is_refused_as_a_vector_offset():
    device = Device()
    table = device.tile(TABLE, buffer="hbm")
    register = device.call(register_alloc, 1)
    for make in (
        lambda: table.ap([[6, 2], [1, 6]], vector_offset=register),
        lambda: table.vector_select(0, register),
    ):
        with pytest.raises(SignatureError, match="a tile of integers"):
            make()
    dst = device.empty((2, 6))
    device.issue("dma_copy", dst, table.ap([[6, 2], [1, 6]], scalar_offset=register))
    assert np.array_equal(dst.numpy(), TABLE[1:3])


@pytest.mark.parametrize("shape", [(2, 1), (3, 2), (1, 3)])
def test_a_vector_offset_has_one_number_per_partition(shape):
    device = Device()
    table, dst = device.tile(TABLE, buffer="hbm"), device.tile(np.zeros((3, 6), np.float32))
    wrong = device.tile(np.zeros(shape, np.int32))
    picked = table.ap([[6, 3], [1, 6]], vector_offset=wrong)
    device.refuses(ShapeError, "dma_copy", dst, picked, words=["index of src", "(3, 1)"])


def test_rows_are_selected_along_axis_0_of_hbm():
    device = Device()
    rows = index(device, [1, 2])
    for make in (
        lambda: device.tile(TABLE).vector_select(0, rows),
        lambda: device.tile(TABLE, buffer="hbm").vector_select(1, rows),
        lambda: device.tile(TABLE).ap([[6, 2], [1, 6]], vector_offset=rows),
        lambda: device.tile(TABLE, buffer="hbm").ap(
            [[6, 2], [1, 6]], vector_offset=rows, indirect_dim=1
        ),
        lambda: chosen(device, device.tile(TABLE, buffer="hbm"), [1, 2])[0:1],
    ):
        with pytest.raises(ViewError):
            make()


# --- what was never written -----------------------------------------------------------------------


def test_a_gather_reports_only_uninitialized_rows_that_it_reads():
    device = Device()
    table = device.empty((10, 6), buffer="hbm")
    device.issue("dma_copy", table[2:5], device.tile(TABLE[2:5]))
    dst = device.empty((3, 6))
    device.issue("dma_copy", dst, chosen(device, table, [4, 2, 4]))
    assert device.findings == []
    device.issue("dma_copy", dst, chosen(device, table, [4, 7, 2]))
    assert device.findings == ["UNINIT_READ"]
    assert np.isnan(dst.numpy()[1]).all()
    assert np.array_equal(dst.numpy()[[0, 2]], TABLE[[4, 2]])


def test_a_scatter_marks_its_rows_as_written():
    device = Device()
    table = device.empty((10, 6), buffer="hbm")
    device.issue("dma_copy", chosen(device, table, [4, 12, 2]), device.tile(TABLE[:3]), **SKIP)
    device.issue("dma_copy", device.empty((1, 6)), table[4:5])
    device.issue("dma_copy", device.empty((1, 6)), table[2:3])
    assert device.findings == []
    device.issue("dma_copy", device.empty((1, 6)), table[3:4])
    assert device.findings == ["UNINIT_READ"]


def test_a_skipped_row_stays_uninitialized():
    device = Device()
    dst = device.empty((3, 6))
    device.issue(
        "dma_copy", dst, chosen(device, device.tile(TABLE, buffer="hbm"), [4, 12, 2]), **SKIP
    )
    device.issue("dma_copy", device.empty((1, 6)), dst[0:1])
    device.issue("dma_copy", device.empty((1, 6)), dst[2:3])
    assert device.findings == []
    device.issue("dma_copy", device.empty((1, 6)), dst[1:2])
    assert device.findings == ["UNINIT_READ"]


@pytest.mark.parametrize("how", ["gather", "scalar"])
def test_an_uninitialized_index_of_a_transfer_is_reported(how):
    device = Device()
    table, rows = device.tile(TABLE, buffer="hbm"), device.empty((1, 1), "int32")
    dst = device.empty((1, 6))
    src = (
        table.vector_select(0, rows) if how == "gather" else table.ap([[6, 1], [1, 6]], None, rows)
    )
    device.issue("dma_copy", dst, src)
    assert device.findings == ["UNINIT_READ"]
    assert np.array_equal(dst.numpy(), TABLE[4:5])  # 4 is the poison of integers


def test_a_gather_waits_for_its_index():
    device = Device()
    index, rows = device.empty((4, 1), "int32"), device.zeros((9, 5), buffer="hbm")
    device.issue("memset", index, 0)
    device.issue("dma_copy", device.empty((4, 5)), rows.vector_select(0, index))
    timeline = device.timeline()
    assert timeline.begin[1] >= timeline.end[0] and timeline.cause[1] == 0
