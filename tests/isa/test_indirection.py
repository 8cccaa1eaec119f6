"""Tensor indirection (v4): an index in SBUF selects elements along the free axes of an operand."""

from itertools import product

import nki.language as nl
import numpy as np
import pytest
from device import Device, noise, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from indices import an_index, distinct
from nki.isa import engine, reduce_cmd

from neuroncore.base.errors import UninitializedError

SHAPES = [(1, 1), (3, 7), (16, 5), (32, 12), (33, 9), (100, 20), (128, 33)]
INDEX_DTYPES = ["uint8", "uint16", "uint32", "int16", "int32"]
F32, BF16 = np.float32, "bfloat16"


def most(partitions, columns):
    """Return the number of offsets that an index [partitions, columns] has for its last group."""
    rows = (partitions - 1) % 16 + 1
    return 16 * columns if rows == 16 else rows


# --- which elements -------------------------------------------------------------------------------


@for_all("buffer, unit", product(["sbuf", "psum"], ["vector", "scalar"]))
def test_offsets_run_down_the_rows_of_a_group_and_on_in_the_next_column(buffer, unit):
    device = Device("trn3")
    for rows, size in SHAPES:
        index = an_index((rows, 2), size)
        count = most(*index.shape)
        view = device.tile(noise((rows, size)), buffer=buffer)
        view = view.indirect(device.tile(index, "uint32"), count)
        device.issue("tensor_copy", device.empty((rows, count)), view, engine=engine[unit])
    device.agrees()
    assert not device.findings


def test_the_order_of_offsets_in_an_example():
    device = Device("trn3")
    x = np.arange(32 * 100, dtype=F32).reshape(32, 100)
    index = np.arange(64).reshape(2, 32).T  # row r holds r and 32 + r
    dst = device.empty((32, 18))
    device.issue("tensor_copy", dst, device.tile(x).indirect(device.tile(index, "uint16"), 18))
    result = dst.numpy()
    assert result[0].tolist() == [*range(16), 32, 33]
    assert result[15].tolist() == [1500 + i for i in (*range(16), 32, 33)]
    assert result[16].tolist() == [1600 + i for i in (*range(16, 32), 48, 49)]


@given(data=st.data())
def test_gather_and_scatter_of_any_size(data):
    device = Device("trn3")
    rows = data.draw(st.integers(1, 128))
    columns, size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 60))
    count = data.draw(st.integers(1, most(rows, columns)))
    before, after = (data.draw(st.sampled_from(["float32", BF16, "int8", "uint32"])) for _ in "st")
    form = data.draw(st.sampled_from(INDEX_DTYPES))
    source, target = (an_index((rows, columns), size, data.draw(st.integers(0, 9))) for _ in "st")
    src = device.tile(noise((rows, size), before)).indirect(device.tile(source, form), count)
    dst = device.tile(noise((rows, size), after)).indirect(device.tile(target, form), count)
    device.issue("tensor_copy", dst, src)
    device.agrees()


def test_offsets_start_at_the_view_and_cover_all_its_free_axes():
    device = Device("trn3")
    spots = device.tile(an_index((64, 1), 12), "uint16")[32:64]
    piece = device.tile(noise((64, 4, 6)))[32:64, 1:3]
    device.issue("tensor_copy", device.empty((32, 16)), piece.indirect(spots, 16))
    index = device.tile(an_index((16, 3), 50), "int32")
    view = device.tile(noise((16, 50))).indirect(index)  # as many as the index has elements
    assert view.shape == (16, 48) and view.is_indirect()
    device.issue("tensor_copy", device.empty((16, 48)), view)
    device.agrees()


def test_all_elements_are_read_before_any_is_written():
    device = Device("trn3")
    x = noise((16, 16))
    tile, down = device.tile(x), np.arange(16).reshape(16, 1)
    up = device.tile((down + 1) % 16, "uint8")
    tile_of = tile.indirect
    device.issue("tensor_copy", tile_of(up, 16), tile_of(device.tile(down, "uint8"), 16))
    same(tile.numpy(), np.roll(x, 1, axis=1))


def test_nothing_else_in_memory_changes():
    device = Device("trn3")
    old, index = noise((32, 40), BF16), np.full((32, 1), 3)
    tile = device.tile(old, address=(32, 512))
    spots = device.tile(index, "uint16", address=(32, 4096))
    src = device.zeros((32, 16), BF16, address=(32, 8192))
    device.issue("tensor_copy", tile[:, 8:20].indirect(spots, 16), src)
    old[:, 11] = 0
    same(tile.numpy(), old)


