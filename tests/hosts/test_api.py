"""neuroncore.run and the Run that it returns: results, figures, tables, comparison."""

import copy
import pickle
import re
from pathlib import Path

import neuronxcc.nki as older
import neuronxcc.nki.language as older_nl
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore
from neuroncore.base.errors import KernelError, UsageError
from neuroncore.base.findings import without_advice
from neuroncore.report.compare import Incomparable
from neuroncore.report.summary import figures

RNG = np.random.default_rng(3)
A, B = RNG.standard_normal((2, 96, 40), np.float32)


def add(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf) for _ in range(3)]
    nisa.dma_copy(dst=tiles[0], src=a)
    nisa.dma_copy(dst=tiles[1], src=b)
    nisa.tensor_tensor(dst=tiles[2], data1=tiles[0], data2=tiles[1], op=nl.add)
    nisa.dma_copy(dst=out, src=tiles[2])
    return out


@nki.jit
def halves(a):
    """Each core doubles a half of the rows."""
    rows = a.shape[0] // 2
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    mine = slice(nl.program_id(0) * rows, (nl.program_id(0) + 1) * rows)
    tile = nl.ndarray((rows, a.shape[1]), a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[mine])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[mine], src=tile)
    return out


@nki.jit
def double_in_place(a):
    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=a, src=tile)


@older.jit
def older_add(a, b):
    out = older_nl.ndarray(a.shape, a.dtype, buffer=older_nl.shared_hbm)
    older_nl.store(out, older_nl.load(a) + older_nl.load(b))
    return out


@pytest.mark.parametrize("kernel", [add, nki.jit(add), older_add])
def test_a_kernel_of_either_api_is_run_and_compared(kernel):
    run = neuroncore.run(kernel, A, B, target="trn1")
    np.testing.assert_array_equal(run.results, A + B)
    assert run.compare(np.add) and run.compare(A + B) and run.compare([A + B], tolerance=0.0)
    assert (run.machine.name, without_advice(run.findings)) == ("trn1", [])
    assert repr(run).startswith(f"<Run of {run.kernel} on trn1")


def test_a_wrong_result_does_not_agree():
    found = neuroncore.run(add, A, B).compare(np.subtract)
    assert not found and found.comparisons[0].max_abs == pytest.approx(2 * np.abs(B).max())
    assert neuroncore.run(add, A, B).compare(np.subtract, tolerance=1e9)


def test_results_that_cannot_be_compared_are_reported():
    run = neuroncore.run(add, A, B)
    with pytest.raises(Incomparable, match="returns 1 array, but the reference has 2"):
        run.compare([A, B])
    with pytest.raises(Incomparable, match="shape"):
        run.compare(A[:4])


def test_a_kernel_that_works_in_place_is_compared_by_its_changed_arguments():
    given = A.copy()
    run = neuroncore.run(double_in_place, given)
    np.testing.assert_array_equal(given, 2 * A)

    def in_place(a):
        a *= 2

    assert run.compare(lambda a: 2 * a) and run.compare(in_place) and run.compare(2 * A)
    assert not run.compare(lambda a: 3 * a)
    np.testing.assert_array_equal(given, 2 * A)  # the reference had copies
    unchanged = neuroncore.run(double_in_place, np.zeros_like(A))
    with pytest.raises(Incomparable, match="changes none"):
        unchanged.compare(lambda a: 2 * a)


@pytest.mark.parametrize("kernel", [halves[2], double_in_place])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_tensors_are_compared(kernel, dtype):
    torch = pytest.importorskip("torch")
    x = torch.tensor(A).to(getattr(torch, dtype))
    run = neuroncore.run(kernel, x, target="trn2")
    assert run.compare(lambda a: a * 2)
    assert not run.compare(lambda a: a * 3)


def test_figures_equal_those_of_the_report():
    run = neuroncore.run(add, A, B)
    assert run.estimate.seconds == run.summary["total_time"]
    assert run.estimate.low == run.summary["total_time_p10"]
    assert run.estimate.low < run.estimate.seconds < run.estimate.high
    assert run.estimate.bound.what == run.summary["bound_by"]
    assert f"bound by {run.estimate.bound}" in str(run.estimate)
    assert figures(run.timelines[0]).items() <= run.summary.items()


