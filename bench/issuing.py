"""Measure the cost of an instruction: of issuing it, of its row in the record, and of functions
that read the record, such as the schedule.

The unit is numpy's cost of a small operation: np.add of two [128, 1] arrays into a third one, in
the same process. It takes about half a microsecond.
"""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import neuronxcc.nki as older
import neuronxcc.nki.language as ol
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from measure import least

from neuroncore.base.options import Options
from neuroncore.core.core import Core
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings
from neuroncore.record.program import Program, Record
from neuroncore.record.saved import save
from neuroncore.report import perfetto
from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule

COLUMN = (128, 1)
ROUNDS, REPEATS = 40, 50  # of each instruction; all instructions are measured alternately
ROWS = 2_560  # rows of the vectors that are added row by row
LOAD = 50.0  # np.adds that a load of the older API may take
TILES = 5_000  # tiles of the program whose record is read
Line = tuple[str, float, float, str]  # (name, measured value, limit, remark)
# name -> (a function that issues an instruction, limit)
Cases = dict[str, tuple[Callable[[], Any], float]]


def lines() -> Iterator[Line]:
    yield from issue_lines()
    yield from row_lines()
    yield from record_lines()
    yield from reader_lines()


def yardstick(repeats: int = REPEATS) -> Callable[[], None]:
    x, y, out = (np.ones(COLUMN, np.float32) for _ in range(3))

    def adds() -> None:
        for _ in range(repeats):
            np.add(x, y, out=out)

    return adds


def repeated(one: Callable[[], Any]) -> Callable[[], None]:
    def work() -> None:
        for _ in range(REPEATS):
            one()

    return work


def measured(cases: Cases) -> list[Line]:
    works = [repeated(one) for one, _ in cases.values()]
    add, *found = least(yardstick(), *works, rounds=ROUNDS)
    return [
        (f"{name}, of np.add", one / add, limit, f"{one / REPEATS * 1e6:.1f} us")
        for (name, (_, limit)), one in zip(cases.items(), found)
    ]


def issue_lines() -> list[Line]:
    """Return the lines about single instructions on small tiles, issued in a kernel with a
    record."""
    found: list[Line] = []

    @nki.jit
    def today():
        a, b, c = (nl.zeros(COLUMN, nl.float32) for _ in range(3))
        wide, other = (nl.zeros((128, 512), nl.float32) for _ in range(2))
        total = nl.ndarray(COLUMN, nl.float32, buffer=nl.psum)
        rows = nl.zeros((128, 512), nl.float32, buffer=nl.private_hbm)

        def add(dst, data1, data2):
            nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=nl.add)

        def product():
            one = wide[0:1, 0:1]
            nisa.nc_matmul(dst=total[0:1, 0:1], stationary=one, moving=other[0:1, 0:1])

        cases: Cases = {
            "tensor_tensor, same tiles": (lambda: add(c, a, b), 6.0),
            "tensor_tensor, fresh destination": (
                lambda: add(nl.ndarray(COLUMN, nl.float32), a, b),
                20.0,
            ),
            "tensor_tensor, three fresh slices": (
                lambda: add(wide[:, 0:1], other[:, 1:2], wide[:, 2:3]),
                20.0,
            ),
            "nc_matmul of fresh [1, 1] views": (product, 30.0),
            "load of a slice": (lambda: nl.load(rows[:, 0:1]), 30.0),
        }
        found.extend(measured(cases))

    @older.jit
    def before(rows):
        out = ol.ndarray((128, 512), dtype=rows.dtype, buffer=ol.shared_hbm)
        tile = ol.load(rows[0:128, 0:1])
        cases: Cases = {
            "older load of a slice": (lambda: ol.load(rows[0:128, 0:1]), LOAD),
            "older store of a slice": (lambda: ol.store(out[0:128, 0:1], value=tile), LOAD),
        }
        found.extend(measured(cases))
        ol.store(out, value=ol.load(rows))
        return out

    today()
    before(np.ones((128, 512), np.float32))
    return found


@older.jit
def added_by_rows(a, b):
    """a + b for vectors [n, 1], one row at a time, as beginners write it: two loads, a sum, a
    store."""
    out = ol.ndarray(a.shape, dtype=a.dtype, buffer=ol.shared_hbm)
    for row in ol.affine_range(a.shape[0]):
        left, right = ol.load(a[row : row + 1]), ol.load(b[row : row + 1])
        ol.store(out[row : row + 1], value=ol.add(left, right))
    return out


