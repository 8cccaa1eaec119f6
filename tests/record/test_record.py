"""The record of a run: the instructions, their bytes, and their lines."""

import sys

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.record import loops
from neuroncore.record.boxes import Box
from neuroncore.record.columns import Columns
from neuroncore.record.program import Program


def here():
    return sys._getframe(1).f_lineno


def boxes_in(program):
    return [Box(*row, dense > 0) for *row, dense in program.box_table().tolist()]


def box_of(device, tile):
    (index,) = device.boxes_of([tile])
    return boxes_in(device.core.program)[index]


def boxes_of(device, row=-1):
    """The boxes of one instruction's operands, reads first."""
    columns = device.core.program.columns()
    start = columns.start[: len(columns.call) + 1]
    row %= len(columns.call)
    boxes = boxes_in(device.core.program)
    return [boxes[i] for i in columns.operands[start[row] : start[row + 1]]]


def rows_of(device):
    """(opcode, line) of every instruction."""
    program = device.core.program
    columns = program.columns()
    return [
        (program.calls[call].instruction.opcode, program.place(line).line)
        for call, line in zip(columns.call, columns.line)
    ]


# --- rows -----------------------------------------------------------------------------------------


def test_a_row_has_its_call_its_line_and_a_box_per_tile():
    device = Device()
    a, b = (device.tile(np.ones((4, 6), np.float32)) for _ in range(2))
    out = device.empty((4, 6))
    device.issue("tensor_tensor", out, a, b, op=nl.add)
    device.issue("memset", a, 0.0)
    device.issue("tensor_scalar", out, a, nl.add, 1.0)
    columns = device.core.program.columns()
    assert columns.start.tolist() == [0, 3, 4, 6]
    areas = [boxes_in(device.core.program)[i].area for i in columns.operands]
    ids = {name: tile.storage.id for name, tile in (("a", a), ("b", b), ("out", out))}
    assert areas == [ids[n] for n in ("a", "b", "out", "a", "a", "out")]
    assert device.opcodes == ["TENSOR_TENSOR", "MEMSET", "TENSOR_SCALAR"]
    call = device.core.program.calls[columns.call[0]]
    assert (call.reads, call.writes) == (("data1", "data2"), ("dst",))


def test_calls_that_differ_only_in_data_are_one_call():
    device = Device()
    tile, other = device.empty((4, 6)), device.empty((4, 6))
    for value in range(5):
        device.issue("memset", tile if value % 2 else other, float(value))
    device.issue("memset", device.empty((4, 7)), 0.0)
    program = device.core.program
    assert program.columns().call.tolist() == [0] * 5 + [1]
    assert len(program.calls) == 2 and len(program) == 6


def test_lines_are_those_of_the_user():
    device = Device()
    first = here() + 3

    def kernel(x):
        tile = nl.load(x)
        for _ in range(2):
            nisa.memset(tile, 0.0)
            (nisa.memset(tile, 0.0), nisa.memset(tile, 1.0))
        helper(tile)

    def helper(tile):
        nl.add(tile, tile)

    device.call(kernel, device.tile(np.ones((4, 6), np.float32), buffer="hbm"))
    twice = [("MEMSET", first + 2), ("MEMSET", first + 3), ("MEMSET", first + 3)]
    expected = [("DMA_DIRECT2D", first), *twice, *twice, ("TENSOR_TENSOR", first + 7)]
    assert rows_of(device) == expected
    columns = device.core.program.columns()
    assert len(set(columns.line.tolist())) == 5  # two calls on one line are two places
    assert columns.line[1:4].tolist() == columns.line[4:7].tolist()
    assert {device.core.program.place(line).file for line in columns.line} == {__file__}


def test_equal_parts_of_a_record_are_shared():
    device = Device()
    tile = device.empty((4, 6))
    for _ in range(3):
        device.issue("memset", tile[:, 1:3], 0.0)
        device.issue("memset", tile, 0.0)
    assert len(boxes_in(device.core.program)) == 2


# --- boxes ----------------------------------------------------------------------------------------


def test_boxes_of_simple_windows():
    device = Device()
    tile = device.empty((96, 5, 3))
    for key, box in [
        (..., (0, 96, 0, 60, True)),
        ((slice(32, 64), 1), (32, 64, 12, 24, True)),
        ((slice(None), slice(1, 4)), (0, 96, 12, 48, True)),
        ((slice(None), slice(None), 1), (0, 96, 4, 56, False)),
    ]:
        device.issue("memset", tile[key], 0.0)
        (found,) = boxes_of(device)
        assert found[1:] == box


@pytest.mark.parametrize(
    ("key", "box"),
    [
        (..., (0, 24, 0, 20, True)),
        (1, (6, 12, 0, 20, True)),
        ((slice(None), 2, slice(1, 3)), (2, 21, 4, 12, False)),
        ((3, slice(2, 4), slice(3, 5)), (20, 22, 12, 20, True)),
        ((0, 0, 0), (0, 1, 0, 4, True)),
    ],
)
def test_hbm_is_cut_into_rows_of_the_last_axis(key, box):
    device = Device()
    assert box_of(device, device.empty((4, 6, 5), buffer="hbm")[key])[1:] == box


