"""Saved records: a program that was read back is timed as the one that was written."""

import dataclasses
import pickle

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
from neuroncore.report.measurements import Estimate
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
    assert measurements.estimate(Record([]), "trn2") == Estimate(0.0, "nothing")
