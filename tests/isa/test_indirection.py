"""Tensor indirection (v4): an index in SBUF picks elements along the free axes of an operand."""

import nki.language as nl
import numpy as np
import pytest
from device import Device, converted, noise, same
from hypothesis import given
from hypothesis import strategies as st
from indices import an_index, distinct, gathered, scattered
from nki.isa import engine, reduce_cmd

from neuroncore.base.errors import UninitialisedError

SHAPES = [(1, 1), (3, 7), (16, 5), (32, 12), (33, 9), (100, 20), (128, 33)]
INDEX_DTYPES = ["uint8", "uint16", "uint32", "int16", "int32"]
F32, BF16 = np.float32, "bfloat16"


def most(partitions, columns):
    """How many offsets an index [partitions, columns] has for its last group."""
    rows = (partitions - 1) % 16 + 1
    return 16 * columns if rows == 16 else rows


# --- which elements -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
@pytest.mark.parametrize("unit", ["vector", "scalar"])
def test_offsets_run_down_the_rows_of_a_group_and_on_in_the_next_column(shape, buffer, unit):
    device = Device("trn3")
    index = an_index((shape[0], 2), shape[1])
    count = most(*index.shape)
    x, dst = noise(shape), device.empty((shape[0], count))
    view = device.tile(x, buffer=buffer).indirect(device.tile(index, "uint32"), count)
    device.issue("tensor_copy", dst, view, engine=engine[unit])
    same(dst.numpy(), gathered(x, index, count))
    assert not device.findings


def test_the_order_written_out():
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
    dtype = data.draw(st.sampled_from(["float32", BF16, "float16", "int8", "uint32"]))
    form = data.draw(st.sampled_from(INDEX_DTYPES))
    source, target = (an_index((rows, columns), size, data.draw(st.integers(0, 9))) for _ in "st")
    x, old = noise((rows, size), dtype), noise((rows, size), dtype, seed=1)
    dst = device.tile(old)
    src = device.tile(x).indirect(device.tile(source, form), count)
    device.issue("tensor_copy", dst.indirect(device.tile(target, form), count), src)
    same(dst.numpy(), scattered(old, gathered(x, source, count), target))


def test_without_num_elem_there_are_as_many_as_the_index_has_elements():
    device = Device("trn3")
    x, index = noise((16, 50)), an_index((16, 3), 50)
    view = device.tile(x).indirect(device.tile(index, "int32"))
    assert view.shape == (16, 48) and view.is_indirect()
    dst = device.empty((16, 48))
    device.issue("tensor_copy", dst, view)
    same(dst.numpy(), gathered(x, index, 48))


def test_offsets_count_from_the_view_and_through_all_its_free_axes():
    device = Device("trn3")
    x, index = noise((64, 4, 6)), an_index((32, 1), 12)
    piece = device.tile(x)[32:64, 1:3]
    spots = device.tile(np.vstack([index, index]), "uint16")[32:64]
    dst = device.empty((32, 16))
    device.issue("tensor_copy", dst, piece.indirect(spots, 16))
    same(dst.numpy(), gathered(x[32:, 1:3], index, 16))


def test_reads_come_before_writes():
    device = Device("trn3")
    x = noise((16, 16))
    tile, down = device.tile(x), np.arange(16).reshape(16, 1)
    up = device.tile((down + 1) % 16, "uint8")
    tile_of = tile.indirect
    device.issue("tensor_copy", tile_of(up, 16), tile_of(device.tile(down, "uint8"), 16))
    same(tile.numpy(), np.roll(x, 1, axis=1))


def test_of_two_writes_to_one_place_the_later_stays():
    device = Device("trn3")
    index = np.zeros((16, 1), np.uint16)
    x, dst = noise((16, 16), special=False), device.tile(np.ones((16, 3), F32))
    device.issue("tensor_copy", dst.indirect(device.tile(index), 16), device.tile(x))
    same(dst.numpy(), np.hstack([x[:, 15:], np.ones((16, 2), F32)]))


def test_nothing_else_in_memory_changes():
    device = Device("trn3")
    old, index = noise((32, 40), BF16), np.full((32, 1), 3)
    tile = device.tile(old, address=(32, 512))
    spots = device.tile(index, "uint16", address=(32, 4096))
    src = device.zeros((32, 16), BF16, address=(32, 8192))
    device.issue("tensor_copy", tile[:, 8:20].indirect(spots, 16), src)
    old[:, 11] = 0
    same(tile.numpy(), old)


# --- every instruction that takes them ------------------------------------------------------------

# name: (the operand that is gathered, its format, what else there is); a string is the format of
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
    """Issue an instruction of CALLS; its reduce_res, if it has one."""
    arguments = {CALLS[name][0]: lead}
    for key, value in {**CALLS[name][2], **options}.items():
        arguments[key] = value
        if value == "column":
            arguments[key] = device.empty((ROWS, 1))
        elif isinstance(value, str):
            arguments[key] = device.tile(noise((ROWS, COUNT), value, seed=3, special=False))
    device.issue(name, dst=dst, **arguments)
    return [arguments["reduce_res"].numpy()] if "reduce_res" in arguments else []