def random_view(data, tile, offsets):
    """A view by slices, then a permutation, and the byte offsets of its elements."""
    keys = []
    for size in offsets.shape:
        start = data.draw(st.integers(0, size - 1))
        stop = data.draw(st.integers(start + 1, size))
        keys.append(slice(start, stop, data.draw(st.integers(1, 3))))
    if tile.storage.on_chip:
        keys[0] = slice(keys[0].start, keys[0].stop)
    tile, offsets = tile[tuple(keys)], offsets[tuple(keys)]
    first = int(tile.storage.on_chip)
    order = (*range(first), *data.draw(st.permutations(range(first, tile.ndim))))
    return tile.permute(order), offsets.transpose(order)


def touched(program, index, pitch):
    """The (row, byte) pairs of an access in the record: its box, or its exact pattern."""
    box = boxes_in(program)[index]
    if box.dense:
        rows, columns = np.mgrid[box.row : box.row_end, box.byte : box.byte_end]
        return set(zip(rows.ravel().tolist(), columns.ravel().tolist()))
    found = program.boxes()
    start, shape, steps, item = found.patterns.each()[found.pattern[index]]
    reach = np.full(shape, start)
    for axis, step in enumerate(steps):
        index_along = np.arange(shape[axis]).reshape([-1] + [1] * (len(shape) - axis - 1))
        reach = reach + index_along * step
    every = (reach[..., None] + np.arange(item)).ravel().tolist()
    return {divmod(byte, pitch) for byte in every}


@pytest.mark.parametrize("buffer", ["hbm", "sbuf"])
@given(data=st.data())
def test_the_record_has_every_byte_of_an_access(buffer, data):
    device = Device()
    shape = data.draw(st.sampled_from([(3, 7), (4, 6, 5), (2, 3, 4, 2), (1, 1), (33, 2)]))
    dtype, item = data.draw(st.sampled_from([("float32", 4), ("bfloat16", 2), ("int8", 1)]))
    tile = device.empty(shape, dtype, buffer)
    offsets = np.arange(tile.size).reshape(shape) * item
    if data.draw(st.booleans()):
        other = (shape[0], int(np.prod(shape[1:])))
        tile, offsets = tile.reshape(other), offsets.reshape(other)
    tile, offsets = random_view(data, tile, offsets)
    pitch = (shape[-1] if buffer == "hbm" else int(np.prod(shape[1:]))) * item
    expected = {
        divmod(byte, pitch)
        for offset in offsets.ravel().tolist()
        for byte in range(offset, offset + item)
    }
    program = device.core.program
    index, again = device.boxes_of([tile, tile])
    assert again == index
    assert touched(program, index, pitch) == expected
    box = boxes_in(program)[index]
    rows, columns = zip(*expected)
    assert box.row == min(rows) and box.row_end == max(rows) + 1
    assert box.byte <= min(columns) and box.byte_end >= max(columns) + 1
    if buffer == "sbuf":
        assert (box.byte, box.byte_end) == (min(columns), max(columns) + 1)


def test_tensors_of_one_geometry_and_different_rows_don_t_mix():
    device = Device()
    wide = device.empty((2, 4), "float32", "hbm").view("bfloat16")
    narrow = device.empty((4, 4), "bfloat16", "hbm").reshape((2, 8))
    assert box_of(device, wide)[1:] == (0, 2, 0, 16, True)
    assert box_of(device, narrow)[1:] == (0, 4, 0, 8, False)


def test_a_run_time_index_may_access_the_whole_tensor():
    device = Device()
    register = device.call(nisa.register_alloc, 1)
    for rows in (4, 8):
        tile = device.tile(np.ones((rows, 6, 5), np.float32))
        device.issue("tensor_copy", device.empty((4, 5)), tile[:4, register])
        assert boxes_of(device)[0][1:] == (0, rows, 0, 120, True)


# --- areas ----------------------------------------------------------------------------------------


def test_an_area_has_its_tensor_and_the_line_of_its_allocation():
    device = Device()

    def kernel():
        tile = nl.ndarray((4, 6), nl.float32, buffer=nl.psum, name="acc")
        nisa.memset(tile, 0.0)
        return here() - 2

    line = device.call(kernel)
    program = device.core.program
    area = program.area(boxes_of(device)[0].area)
    assert (area.region, area.name, area.partitions, area.row_bytes) == (nl.psum, "acc", 4, 24)
    assert not area.placed and program.place(area.line).line == line


def test_areas_do_not_depend_on_the_number_of_storages(monkeypatch):
    """Some storages have a name, others have none, and the record has no allocation of one."""
    device = Device()

    def kernel():
        for n in (1, 2, 2):
            nisa.memset(nl.ndarray((4, n), nl.float32), 0.0)
        nisa.memset(nl.ndarray((4, 6), nl.float32, buffer=nl.psum, name="acc"), 0.0)

    device.call(kernel)
    program = device.core.program
    del program.births[:16]
    few = program.storages()
    monkeypatch.setattr(loops, "FEW", 0)
    program._read = None
    many = program.storages()
    assert few.kinds == many.kinds and {kind.line for kind in few.kinds} > {-1}
    for old, new in zip(few[:3], many[:3]):
        np.testing.assert_array_equal(old, new)


