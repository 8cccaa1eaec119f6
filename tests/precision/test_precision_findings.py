"""The source of the error: the findings, their text, and the commands that print them."""

import json

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from every import for_all
from precise import WIDE, X, blamed, codes, empty, loaded, run, stored, through

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options
from neuroncore.cli import main
from neuroncore.frontend.launch import NeuronWarning
from neuroncore.frontend.settings import settings
from neuroncore.report.precision import text

# --- the first result beyond the bound ------------------------------------------------------------


def test_the_first_result_beyond_the_bound():
    _, found = run(through(nl.bfloat16), X)
    assert found.beyond is not None and found.beyond.line.place.text.count("operand0=1.7") == 1
    assert found.beyond.bound == 1e-5  # float32, while bfloat16 itself is within 2^-7
    _, found = run(through(nl.bfloat16), X, precision_bound=1e-4)
    assert "the rough line" in found.beyond.line.place.text and found.beyond.bound == 1e-4
    _, found = run(through(nl.bfloat16), X, precision_bound=0.1)
    assert found.beyond is None


# --- warnings -------------------------------------------------------------------------------------


def variance(x, shift):
    tile = loaded(x)
    rows, n = x.shape
    if shift:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=shift)
    total, squares = empty((rows, 1)), empty((rows, 1))
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    square = empty(tile.shape)
    nisa.tensor_tensor(dst=square, data1=tile, data2=tile, op=nl.multiply)
    nisa.tensor_reduce(dst=squares, op=nl.add, data=square, axis=1)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1 / n)
    nisa.tensor_scalar(dst=squares, data=squares, op0=nl.multiply, operand0=1 / n)
    nisa.tensor_tensor(dst=total, data1=total, data2=total, op=nl.multiply)
    nisa.tensor_tensor(dst=squares, data1=squares, data2=total, op=nl.subtract)  # cancels
    return stored(squares)


def test_cancellation_is_reported_where_it_happens():
    x = X + np.float32(300)
    _, found = run(variance, x, 0.0)
    (told,) = [w for w in found.warnings if w.code == "CANCELLATION"]
    assert told.place.text.endswith("# cancels") and "decimal digits" in told.message
    exact = x.astype(np.float64).var(axis=1, keepdims=True)
    np.testing.assert_allclose(found.results[0].exact, exact, rtol=1e-9)
    _, found = run(variance, x, 300.0)
    assert "CANCELLATION" not in codes(found)


def test_differences_of_exact_numbers_lose_nothing():
    def kernel(x):
        tile, low = loaded(x), empty((70, 1))
        nisa.tensor_reduce(dst=low, op=nl.minimum, data=tile, axis=1)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=low)
        return stored(tile)

    assert not run(kernel, X + np.float32(4096))[1].warnings


def long_sum(x, form):
    """The columns of x, added one by one."""
    tile = loaded(x)
    total = empty((x.shape[0], 1), form)
    nisa.memset(dst=total, value=0.0)
    for j in range(x.shape[1]):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[:, j : j + 1], op=nl.add)  # adds
    return stored(total)


def test_a_long_sum_in_bfloat16_stagnates_at_one_line():
    x = np.ones((8, 600), np.float32)
    done, found = run(long_sum, x, nl.bfloat16)
    assert (done.outputs == 256).all()
    np.testing.assert_array_equal(found.results[0].exact, 600)
    assert found.results[0].rel_l2 == pytest.approx(344 / 600)
    assert blamed(found, "# adds") == pytest.approx(1)
    assert "# adds" in found.beyond.line.place.text
    assert run(long_sum, x, nl.float32)[1].results[0].rel_l2 == 0


