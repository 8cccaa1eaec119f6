"""A read of uninitialized memory is reported if a result may depend on it."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS
from every import for_all
from neuronxcc import nki as older
from neuronxcc.nki import isa as older_isa
from neuronxcc.nki import language as older_nl
from written_tiles import SHAPE, from_psum, made

from neuroncore.base.options import Options
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings

ROWS, COLUMNS = 5, 9  # the part of tiles of SHAPE that is loaded


def found(compute, rows=ROWS, columns=COLUMNS, into="result"):
    """Return the findings of a kernel that loads a part of a tile, computes with all of it, and
    stores a part of the result: `rows` and `columns`."""

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


def scaled(tile):
    return made("tensor_scalar", tile, nl.multiply, 2.0)


def chained(tile):
    """Elementwise instructions, in place, by a copy, and in a narrow format."""
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
def test_undefined_elements_that_are_not_stored_are_not_reported(compute):
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
def test_a_fold_along_the_free_axis_depends_on_undefined_elements_of_its_row(compute):
    assert len(found(compute, columns=1)) >= 1


def full_rows(compute):
    """Return the findings for tiles of which some rows are written completely, and the others not
    at all."""

    def kernel(x):
        tile = nl.ndarray(SHAPE, nl.float32)
        nisa.dma_copy(tile[0:ROWS], x)
        result = compute(tile)
        out = nl.ndarray((ROWS, 1), result.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result[0:ROWS, 0:1])
        return out

    x = np.ones((ROWS, SHAPE[1]), np.float32)
    return [f.code for f in launch(kernel, [x], tensor=NkiTensor).findings]


@for_all("compute", [folded, summed, scanned, *ELEMENTWISE])
def test_lanes_are_independent(compute):
    assert full_rows(compute) == []


def over_partitions(tile):
    return made("tensor_copy", made("tensor_partition_reduce", nl.add, tile, shape=(1, 12)),
                shape=(1, 12))  # fmt: skip


def test_instructions_that_mix_lanes_are_reported():
    assert len(found(over_partitions, rows=1, columns=1)) == 1


def test_overwritten_elements_are_no_longer_undefined():
    def compute(tile):
        dst = scaled(tile)
        nisa.memset(dst, 1.0)
        return dst

    assert found(compute, *SHAPE) == []


def test_a_finding_is_reported_once_at_the_line_of_the_read():
    def compute(tile):
        for _ in range(3):
            dst = scaled(tile)
        return dst

    (line,) = found(compute, *SHAPE)
    assert line == made.__code__.co_firstlineno + 2


def test_undefined_elements_that_reach_a_register_are_reported():
    def kernel(x):
        tile = nl.ndarray((1, 1), nl.int32)
        double = made("tensor_scalar", tile, nl.multiply, 2.0, shape=(1, 1), dtype=nl.int32)
        nisa.register_load(nisa.register_alloc(), double)
        return x

    run = launch(kernel, [np.ones((1, 1), np.float32)], tensor=NkiTensor)
    assert [f.code for f in run.findings] == ["UNINIT_READ"]


def test_accumulator_registers_keep_undefined_elements():
    """One instruction adds up rows, and another reads out the sums."""

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


@pytest.mark.parametrize(
    "command, reported",
    [("reduce", True), ("reset_reduce", False), ("reset", False), ("no command", False)],
)
@pytest.mark.parametrize("same_engine", [True, False])
def test_registers_keep_undefined_elements_until_an_instruction_of_their_engine_sets_them(
    command, reported, same_engine
):
    commands = nisa.reduce_cmd

    def kernel(x):
        tile, total = nl.ndarray(SHAPE, nl.float32), nl.ndarray((8, 1), nl.float32)
        scratch = nl.ndarray(SHAPE, nl.float32)
        if same_engine:
            nisa.activation(scratch, nl.copy, tile, reduce_op=nl.add,
                            reduce_cmd=commands.reset_reduce)  # fmt: skip
        else:
            nisa.tensor_scalar_reduce(scratch, tile, nl.add, 0.0, nl.add)
        nisa.memset(tile, 1.0)
        if command == "no command":
            nisa.activation_reduce(scratch, nl.copy, tile, reduce_op=nl.add, reduce_res=total)
        else:
            nisa.activation(scratch, nl.copy, tile, reduce_op=nl.add,
                            reduce_cmd=getattr(commands, command))  # fmt: skip
        if command == "reset":
            nisa.activation(scratch, nl.copy, tile, reduce_op=nl.add, reduce_res=total,
                            reduce_cmd=commands.reduce)  # fmt: skip
        return x

    run = launch(kernel, [np.ones((1, 1), np.float32)], tensor=NkiTensor)
    assert [f.code for f in run.findings] == ["UNINIT_READ"] * (reported and same_engine)


def test_results_have_poison_even_where_findings_are_deferred():
    """Only the finding is deferred: a stored element is poison wherever a finding is reported."""

    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype)
        nl.store(x, nl.add(tile, 1.0))
        return x

    with pytest.warns(match="UNINIT_READ"):
        assert np.isnan(kernel(np.zeros(SHAPE, np.float32))).all()


@pytest.mark.parametrize("stored, told", [(60, False), (128, True)])
def test_the_older_api_masks_the_last_tile(stored, told):
    """As in published references: a mask leaves out rows that do not exist in loads and stores."""

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


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_older_api_transposes_the_last_tile(target):
    """The Tensor engine transposes the tile twice; only rows that were loaded by a mask are
    stored."""

    @older.jit
    def kernel(x):
        out = older_nl.ndarray((100, 128), x.dtype, buffer=older_nl.shared_hbm)
        i, j = older_nl.mgrid[0:128, 0:128]
        tile = older_nl.ndarray((128, 128), x.dtype, buffer=older_nl.sbuf)
        tile[...] = older_nl.load(x[i, j], mask=i < 100)
        turned_tile = older_nl.copy(older_nl.transpose(tile))
        back = older_nl.copy(older_isa.nc_transpose(turned_tile))
        older_nl.store(out[i, j], back, mask=i < 100)
        return out

    x = np.arange(12800, dtype=np.float32).reshape(100, 128)
    with settings(target):
        assert np.array_equal(kernel(x), x)


# --- transposes and products ----------------------------------------------------------------------

LOADED = np.float32(1 + np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % 7)


def turned(tile, eye, turned_eye):
    return from_psum("nc_transpose", (12, 8), tile)


def turned_by_product(tile, eye, turned_eye):
    return from_psum("nc_matmul", (12, 8), tile, eye, is_transpose=True)


def multiplied(tile, eye, turned_eye):
    return from_psum("nc_matmul", (12, 8), tile, eye)


def twice_in_double_rows(tile, eye, turned_eye):
    """Multiply zeros and data by zeros and an identity matrix."""
    halves, ones = (nl.ndarray((8, 2, n), nl.float8_e4m3) for n in (12, 8))
    for both, one in ((halves, tile), (ones, eye)):
        nisa.memset(both, 0.0)
        nisa.tensor_copy(both[:, 1, :], one)
    return from_psum("nc_matmul", (12, 8), halves, ones, perf_mode=nisa.matmul_perf_mode.double_row)


def copied_by_product(tile, eye, turned_eye):
    """Multiply by an identity matrix as the stationary tile."""
    return turned(from_psum("nc_matmul", (8, 12), eye, tile), eye, turned_eye)


def there_and_back(tile, eye, turned_eye):
    large = nl.ndarray((12, 12), nl.float32)
    nisa.iota(large, [[1, 12]], channel_multiplier=-1)
    nisa.tensor_scalar(large, large, nl.equal, 0.0)
    back = from_psum("nc_matmul", (8, 12), turned(tile, eye, turned_eye), large)
    return turned(back, eye, turned_eye)


MOVES = [turned, turned_by_product, multiplied, copied_by_product, there_and_back]


def moved(compute, target, rows=ROWS, columns=COLUMNS, options=None):
    """Launch a kernel that loads a part of a tile, transposes all of it, and stores a part."""

    def kernel(x):
        tile = nl.ndarray(SHAPE, nl.float32)
        nisa.dma_copy(tile[0:ROWS, 0:COLUMNS], x)
        eye, turned_eye = nl.ndarray((8, 8), nl.float32), nl.ndarray((8, 8), nl.float32)
        nisa.iota(eye, [[1, 8]], channel_multiplier=-1)
        nisa.tensor_scalar(eye, eye, nl.equal, 0.0)
        nisa.iota(turned_eye, [[1, 8]], offset=-7, channel_multiplier=1)
        nisa.tensor_scalar(turned_eye, turned_eye, nl.equal, 0.0)
        result = compute(tile, eye, turned_eye)
        out = nl.ndarray((columns, rows), result.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result[0:columns, 0:rows])
        return out

    return launch(kernel, [LOADED], tensor=NkiTensor, target=target, options=options)


@for_all("target", TARGETS)
@for_all("compute", MOVES)
def test_uninitialized_elements_stay_in_their_places(compute, target):
    run = moved(compute, target)
    assert run.findings == [] and np.array_equal(run.outputs, LOADED.T)
    for more in ({"rows": ROWS + 1}, {"columns": COLUMNS + 1}):
        run = moved(compute, target, **more)
        assert [f.code for f in run.findings] == ["UNINIT_READ"]
        assert np.array_equal(run.outputs[:COLUMNS, :ROWS], LOADED.T)
        assert np.isnan(run.outputs).sum() == run.outputs.size - LOADED.size
        zeros = moved(compute, target, **more, options=Options(uninitialized="zeros"))
        assert np.array_equal(np.nan_to_num(run.outputs), zeros.outputs)


def test_uninitialized_elements_of_double_rows_stay_in_their_places():
    run = moved(twice_in_double_rows, "trn3")
    assert run.findings == [] and np.array_equal(run.outputs, LOADED.T)


@pytest.mark.parametrize("target", TARGETS)
def test_undefined_elements_can_be_transposed_in_another_order(target):
    run = moved(lambda t, e, r: turned_by_product(t, r, e), target, rows=8)
    assert [f.code for f in run.findings] == ["UNINIT_READ"]
    assert np.array_equal(run.outputs[:, 8 - ROWS :], LOADED[::-1].T)
    assert np.isnan(run.outputs[:, : 8 - ROWS]).all()


@for_all("target", TARGETS)
@for_all("compute", [turned, turned_by_product, multiplied])
def test_a_nan_that_was_computed_spreads_where_the_array_multiplies(compute, target):
    def with_a_nan(tile, eye, turned_eye):
        nisa.activation(tile[0:1, 0:1], nl.log, made("memset", -1.0, shape=(1, 1)))
        return compute(tile, eye, turned_eye)

    run = moved(with_a_nan, target)
    passes = target != "trn1" and compute in (turned, turned_by_product)
    assert np.isnan(run.outputs[0]).sum() == (1 if passes else ROWS)
    assert np.array_equal(run.outputs[1:], LOADED.T[1:])


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_depends_on_all_its_terms(target):
    """Terms times 0 count too, because in place of an identity matrix other numbers are
    possible."""

    def doubled(tile, eye, turned_eye):
        nisa.tensor_scalar(eye, eye, nl.multiply, 2.0)
        return multiplied(tile, eye, turned_eye)

    run = moved(doubled, target)
    assert [f.code for f in run.findings] == ["UNINIT_READ"] and np.isnan(run.outputs).all()


@pytest.mark.parametrize("target", TARGETS)
def test_rows_and_columns_of_a_product_are_distinguished(target):
    """Columns of the stationary tile are rows of the result."""

    def summed(tile, eye, turned_eye):
        nisa.memset(tile[:, 0:COLUMNS], 1.0)
        return multiplied(tile, made("memset", 2.0, shape=(8, 8)), None)

    run = moved(summed, target, rows=8)
    assert run.findings == [] and (run.outputs == 16).all()
    run = moved(summed, target, columns=12)
    assert [f.code for f in run.findings] == ["UNINIT_READ"]
    assert (run.outputs[:COLUMNS] == 16).all() and np.isnan(run.outputs[COLUMNS:]).all()


@pytest.mark.parametrize("target", TARGETS)
def test_undefined_elements_stay_in_a_sum_that_is_continued(target):
    def sums(again):
        def compute(tile, eye, turned_eye):
            total = nl.ndarray((12, 8), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total, tile, eye)
            nisa.memset(tile, 1.0)
            nisa.nc_matmul(total, tile, eye, accumulate=again)
            return made("tensor_copy", total, shape=(12, 8))

        return moved(compute, target, rows=8, columns=12)

    assert [f.code for f in sums(True).findings] == ["UNINIT_READ"]
    assert [f.code for f in sums(None).findings] == ["UNINIT_READ"]
    afresh = sums(False)
    assert afresh.findings == [] and (afresh.outputs == 1).all()


def test_undefined_elements_that_were_reported_still_affect_only_their_places():
    def compute(tile, eye, turned_eye):
        scratch = nl.ndarray(SHAPE, nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(scratch, tile)
        return turned(tile, eye, turned_eye)

    run = moved(compute, "trn1")
    assert [f.code for f in run.findings] == ["UNINIT_READ"]
    assert np.array_equal(run.outputs, LOADED.T)


def test_undefined_elements_of_tiles_at_addresses_are_reported_at_their_first_read():
    def compute(tile, eye, turned_eye):
        placed = nl.ndarray(SHAPE, nl.float32, address=(0, 4096))
        nisa.tensor_copy(placed[0:ROWS, 0:COLUMNS], tile[0:ROWS, 0:COLUMNS])
        return turned(placed, eye, turned_eye)

    run = moved(compute, "trn1")
    assert [f.code for f in run.findings] == ["UNINIT_READ"]
    assert np.array_equal(run.outputs, LOADED.T)


@pytest.mark.parametrize("compute", MOVES)
def test_uninitialized_elements_stay_in_their_places_in_float64_too(compute):
    def of_thirds(tile, eye, turned_eye):
        nisa.tensor_scalar(tile, tile, nl.multiply, 1 / 3)
        return compute(tile, eye, turned_eye)

    run = moved(of_thirds, "trn1", options=Options(precision=True))
    (result,) = run.precision.results
    assert np.isfinite(result.exact).all() and run.findings == []
    assert np.allclose(result.exact, LOADED.T / 3)
