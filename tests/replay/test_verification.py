"""The emulator compared with the plain reading: records agree, and a planted fault is named."""

import gc
import json
import sys

import neuronxcc.nki as older
import neuronxcc.nki.language as older_nl
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from checked_here import stay_here
from cli_files import KERNEL
from every import for_all
from nki.collectives import ReplicaGroup

import neuroncore
from neuroncore.base.errors import EmulatorError
from neuroncore.base.options import Options
from neuroncore.cli import main
from neuroncore.core.packs import Packs
from neuroncore.frontend.outcome import NeuronWarning
from neuroncore.frontend.settings import settings
from neuroncore.plain.memory import PlainTensor
from neuroncore.plain.reading import Reading
from neuroncore.replay import verification

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((2, 64, 32)).astype(np.float32)


def tile(source, dtype=None):
    made = nl.ndarray(source.shape, dtype or source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=made, src=source)
    return made


def result(source):
    out = nl.ndarray(source.shape, source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=source)
    return out


@nki.jit
def several(x, y):
    """Products of several widths, functions, dynamic offsets, and an accumulator."""
    a, b = tile(x, nl.bfloat16), tile(y, nl.bfloat16)
    total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
    for columns in (32, 5):
        nisa.nc_matmul(total[:, :columns], a, b[:, :columns])
    c, row = nl.ndarray((32, 32), nl.float32, buffer=nl.sbuf), nl.ndarray((32, 1), nl.float32)
    nisa.activation(c, nl.gelu, total, scale=0.1)
    nisa.activation(c, nl.copy, c, reduce_op=nl.add, reduce_res=row,
                    reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
    register = nisa.register_alloc(3)
    nisa.tensor_scalar(c[:, nl.ds(register, 4)], c[:, nl.ds(register, 4)], nl.add, 1.0)
    nisa.tensor_tensor(c, c, c, nl.maximum)
    return result(c), result(row)


@older.jit
def of_the_older_api(x):
    out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
    for i in older_nl.affine_range(2):
        rows = i * 32 + older_nl.arange(32)[:, None]
        loaded = older_nl.load(x[rows, older_nl.arange(32)[None, :]])
        older_nl.store(out[rows, older_nl.arange(32)[None, :]], older_nl.exp(loaded))
    return out


@nki.jit
def on_two_cores(x):
    """Each core sends its half to the other."""
    rank = nl.program_id(0)
    mine = tile(x[rank * 32 : rank * 32 + 32])
    other = nl.ndarray(mine.shape, mine.dtype, buffer=nl.sbuf)
    nisa.sendrecv(mine, other, 1 - rank, 1 - rank, pipe_id=0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[rank * 32 : rank * 32 + 32], src=other)
    nisa.core_barrier(out, (0, 1))
    return out


@nki.jit
def on_ranks(x):
    src, dst = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=n) for n in "ab")
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], ReplicaGroup([[0, 1, 2, 3]]), nl.add)
    return result(tile(dst))


@for_all("target", ["trn1", "trn2", "trn3"])
@for_all("stochastic", [False, True])
def test_a_kernel_agrees(target, stochastic):
    verdict = neuroncore.run(
        several, X, Y, target=target, options=Options(stochastic=stochastic)
    ).verify()
    assert verdict.difference is None, verdict
    assert (verdict.instructions, verdict.compared, verdict.taken_over) == (11, 10, 1)


def test_other_dialects_cores_and_ranks_agree():
    runs = [
        neuroncore.run(of_the_older_api, X),
        neuroncore.run(on_two_cores[2], X),
        neuroncore.run(on_ranks, per_rank=[(X + rank,) for rank in range(4)]),
    ]
    for run in runs:
        verdict = run.verify()
        assert verdict.difference is None, verdict
        assert verdict.compared + verdict.taken_over == verdict.instructions > 0


def test_a_saved_run_agrees(tmp_path):
    neuroncore.run(several, X, Y).save(tmp_path / "one.run")
    assert neuroncore.load(tmp_path / "one.run").verify().difference is None


# --- faults ---------------------------------------------------------------------------------------


def test_a_fault_is_named_with_its_line_operands_and_both_values(monkeypatch):
    run = neuroncore.run(several, X, Y)
    kept = Packs.get

    def stale(self, tile, form, read, early=False):
        """An earlier fault of the operand cache: the key had only the role."""
        return kept(self, tile, form._replace(group=1), lambda t: read(t) + 1, early)

    monkeypatch.setattr(Packs, "get", stale)
    found = run.verify().difference
    assert (found.instruction, found.operand) == ("nc_matmul", "dst")
    assert found.place.file == __file__ and "nisa.nc_matmul" in _line(found.place)
    assert set(found.operands) == {"dst", "stationary", "moving"}
    assert found.emulator != found.reading and found.count > 0
    assert "nc_matmul" in str(found) and found.reading in str(found)


def _line(place):
    with open(place.file) as file:
        return file.read().splitlines()[place.line - 1]


def test_a_difference_between_a_run_and_its_replay_is_reported():
    run = neuroncore.run(several, X, Y)
    run.results[0][3, 4] += 1
    found = run.verify().difference
    assert (found.instruction, found.operand, found.element) == ("the run", "result 0", (3, 4))