@older.jit
def scaled_in_blocks(a):
    """2 a + 1 for a [n, 8, 16], in blocks of 8 x 8: nested loops with index expressions and masks,
    as compilers write kernels."""
    out = ol.ndarray(a.shape, dtype=a.dtype, buffer=ol.shared_hbm)
    halves = (a.shape[0], 2, ol.par_dim(8), 8)
    x, y, z = (ol.ndarray(halves, dtype=a.dtype) for _ in range(3))
    p, f = ol.arange(8)[:, None], ol.arange(8)[None, :]
    for i in ol.affine_range(a.shape[0]):
        for k in ol.affine_range(2):
            x[i, k, p, f] = ol.load(a[i, p, 8 * k + f], mask=8 * i + p >= 0)
            y[i, k, p, f] = ol.multiply(x[i, k, p, f], 2.0, mask=8 * i + p >= 0)
            z[i, k, p, f] = ol.add(y[i, k, p, f], 1.0, mask=8 * i + p >= 0)
            ol.store(out[i, p, 8 * k + f], z[i, k, p, f], mask=8 * i + p >= 0)
    return out


def row_lines() -> Iterator[Line]:
    """Yield the lines about whole launches of the older API. The limit of an instruction is 1.1
    times the cost of a load; in nested loops it is 1.5 times this cost."""
    a, b = np.ones((2, ROWS, 1), np.float32)
    blocks = np.ones((ROWS // 8, 8, 16), np.float32)
    rows, nest = lambda: added_by_rows(a, b), lambda: scaled_in_blocks(blocks)
    add, *launches = least(yardstick(), rows, nest, rounds=5)
    cases = ("kernel", 4 * ROWS, 1.1), ("nest of loops", ROWS, 1.5)
    for (name, count, loads), whole in zip(cases, launches, strict=True):
        each = whole / count
        said = f"older {name} of {count} instructions, one of np.add"
        yield said, each / add * REPEATS, loads * LOAD, f"{each * 1e6:.1f} us"


@nki.jit
def fresh_tiles():
    """Make a new tile for the result of each instruction."""
    tile = nl.zeros(COLUMN, nl.float32)
    for _ in range(TILES):
        result = nl.ndarray(COLUMN, nl.float32)
        nisa.tensor_tensor(dst=result, data1=tile, data2=tile, op=nl.add)
        tile = result


def record_lines() -> Iterator[Line]:
    def unrecorded() -> None:
        with settings(options=Options(record=False)):
            fresh_tiles()

    ours, bare = least(fresh_tiles, unrecorded)
    remark = f"{ours / TILES * 1e6:.1f} us an instruction; without {bare / TILES * 1e6:.1f}"
    yield "recorded fresh tiles, of unrecorded", ours / bare, 1.25, remark


def reader_lines() -> Iterator[Line]:
    """Yield the lines about functions that read a record, per instruction."""
    program, held = in_memory()
    count, machine = len(program), of_fresh_tiles().machine
    yield "record in memory, bytes", held / count, 150.0, f"{count} instructions"
    yield "record in its file, bytes", saved_bytes(program) / count, 40.0, "before compression"
    unread = [of_fresh_tiles().program for _ in range(16)]

    def read() -> None:
        boxes = unread.pop().boxes()
        assert boxes.near and boxes.pieces

    add, spent = least(yardstick(), read, rounds=15)
    remark = "boxes, instructions that share bytes, and pieces; computed once per record"
    yield "record, first read, of np.add", spent / count / add * REPEATS, 0.7, remark
    for order in POLICIES:
        add, spent = least(yardstick(), lambda: schedule(program, machine, order), rounds=15)  # noqa: B023
        each = spent / count
        remark = f"{1 / each:,.0f} a second"
        yield f"schedule, {order}, of np.add", each / add * REPEATS, 0.7, remark
    timeline = schedule(program, machine)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        add, spent = least(yardstick(), lambda: perfetto.write([timeline], file, "none"), rounds=5)
        remark = f"{spent / count * 1e6:.1f} us"
        yield "trace without flows, of np.add", spent / count / add * REPEATS, 4.0, remark
        yield (
            "trace without flows, bytes",
            file.stat().st_size / count,
            250.0,
            "of each instruction",
        )


def of_fresh_tiles() -> Core:
    return launch(fresh_tiles.function, tensor=NkiTensor).cores[0]


def in_memory() -> tuple[Program, int]:
    """Return the record of `fresh_tiles`, and the bytes that it takes in memory."""
    of_fresh_tiles()  # makes the data that later launches use again
    gc.collect()
    tracemalloc.start()
    program = of_fresh_tiles().program
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert program is not None
    return program, held


def saved_bytes(program: Program) -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "record")
        save(Record([program]), file)
        return len(zlib.decompress(file.read_bytes().partition(b"\n")[2]))
