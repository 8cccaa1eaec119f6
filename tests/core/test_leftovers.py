"""A read of what nothing has written is told if what comes of it may reach a result."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neuronxcc import nki as older
from neuronxcc.nki import language as older_nl

from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.options import Options

ROWS, COLUMNS = 5, 9  # of tiles of 8 x 12: what is loaded
SHAPE = (8, 12)


def found(compute, rows=ROWS, columns=COLUMNS, into="result"):
    """The findings of a kernel that loads a part of a tile, computes with all of it, and stores as
    many rows and columns."""

    def kernel(x):
        tile = nl.ndarray(SHAPE, nl.float32)
        nisa.dma_copy(tile[0:ROWS, 0:COLUMNS], x)
        result = compute(tile)
        out = nl.ndarray((rows, columns), result.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result[0:rows, 0:columns])
        return out

    run = launch(kernel, [np.ones((ROWS, COLUMNS), np.float32)], tensor=NkiTensor)
    assert {f.code for f in run.findings} <= {"UNINIT_READ"}
    assert not np.isnan(run.outputs.astype(np.float32)).any() or run.findings
    return [f.place.line for f in run.findings]


def made(name, *args, shape=SHAPE, dtype=nl.float32, **options):
    dst = nl.ndarray(shape, dtype)
    getattr(nisa, name)(dst, *args, **options)
    return dst


def scaled(tile):
    return made("tensor_scalar", tile, nl.multiply, 2.0)


def chained(tile):
    """Elementwise, in place, by a copy, and in a narrow format."""
    twice = made("tensor_tensor", tile, scaled(tile), nl.maximum, dtype=nl.bfloat16)
    nisa.activation(twice, nl.exp, twice)
    return made("tensor_copy", made("tensor_copy", twice.reshape((8, 3, 4)), shape=(8, 3, 4))
                .reshape(SHAPE))  # fmt: skip


def chosen(tile):
    dst = scaled(tile)
    nisa.tensor_copy_predicated(dst, tile, made("tensor_scalar", tile, nl.greater, 0.0,
                                                dtype=nl.uint8))  # fmt: skip
    return dst


ELEMENTWISE = [scaled, chained, chosen, lambda tile: made("reciprocal", tile)]


@pytest.mark.parametrize("compute", ELEMENTWISE)
def test_what_is_not_stored_is_not_told(compute):
    assert found(compute) == []
    assert len(found(compute, rows=ROWS + 1)) >= 1
    assert len(found(compute, columns=COLUMNS + 1)) >= 1


def folded(tile):
    total = made("tensor_reduce", nl.add, tile, 1, shape=(8, 1))
    return made("tensor_scalar", tile, nl.multiply, total)


def summed(tile):
    total = nl.ndarray((8, 1), nl.float32)
    nisa.activation_reduce(nl.ndarray(SHAPE, nl.float32), nl.copy, tile, nl.add, total)
    return total


def scanned(tile):
    return made("tensor_tensor_scan", tile, tile, 0.0, nl.add, nl.multiply)


@pytest.mark.parametrize("compute", [folded, summed, scanned])
def test_a_fold_along_the_free_axis_takes_leftovers_of_its_row(compute):
    assert len(found(compute, columns=1)) >= 1


def full_rows(compute):
    """The same on tiles of which whole rows are written, and others not at all."""

    def kernel(x):
        tile = nl.ndarray(SHAPE, nl.float32)
        nisa.dma_copy(tile[0:ROWS], x)
        result = compute(tile)
        out = nl.ndarray((ROWS, 1), result.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result[0:ROWS, 0:1])
        return out

    x = np.ones((ROWS, SHAPE[1]), np.float32)
    return [f.code for f in launch(kernel, [x], tensor=NkiTensor).findings]


@pytest.mark.parametrize("compute", [folded, summed, scanned, *ELEMENTWISE])
def test_lanes_work_for_themselves(compute):
    assert full_rows(compute) == []


def over_partitions(tile):
    return made("tensor_copy", made("tensor_partition_reduce", nl.add, tile, shape=(1, 12)),
                shape=(1, 12))  # fmt: skip


def test_what_mixes_lanes_is_told():
    assert len(found(over_partitions, rows=1, columns=1)) == 1


def test_what_is_overwritten_is_no_leftover_any_more():
    def compute(tile):
        dst = scaled(tile)
        nisa.memset(dst, 1.0)
        return dst

    assert found(compute, *SHAPE) == []


def test_a_finding_is_told_once_and_where_it_was_read():
    def compute(tile):
        for _ in range(3):
            dst = scaled(tile)
        return dst

    (line,) = found(compute, *SHAPE)
    assert line == made.__code__.co_firstlineno + 2


def test_a_register_that_leftovers_come_to_is_told():
    def kernel(x):
        tile = nl.ndarray((1, 1), nl.int32)
        double = made("tensor_scalar", tile, nl.multiply, 2.0, shape=(1, 1), dtype=nl.int32)
        nisa.register_load(nisa.register_alloc(), double)
        return x

    run = launch(kernel, [np.ones((1, 1), np.float32)], tensor=NkiTensor)
    assert [f.code for f in run.findings] == ["UNINIT_READ"]


def test_accumulator_registers_keep_leftovers():
    """Rows that one instruction adds up and another reads out."""

    def kernel(x, command):
        tile, total = nl.ndarray(SHAPE, nl.float32), nl.ndarray((8, 1), nl.float32)
        scratch = nl.ndarray(SHAPE, nl.float32)
        nisa.activation(scratch, nl.copy, tile, reduce_op=nl.add,
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
        nisa.memset(tile, 1.0)
        nisa.activation(scratch, nl.copy, tile, reduce_op=nl.add, reduce_res=total,
                        reduce_cmd=command)  # fmt: skip
        out = nl.ndarray((8, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    for command, codes in (("reduce", ["UNINIT_READ"]), ("reset_reduce", [])):
        given = [np.ones((1, 1), np.float32), getattr(nisa.reduce_cmd, command)]
        run = launch(kernel, given, tensor=NkiTensor)
        assert [f.code for f in run.findings] == codes
        assert np.isnan(run.outputs).any() == bool(codes)


def test_results_are_as_ever():
    """Only the finding is kept back: what is stored has poison in it wherever it is told."""

    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype)
        nl.store(x, nl.add(tile, 1.0))
        return x

    with pytest.warns(match="UNINIT_READ"):
        assert np.isnan(kernel(np.zeros(SHAPE, np.float32))).all()


@pytest.mark.parametrize("stored, told", [(60, False), (128, True)])
def test_the_older_api_masks_the_last_tile(stored, told):
    """As published references do: rows that are not there are loaded and stored by a mask."""

    @older.jit
    def kernel(x):
        out = older_nl.ndarray((stored, 8), x.dtype, buffer=older_nl.shared_hbm)
        i, j = older_nl.arange(128)[:, None], older_nl.arange(8)[None, :]
        tile = older_nl.load(x[i, j], mask=i < 60)
        best = older_nl.multiply(tile, 2.0)
        older_nl.store(out[i, j], best, mask=i < stored)
        return out

    x = np.ones((60, 8), np.float32)
    if told:
        with pytest.warns(match="UNINIT_READ"):
            kernel(x)
    else:
        assert (kernel(x) == 2).all()


# --- any program ----------------------------------------------------------------------------------

STEPS = {
    "copy": lambda d, a, b: nisa.tensor_copy(d, a),
    "add": lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.add),
    "most": lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.maximum),
    "scale": lambda d, a, b: nisa.tensor_scalar(d, a, nl.multiply, b[:, 0:1]),
    "fold": lambda d, a, b: nisa.tensor_reduce(d[:, 0:1], nl.add, a, 1),
    "scan": lambda d, a, b: nisa.tensor_tensor_scan(d, a, b, 0.0, nl.multiply, nl.add),
    "choose": lambda d, a, b: nisa.tensor_copy_predicated(d, a, b.view(nl.uint32)),
    "sum": lambda d, a, b: nisa.activation_reduce(d, nl.copy, a, nl.add, b[:, 0:1]),
    "move": lambda d, a, b: nisa.dma_copy(d, a),
    "turn": lambda d, a, b: nisa.nc_transpose(d, a, engine=nisa.vector_engine),
    "fill": lambda d, a, b: nisa.memset(d, 1.0),
}
SIZE = 6


def parts(data):
    """A tile of three, and a square of it."""
    first = data.draw(st.integers(0, SIZE - 3))
    return data.draw(st.integers(0, 2)), slice(first, first + 3)


@given(data=st.data())
def test_whatever_leftovers_change_in_a_result_is_told(data):
    names = data.draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=8))
    steps = [(name, *(parts(data) for _ in range(3))) for name in names]
    written, stored = parts(data), parts(data)

    def kernel(x):
        tiles = [nl.ndarray((3, SIZE), nl.float32) for _ in range(3)]
        nisa.memset(tiles[written[0]][:, written[1]], 2.0)
        for name, *operands in steps:
            STEPS[name](*(tiles[tile][:, columns] for tile, columns in operands))
        nisa.dma_copy(x, tiles[stored[0]][:, stored[1]])
        return x

    def run(uninitialised):
        x = np.zeros((3, 3), np.float32)
        options = Options(uninitialised=uninitialised, nan_minmax="number")
        return launch(kernel, [x], tensor=NkiTensor, options=options)

    poison, zeros = run("report"), run("zeros")
    if not np.array_equal(poison.outputs, zeros.outputs):
        assert "UNINIT_READ" in [f.code for f in poison.findings]
