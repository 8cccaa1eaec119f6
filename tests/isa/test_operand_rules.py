"""What the element-wise, reducing and activating instructions ask of any operand: one table of
legal calls, and each operand of each made wrong in one way."""

from math import prod

import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from every import for_all
from nki.isa import reduce_cmd

from neuroncore.base.errors import (
    BufferKindError,
    FreeSizeError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
    StartPartitionError,
    UninitialisedError,
)

# A tile operand is the name of its format; "column" is a float32 tile with one element per
# partition. What is not a string is passed on.
CALLS = {
    "tensor_copy": {"dst": "float32", "src": "float32"},
    "memset": {"dst": "float32", "value": 1.5},
    "tensor_copy_predicated": {"dst": "float32", "src": "float32", "predicate": "uint8"},
    "select_reduce": {
        "dst": "float32",
        "predicate": "uint8",
        "on_true": "float32",
        "on_false": "column",
        "reduce_res": "column",
        "reduce_cmd": reduce_cmd.reset_reduce,
    },
    "tensor_tensor": {"dst": "float32", "data1": "float32", "data2": "float32", "op": nl.add},
    "tensor_scalar": {
        "dst": "float32",
        "data": "float32",
        "op0": nl.add,
        "operand0": "column",
        "op1": nl.add,
        "operand1": "column",
    },
    "scalar_tensor_tensor": {
        "dst": "float32",
        "data": "float32",
        "op0": nl.add,
        "operand0": "column",
        "op1": nl.add,
        "operand1": "float32",
    },
    "reciprocal": {"dst": "float32", "data": "float32"},
    "tensor_reduce": {"dst": "column", "op": nl.add, "data": "float32", "axis": -1},
    "tensor_scalar_reduce": {
        "dst": "float32",
        "data": "float32",
        "op0": nl.add,
        "operand0": "column",
        "reduce_op": nl.add,
        "reduce_res": "column",
        "reduce_init": "column",
        "reduce_cmd": reduce_cmd.load_reduce,
    },
    "tensor_tensor_scan": {
        "dst": "float32",
        "data0": "float32",
        "data1": "float32",
        "initial": "column",
        "op0": nl.add,
        "op1": nl.add,
    },
    "activation": {
        "dst": "float32",
        "op": nl.copy,
        "data": "float32",
        "bias": "column",
        "scale": "column",
        "reduce_res": "column",
        "reduce_cmd": reduce_cmd.reset_reduce,
    },
    "activation_reduce": {
        "dst": "float32",
        "op": nl.copy,
        "data": "float32",
        "reduce_op": nl.add,
        "reduce_res": "column",
        "bias": "column",
        "scale": "column",
    },
}
RESULTS = ("dst", "reduce_res")
OPTIONAL = ("bias", "reduce_res", "operand1", "reduce_init")
OPERANDS = [
    (name, role) for name, call in CALLS.items() for role, v in call.items() if isinstance(v, str)
]
INPUTS = [(name, role) for name, role in OPERANDS if role not in RESULTS]
TILES = [(n, r) for n, r in OPERANDS if CALLS[n][r] != "column" and (n, r) != ("memset", "dst")]
COLUMNS = [(n, r) for n, r in OPERANDS if CALLS[n][r] == "column" and n != "tensor_reduce"]
every = pytest.mark.parametrize(("name", "role"), OPERANDS)


def form(name, role):
    return CALLS[name][role].replace("column", "float32")


def shape(name, role, rows, columns):
    return rows, 1 if CALLS[name][role] == "column" else columns


def legal(device, name, rows=32, columns=16, **changes):
    """The arguments of a legal call, but for the changes."""

    def operand(role, value):
        if role in changes or not isinstance(value, str):
            return changes.get(role, value)
        return device.tile(np.ones(shape(name, role, rows, columns)), form(name, role))

    return {role: operand(role, value) for role, value in CALLS[name].items()} | changes


# --- memory ---------------------------------------------------------------------------------------