# --- every instruction that accepts an index ------------------------------------------------------

# name: (the operand that is gathered, its format, other operands); a string is the format of
# another tile.
CALLS = {
    "tensor_copy": ("src", "float32", {}),
    "tensor_copy_predicated": ("predicate", "uint8", {"src": "float32"}),
    "tensor_tensor": ("data1", "float32", {"data2": "float32", "op": nl.subtract}),
    "tensor_scalar": ("data", "float32", {"op0": nl.multiply, "operand0": 3.0}),
    "tensor_reduce": ("data", "float32", {"op": nl.maximum, "axis": 1}),
    "tensor_scalar_cumulative": ("src", "float32", {"op0": nl.add, "op1": nl.add, "imm0": 1.0}),
    "tensor_scalar_reduce": (
        "data",
        "float32",
        {"op0": nl.add, "operand0": 2.0, "reduce_op": nl.add, "reduce_res": "column"},
    ),
    "activation": ("data", "float32", {"op": nl.exp, "scale": 0.5}),
    "activation_reduce": (
        "data",
        "float32",
        {"op": nl.square, "reduce_op": nl.add, "reduce_res": "column"},
    ),
    "activate2": (
        "data",
        "float32",
        {"op": nl.relu, "imm0": 2.0, "imm1": 1.0, "op0": nl.multiply, "op1": nl.add},
    ),
    "exponential": (
        "src",
        "float32",
        {"max_value": 1.0, "reduce_res": "column", "reduce_cmd": reduce_cmd.reset_reduce},
    ),
}
ON_OTHER_ENGINES = [
    ("tensor_copy", {"engine": engine.scalar}),
    ("tensor_tensor", {"engine": engine.gpsimd}),
    ("tensor_scalar", {"engine": engine.scalar}),
    ("tensor_scalar", {"engine": engine.gpsimd, "op0": nl.power}),
]
USES = [*((name, {}) for name in CALLS), *ON_OTHER_ENGINES]
PLACES = [  # of the gathered operand and of dst; the Scalar engine can't scatter to PSUM
    (use, places)
    for use in USES
    for places in [("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum"), ("psum", "psum")]
    if use[1].get("engine") is not engine.gpsimd or "psum" not in places
    if not (use[0].startswith("activat") or use[1].get("engine") is engine.scalar)
    or places[1] == "sbuf"
]
ROWS, SIZE, COUNT = 40, 37, 8


def issued(device, name, dst, lead, options):
    """Issue an instruction of CALLS."""
    arguments = {CALLS[name][0]: lead}
    for key, value in {**CALLS[name][2], **options}.items():
        arguments[key] = value
        if value == "column":
            arguments[key] = device.empty((ROWS, 1))
        elif isinstance(value, str):
            arguments[key] = device.tile(noise((ROWS, COUNT), value, seed=3, special=False))
    device.issue(name, dst=dst, **arguments)


@for_all("use, places", PLACES)
def test_an_instruction_treats_selected_elements_like_a_tile(use, places):
    (name, options), device = use, Device("trn3")
    results = 1 if name == "tensor_reduce" else COUNT
    source, target = (distinct(ROWS, SIZE, 32, seed=s) for s in (0, 1))
    for gathers, scatters in ((True, True), (True, False), (False, True)):
        shapes = [(ROWS, SIZE if gathers else COUNT), (ROWS, SIZE if scatters else results)]
        data = device.tile(noise(shapes[0], CALLS[name][1], special=False), buffer=places[0])
        dst = device.tile(noise(shapes[1], seed=2, special=False), buffer=places[1])
        if gathers:
            data = data.indirect(device.tile(source, "int16"), COUNT)
        if scatters:
            dst = dst.indirect(device.tile(target, "int16"), results)
        issued(device, name, dst, data, options)
    device.agrees()
    assert not device.findings


def test_the_later_of_two_writes_with_a_true_predicate_stays():
    device = Device("trn3")
    spots, predicate = device.tile(np.full((16, 1), 2), "uint8"), np.zeros((16, 16), np.uint8)
    src, predicate[:, 5] = device.tile(noise((16, 16), special=False)), 1
    dst = device.tile(np.full((16, 4), 7, F32)).indirect(spots, 16)
    device.issue("tensor_copy_predicated", dst, src, device.tile(predicate))
    device.issue("tensor_copy", device.tile(np.ones((16, 4), F32)).indirect(spots, 16), src)
    device.agrees()