@for_all("dst", [nl.float32, nl.int32])
@for_all(("number", "told"), [(2**24 + 1, True), (2**24 + 2, False), (7, False)])
def test_integers_that_float32_lacks(dst, number, told):
    def kernel(x):
        tile = loaded(x)
        out = empty(x.shape, dst)
        nisa.tensor_scalar(dst=out, data=tile, op0=nl.multiply, operand0=1.0)
        return stored(out)

    _, found = run(kernel, np.full((4, 5), number, np.int32))
    assert codes(found) == ["INT32_ROUNDED"] * told


def test_integers_beyond_float32_that_arise():
    def kernel(x):
        tile = loaded(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        return stored(tile)

    done, found = run(kernel, np.full((4, 5), 2**24, np.int32))
    assert (done.outputs == 2**24).all() and codes(found) == ["INT32_ROUNDED"]


def test_exact_integer_arithmetic_is_not_reported():
    def kernel(x):
        tile, out = loaded(x), empty(x.shape, nl.int32)
        nisa.tensor_tensor(dst=out, data1=tile, data2=tile, op=nl.add, engine=nisa.engine.gpsimd)
        nisa.tensor_copy(dst=tile, src=out)
        return stored(tile)

    assert not run(kernel, np.full((4, 5), 2**24 + 1, np.int32))[1].warnings


def test_numbers_of_registers_are_not_conditions():
    def kernel(x):
        tile, register = loaded(x), nisa.register_alloc(3)
        nisa.register_move(register, register + 1)
        part = tile[:, nl.ds(register, 1)]
        nisa.tensor_scalar(dst=part, data=part, op0=nl.add, operand0=1)
        return stored(tile)

    found = neuroncore.run(kernel, np.zeros((4, 5), np.int32), options=Options(precision=True))
    assert found.results[:, 4].tolist() == [1] * 4


@nki.jit
def rows_of_integers(table, index):
    chosen = nl.load(index)
    dst = nl.ndarray((index.shape[0], table.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=dst, src=table.vector_select(0, chosen))
    return stored(dst)


def test_a_gather_of_integers_may_pick_more_rows_than_there_are():
    """Each row of a table of two goes to many partitions, and float32 has its numbers."""
    table, index = np.int32([[1, 2, 3], [4, 5, 6]]), np.arange(64, dtype=np.int32)[:, None] % 2
    assert np.array_equal(rows_of_integers(table, index), table[index[:, 0]])


@pytest.mark.parametrize(
    ("form", "largest", "beyond"),
    [("float16", 65000, 66000), ("float8_e4m3", 240, 260), ("float8_e5m2", 57344, 65000)],
)
def test_overflow_to_infinity(form, largest, beyond):
    def kernel(x):
        narrow = empty(x.shape, getattr(nl, form))
        nisa.tensor_copy(dst=narrow, src=loaded(x))
        wide = empty(x.shape)
        nisa.tensor_scalar(dst=wide, data=narrow, op0=nl.multiply, operand0=2.0)
        return stored(wide)

    x = np.full((4, 6), largest, np.float32)
    assert not codes(run(kernel, x)[1])
    x[1, 2] = beyond
    done, found = run(kernel, x)
    assert np.isinf(done.outputs[1, 2]) and codes(found) == ["OVERFLOW"]
    assert "1 of 24" in found.warnings[0].message and form in found.warnings[0].message
    assert [result.lost for result in found.results] == [1]
    assert "1 of 24 elements are finite in float64 only" in next(text(found))


def test_differences_of_infinities_are_not_cancellation():
    def kernel(x):
        tile, total = loaded(x), empty((x.shape[0], 1))
        nisa.activation(dst=tile, op=nl.exp, data=tile)  # overflows
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        return stored(tile)

    done, found = run(kernel, 40 * X)
    assert set(codes(found)) == {"OVERFLOW"}
    assert all(w.place.text.endswith("# overflows") for w in found.warnings)
    assert found.results[0].lost == np.count_nonzero(~np.isfinite(done.outputs))


def test_one_infinity_in_a_large_tile_is_seen():
    def kernel(x):
        narrow = empty(x.shape, nl.float16)
        nisa.tensor_copy(dst=narrow, src=loaded(x))
        return stored(narrow)

    x = WIDE.copy()
    x[77, 311] = 1e6
    assert codes(run(kernel, x)[1]) == ["OVERFLOW"]


@pytest.mark.parametrize(
    ("form", "inside", "outside"), [("int8", 127.4, 128), ("uint8", 254, -1), ("int16", -3, 4e4)]
)
def test_saturation(form, inside, outside):
    def kernel(x):
        whole = empty(x.shape, getattr(nl, form))
        nisa.tensor_copy(dst=whole, src=loaded(x))
        return stored(whole)

    x = np.full((4, 6), inside, np.float32)
    assert not codes(run(kernel, x)[1])
    x[3, 1] = outside
    assert codes(run(kernel, x)[1]) == ["SATURATED"]


# --- output ---------------------------------------------------------------------------------------

FILE = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def rough(x):
    tile = nl.ndarray(x.shape, nl.float16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    out = nl.ndarray(x.shape, nl.float16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out

def inputs(rng):
    return [rng.standard_normal((4, 8)).astype("float32")]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rough.py"
    path.write_text(FILE)
    return path


def test_the_command_prints_the_source_of_the_error(file, capsys):
    assert main(["run", f"{file}::rough", "--precision"]) == 0
    shown = capsys.readouterr().out
    assert "result 0: relative L2" in shown and "100.0%" in shown and "rough.py:9" in shown
    assert main(["run", f"{file}::rough"]) == 0
    assert "float64" not in capsys.readouterr().out


def test_the_command_prints_the_source_of_the_error_as_json(file, capsys):
    assert main(["run", f"{file}::rough", "--precision-bound", "1e-9", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["launches"]
    (line,) = entry["precision"]["lines"]
    assert line["place"] == f"{file}:9" and line["share"] == 1 and line["formats"] == ["float16"]
    assert 0.2 < line["ulps_rms"] < 0.4 and line["ulps_max"] <= 0.5
    assert entry["precision"]["first_beyond"]["place"] == f"{file}:9"
    assert entry["precision"]["results"][0]["rel_l2"] > 0


def test_python_gives_the_same():
    @nki.jit
    def kernel(x):
        narrow = empty(x.shape, nl.float16)
        nisa.dma_copy(dst=narrow, src=x)
        return stored(narrow)

    found = neuroncore.precision_of(kernel, X, bound=1e-9)
    assert repr(found).startswith("<Precision of ") and repr(found).endswith(" of float64>")
    assert blamed(found, "src=x)") == 1 and found.beyond.bound == 1e-9
    with pytest.raises(UsageError, match="launched no kernel"):
        neuroncore.precision_of(lambda: None)


def test_the_older_api():
    import neuronxcc.nki as older
    import neuronxcc.nki.language as ol

    @older.jit
    def kernel(x):
        out = ol.ndarray(x.shape, ol.bfloat16, buffer=ol.shared_hbm)
        tile = ol.load(x)
        ol.store(out, ol.multiply(ol.exp(tile), 0.7))
        return out

    found = neuroncore.precision_of(kernel, X)
    exact = np.exp(X.astype(np.float64)) * 0.7
    np.testing.assert_allclose(found.results[0].exact, exact, rtol=1e-10)
    assert found.results[0].rel_l2 == pytest.approx(2.0**-9, rel=0.5)
    assert sum(line.share for line in found.lines) == pytest.approx(1)


def test_warnings_are_findings():
    @nki.jit
    def kernel(x):
        narrow = empty(x.shape, nl.int8)
        nisa.tensor_copy(dst=narrow, src=loaded(x))
        return stored(narrow)

    x = np.full((4, 4), 1e4, np.float32)
    kernel(x)
    with settings(options=Options(precision=True)), pytest.warns(NeuronWarning, match="SATURATED"):
        kernel(x)