@for_all("target", TARGETS)
@every
def test_each_operand_may_be_in_either_memory(name, role, target):
    for buffer in ("sbuf", "psum"):
        device = Device(target)
        tile = device.tile(np.ones(shape(name, role, 32, 16)), form(name, role), buffer)
        device.issue(name, **legal(device, name, **{role: tile}))


@every
def test_no_operand_may_be_in_hbm(name, role):
    device = Device()
    tile = device.tile(np.ones(shape(name, role, 32, 16)), form(name, role), "hbm")
    words = [role, "sbuf or psum", "hbm"]
    error = device.refuses(
        BufferKindError, name, words=words, **legal(device, name, **{role: tile})
    )
    assert error.code == "BUFFER_KIND" and "dma_copy" in error.hint


@every
def test_the_first_wrong_operand_is_named_and_the_others_listed(name, role):
    device = Device()
    roles = [r for n, r in OPERANDS if n == name]
    tiles = {r: device.tile(np.ones(shape(name, r, 32, 16)), form(name, r), "hbm") for r in roles}
    error = device.refuses(BufferKindError, name, **legal(device, name, **tiles))
    assert any(role in line for line in [error.statement, *error.more])
    assert len(error.more) == len(roles) - 1


# --- partitions -----------------------------------------------------------------------------------


@every
def test_more_than_128_partitions_do_not_exist(name, role):
    device = Device()
    with pytest.raises(PartitionLimitError, match="129") as caught:
        device.empty(shape(name, role, 129, 16), form(name, role))
    assert caught.value.code == "PARTITION_LIMIT"


@for_all("start", [0, 32, 64, 96])
@every
def test_32_partitions_start_at_any_quadrant(name, role, start):
    device = Device()
    tile = device.tile(np.ones(shape(name, role, 128, 16)), form(name, role))
    device.issue(name, **legal(device, name, **{role: tile[start : start + 32]}))
    where = (start, 1024)
    tile = device.tile(np.ones(shape(name, role, 32, 16)), form(name, role), address=where)
    device.issue(name, **legal(device, name, **{role: tile}))


@for_all(("start", "rows"), [(1, 32), (16, 8), (33, 1), (32, 64), (32, 33), (64, 33)])
@every
def test_other_starts_are_refused(name, role, start, rows):
    device = Device()
    tile = device.tile(np.ones(shape(name, role, 128, 16)), form(name, role))
    given = legal(device, name, rows, **{role: tile[start : start + rows]})
    if (start, rows) == (64, 33):  # up to 64 partitions may start in the middle
        device.issue(name, **given)
        return
    words = [role, f"partition {start}", str(rows)]
    error = device.refuses(StartPartitionError, name, words=words, **given)
    assert error.code == "START_PARTITION"


@every
def test_partitions_are_not_left_out(name, role):
    device = Device()
    tile = device.tile(np.ones(shape(name, role, 64, 16)), form(name, role))
    given = legal(device, name, **{role: tile[::2]})
    words = [role, "consecutive partitions"]
    error = device.refuses(StartPartitionError, name, words=words, **given)
    assert error.code == "START_PARTITION"


@every
def test_all_operands_have_as_many_partitions(name, role):
    if name == "memset":
        return
    device = Device()
    tile = device.tile(np.ones(shape(name, role, 31, 16)), form(name, role))
    given = legal(device, name, **{role: tile})
    error = device.refuses(ShapeError, name, words=[role, "31", "32", "partitions"], **given)
    assert error.code == "SHAPE_MISMATCH"


# --- free axes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "role"), TILES)
@for_all("columns", [1, 15, 17, 32])
def test_all_tiles_have_as_many_elements(name, role, columns):
    if name == "tensor_reduce":
        return
    device = Device()
    tile = device.tile(np.ones((32, columns)), form(name, role))
    given = legal(device, name, **{role: tile})
    words = [role, "16", str(columns), "elements per partition"]
    error = device.refuses(ShapeError, name, words=words, **given)
    assert error.code == "SHAPE_MISMATCH"


@pytest.mark.parametrize(("name", "role"), COLUMNS)
def test_columns_have_one_element(name, role):
    for columns in (2, 16):
        device = Device()
        tile = device.tile(np.ones((32, columns)), form(name, role))
        given = legal(device, name, **{role: tile})
        words = [role, "one element per partition", "(32, 1)"]
        error = device.refuses(ShapeError, name, words=words, **given)
        assert error.code == "SHAPE_MISMATCH"


