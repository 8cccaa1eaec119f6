"""A record that ends before the run: the run continues, and all readers of the record report
this."""

import neuronxcc.nki as older
import neuronxcc.nki.language as older_nl
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from every import for_all

from neuroncore.base.options import Options
from neuroncore.cli import main
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings
from neuroncore.record import program
from neuroncore.report import perfetto, saved
from neuroncore.report.summary import as_text, figures
from neuroncore.time.schedule import schedule

X = np.arange(15, dtype=np.float32).reshape(3, 5)
ISSUED = 9  # a load, seven sums, a store


def eightfold(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    total = nl.ndarray(x.shape, x.dtype)
    nisa.tensor_tensor(total, tile, tile, op=nl.add)
    for _ in range(6):
        nisa.tensor_tensor(total, total, tile, op=nl.add)
    nl.store(out, total)
    return out


def run(limit, kernel=eightfold):
    options = Options(record_limit=limit)
    return launch(kernel, (X,), tensor=NkiTensor, target="trn2", options=options)


def timeline(finished):
    return schedule(finished.core.program, finished.machine)


@for_all("limit", [0, 1, 3, ISSUED - 1, ISSUED, ISSUED + 1])
def test_a_record_has_the_first_instructions_up_to_its_limit(limit):
    finished, whole = run(limit), run(1000)
    program, kept = finished.core.program, min(limit, ISSUED)
    assert np.array_equal(finished.outputs, 8 * X)
    assert (len(program), program.left_out, program.issued) == (kept, ISSUED - kept, ISSUED)
    part, all_of_it = (timeline(r).columns for r in (finished, whole))
    assert np.array_equal(part.call, all_of_it.call[:kept])
    assert np.array_equal(part.operands, all_of_it.operands[: part.start[-1]])
    assert [f.code for f in finished.findings] == ["RECORD_LIMIT"] * (kept < ISSUED)


@for_all("limit", [4, 5, ISSUED])
def test_the_limit_is_the_same_if_rows_are_compressed(limit, monkeypatch):
    whole = run(limit).core.program
    with monkeypatch.context() as patch:
        patch.setattr(program, "PACKED", 2)
        packed = run(limit).core.program
    assert (len(packed), packed.left_out) == (len(whole), whole.left_out) == (limit, ISSUED - limit)
    assert packed.rows.size == whole.rows.size == len(whole.rows) > len(packed.rows)
    for begin in range(packed.rows.size):
        assert packed.rows.since(begin) == whole.rows[begin:]
    for kept, other in zip(packed.raw(), whole.raw()):
        assert np.array_equal(kept, other)
    assert packed.births.since() == whole.births
    writer = packed.last_writer(int(packed.operand_storages()[-1]))
    assert writer is packed.calls[packed.columns().call[-1]]


def test_the_finding_is_at_the_first_instruction_left_out():
    def kernel(x):
        for _ in range(3):
            nl.load(x)
        nisa.memset(nl.ndarray((3, 5), nl.float32), 1.0)
        nisa.memset(nl.ndarray((3, 5), nl.float32), 2.0)
        return x

    (finding,) = run(3, kernel).findings
    assert finding.place.text.strip() == "nisa.memset(nl.ndarray((3, 5), nl.float32), 1.0)"
    assert "after 3 instructions: " in finding.message and "Options.record_limit" in finding.message


def test_omitted_instructions_have_no_dependencies():
    def kernel(x):
        first = nisa.memset(nl.ndarray((3, 5), nl.float32), 1.0)
        second = nisa.memset(nl.ndarray((3, 5), nl.float32), 1.0)
        second.depends_on(first)
        nisa.memset(nl.ndarray((3, 5), nl.float32), 1.0).depends_on(first, second)
        return x

    assert run(3, kernel).core.program.edges().tolist() == [[1, 0], [2, 0], [2, 1]]
    assert run(2, kernel).core.program.edges().tolist() == [[1, 0]]
    assert run(1, kernel).core.program.edges().tolist() == []


# --- readers --------------------------------------------------------------------------------------

COVERED = "the first 4 of 9 instructions"


def test_the_report_states_the_covered_part():
    assert any(COVERED in line for line in as_text(timeline(run(4))))
    assert not any("covers" in line for line in as_text(timeline(run(ISSUED))))


def test_the_figures_have_the_number_of_omitted_instructions():
    fields = figures(timeline(run(4)))
    assert (fields["instruction_count"], fields["instructions_left_out"]) == (4, 5)
    assert "instructions_left_out" not in figures(timeline(run(ISSUED)))


def test_the_name_of_the_trace_states_the_covered_part():
    part, whole = (next(perfetto.events([timeline(run(n))])) for n in (4, ISSUED))
    assert COVERED in part["args"]["name"] and "(estimate)" in whole["args"]["name"]


def test_a_saved_profile_states_that_it_covers_the_beginning(tmp_path, capsys):
    for limit in (4, ISSUED):
        file = tmp_path / "x.ntff"
        saved.save(run(limit), None, file)
        (fields,) = saved.summaries(saved.read(file, "ntff")).values()
        assert ("neuroncore_coverage" in fields) is (limit < ISSUED)
        main(["profile", "view", "-s", str(file)])
        assert ("the beginning of the run" in capsys.readouterr().out) is (limit < ISSUED)


def test_a_benchmark_states_the_covered_part(capsys):
    @older.benchmark
    def kernel(x):
        out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
        older_nl.store(out, older_nl.exp(older_nl.load(x)))
        return out

    kernel(X)
    assert "first" not in capsys.readouterr().out
    with (
        settings(options=Options(record_limit=2)),
        pytest.warns(NeuronWarning, match="after 2 instructions: "),
    ):
        assert np.allclose(kernel(X), np.exp(X))
    assert "; the first 2 of 3 instructions" in capsys.readouterr().out
