"""Uninitialized memory is tracked element by element, and reads of it are reported."""

import sys

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

import neuroncore
from neuroncore.base.errors import ShapeError, UninitializedError
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor

SHAPES = [(1, 1), (3, 7), (4, 6, 5), (33, 8), (2, 3, 4, 2)]


def key_of(data, shape):
    """A random index of slices with steps."""
    keys = []
    for size in shape:
        start = data.draw(st.integers(0, size - 1))
        stop = data.draw(st.integers(start + 1, size))
        keys.append(slice(start, stop, data.draw(st.integers(1, 3))))
    return tuple(keys)


def missing_of(tile):
    missing = tile.missing()
    return np.zeros(tile.shape, np.bool_) if missing is None else missing


# --- which elements were written ------------------------------------------------------------------


@pytest.mark.parametrize("buffer", ["hbm", "sbuf", "psum"])
@given(data=st.data())
def test_partial_writes_are_tracked_exactly(buffer, data):
    device = Device()
    shape = data.draw(st.sampled_from(SHAPES))
    dtype = data.draw(st.sampled_from(["float32", "bfloat16", "int8"]))
    tile, written = device.empty(shape, dtype, buffer), np.zeros(shape, np.bool_)
    for _ in range(data.draw(st.integers(0, 6))):
        key = key_of(data, shape)
        written[key] = True
        source = device.tile(np.zeros(written[key].shape, np.float32), buffer="hbm")
        if buffer == "psum":
            tile[key].mark_written()  # DMA does not reach PSUM
        else:
            device.issue("dma_copy", tile[key], source)
        look = key_of(data, shape)
        assert np.array_equal(missing_of(tile[look]), ~written[look])
    assert np.array_equal(missing_of(tile), ~written)


@given(data=st.data())
def test_writes_through_other_views_count(data):
    device = Device()
    tile, written = device.empty((4, 24), buffer="hbm"), np.zeros((4, 24), np.bool_)
    for _ in range(data.draw(st.integers(1, 4))):
        other, flags = tile.reshape((4, 4, 6)), written.reshape(4, 4, 6)
        order = data.draw(st.permutations(range(3)))
        other, flags = other.permute(order), flags.transpose(order)
        key = key_of(data, flags.shape)
        flags[key] = True
        device.issue("dma_copy", other[key], device.tile(np.zeros(flags[key].shape, np.int8)))
        assert np.array_equal(missing_of(tile), ~written)


@given(data=st.data())
def test_narrow_writes_leave_a_wide_element_unwritten(data):
    """An element is uninitialized as long as one of its bytes is, in any format."""
    device = Device()
    tile, written = device.empty((2, 8)), np.zeros((2, 32), np.bool_)
    for _ in range(data.draw(st.integers(1, 5))):
        form, size = data.draw(st.sampled_from([("uint8", 1), ("int16", 2), ("float32", 4)]))
        view = tile.view(form)
        start = data.draw(st.integers(0, view.shape[1] - 1))
        stop = data.draw(st.integers(start + 1, view.shape[1]))
        device.issue("memset", view[:, start:stop], 0)
        written[:, start * size : stop * size] = True
        assert np.array_equal(missing_of(tile), ~written.reshape(2, 8, 4).all(axis=2))
        halves = written.reshape(2, 16, 2).all(axis=2)
        assert np.array_equal(missing_of(tile.view("bfloat16")), ~halves)


def test_a_full_write_ends_the_tracking():
    device = Device()
    tile = device.empty((4, 6))
    device.issue("memset", tile[:, :3], 0.0)
    assert tile.storage.gaps is not None
    device.issue("memset", tile[:, 3:], 0.0)
    assert tile.storage.gaps is None
    whole = device.empty((4, 6))
    device.issue("memset", whole.reshape((4, 2, 3)), 0.0)
    assert whole.storage.gaps is None


def test_elements_with_a_false_predicate_are_not_written():
    device = Device()
    chosen = np.array([[1, 0, 1], [0, 0, 2]], np.uint8)
    tile = device.empty((2, 3))
    device.issue(
        "tensor_copy_predicated",
        tile,
        device.tile(np.ones((2, 3), np.float32)),
        device.tile(chosen),
    )
    assert np.array_equal(missing_of(tile), chosen == 0)


def test_only_the_scattered_rows_are_written():
    device = Device()
    tile = device.empty((6, 4), buffer="hbm")
    rows = device.tile(np.array([[4], [1]], np.int32))
    ones = device.tile(np.ones((2, 4), np.float32))
    device.issue("dma_copy", tile.vector_select(0, rows), ones)
    assert missing_of(tile)[:, 0].tolist() == [True, False, True, True, False, True]