def every_other(device, name, role, axes):
    """A view of 2 x 2 x ... elements, none of them neighbours."""
    whole = device.tile(np.ones((32, *[4] * axes)), form(name, role))
    return whole[(slice(None), *[slice(0, 4, 2)] * axes)]


@pytest.mark.parametrize(("name", "role"), [*TILES, ("memset", "dst")])
def test_an_access_has_four_free_axes(name, role):
    device = Device()
    all_axes = [{"axis": tuple(range(1, n + 1))} if name == "tensor_reduce" else {} for n in (4, 5)]
    given = {role: every_other(device, name, role, 4)} | all_axes[0]
    device.issue(name, **legal(device, name, **given))
    given = {role: every_other(device, name, role, 5)} | all_axes[1]
    given = legal(device, name, columns=32, **given)
    words = [role, "5 free axes", "four"]
    error = device.refuses(ShapeError, name, words=words, **given)
    assert error.code == "SHAPE_MISMATCH"


@pytest.mark.parametrize(("name", "role"), [*TILES, ("memset", "dst")])
def test_axes_that_run_on_count_as_one(name, role):
    device = Device()
    sizes = (2, 1, 2, 2, 1, 2)
    given = {role: device.tile(np.ones((32, *sizes)), form(name, role))}
    if name == "tensor_reduce":
        given["axis"] = tuple(range(1, 1 + len(sizes)))
    device.issue(name, **legal(device, name, columns=prod(sizes), **given))


@pytest.mark.parametrize(("name", "role"), [(n, r) for n, r in TILES if n == "tensor_copy"])
@pytest.mark.parametrize(
    ("buffer", "most", "dtype"), [("sbuf", 65536, "uint8"), ("psum", 4096, "int16")]
)
def test_an_access_has_a_largest_size(name, role, buffer, most, dtype):
    for columns in (most, most + 1):
        device = Device()
        given = {r: device.zeros((1, columns), dtype) for r in ("dst", "src")}
        given[role] = device.zeros((1, columns), dtype, buffer)
        if columns == most:
            device.issue(name, **given)
            continue
        words = [str(most), str(columns)]
        error = device.refuses(FreeSizeError, name, words=words, **given)
        assert any(role in line for line in [error.statement, *error.more])
        assert error.code == "FREE_SIZE"


def test_a_dma_moves_more_than_an_access_of_an_engine_may_have():
    device, values = Device(), np.arange(70000, dtype=np.int32).astype(np.uint16)[None]
    dst = device.zeros((1, 70000), "uint16")
    device.issue("dma_copy", dst=dst, src=device.tile(values, buffer="hbm"))
    np.testing.assert_array_equal(dst.numpy(), values)


# --- arguments ------------------------------------------------------------------------------------


@every
def test_arrays_are_not_tiles(name, role):
    device = Device()
    device.issue(name, **legal(device, name))
    for value in (np.ones(shape(name, role, 32, 16), np.float32), [1.0], "a", object()):
        given = legal(device, name, **{role: value})
        error = device.refuses(SignatureError, name, words=[name, role, "tensor"], **given)
        assert error.code == "SIGNATURE"


@every
def test_none_is_for_optional_operands(name, role):
    device = Device()
    given = legal(device, name, **{role: None})
    if role == "operand1" and name == "tensor_scalar":
        given["op1"] = None
    if role == "reduce_init":
        given["reduce_cmd"] = reduce_cmd.reset_reduce
    if role in OPTIONAL and (name, role) != ("scalar_tensor_tensor", "operand1"):
        device.issue(name, **given)
    elif (name, role) in (("tensor_scalar", "operand0"), ("tensor_scalar_reduce", "operand0")):
        device.issue(name, **given | {"op0": nl.abs})
    else:
        error = device.refuses(SignatureError, name, words=[role], **given)
        assert error.code == "SIGNATURE"