# --- what was never written -----------------------------------------------------------------------


def half_written(device, shape=(16, 8)):
    """Return a tile in which columns 4 and up have been written."""
    tile = device.empty(shape)
    device.issue("memset", tile[:, 4:], 1.0)
    return tile


def test_only_the_selected_elements_are_read():
    device = Device("trn3")
    tile, dst = half_written(device), device.empty((16, 16))
    index = device.tile(4 + an_index((16, 1), 4), "uint8")
    device.issue("tensor_copy", dst, tile.indirect(index, 16))
    assert not device.findings and (dst.numpy() == 1).all()


def test_selecting_an_uninitialized_element_is_reported():
    device = Device("trn3")
    spots = np.full((16, 1), 4)
    spots[9] = 3
    index, dst = device.tile(spots, "uint8"), device.empty((16, 16))
    device.issue("tensor_copy", dst, half_written(device).indirect(index, 16))
    assert device.findings == ["UNINIT_READ"]
    assert np.isnan(dst.numpy()[:, 9]).all() and np.isnan(dst.numpy()).sum() == 16
    assert "src" in device.core.findings[0].message


def test_selecting_an_uninitialized_element_can_be_an_error():
    device = Device("trn3", uninitialized="raise")
    index = device.zeros((16, 1), "uint8")
    view = half_written(device).indirect(index, 16)
    device.refuses(UninitializedError, "tensor_copy", device.empty((16, 16)), view, words=["src"])


def test_only_scattered_elements_count_as_written():
    device, index = Device("trn3"), an_index((32, 1), 9)
    tile = device.empty((32, 9))
    device.issue(
        "tensor_copy", tile.indirect(device.tile(index, "uint8"), 4), device.zeros((32, 4))
    )
    device.agrees()
    assert [np.flatnonzero(~row).tolist() for row in tile.missing()[[0, 31]]] == [
        sorted({*index[first : first + 4, 0].tolist()}) for first in (0, 16)
    ]


def test_only_used_elements_of_the_index_are_read():
    device = Device("trn3")
    index = device.empty((16, 2), "uint32")
    device.issue("memset", index[:, 0:1], 0)
    dst = device.empty((16, 16))
    device.issue("tensor_copy", dst, device.zeros((16, 3)).indirect(index, 16))
    assert not device.findings


def test_an_uninitialized_index_of_indirection_is_reported():
    device = Device("trn3", uninitialized="raise")
    index = device.empty((16, 1), "uint32")
    view = device.zeros((16, 3)).indirect(index, 16)
    device.refuses(
        UninitializedError, "tensor_copy", device.empty((16, 16)), view, words=["index of src"]
    )


# --- the record and the estimate ------------------------------------------------------------------


def test_an_instruction_waits_for_the_index():
    device = Device("trn3")
    index, x, dst = device.empty((16, 1), "int32"), device.zeros((16, 9)), device.empty((16, 16))
    device.issue("memset", index, 0, engine=engine.gpsimd)
    device.issue("tensor_copy", dst, x.indirect(index, 16), engine=engine.vector)
    device.issue("tensor_copy", device.empty((16, 9)), x, engine=engine.vector)
    timeline = device.timeline()
    assert timeline.begin[1] >= timeline.end[0] and timeline.cause[1] == 0


def test_a_scatter_is_recorded_for_the_whole_tensor():
    device = Device("trn3")
    index, dst = device.zeros((16, 1), "int32"), device.empty((16, 9))
    device.issue("tensor_copy", dst.indirect(index, 4), device.zeros((16, 4)), engine=engine.scalar)
    device.issue("tensor_copy", device.empty((16, 1)), dst[:, 8:9], engine=engine.vector)
    assert device.timeline().cause[1] == 0


@pytest.mark.parametrize("picks", ["src", "dst"])
def test_indirection_costs_as_much_as_a_run_time_address(picks):
    device = Device("trn3")
    index, table = device.zeros((16, 1), "int32"), device.zeros((16, 9))
    view = table.indirect(index, 4)
    pair = (device.empty((16, 4)), view) if picks == "src" else (view, device.zeros((16, 4)))
    device.issue("tensor_copy", *pair, engine=engine.vector)
    machine = device.core.machine
    least = machine.fixed.dynamic_address_cycles / machine.engines["vector"].clock_ghz
    assert device.timeline().busy[0] == pytest.approx(least)