def test_placed_tensors_are_windows_on_one_area():
    device = Device()
    for address, box in [
        ((0, 0), (0, 4, 0, 24)),
        ((32, 0), (32, 36, 0, 24)),
        ((0, 8), (0, 4, 8, 32)),
    ]:
        device.issue("memset", device.empty((4, 6), address=address), 0.0)
        assert boxes_of(device)[0][1:5] == box
    program = device.core.program
    (area,) = program.kinds
    assert area.placed and (area.name, area.partitions) == ("sbuf", 128)
    device.issue("memset", device.empty((4, 6), buffer="psum", address=(0, 0)), 0.0)
    assert [kind.name for kind in program.kinds] == ["sbuf", "psum"]


# --- large programs -------------------------------------------------------------------------------


def test_a_continued_record_is_read_again():
    device = Device()
    tiles = [device.empty((4, 6 + n)) for n in range(4)]
    for count, tile in enumerate(tiles, 1):
        device.issue("memset", tile[:, n:5] if (n := count - 1) else tile, 0.0)
        columns = device.core.program.columns()
        assert columns.start.tolist() == list(range(count + 1)) and len(columns.call) == count
        assert boxes_of(device)[0].area == tile.storage.id
    again = device.core.program.columns()
    for one, other in zip(vars(columns).values(), vars(again).values()):
        assert np.array_equal(one, other)


def test_an_empty_record_has_empty_columns():
    columns = Program().columns()
    assert len(columns.call) == len(columns.line) == len(columns.operands) == 0
    assert columns.start.tolist() == [0]


def test_a_hundred_thousand_instructions():
    device = Device()
    count = 100_000

    def kernel():
        tile, other = nl.zeros((2, 4), nl.float32), nl.ndarray((2, 4), nl.float32)
        for _ in range(count // 2):
            nisa.memset(tile, 0.0)
            nisa.tensor_copy(other, tile)

    device.call(kernel)
    columns = device.core.program.columns()
    assert len(device.core.program) == len(columns.call) == count + 1
    assert len(columns.operands) == columns.start[-1] == 1 + count // 2 * 3
    assert len(boxes_in(device.core.program)) == 2
    assert (columns.call[1::2] == columns.call[1]).all()
    assert (columns.line[2::2] == columns.line[2]).all()


# --- no record ------------------------------------------------------------------------------------


def test_without_a_record_everything_else_is_the_same():
    def kernel(x):
        tile = nl.ndarray((4, 6), nl.float32)
        out = nl.ndarray((4, 6), nl.float32)
        nisa.memset(tile[:2], 2.0)
        nisa.dma_copy(out, x)
        nisa.tensor_tensor(out, out, tile, op=nl.multiply)
        return out.numpy()

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    results = []
    for record in (True, False):
        device = Device(record=record)
        results.append(device.call(kernel, device.tile(x, buffer="hbm")))
        assert (device.core.program is None) is not record
        assert device.findings == ["UNINIT_READ"]
        assert ("allocated at" in device.core.findings[0].message) is record
    assert np.array_equal(*results, equal_nan=True)
    assert np.array_equal(results[1][:2], 2 * x[:2]) and np.isnan(results[1][2:]).all()


def added(times):
    device = Device()
    a, b = device.zeros((8, 4)), device.zeros((8, 4))
    for _ in range(times):
        device.issue("tensor_tensor", b, a, a, nl.add)
    return device.core.program


def restored(program, kept):
    again, storages = Program(), program.storages()
    again.calls, again.geometries = program.calls, program.geometries
    again.restore(kept, storages.number, storages.kind, storages.kinds)
    return again


def test_rows_that_were_kept_are_restored():
    program = added(3)
    rows, begins = program.raw()
    again = restored(program, program.kept())
    assert len(again) == len(program) == 3 and not again.make_room()
    for kept, read in zip((rows, begins), again.raw(), strict=True):
        assert np.array_equal(kept, read)
    assert rows[begins[:-1]].tolist() == [program.calls[-1].index] * 3


@pytest.mark.parametrize(
    ("column", "change"),
    [("rows", [0, -1, 0, 0, 0]), ("widths", [1]), ("widths", [6]), ("widths", [4]), ("widths", [])],
)
def test_rows_of_other_lengths_than_their_widths_are_refused(column, change):
    program = added(1)
    assert program.raw()[1].tolist() == [0, 5]
    kept = program.kept() | {column: np.array(change, np.int64)}
    with pytest.raises(ValueError, match=r"widths|numbers for its instruction"):
        restored(program, kept)


def test_columns_refuse_numbers_of_more_than_32_bits():
    none = np.zeros(1, np.int64)
    with pytest.raises(OverflowError, match="operands"):
        Columns(none, none, np.array([0, 1]), np.array([1 << 32]), none)