@pytest.mark.parametrize(("use", "places"), PLACES)
def test_an_instruction_does_to_picked_elements_what_it_does_to_a_tile(use, places):
    (name, options), device = use, Device("trn3")
    results = 1 if name == "tensor_reduce" else COUNT
    source, target = (distinct(ROWS, SIZE, 32, seed=s) for s in (0, 1))
    x = noise((ROWS, SIZE), CALLS[name][1], special=False)
    old = noise((ROWS, SIZE), seed=2, special=False)

    expected = device.tile(gathered(old, target, results))
    total = issued(device, name, expected, device.tile(gathered(x, source, COUNT)), options)

    def pair():
        return device.tile(x, buffer=places[0]), device.tile(old, buffer=places[1])

    reads, writes = device.tile(source, "int16"), device.tile(target, "int16")
    data, dst = pair()
    both = issued(device, name, dst.indirect(writes, results), data.indirect(reads, COUNT), options)
    same(dst.numpy(), scattered(old, expected.numpy(), target))
    same(data.numpy(), x)

    data, dst = pair()
    dst = device.tile(gathered(old, target, results), buffer=places[1])
    gather = issued(device, name, dst, data.indirect(reads, COUNT), options)
    same(dst.numpy(), expected.numpy())

    _, dst = pair()
    data = device.tile(gathered(x, source, COUNT), buffer=places[0])
    scatter = issued(device, name, dst.indirect(writes, results), data, options)
    same(dst.numpy(), scattered(old, expected.numpy(), target))
    for found in (*both, *gather, *scatter):
        same(found, *total)
    assert not device.findings


def test_what_a_predicate_leaves_out_is_not_written_even_where_two_offsets_meet():
    device = Device("trn3")
    dst = device.tile(np.full((16, 4), 7, F32))
    index = np.full((16, 1), 2)
    chosen = np.zeros((16, 16), np.uint8)
    chosen[:, 5] = 1
    src = noise((16, 16), special=False)
    spots = device.tile(index, "uint8")
    device.issue(
        "tensor_copy_predicated", dst.indirect(spots, 16), device.tile(src), device.tile(chosen)
    )
    want = np.full((16, 4), 7, F32)
    want[:, 2] = src[:, 5]
    same(dst.numpy(), want)


def test_results_are_rounded_to_the_format_of_what_they_are_scattered_to():
    device = Device("trn3")
    x, old, index = noise((16, 16)), noise((16, 20), BF16), an_index((16, 1), 20)
    dst = device.tile(old)
    device.issue("tensor_copy", dst.indirect(device.tile(index, "uint8"), 16), device.tile(x))
    same(dst.numpy(), scattered(old, converted(x, np.dtype(BF16)), index))


# --- what was never written -----------------------------------------------------------------------


def half_written(device, shape=(16, 8)):
    """A tile of which columns 4 and up have been written."""
    tile = device.empty(shape)
    device.issue("memset", tile[:, 4:], 1.0)
    return tile


def test_only_the_elements_that_are_picked_are_read():
    device = Device("trn3")
    tile, dst = half_written(device), device.empty((16, 16))
    index = device.tile(4 + an_index((16, 1), 4), "uint8")
    device.issue("tensor_copy", dst, tile.indirect(index, 16))
    assert not device.findings and (dst.numpy() == 1).all()


def test_picking_an_element_that_was_never_written_is_found():
    device = Device("trn3")
    spots = np.full((16, 1), 4)
    spots[9] = 3
    index, dst = device.tile(spots, "uint8"), device.empty((16, 16))
    device.issue("tensor_copy", dst, half_written(device).indirect(index, 16))
    assert device.findings == ["UNINIT_READ"]
    assert np.isnan(dst.numpy()[:, 9]).all() and np.isnan(dst.numpy()).sum() == 16
    assert "src" in device.core.findings[0].message


def test_it_can_be_an_error():
    device = Device("trn3", uninitialised="raise")
    index = device.zeros((16, 1), "uint8")
    view = half_written(device).indirect(index, 16)
    device.refuses(UninitialisedError, "tensor_copy", device.empty((16, 16)), view, words=["src"])


def test_exactly_the_places_that_are_scattered_to_have_been_written():
    device = Device("trn3")
    tile, index = device.empty((32, 9)), an_index((32, 1), 9)
    device.issue(
        "tensor_copy", tile.indirect(device.tile(index, "uint8"), 4), device.zeros((32, 4))
    )
    want = np.zeros((32, 9), bool)
    want = scattered(want, np.ones((32, 4), bool), index)
    assert np.array_equal(~tile.missing(), want)


def test_of_the_index_only_what_is_used_is_read():
    device = Device("trn3")
    index = device.empty((16, 2), "uint32")
    device.issue("memset", index[:, 0:1], 0)
    dst = device.empty((16, 16))
    device.issue("tensor_copy", dst, device.zeros((16, 3)).indirect(index, 16))
    assert not device.findings


def test_an_index_that_was_never_written_is_found():
    device = Device("trn3", uninitialised="raise")
    index = device.empty((16, 1), "uint32")
    view = device.zeros((16, 3)).indirect(index, 16)
    device.refuses(
        UninitialisedError, "tensor_copy", device.empty((16, 16)), view, words=["index of src"]
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


def test_a_scatter_is_noted_for_the_whole_tensor():
    device = Device("trn3")
    index, dst = device.zeros((16, 1), "int32"), device.empty((16, 9))
    device.issue("tensor_copy", dst.indirect(index, 4), device.zeros((16, 4)), engine=engine.scalar)
    device.issue("tensor_copy", device.empty((16, 1)), dst[:, 8:9], engine=engine.vector)
    assert device.timeline().cause[1] == 0


@pytest.mark.parametrize("picks", ["src", "dst"])
def test_it_costs_what_a_run_time_address_costs(picks):
    device = Device("trn3")
    index, table = device.zeros((16, 1), "int32"), device.zeros((16, 9))
    view = table.indirect(index, 4)
    pair = (device.empty((16, 4)), view) if picks == "src" else (view, device.zeros((16, 4)))
    device.issue("tensor_copy", *pair, engine=engine.vector)
    machine = device.core.machine
    least = machine.fixed.dynamic_address_cycles / machine.engines["vector"].clock_ghz
    assert device.timeline().busy[0] == pytest.approx(least)
