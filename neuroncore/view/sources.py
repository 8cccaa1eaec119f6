"""Figures of a run by source line (time, bytes and flops), and the text of the source files."""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator
from os.path import abspath
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.source import Place
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.record.program import Program
from neuroncore.record.stacks import Witness
from neuroncore.report.summary import product, summary
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.view.columns import packed, text

Array = npt.NDArray[Any]


class Texts:
    """The source files of a document, numbered in the order in which they are first used."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, file: str) -> int:
        return self._numbers.setdefault(file, len(self._numbers))

    def found(self, file: str | None) -> int | None:
        """Return the number of a file, or None. A script's file may have a relative path."""
        numbers = {abspath(name): number for name, number in self._numbers.items()}
        return None if file is None else numbers.get(abspath(file))

    def site(self, place: Place) -> list[Any]:
        """Return a place as [number of the file, line, column, last line, end column, function]."""
        span = place.line, place.column, place.end_line, place.end_column
        return [self.number(place.file), *span, place.function]

    def table(self) -> list[dict[str, str]]:
        return [{"name": f, "text": "".join(linecache.getlines(f))} for f in self._numbers]


def lines(timeline: Timeline, texts: Texts) -> Iterator[dict[str, Any]]:
    """Yield a row for each source line with instructions, in the order of the text.

    `critical_ns`: the time of the line on the critical path
    `busy_ns`: the time for which the line occupies each queue
    `flying_ns`: the time in which at least one of its transfers is in flight
    `efficiency`: the bytes that the line transfers, divided by the bytes that all DMA engines (or
        the HBM stack, if it is slower) could have moved in `flying_ns`
    `flops`, `operand_bytes`, `product_ns`: the model flops of the line's products, the bytes of
        their operands, and their time"""
    program = timeline.program
    spots = [(texts.number(p.file), p.line) for p in map(program.place, range(len(program.lines)))]
    order = sorted(set(spots))
    rows = {spot: row for row, spot in enumerate(order)}
    line = np.array([rows[spot] for spot in spots], np.int64)[timeline.columns.line]
    figures = {**_times(timeline, line, len(order)), **_work(timeline, line, len(order))}
    formats = _formats(timeline, line)
    for row, (file, number) in enumerate(order):
        fields = {name: column[row].tolist() for name, column in figures.items()}
        if fields["count"]:
            yield {"file": file, "line": number, "format": formats.get(row), **fields}


def _times(timeline: Timeline, line: Array, count: int) -> dict[str, Array]:
    """Return three figures for each of `count` lines: the number of its instructions, their
    nanoseconds on the critical path, and their nanoseconds in each queue, [count, queues]. line[i]
    is the line of instruction i."""
    path = timeline.critical_path
    until = np.append(timeline.begin[path[1:]], timeline.end[path[-1:]])
    queued = np.bincount(line * len(QUEUES) + timeline.queue, timeline.busy, count * len(QUEUES))
    return {
        "count": np.bincount(line, minlength=count),
        "critical_ns": np.bincount(line[path], until - timeline.begin[path], count),
        "busy_ns": queued.reshape(count, len(QUEUES)),
    }


def _work(timeline: Timeline, line: Array, count: int) -> dict[str, Array]:
    """Return figures for each of `count` lines: the number, bytes, time and efficiency of its
    transfers, and the flops, operand bytes and time of its products. line[i] is the line of
    instruction i."""
    program, machine, call = timeline.program, timeline.machine, timeline.columns.call
    moved, flops, operands = np.zeros((3, len(program.calls)))
    for index, used in enumerate(program.calls):
        moved[index] = max((view.nbytes for view in used.views(*used.writes)), default=0)
        flops[index] = _product_flops(used, machine)
        if flops[index]:
            operands[index] = sum(v.nbytes for v in used.views(*used.reads, *used.writes))
    moves = timeline.moves
    size = np.bincount(line[moves], moved[call[moves]], count)
    flying = _flying(timeline, line, count)
    dma, hbm = machine.dma, machine.hbm.stack_gigabytes_per_s
    peak = min(dma.engines * dma.gigabytes_per_s_per_engine, hbm)
    multiplies = flops[call] > 0
    return {
        "transfers": np.bincount(line[moves], minlength=count),
        "transfer_bytes": size,
        "flying_ns": flying,
        "efficiency": size / np.maximum(flying * peak, 1e-9),
        "flops": np.bincount(line, flops[call], count),
        "operand_bytes": np.bincount(line, operands[call], count),
        "product_ns": np.bincount(line[multiplies], timeline.busy[multiplies], count),
    }