@pytest.mark.parametrize("name", CALLS)
def test_a_missing_argument_is_named(name):
    device = Device()
    required = set(CALLS[name]) - {"bias", "scale", "reduce_res", "reduce_cmd", "reduce_init"}
    required -= {"op1", "operand1"} if name == "tensor_scalar" else set()
    for role in required:
        given = legal(device, name)
        del given[role]
        error = device.refuses(SignatureError, name, words=[name, role, "nisa."], **given)
        assert error.code == "SIGNATURE"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("right", "wrong"), [("dst", "dsts"), ("engine", "engin"), ("reduce_cmd", "reduce_cmds")]
)
def test_a_misspelt_keyword_is_corrected(name, right, wrong):
    device = Device()
    given = legal(device, name)
    error = device.refuses(SignatureError, name, words=[name, wrong], **given | {wrong: 1})
    assert error.code == "SIGNATURE"
    if right in given:
        assert error.hint == f"did you mean {right!r}?"


@pytest.mark.parametrize("name", CALLS)
def test_positions_are_those_of_the_api(name):
    first = {
        "tensor_copy": ("dst", "src"),
        "memset": ("dst", "value"),
        "tensor_copy_predicated": ("dst", "src", "predicate"),
        "select_reduce": ("dst", "predicate", "on_true", "on_false", "reduce_res", "reduce_cmd"),
        "tensor_tensor": ("dst", "data1", "data2", "op"),
        "tensor_scalar": ("dst", "data", "op0", "operand0"),
        "scalar_tensor_tensor": ("dst", "data", "op0", "operand0", "op1", "operand1"),
        "reciprocal": ("dst", "data"),
        "tensor_reduce": ("dst", "op", "data", "axis"),
        "tensor_scalar_reduce": ("dst", "data", "op0", "operand0", "reduce_op", "reduce_res"),
        "tensor_tensor_scan": ("dst", "data0", "data1", "initial", "op0", "op1"),
        "activation": ("dst", "op", "data", "bias", "scale"),
        "activation_reduce": ("dst", "op", "data", "reduce_op", "reduce_res", "bias", "scale"),
    }[name]
    device = Device()
    given = legal(device, name)
    rest = {role: value for role, value in given.items() if role not in first}
    device.issue(name, *(given[role] for role in first), **rest)
    error = device.refuses(SignatureError, name, *given.values(), *[None] * 20, words=[name])
    assert "positional" in error.statement


# --- what nothing has written ---------------------------------------------------------------------


@pytest.mark.parametrize(("name", "role"), INPUTS)
def test_reading_what_nothing_has_written_is_reported(name, role):
    device = Device()
    tile = device.empty(shape(name, role, 32, 16), form(name, role))
    given = legal(device, name, **{role: tile})
    device.issue(name, **given)
    assert device.findings == ["UNINIT_READ"]
    finding = device.core.findings[0]
    assert role in finding.message and str(tile.size) in finding.message
    if form(name, role) == "float32":  # poison is NaN, and goes on
        outcome = [given[r].numpy() for r in RESULTS if r in given]
        if role == "on_false":
            return  # every element is chosen
        assert any(np.isnan(x).all() for x in outcome)


@pytest.mark.parametrize(("name", "role"), INPUTS)
def test_or_refused_on_request(name, role):
    device = Device(uninitialised="raise")
    tile = device.empty(shape(name, role, 32, 16), form(name, role))
    device.issue("memset", tile[:31], 1)
    given = legal(device, name, **{role: tile})
    error = device.refuses(UninitialisedError, name, words=[role], **given)
    assert error.code == "UNINIT_READ"
    device.issue("memset", tile, 1)
    device.issue(name, **given)
    assert device.findings == []


@pytest.mark.parametrize("name", CALLS)
def test_results_need_not_be_written_before(name):
    device = Device(uninitialised="raise")
    roles = [r for n, r in OPERANDS if n == name and r in RESULTS]
    tiles = {r: device.empty(shape(name, r, 32, 16), form(name, r)) for r in roles}
    device.issue(name, **legal(device, name, **tiles))
    for tile in tiles.values():
        device.issue("tensor_copy", device.empty(tile.shape), tile)
