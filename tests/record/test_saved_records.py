"""Saved records: a program that was read back is timed as the one that was written."""

import dataclasses
import os
import pickle
import zlib
from pathlib import Path

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS

from neuroncore import machine
from neuroncore.errors import UsageError
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.record.saved import FORMAT, Record, load, save
from neuroncore.report import measurements, perfetto
from neuroncore.report.measurements import Span
from neuroncore.report.summary import summary
from neuroncore.schedule import schedule

TIMES = ("queue", "begin", "busy", "done", "end", "cause")


def mixed(x, w, index):
    """Something of everything that a record holds: strided accesses, a run-time address, operators,
    functions, tiles at addresses, several formats."""
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    placed = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 4096))
    for i in range(3):
        a = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x[:, 0:128:2])
        product = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, a, a)
        nisa.activation(placed[0:64], nl.exp, product, scale=0.5)
        nisa.tensor_scalar(placed[64:128, 0:60:3], a[64:128, 1:64:3][:, 0:20], nl.multiply, 2.0 + i)
        nisa.memset(placed[64:128], 0.0)
    rows = nl.ndarray((2, 1), nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=index)
    picked = nl.ndarray((2, 64), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=picked, src=w.ap([[64, 2], [1, 64]], vector_offset=rows, indirect_dim=0))
    nisa.tensor_tensor(placed[0:2], placed[0:2], picked, nl.add)
    nisa.dma_copy(dst=out, src=placed)
    return out


def programs(kernel=mixed, grid=()):
    x = np.ones((128, 128), nl.bfloat16)
    inputs = x, np.ones((8, 64), np.float32), np.array([[1], [3]], np.int32)
    run = launch(kernel, inputs, tensor=NkiTensor, target="trn2", grid=grid)
    return [core.program for core in run.cores]


def back(path, *written, **about):
    save(Record(written, about), path)
    return load(path)


@pytest.mark.parametrize("target", TARGETS)
def test_the_schedule_is_the_same_on_every_machine(tmp_path, target):
    (before,) = programs()
    (after,) = back(tmp_path / "x", before).programs
    chip = machine.load(target)
    times = schedule(before, chip), schedule(after, chip)
    assert times[0].total_ns > 0
    for name in TIMES:
        np.testing.assert_array_equal(getattr(times[0], name), getattr(times[1], name), name)
    assert summary(times[0]) == summary(times[1])


def test_a_changed_machine_times_what_was_saved(tmp_path):
    (before,) = programs()
    (after,) = back(tmp_path / "x", before).programs
    known = machine.load("trn2")
    slower = dataclasses.replace(
        known, dma=dataclasses.replace(known.dma, load_latency_ns=known.dma.load_latency_ns + 5000)
    )
    assert schedule(after, slower).total_ns == schedule(before, slower).total_ns
    assert schedule(after, slower).total_ns > schedule(after, known).total_ns + 4000


def test_source_lines_and_the_trace_are_the_same(tmp_path):
    (before,) = programs()
    (after,) = back(tmp_path / "x", before).programs
    places = [[p.place(i) for i in range(len(p.lines))] for p in (before, after)]
    assert places[0] == places[1] and "nisa.nc_matmul" in {p.text.strip()[:14] for p in places[0]}
    traces = [list(perfetto.events([schedule(p, machine.load("trn2"))])) for p in (before, after)]
    assert traces[0] == traces[1]


def test_both_cores_and_what_was_noted_come_back(tmp_path):
    record = back(tmp_path / "folder/x", *programs(grid=(2,)), kernel="mixed", seconds=1.5)
    assert [len(p) for p in record.programs] == [len(p) for p in programs(grid=(2,))]
    assert record.about == {"kernel": "mixed", "seconds": 1.5}


def test_a_saved_program_can_be_saved_again(tmp_path):
    (once,) = back(tmp_path / "x", *programs()).programs
    (twice,) = back(tmp_path / "y", once).programs
    chip = machine.load("trn2")
    assert summary(schedule(twice, chip)) == summary(schedule(once, chip))
    assert len(twice) == len(once) == twice.issued