@nki.jit
def multiplied(x, y):
    total = nl.ndarray((x.shape[1], y.shape[1]), nl.float32, buffer=nl.psum)
    scales = nl.full((128, 128), 127, nl.uint8)
    parts = (tile(source).view(nl.float8_e4m3fn_x4) for source in (x, y))
    nisa.nc_matmul_mx(total, *parts, scales[:, : x.shape[1]], scales[:, : y.shape[1]])
    return result(nl.copy(total))


@pytest.mark.parametrize("special", [np.nan, 448.0])
def test_a_sum_in_any_order_may_have_elements_that_are_not_finite(special, monkeypatch):
    """The allowed difference is relative to the largest of the other elements."""
    x, y = np.random.default_rng(0).standard_normal((2, 128, 512)).astype("float8_e4m3fn")
    x[5, 2] = special
    options = Options(matmul="blas")
    run = neuroncore.run(
        multiplied, x.view(np.uint32), y.view(np.uint32), target="trn3", options=options
    )
    assert run.verify().difference is None
    monkeypatch.setattr(verification, "BLAS_ROOM", 0.0)
    assert run.verify().difference is not None


def test_settings_verify_each_launch(monkeypatch, capsys):
    with settings(verify=True):
        several(X, Y)
    assert "several agrees with the plain reading: 10 instructions bit" in capsys.readouterr().err
    monkeypatch.setattr("neuroncore.replay.verification.unequal_arrays", lambda a, b: a == a)
    with settings(verify=True), pytest.raises(EmulatorError, match="several: the emulator differs"):
        several(X, Y)


def test_the_environment_asks_for_lines_of_json(monkeypatch, tmp_path):
    log = tmp_path / "log.jsonl"
    monkeypatch.setenv("NEURONCORE_VERIFY", str(log))
    several(X, Y)
    on_two_cores[2](X)
    first, second = map(json.loads, log.read_text().splitlines())
    assert (first["kernel"], first["instructions"], first["difference"]) == ("several", 11, None)
    assert second["kernel"] == "on_two_cores" and second["compared"] == second["instructions"]


def test_a_record_that_ends_early_is_not_verified(capsys):
    with settings(verify=True, options=Options(record_limit=3)), pytest.warns(NeuronWarning):
        several(X, Y)
    assert "several is not verified: the record covers" in capsys.readouterr().err


# --- commands -------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(KERNEL)
    return "mine.py::double"


def test_run_and_check_report_agreement(file, capsys, monkeypatch):
    stay_here(monkeypatch)
    given = ["--args", "float32[8,4]", "--verify"]
    assert main(["run", file, *given]) == 0
    assert "verify     agrees with the plain reading: 3 instructions bit" in capsys.readouterr().out
    assert main(["run", file, *given, "--json"]) == 0
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    assert launch["verify"]["compared"] == 3 and launch["verify"]["difference"] is None
    assert main(["check", file, *given]) == 0
    assert "1 launch run; agrees with the plain reading: 3 instr" in capsys.readouterr().out


def test_run_exits_with_3_on_a_difference(file, capsys, monkeypatch):
    monkeypatch.setattr("neuroncore.replay.verification.unequal_arrays", lambda a, b: a == a)
    given = ["run", file, "--args", "float32[8,4]", "--verify"]
    assert main(given) == 3
    assert "verify     differs from the plain reading at the run" in capsys.readouterr().out
    assert main([*given, "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["ours"] and error["statement"].startswith("double: the emulator differs")


def test_the_meaning_of_an_instruction_is_printed(capsys):
    assert main(["isa", "nc_stream_shuffle"]) == 0
    printed = capsys.readouterr().out
    assert "def nc_stream_shuffle(i: Any)" in printed and "plain/elementwise.py:" in printed


def test_passes_of_float32_are_added_separately_where_a_part_of_a_sum_begins():
    @nki.jit
    def sums(x, y):
        stationary, moving = tile(x), tile(y)
        total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total[:, 2:20], stationary=stationary, moving=moving[:, 0:18])
        nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
        copied = nl.ndarray(total.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=total)
        return result(copied)

    run = neuroncore.run(sums, X, Y, options=Options(fp32_matmul="four_pass"))
    assert run.verify().difference is None


@nki.jit
def many_tiles(x):
    """Create a new tile in each iteration, some of them at an address."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for number in range(20):
        address = (0, 128 * number) if number % 2 else None
        one = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=address)
        nisa.dma_copy(dst=one, src=x)
        nisa.dma_copy(dst=out, src=one)
    return out


def test_the_reading_releases_tiles_after_their_last_use():
    """They are released without the garbage collector; before, cycles kept whole memories of the
    chip."""
    record = neuroncore.run(many_tiles, X).record
    (number,) = (one.storage for one in record.setting.inputs)
    gc.collect()
    gc.disable()
    try:
        reading = Reading(record, {number: X.tobytes()})
        for _ in range(40):
            reading.step(0)
        alive = [one for one in gc.get_objects() if type(one) is PlainTensor]
    finally:
        gc.enable()
    assert len(alive) == 3  # the input, the result, and SBUF, which tiles have addresses in