def test_an_illegal_write_writes_nothing():
    device = Device()
    tile = device.empty((4, 6))
    device.refuses(ShapeError, "tensor_copy", tile, device.tile(np.ones((4, 5), np.float32)))
    assert missing_of(tile).all()


# --- through another tensor at the same address ---------------------------------------------------


def test_elements_written_through_an_alias_count_as_written():
    device = Device()
    wide = device.empty((4, 8), address=(0, 0))
    narrow = device.empty((4, 8), "bfloat16", address=(0, 8))
    device.issue("memset", narrow, 1.0)
    columns = [True, True, False, False, False, False, True, True]
    assert missing_of(wide).tolist() == [columns] * 4
    assert not missing_of(device.empty((2, 4), address=(0, 8))).any()
    assert missing_of(device.empty((33, 2), address=(0, 8)))[4:].all()


def test_a_later_tensor_at_the_address_has_the_old_contents():
    device = Device()
    first = device.empty((4, 8), address=(32, 64))
    device.issue("memset", first, 3.0)
    again = device.empty((4, 8), address=(32, 64))
    out = device.empty((4, 8))
    device.issue("tensor_copy", out, again)
    assert (out.numpy() == 3).all() and not device.findings


# --- poison ---------------------------------------------------------------------------------------


@for_all(
    ("dtype", "is_poison"),
    [
        *((name, np.isnan) for name in ("float32", "float16", "bfloat16", "float8_e5m2")),
        *((name, lambda x: x == 4) for name in ("int8", "uint8", "int16", "int32", "uint32")),
    ],
)
@for_all("buffer", ["sbuf", "psum", "hbm"])
def test_unwritten_elements_read_as_poison(buffer, dtype, is_poison):
    assert ml_dtypes.bfloat16  # registers the format's name with numpy
    device = Device()
    tile = device.empty((4, 6), dtype, buffer)
    if buffer == "hbm":
        device.issue("dma_copy", tile[:, 1:3], device.tile(np.zeros((4, 2), np.float32), dtype))
    else:
        device.issue("memset", tile[:, 1:3], 0)
    dst = device.empty((4, 6), dtype)
    device.issue("tensor_copy" if buffer != "hbm" else "dma_copy", dst, tile)
    got = dst.numpy().astype(np.float32)
    assert (got[:, 1:3] == 0).all()
    assert is_poison(got[:, [0, 3, 4, 5]]).all()
    assert device.findings == ["UNINIT_READ"]


def test_poison_never_replaces_written_elements():
    device = Device()
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    tile = device.empty((4, 6))
    device.issue("tensor_copy", device.empty((4, 6)), tile)
    device.issue("tensor_copy", tile[:, :4], device.tile(values)[:, :4])
    device.issue("tensor_copy", device.empty((4, 6)), tile)
    assert np.array_equal(tile.numpy()[:, :4], values[:, :4])


# --- findings -------------------------------------------------------------------------------------


def here():
    return sys._getframe(1).f_lineno


def test_a_finding_names_the_reader_the_tensor_and_the_line_that_created_it():
    device = Device()

    def kernel():
        tile = nl.ndarray((96, 8), nl.float32, name="acc")
        born = here() - 1
        nisa.memset(tile[:64], 0.0)
        out = nl.ndarray((96, 8), nl.float32)
        nisa.tensor_copy(out, tile)
        return born, here() - 1

    born, read = device.call(kernel)
    (finding,) = device.core.findings
    assert (finding.code, finding.place.line, finding.place.file) == ("UNINIT_READ", read, __file__)
    for part in ("'acc'", "256 of 768 elements", "rows 64 to 95", f"{__file__}:{born}", "src"):
        assert part in finding.message
    assert str(finding).startswith(f"{__file__}:{read}:9: warning[UNINIT_READ] ")


def test_a_line_is_reported_once_per_tensor():
    device = Device()

    def kernel():
        bad, worse = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
        out = nl.ndarray((4, 4), nl.float32)
        for _ in range(3):
            nisa.tensor_copy(out, bad)
        for tile in (bad, worse):
            nisa.tensor_copy(out, tile)

    device.call(kernel)
    assert device.findings == ["UNINIT_READ"] * 3


def test_accumulating_onto_uninitialized_memory_is_a_read():
    device = Device()
    tile = device.empty((4, 4))
    device.issue("tensor_tensor", tile, tile, device.tile(np.ones((4, 4), np.float32)), op=nl.add)
    assert device.findings == ["UNINIT_READ"] and np.isnan(tile.numpy()).all()


