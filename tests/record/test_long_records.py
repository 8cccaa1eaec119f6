"""A long record frees its tables of windows and boxes when it is scheduled."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
from every import for_all

from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.record import program as records
from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule

X = np.arange(60, dtype=np.float32).reshape(12, 5)


def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in range(0, 12, 4):
        tile, double = nl.load(x[i : i + 4]), nl.ndarray((4, 5), x.dtype)
        nisa.tensor_tensor(double, tile, tile, op=nl.add)
        nisa.tensor_scalar(double, double, op0=nl.add, operand0=1.0)
        nl.store(out[i : i + 4], double)
    return out


def recorded():
    return launch(doubled, (X,), tensor=NkiTensor, target="trn2").core.program


def of_timeline(timeline):
    """Return the numbers of a timeline and of the tables of its program."""
    program, windows = timeline.program, timeline.program.windows()
    numbers = timeline.begin, timeline.end, timeline.cause, timeline.lane, timeline.transfer_ns
    boxes = program.boxes()
    form, columns = timeline.compiled, program.columns()
    rows = columns.call, columns.line, columns.start, columns.operands, columns.values
    tables = *rows, program.operand_windows(), boxes.table, *boxes.near, program.storages().kind
    return [*numbers, *tables, *windows, *form.accesses, *form.flow, form.read_in_psum]


@for_all("order", POLICIES)
def test_tables_of_a_long_record_are_made_again(order, monkeypatch):
    """Tables that are made again after they were freed are the same, also in an order in which
    instructions are moved. A schedule makes them only once."""
    program, other = recorded(), recorded()
    machine = program.calls[0].machine
    expected = of_timeline(schedule(program, machine, order))
    assert program._read is not None
    with monkeypatch.context() as patch:
        made, apart = [], records.apart
        patch.setattr(records, "LONG", 1)
        patch.setattr(records, "apart", lambda *rows: made.append(1) or apart(*rows))
        timeline = schedule(other, machine, order)
        assert other._read is None and timeline.program._read is None and len(made) == 1
        columns = timeline.program.columns()
        for one, again in zip(expected, of_timeline(timeline), strict=True):
            assert np.array_equal(one, again)
        assert timeline.program.columns() is columns
        for _ in range(2):  # what is freed twice is made twice
            timeline.compiled.free_tables()
            assert timeline.program._read is None
            for one, again in zip(expected, of_timeline(timeline), strict=True):
                assert np.array_equal(one, again)
        timeline = schedule(other, machine, order)
        for one, again in zip(expected, of_timeline(timeline), strict=True):
            assert np.array_equal(one, again)


def test_a_program_with_copies_keeps_its_tables(monkeypatch):
    """The rows of the record do not have the windows of copies."""
    monkeypatch.setattr(records, "LONG", 1)
    program = recorded()
    chosen = np.zeros(len(program.columns().operands), np.bool_)
    chosen[-1] = True
    varied, again = program.with_copies(chosen), program.with_copies(chosen)
    varied.free_tables()
    assert np.array_equal(varied.windows().storage, again.windows().storage)
    assert len(varied.windows().storage) > len(program.windows().storage)


def test_rows_that_were_moved_are_kept(monkeypatch):
    """The record has the rows in another order."""
    monkeypatch.setattr(records, "LONG", 1)
    program = recorded()
    moved = program.permuted(np.arange(len(program))[::-1])
    expected = moved.columns()
    for _ in range(3):
        moved.free_tables()
        assert moved._read is None
        assert np.array_equal(moved.columns().call, expected.call)
        assert np.array_equal(moved.columns().operands, expected.operands)
        assert len(moved.windows().storage) == len(program.windows().storage)
    assert not np.array_equal(program.columns().call, expected.call)