def test_an_empty_program_and_one_that_ended_early_come_back(tmp_path):
    from neuroncore.record.program import Program

    short = Program(limit=0)
    short.left_out = 7
    (after,) = back(tmp_path / "x", short).programs
    assert (len(after), after.issued, after.coverage) == (0, 7, short.coverage)
    assert schedule(after, machine.load("trn1")).total_ns == 0


def test_instructions_operators_and_machines_are_ours_again(tmp_path):
    from neuroncore.clause.instruction import INSTRUCTIONS

    (before,) = programs()
    (after,) = back(tmp_path / "x", before).programs
    for one, other in zip(before.calls, after.calls):
        assert other.instruction is INSTRUCTIONS[one.name]
        assert other.machine is one.machine and other.engine is one.engine
        assert {n: v for n, v in other.arguments.items()} == one.arguments


def test_no_code_is_in_the_file(tmp_path):
    (before,) = programs()
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError)):
        pickle.dumps(before.lines)
    back(tmp_path / "x", before)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not a record"),
        (b"PK\x03\x04", "not a record"),
        (b"neuroncore.record.saved/%d\n" % (FORMAT + 1), "record it again"),
        (b"neuroncore.record.saved/%d\nnothing" % FORMAT, "damaged"),
    ],
)
def test_other_files_are_refused(tmp_path, content, word):
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=word):
        load(file)


class Runs:
    """An object that a pickle makes by calling something."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


def crafted(path, content):
    packed = zlib.compress(content if isinstance(content, bytes) else pickle.dumps(content))
    path.write_bytes(b"neuroncore.record.saved/%d\n" % FORMAT + packed)
    return path


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (Runs(os.mkdir, "made"), "names posix.mkdir"),
        (Runs(eval, "__import__('os').mkdir('made')"), "names builtins.eval"),
        (Record([], {"note": Runs(exec, "import os; os.mkdir('made')")}), "names builtins.exec"),
        (Runs(getattr, Record, "__init__"), "names builtins.getattr"),
        (Runs(Path, "x"), "names pathlib"),
        (
            b"\x80\x04\x8c\x19neuroncore.record.program\x8c\x10Program.__init__\x93.",
            "Program.__init__",
        ),
        (b"cneuroncore.record.saved\nmachine\n.", "saved.machine"),
        (b"cneuroncore.machine\nload\n(V../../secret\ntR.", "machine.load"),
    ],
)
def test_a_crafted_file_runs_nothing(tmp_path, monkeypatch, content, word):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"x is no record: it .*{word}"):
        load(crafted(tmp_path / "x", content))
    assert not Path("made").exists()


@pytest.mark.parametrize(
    "content", [pickle.dumps([1, 2]), pickle.dumps("text"), pickle.dumps(None)]
)
def test_a_pickle_of_something_else_is_refused(tmp_path, content):
    with pytest.raises(UsageError, match="is not a record"):
        load(crafted(tmp_path / "x", content))


@pytest.mark.parametrize("cut", [0, 1, 20, 400])
def test_a_damaged_record_is_refused(tmp_path, cut):
    save(Record(programs()), tmp_path / "x")
    content = zlib.decompress((tmp_path / "x").read_bytes().partition(b"\n")[2])
    with pytest.raises(UsageError, match="is damaged"):
        load(crafted(tmp_path / "x", content[:cut]))


def test_numbers_and_arrays_of_numpy_may_be_noted(tmp_path):
    noted = {"array": np.arange(6).reshape(2, 3), "seconds": np.float32(1.5), "empty": np.zeros(0)}
    read = back(tmp_path / "x", *programs(), **noted).about
    for name, value in noted.items():
        np.testing.assert_array_equal(read[name], value)


def test_files_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(UsageError, match="can't be read"):
        load(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        save(Record([]), tmp_path / "file/x")


def test_the_span_goes_from_the_first_dma_to_the_last(tmp_path):
    record = back(tmp_path / "x", *programs())
    timeline = schedule(record.programs[0], machine.load("trn2"))
    moves = [
        (float(b), float(e))
        for b, e, i in zip(timeline.begin, timeline.end, timeline.columns.call)
        if timeline.program.calls[i].name == "dma_copy"
    ]
    span = max(e for _, e in moves) - min(b for b, _ in moves)
    assert measurements.estimate(record, "trn2").us == pytest.approx(span / 1000)
    assert measurements.estimate(Record([]), "trn2") == Span(0.0, "nothing")
