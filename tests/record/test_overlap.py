"""Overlaps of accesses: no overlap is missed, and if steps are equal, the result is exact."""

import numpy as np
from device import Device
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.numerics.formats import lookup

SHAPE = (6, 5, 8)


def offsets(tile):
    """The numbers within its tensor of the elements that a tile shows."""
    numbers = np.full(tile.shape, tile.offset)
    for axis, stride in enumerate(tile.strides):
        steps = np.arange(tile.shape[axis]) * stride
        numbers = numbers + steps.reshape([-1] + [1] * (tile.ndim - axis - 1))
    return set(numbers.ravel().tolist())


def near(device, tiles):
    """For each tile, the tiles that are reported to share bytes with it."""
    boxes = np.array(device.boxes_of(tiles))
    found, start = device.core.program.boxes().near
    said = [set(found[start[box] : start[box + 1]].tolist()) for box in boxes]
    return [{other for other, box in enumerate(boxes) if box in own} for own in said]


def sharing(tiles):
    places = [offsets(tile) for tile in tiles]
    return [{k for k, other in enumerate(places) if own & other} for own in places]


def test_many_lines_of_planes_are_distinguished():
    """300 of them make 44,850 pairs whose rows interleave."""
    device = Device()
    planes = device.zeros((128, 300, 4), buffer="hbm")
    lines = [planes[:, k, :] for k in range(300)]
    some = [planes[0:64, 10:12, :], planes[64:128, 11, 1:3], planes[3:5, 11, 0:2]]
    assert near(device, lines + some) == sharing(lines + some)


def test_an_access_across_rows_includes_all_bytes_of_its_last_element():
    """Two float32 are the bytes of rows 0 to 3."""
    device = Device()
    rows = device.zeros((16, 2), "uint8", buffer="hbm")
    words = rows.reshape((32,)).view(lookup("float32"))[0:2]
    tiles = [words.reshape((1, 2)), *(rows[k : k + 1, :] for k in range(5))]
    assert near(device, tiles)[0] == {0, 1, 2, 3, 4}


def test_steps_across_rows_overlap_accesses_of_the_next_row():
    """Columns 5, 7 and 9 of rows of 8 are columns 5 and 7, and column 1 of the next row."""
    device = Device()
    table = device.zeros((6, 8), buffer="hbm")
    inside, across = ([[8, 4], [2, count]] for count in (2, 3))
    tiles = [table.ap(inside, offset=1), table.ap(across, offset=5), table.ap(inside, offset=0)]
    assert near(device, tiles) == sharing(tiles) == [{0, 1}, {0, 1}, {2}]


def test_boxes_of_a_program_do_not_change():
    device = Device()
    tensor = device.zeros((128, 64, 2), address=(0, 0))
    device.boxes_of([tensor[1:128:2, :, 0:1]])
    boxes = device.core.program.boxes()
    before = boxes.table.copy()
    assert len(boxes.near[0]) and (boxes.table == before).all()


@given(st.data())
def test_parts_of_rows_are_distinguished(data):
    device = Device()
    tensor = device.zeros((12, 40), buffer="hbm")
    tiles = []
    for _ in range(data.draw(st.integers(2, 8))):
        row, column = data.draw(st.integers(0, 10)), data.draw(st.integers(0, 38))
        rows, columns = data.draw(st.integers(2, 12 - row)), data.draw(st.integers(1, 39 - column))
        tiles.append(tensor[row : row + rows, column : column + columns])
    assert near(device, tiles) == sharing(tiles)


@given(st.data())
def test_shared_bytes_are_always_found(data):
    """The accesses are any slices of a tensor, including ones without a common step."""
    device = Device()
    tensor = device.zeros(SHAPE, buffer="hbm")
    tiles = []
    for _ in range(data.draw(st.integers(2, 8))):
        keys = []
        for size in SHAPE:
            start = data.draw(st.integers(0, size - 1))
            stop = data.draw(st.integers(start + 1, size))
            keys.append(slice(start, stop, data.draw(st.integers(1, 3))))
        tiles.append(tensor[tuple(keys)].permute(data.draw(st.permutations(range(3)))))
    for said, true in zip(near(device, tiles), sharing(tiles)):
        assert said >= true


def test_a_run_time_offset_may_be_in_any_row():
    device = Device()
    tensor, index = device.zeros((16, 8), buffer="hbm"), device.zeros((4, 1), "uint32")
    picked = tensor.vector_select(0, index)
    found = near(device, [picked, *(tensor[k : k + 3, 2:5] for k in range(0, 14, 3))])
    assert found[0] == set(range(6)) and all(0 in others for others in found)