def test_tables_describe_the_program():
    run = neuroncore.run(add, A, B)
    names = ["dma_copy", "dma_copy", "tensor_tensor", "dma_copy"]
    table = run.instructions
    assert table["name"].tolist() == names
    assert [p.rpartition(":")[0] for p in table["place"]] == [__file__] * 4
    assert table["waited_for"].tolist()[2:] == [1, 2] and table["critical"][2:].all()
    assert (table["end_ns"] >= table["done_ns"]).all()
    assert table["end_ns"].max() / 1e9 == pytest.approx(run.summary["total_time"])

    assert run.lines["count"].sum() == len(table)
    assert run.lines["transfers"].sum() == run.summary["dma_transfer_count"]
    assert run.lines["transfer_bytes"].sum() == run.summary["dma_transfer_total_bytes"]
    assert run.lines["critical_ns"].sum() / 1e9 == pytest.approx(run.summary["total_time"])
    assert (np.diff(run.lines["critical_ns"]) <= 0).all()
    assert "nisa.dma_copy(dst=tiles[0], src=a)" in run.lines["text"].tolist()

    memories = ["private_hbm", "sbuf", "private_hbm", "sbuf", "sbuf", "shared_hbm"]
    assert sorted(run.tiles["memory"]) == sorted(memories)
    by_name = {row["name"]: row for row in run.tiles}
    assert by_name["a"]["place"] == "" and by_name["a"]["last"] == by_name["a"]["first"] == 0
    last = run.tiles[-1]
    assert (last["first"], last["partitions"] * last["row_bytes"]) == (3, A.nbytes)


def test_a_line_of_a_loop_is_one_row():
    run = neuroncore.run(lambda a, b: add(a, b) and add(a, b), A, B)
    assert run.lines["count"].tolist() == [2, 2, 2, 2] and len(run.instructions) == 8


def test_two_cores_are_two_parts_of_each_table():
    run = neuroncore.run(halves[2], A, target="trn2")
    assert run.compare(lambda a: 2 * a)
    assert run.instructions["core"].tolist() == [0, 0, 0, 1, 1, 1]
    assert set(run.tiles["core"]) == {0, 1} and (run.lines["count"] == 2).all()
    assert run.estimate.seconds == max(s["total_time"] for s in run.summaries)


def test_a_kernel_without_instructions_has_empty_tables():
    run = neuroncore.run(lambda a: a, A)
    for table in (run.instructions, run.lines, run.tiles):
        assert not len(table) and table.dtype.names
    assert run.estimate.low is None and "nothing" in str(run.estimate)


def test_tables_are_data_frames(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(neuroncore.run(add, A, B).lines)
    assert frame["transfers"].sum() == 3 and frame["text"].str.contains("dma_copy").sum() == 3


@pytest.mark.parametrize("number", [np.float32(0.1), np.int16(-3), np.bool_(True), 0.1, 7])
def test_a_number_among_results_is_returned_unchanged(tmp_path, number):
    @nki.jit
    def numbered(x):
        return x, number

    run = neuroncore.run(numbered, A)
    run.save(tmp_path / "x.run")
    again = neuroncore.load(tmp_path / "x.run")
    for one in (again.results[1], again.replay()[1], run.replay()[1]):
        assert type(one) is type(number) and one == number


def test_without_a_record_a_run_has_only_results():
    run = neuroncore.run(add, A, B, options=neuroncore.Options(record=False))
    assert run.compare(np.add) and run.findings == []
    with pytest.raises(UsageError, match="add ran without a record"):
        run.estimate  # noqa: B018


def test_exceeded_capacity_is_a_finding():
    def wide(a):
        out = nl.ndarray((128, 20000), nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, 20000), nl.float32, buffer=nl.sbuf) for _ in range(3)]
        for tile in tiles:
            nisa.memset(dst=tile, value=0.0)
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[1], data2=tiles[2], op=nl.add)
        nisa.dma_copy(dst=out, src=tiles[0])
        return out

    run = neuroncore.run(wide, A)
    assert [found.code for found in run.findings] == ["CAPACITY"]
    assert "of sbuf per partition" in str(run.findings[0])


def test_an_outer_observer_is_called_too():
    seen = []

    class Observer:
        def begun(self, core):
            seen.append("begun")

        def done(self, run):
            seen.append(run.kernel)

    with neuroncore.settings(observer=Observer()):
        neuroncore.run(add, A, B)
    assert seen == ["begun", "add"]


def test_an_outer_observer_gets_all_ranks_at_once():
    seen = []

    class Observer:
        def begun(self, core):
            seen.append("begun")

        def done(self, *ranks):
            seen.append([run.core.rank for run in ranks])

    with neuroncore.settings(observer=Observer()):
        neuroncore.run(add, per_rank=[(A, B), (B, A), (A, A)])
    assert seen == ["begun", [0, 1, 2]]


