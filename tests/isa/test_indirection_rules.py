"""Tensor indirection: which operands accept an index, where the index may be, and its legal
values."""

import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all
from indices import an_index

from neuroncore import machine
from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    StartPartitionError,
    ViewError,
)
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.memory.register import VirtualRegister

# Operands that may have an index according to the documentation; no others may.
TAKERS = {
    "tensor_copy": {"dst", "src"},
    "tensor_copy_predicated": {"dst", "predicate"},
    "nc_matmul": {"dst", "stationary", "moving"},
    "nc_matmul_mx": {"dst", "stationary", "moving", "stationary_scale", "moving_scale"},
    "tensor_tensor": {"dst", "data1"},
    "tensor_scalar": {"dst", "data"},
    "tensor_reduce": {"dst", "data"},
    "tensor_scalar_cumulative": {"dst", "src"},
    "tensor_scalar_reduce": {"dst", "data"},
    "activation": {"dst", "data"},
    "activation_reduce": {"dst", "data"},
    "activate2": {"dst", "data"},
    "exponential": {"dst", "src"},
}


# --- machines and operands ------------------------------------------------------------------------


def test_only_v4_has_indirection():
    assert [machine.load(t).has("tensor_indirection") for t in ("trn1", "trn2", "trn3")] == [
        *(False, False, True)
    ]
    assert machine.load("trn3").facts["features.tensor_indirection"].grade == "documented"


def test_the_operands_that_accept_an_index():
    declared = {
        i.name: {p.name for p in i.operands if p.operand.indirect} for i in INSTRUCTIONS.values()
    }
    assert {name: found for name, found in declared.items() if found} == TAKERS


# --- where the index is ---------------------------------------------------------------------------


def at(device, start, shape=(32, 4), dtype="float32", buffer="sbuf", byte=0):
    return device.zeros(shape, dtype, buffer, address=(start, byte))


def index_at(device, start):
    return at(device, start, (32, 1), "uint16", byte=4096)


def test_an_index_starts_on_a_quadrant():
    device = Device("trn3")
    dst, src, index = device.empty((16, 4)), device.zeros((16, 4)), device.zeros((128, 1), "uint16")
    for start in (0, 32, 64, 96):
        device.issue("tensor_copy", dst, src.indirect(index[start : start + 16], 4))
    view = src.indirect(index[16:32], 4)
    words = ["index of src", "partition 16", "0, 32, 64 or 96"]
    device.refuses(StartPartitionError, "tensor_copy", dst, view, words=words)
    view = dst.indirect(index[40:56], 4)
    device.refuses(StartPartitionError, "tensor_copy", view, src, words=["index of dst", "40"])


def test_an_index_does_not_leave_out_partitions():
    device = Device("trn3")
    dst, src, index = device.empty((16, 4)), device.zeros((16, 4)), device.zeros((32, 1), "uint16")
    view = src.indirect(index[::2], 4)
    device.refuses(StartPartitionError, "tensor_copy", dst, view, words=["index of src"])


@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_a_gathered_operand_starts_at_the_partition_of_its_index(buffer):
    device = Device("trn3")
    dst, src = device.empty((32, 4)), at(device, 64, buffer=buffer)
    device.issue("tensor_copy", dst, src.indirect(index_at(device, 64), 4))
    view = src.indirect(index_at(device, 32), 4)
    words = ["src", "partition 64", "partition 32"]
    device.refuses(StartPartitionError, "tensor_copy", dst, view, words=words)


def test_the_index_of_a_scatter_starts_at_the_partition_of_an_operand_in_sbuf():
    device = Device("trn3")
    dst, src = at(device, 0, byte=8192), at(device, 64)
    device.issue("tensor_copy", dst.indirect(index_at(device, 64), 4), src)
    view = dst.indirect(index_at(device, 0), 4)
    words = ["src", "index of dst", "64"]
    device.refuses(StartPartitionError, "tensor_copy", view, src, words=words)


def test_the_index_of_a_scatter_starts_at_the_partition_of_an_index_into_psum():
    device = Device("trn3")
    dst, src = at(device, 0, byte=8192), at(device, 64, buffer="psum")
    gather = src.indirect(index_at(device, 64), 4)
    device.issue("tensor_copy", dst.indirect(index_at(device, 64), 4), gather)
    device.issue("tensor_copy", dst.indirect(index_at(device, 0), 4), src)  # read without an index
    view = dst.indirect(index_at(device, 0), 4)
    words = ["index of src", "index of dst", "64"]
    device.refuses(StartPartitionError, "tensor_copy", view, gather, words=words)