def test_an_uninitialized_index_is_reported():
    device = Device()
    tensor = device.tile(np.zeros((6, 4), np.float32), buffer="hbm")
    device.issue("dma_copy", device.empty((1, 4)), tensor[device.empty((1, 1), "int32")])
    assert "UNINIT_READ" in device.findings


def gather_rows(device, rows):
    """Gather rows of a tensor of six, of which only rows 2 and 3 were written."""
    table, chosen = device.empty((6, 4), buffer="hbm"), device.tile(np.array([rows], np.int32).T)
    device.issue("dma_copy", table[2:4], device.tile(np.ones((2, 4), np.float32)))
    dst = device.empty((len(rows), 4))
    device.issue("dma_copy", dst, table.vector_select(0, chosen))
    return dst.numpy()


def test_gathered_uninitialized_rows_are_poison():
    device = Device()
    got = gather_rows(device, [4, 2])
    assert np.isnan(got[0]).all() and (got[1] == 1).all()
    assert device.findings == ["UNINIT_READ"]


def test_uninitialized_rows_that_are_not_gathered_are_not_reported():
    device = Device()
    assert (gather_rows(device, [3, 2, 3]) == 1).all() and not device.findings


def test_written_elements_of_a_partly_written_tensor_have_no_finding():
    device = Device()
    tile = device.empty((4, 6))
    device.issue("memset", tile[:, ::2], 1.0)
    device.issue("tensor_copy", device.empty((4, 3)), tile[:, ::2])
    assert not device.findings


def test_an_option_makes_an_uninitialized_read_an_error_that_leaves_no_trace():
    device = Device(uninitialized="raise")
    out = device.tile(np.zeros((4, 4), np.float32))
    device.refuses(
        UninitializedError, "tensor_copy", out, device.empty((4, 4)), words=["src", "all elements"]
    )
    device.issue("tensor_copy", out, device.tile(np.ones((4, 4), np.float32)))
    assert (out.numpy() == 1).all()


# --- results --------------------------------------------------------------------------------------


def kernel_that_writes(rows):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="out")
        nl.load(x)
        for i in nl.affine_range(rows):
            nisa.dma_copy(out[i : i + 1], x[i : i + 1])
        return out

    return kernel


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_results_that_were_not_written_are_reported(rows):
    x = np.ones((4, 6), np.float32)
    run = launch(kernel_that_writes(rows), (x,), tensor=NkiTensor)
    (finding,) = run.findings
    assert finding.code == "OUTPUT_NOT_WRITTEN"
    assert "'out'" in finding.message and f"{24 - 6 * rows} of the 24 elements" in finding.message
    assert (run.outputs[:rows] == 1).all() and np.isnan(run.outputs[rows:]).all()


def test_completely_written_results_have_no_finding():
    run = launch(kernel_that_writes(4), (np.ones((4, 6), np.float32),), tensor=NkiTensor)
    assert not run.findings and (run.outputs == 1).all()


def test_arguments_count_as_written():
    x = np.ones((4, 6), np.float32)
    run = launch(lambda x: x, (x,), tensor=NkiTensor)
    assert run.outputs is x and not run.findings


def test_findings_without_an_observer_are_warnings():
    with pytest.warns(NeuronWarning, match="OUTPUT_NOT_WRITTEN"):
        nki.jit(kernel_that_writes(2))(np.ones((4, 6), np.float32))


def test_a_cached_read_reports_each_line_and_has_poison_of_its_format():
    def kernel(x):
        a, u = nl.load(x), nl.ndarray((4, 8), nl.float32, buffer=nl.sbuf)
        out, halves = nl.ndarray((4, 8), nl.float32), nl.ndarray((4, 16), nl.bfloat16)
        results = []
        for _ in range(2):
            nisa.tensor_tensor(out, a, u, nl.add)
            nisa.tensor_copy(halves, u.view(nl.bfloat16))
            stored = nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(stored, out)
            results.append(stored)
        nisa.memset(u[:, 0:4], 1.0)
        for _ in range(2):
            nisa.tensor_tensor(out, a, u, nl.add)
        stored = nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(stored, out)
        return *results, stored

    run = neuroncore.run(nki.jit(kernel), np.ones((4, 8), np.float32), target="trn2")
    first, second, third = run.results
    assert np.isnan(first).all() and np.isnan(second).all()
    assert (third[:, :4] == 2).all() and np.isnan(third[:, 4:]).all()
    found = [finding for finding in run.findings if finding.code == "UNINIT_READ"]
    assert len({finding.place for finding in found}) == len(found) == 3