def test_a_function_that_launches_nothing_is_refused():
    class Nothing:
        def __call__(self):
            return None

    with pytest.raises(UsageError, match="launched no kernel"):
        neuroncore.run(Nothing())


def test_a_refusal_is_the_error_of_the_kernel():
    def wrong(a):
        nisa.dma_copy(dst=a, src=a[0:1, 0:1])

    with pytest.raises(KernelError):
        neuroncore.run(wrong, A)


# --- saved runs -----------------------------------------------------------------------------------


@nki.jit
def noisy(a):
    """Read uninitialized memory and draw random numbers, for a finding and a seed."""
    tile, gap = (nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(dst=tile, src=a)
    nisa.dropout(tile, tile, 0.5)
    nisa.dma_copy(dst=gap[0:1], src=a[0:1])
    out = nl.ndarray((2, *a.shape), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0], src=tile)
    nisa.dma_copy(dst=out[1], src=gap)
    return {"both": out}


@pytest.mark.parametrize("kernel", [add, older_add, halves[2], noisy, double_in_place])
def test_a_saved_run_gives_the_answers_of_the_run(kernel, tmp_path):
    arrays = (A.copy(), B) if kernel in (add, older_add) else (A.copy(),)
    run = neuroncore.run(kernel, *arrays, target="trn2", seed=3)
    run.save(tmp_path / "one.run")
    again = neuroncore.load(tmp_path / "one.run")
    assert (again.kernel, again.machine, again.programs) == (run.kernel, run.machine, run.programs)
    np.testing.assert_equal(again.results, run.results)
    assert [str(one) for one in again.findings] == [str(one) for one in run.findings]
    assert again.estimate == run.estimate and again.summary == run.summary
    for name in ("lines", "tiles", "instructions"):
        np.testing.assert_array_equal(getattr(again, name), getattr(run, name))
    np.testing.assert_equal(again.replay(), run.replay())
    doubled = [2 * array for array in arrays]
    np.testing.assert_equal(again.replay(*doubled), run.replay(*doubled))
    again.save(tmp_path / "two.run")
    np.testing.assert_equal(neuroncore.load(tmp_path / "two.run").replay(), run.replay())


def test_a_run_can_be_saved_but_not_pickled(tmp_path):
    run = neuroncore.run(add, A, A)
    run.save(tmp_path / "one.run")
    for one in (run, neuroncore.load(tmp_path / "one.run")):
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(UsageError, match=r"run.save\(FILE\)"):
                copied(one)


def test_changed_arguments_are_saved(tmp_path):
    neuroncore.run(double_in_place, A.copy()).save(tmp_path / "one.run")
    again = neuroncore.load(tmp_path / "one.run")
    assert again.compare(lambda a: 2 * a) and not again.compare([A])


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_results_without_elements_are_saved(tmp_path, shape):
    run = neuroncore.run(lambda a, empty: (empty, add(a, a)), A, np.zeros(shape, np.float32))
    run.save(tmp_path / "one.run")
    again = neuroncore.load(tmp_path / "one.run")
    assert again.estimate == run.estimate and again.results[0].shape == shape
    np.testing.assert_equal(again.replay(), run.results)


def test_arrays_of_the_other_byte_order_are_saved(tmp_path):
    run = neuroncore.run(double_in_place, A.astype(">f4"))
    run.save(tmp_path / "one.run")
    again = neuroncore.load(tmp_path / "one.run")
    assert again.compare(2 * A)
    for one in (run, again):
        np.testing.assert_array_equal(one.replay(), (2 * A,))


def test_random_numbers_start_from_the_seed():
    runs = [neuroncore.run(noisy, A, seed=seed).results["both"][0] for seed in (None, 0, 7, 7)]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[2], runs[3])
    assert (runs[1] != runs[2]).any()
    with pytest.raises(UsageError, match="rng_seed is -1"):
        neuroncore.run(noisy, A, seed=-1)


def test_a_record_alone_is_not_a_saved_run(tmp_path):
    from neuroncore.record.program import Record
    from neuroncore.record.saved import save

    run = neuroncore.run(add, A, B)
    save(Record(run.record.programs), tmp_path / "one.record")
    with pytest.raises(UsageError, match=r"Run\.save writes a whole run"):
        neuroncore.load(tmp_path / "one.record")


@pytest.mark.source
def test_the_programs_of_the_page_on_python_run(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs/python.md").read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "page.py"
    file.write_text(code)
    exec(compile(code, str(file), "exec"), {"__name__": "page"})