def test_the_second_input_may_be_anywhere():
    device = Device("trn3")
    dst, data1, data2 = at(device, 0, byte=8192), at(device, 32), at(device, 96)
    view = dst.indirect(index_at(device, 32), 4)
    device.issue("tensor_tensor", view, data1, data2, nl.add)
    device.refuses(
        StartPartitionError, "tensor_tensor", view, data2, data1, nl.add, words=["data1", "96"]
    )


def test_a_predicate_determines_the_partition_before_the_copied_operand():
    device = Device("trn3")
    dst, src = at(device, 0, byte=8192), at(device, 32)
    predicate = at(device, 96, dtype="uint8", byte=512)
    device.issue("tensor_copy_predicated", dst.indirect(index_at(device, 96), 4), src, predicate)
    view = dst.indirect(index_at(device, 32), 4)
    words = ["predicate", "96", "index of dst"]
    device.refuses(StartPartitionError, "tensor_copy_predicated", view, src, predicate, words=words)


def test_tensors_without_an_address_get_a_legal_place():
    device = Device("trn3")
    dst, whole, index = device.empty((32, 4)), device.zeros((128, 4)), device.zeros((32, 1), "int8")
    device.issue("tensor_copy", dst, whole[64:96].indirect(index, 4))
    device.issue("tensor_copy", dst, at(device, 64).indirect(index, 4))
    spots = device.zeros((128, 1), "int8")
    view = whole[64:96].indirect(spots[32:64], 4)  # both fill all partitions
    device.refuses(StartPartitionError, "tensor_copy", dst, view, words=["64", "32"])


# --- values of the index --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dst", "src"])
@for_all(("offset", "dtype"), [(4, "uint8"), (-1, "int16"), (2**31, "uint32")])
def test_an_offset_stays_inside_the_tensor(name, offset, dtype):
    device = Device("trn3")
    offsets = an_index((32, 2), 4)
    offsets[21, 1] = offset
    index = device.tile(offsets, dtype)
    tiles = {"dst": device.zeros((32, 22)), "src": device.zeros((32, 22))}
    tiles[name] = device.zeros((32, 4)).indirect(index, 21)
    other = "src" if name == "dst" else "dst"
    device.issue("tensor_copy", **{name: tiles[name], other: tiles[other][:, :21]})
    tiles[name] = device.zeros((32, 4)).indirect(index, 22)
    words = [
        f"the index of {name}",
        "offset 21 of partitions 16 to 31",
        str(offset),
        "0 to 3",
        "[21, 1]",
    ]
    device.refuses(OutOfBoundsError, "tensor_copy", words=words, **tiles)


def test_the_last_element_of_a_slice_is_the_limit():
    device = Device("trn3")
    tile, dst = device.zeros((16, 9)), device.empty((16, 1))
    index = device.tile(np.full((16, 1), 5), "uint8")
    device.issue("tensor_copy", dst, tile[:, 2:8].indirect(index, 1))
    view = tile[:, 2:7].indirect(index, 1)
    device.refuses(OutOfBoundsError, "tensor_copy", dst, view, words=["0 to 4"])


def test_nothing_is_written_if_only_the_scatter_is_out_of_bounds():
    device = Device("trn3")
    good, bad = device.zeros((16, 1), "uint8"), device.tile(np.full((16, 1), 9), "uint8")
    never, dst = device.empty((16, 4)), device.zeros((16, 4))
    device.refuses(
        OutOfBoundsError,
        "tensor_copy",
        dst.indirect(bad, 4),
        never.indirect(good, 4),
        words=["dst"],
    )


@pytest.mark.parametrize(
    ("rows", "columns", "enough"), [(16, 2, 32), (32, 2, 32), (33, 3, 1), (5, 2, 5), (1, 4, 1)]
)
def test_a_group_has_as_many_offsets_as_its_rows_of_the_index(rows, columns, enough):
    device = Device("trn3")
    src, index = device.zeros((rows, 6)), device.zeros((rows, columns), "uint8")
    device.issue("tensor_copy", device.empty((rows, enough)), src.indirect(index, enough))
    view, dst = src.indirect(index, enough + 1), device.empty((rows, enough + 1))
    words = ["src", str(enough + 1), f"num_elem <= {enough}"]
    device.refuses(ShapeError, "tensor_copy", dst, view, words=words)