def _formats(timeline: Timeline, line: Array) -> dict[int, str]:
    """Return the kind of product (`_kind`) for each line with products. If a line has several
    kinds, return the kind of the product with most flops. line[i] is the line of instruction i."""
    calls, call = timeline.program.calls, timeline.columns.call
    flops = np.array([_product_flops(used, timeline.machine) for used in calls], np.int64)
    products = np.flatnonzero(flops[call] > 0)
    each, counts = np.unique(line[products] * len(calls) + call[products], return_counts=True)
    row, index = np.divmod(each, len(calls))
    formats: dict[int, str] = {}
    for at in np.argsort(-flops[index] * counts, kind="stable")[::-1].tolist():  # largest last
        formats[int(row[at])], _ = _kind(calls[index[at]], timeline.machine)
    return formats


def _kind(call: Call, machine: Machine) -> tuple[str, float]:
    """Return the kind of a product, and the peak of this kind in TFLOPS. The kind is the format of
    the weights. For 8-bit floats, it also says whether the array multiplies two rows at a time."""
    dtype, peaks = call.view(call.instruction.traits.weights).dtype, machine.peak_tflops
    if dtype.kind == "packed":
        return dtype.name, peaks["mx"]
    if dtype.itemsize > 1:
        return dtype.name, peaks[dtype.name]
    work = product(call, machine)
    double = work is not None and work.at_once > 1
    return dtype.name + " double_row" * double, peaks["float8"] * (1 + double)


def _product_flops(call: Call, machine: Machine) -> int:
    work = product(call, machine)
    return 0 if work is None or work.transposes else work.flops


def _flying(timeline: Timeline, line: Array, count: int) -> Array:
    """Return, for each of `count` lines, the nanoseconds in which at least one of its transfers is
    in flight. line[i] is the line of instruction i."""
    transfers = np.flatnonzero(timeline.moves)
    transfers = transfers[np.lexsort((timeline.begin[transfers], line[transfers]))]
    of, begin, end = line[transfers], timeline.begin[transfers], timeline.end[transfers]
    # separate lines on one axis, so that a single running maximum works for all
    apart = of * (timeline.total_ns + 1.0)
    reached = np.maximum.accumulate(end + apart) - apart
    before = np.where(np.diff(of, prepend=-1) == 0, np.append(0.0, reached[:-1]), 0.0)
    return np.bincount(of, np.maximum(reached - np.maximum(begin, before), 0.0), count)


def stacks(program: Program, texts: Texts, shown: range) -> dict[str, Any] | None:
    """Return the call stacks of the instructions `shown`, or None if the record has none.

    `all`: the different stacks, as JSON compressed by `columns.text`; a stack is a list of frames,
        innermost first, and a frame has its place (`Texts.site`) and its integer variables
    `of`: the index in `all` of each instruction's stack"""
    if not isinstance(program, Witness):
        return None
    of = np.array(program.stack)[shown.start : shown.stop]
    each = [[[texts.site(f.place), dict(f.variables)] for f in stack] for stack in program.stacks]
    return {"all": text(json.dumps(each).encode()), "of": packed(of)}


def roofline(timeline: Timeline) -> dict[str, Any]:
    """Return three parts of the roofline diagram: the roofs in TFLOPS by kind of product (`_kind`),
    the HBM bandwidth in GB/s, and the kernel's point. The point consists of the kernel's flops, HBM
    bytes and TFLOPS."""
    machine, figures = timeline.machine, summary(timeline)
    products = (used for used in timeline.program.calls if _product_flops(used, machine))
    moved = figures["hbm_read_bytes"] + figures["hbm_write_bytes"]
    return {
        "peak_tflops": dict(_kind(used, machine) for used in products),
        "format": _formats(timeline, np.zeros(len(timeline.queue), np.int64)).get(0),
        "hbm_gigabytes_per_s": machine.hbm.stack_gigabytes_per_s,
        "flops": figures["model_flops"],
        "hbm_bytes": moved,
        "tflops": figures["model_flops"] / (timeline.total_ns or 1.0) / 1e3,
    }