# --- making the view ------------------------------------------------------------------------------


def refused(kind, word, function, *args, **options):
    with pytest.raises(kind) as caught:
        function(*args, **options)
    assert type(caught.value) is kind and word in str(caught.value)


@pytest.mark.parametrize("shape", [(16, 1), (31, 1), (64, 1), (32, 1, 1), (1, 32)])
def test_an_index_has_a_row_for_each_partition(shape):
    device = Device("trn3")
    refused(
        ShapeError, "(32, columns)", device.zeros((32, 4)).indirect, device.zeros(shape, "uint8")
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_index_must_have_integers(dtype):
    device = Device("trn3")
    refused(DtypeError, dtype, device.zeros((32, 4)).indirect, device.zeros((32, 1), dtype))


@pytest.mark.parametrize("buffer", ["psum", "hbm"])
def test_an_index_must_be_in_sbuf(buffer):
    device = Device("trn3")
    index = device.zeros((32, 1), "int32", buffer)
    refused(BufferKindError, "sbuf", device.zeros((32, 4)).indirect, index)


@pytest.mark.parametrize("index", [3, VirtualRegister(), None, np.zeros((32, 1), np.int32)])
def test_an_index_must_be_a_tile(index):
    device = Device("trn3")
    refused(SignatureError, "index", device.zeros((32, 4)).indirect, index)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "8"])
def test_num_elem_must_be_a_positive_integer(count):
    device = Device("trn3")
    index = device.zeros((32, 1), "uint8")
    refused(ShapeError, repr(count), device.zeros((32, 4)).indirect, index, count)


def test_elements_are_selected_from_contiguous_partitions_on_the_chip():
    device = Device("trn3")
    tile, index = device.zeros((32, 4, 6)), device.zeros((32, 1), "uint8")
    for view in (tile, tile[:, 1:3], tile[:, 2:3, 3:5], device.zeros((32, 4), buffer="psum")):
        assert view.indirect(index).is_indirect()
    for view in (tile[:, :, ::2], tile[:, :, 1:3], tile.permute((0, 2, 1))):
        refused(ViewError, "strides", view.indirect, index)
    refused(ViewError, "hbm", device.zeros((32, 4), buffer="hbm").indirect, index)


def test_one_run_time_address_is_enough():
    device = Device("trn3")
    tile, index = device.zeros((32, 4, 6)), device.zeros((32, 1), "uint8")
    refused(ViewError, "known only at run time", tile[:, VirtualRegister()].indirect, index)
    refused(ViewError, "known only at run time", tile.indirect(index).indirect, index)
    moved = device.zeros((32, 4, 1), "uint8")[:, VirtualRegister()]
    refused(ViewError, "run-time", tile.indirect, moved)


FURTHER = {
    "slice": (1, 0, 2),
    "select": (1, 0),
    "permute": ((0, 1),),
    "broadcast": (1, 3),
    "expand_dim": (1,),
    "reshape_dim": (1, (2, 16)),
    "flatten_dims": (1, 1),
    "reshape": ((32, 4, 8),),
    "rearrange": (("p", ("a", "b")), ("p", "b", "a"), {"a": 2}),
    "view": (nl.uint32,),
    "ap": ([[32, 32], [1, 2]],),
    "__getitem__": (slice(0, 32),),
}


@for_all("method", FURTHER)
def test_a_view_with_an_index_has_no_other_views(method):
    device = Device("trn3")
    tile = device.zeros((32, 32 if method != "broadcast" else 1))
    view = tile.indirect(device.zeros((32, 1), "uint8"), tile.shape[1])
    assert view.is_indirect() and not tile.is_indirect()
    getattr(tile, method)(*FURTHER[method])
    refused(ViewError, "view", getattr(view, method), *FURTHER[method])


def test_the_host_cannot_read_a_view_with_an_index():
    device = Device("trn3")
    view = device.zeros((32, 4)).indirect(device.zeros((32, 1), "uint8"))
    refused(ViewError, "instruction", view.numpy)
