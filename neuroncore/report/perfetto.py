"""A timeline as Chrome Trace Events, which Perfetto opens (ui.perfetto.dev, "Open trace file")."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.clause.instruction import Call
from neuroncore.enums import MemoryRegion
from neuroncore.memory.geometry import View
from neuroncore.schedule import GPSIMD, LOADS, STORES, Timeline

Array = npt.NDArray[Any]

# The profiler's rows, in its order. Transfers overlap: each ring has as many rows as it needs, and
# so have those that GpSimd issues.
ROWS = ("TensorMatrix (Matmul)", "Vector", "Scalar", "GpSimd", "Sync")
RINGS = {LOADS: "qSyncIO0 load", STORES: "qSyncIO1 store", GPSIMD: "qGpSimdDynamic"}


def events(timelines: Sequence[Timeline]) -> Iterator[dict[str, Any]]:
    """Each timeline is a process of its own. Times are microseconds; every instruction is a slice
    on the row of its queue, and a transfer that GpSimd issues on GpSimd's row as well."""
    for pid, timeline in enumerate(timelines):
        covers = timeline.program.coverage
        kind = f"estimate of {covers}" if covers else "estimate"
        name = f"launch {pid}: NeuronCore {timeline.machine.name} ({kind})"
        yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
        for event in _of_one(timeline):
            yield {**event, "pid": pid}


def _of_one(timeline: Timeline) -> Iterator[dict[str, Any]]:
    order = np.argsort(timeline.begin, kind="stable").tolist()
    until = np.where(timeline.moves, timeline.end, timeline.begin + timeline.busy)
    row, names = _rows(timeline, order, until)
    by_software = timeline.by_software
    for tid, name in enumerate(names):
        yield {"name": "thread_name", "ph": "M", "tid": tid, "args": {"name": name}}
        yield {"name": "thread_sort_index", "ph": "M", "tid": tid, "args": {"sort_index": tid}}
    places = [str(timeline.program.place(i)) for i in range(len(timeline.program.lines))]
    described = [_arguments(call) for call in timeline.program.calls]
    for i in order:
        call = int(timeline.columns.call[i])
        event = {
            "name": timeline.program.calls[call].name,
            "cat": timeline.program.calls[call].instruction.opcode,
            "ph": "X",
            "tid": row[i],
            "ts": float(timeline.begin[i]) / 1e3,
            "dur": float(until[i] - timeline.begin[i]) / 1e3,
            "args": {
                "id": i,
                "nki_source_location": places[int(timeline.columns.line[i])],
                "result_ready_us": float(timeline.end[i]) / 1e3,
                **described[call],
            },
        }
        yield event
        if by_software[i]:
            yield {**event, "tid": GPSIMD, "dur": float(timeline.busy[i]) / 1e3}
    yield from _space(timeline)


def _rows(timeline: Timeline, order: list[int], until: Array) -> tuple[list[int], list[str]]:
    """The row of every instruction, and the names of the rows."""
    names: list[str] = [*ROWS]
    row = timeline.queue.tolist()
    free: dict[int, list[tuple[int, float]]] = {ring: [] for ring in RINGS}  # (row, from when)
    for i in order:
        ring = row[i]
        if not timeline.moves[i]:
            continue
        rows = free[ring]
        at = next((n for n, (_, time) in enumerate(rows) if time <= timeline.begin[i]), None)
        if at is None:
            at = len(rows)
            rows.append((len(names), 0.0))
            names.append(f"{RINGS[ring]} {at}")
        row[i] = rows[at][0]
        rows[at] = row[i], float(until[i])
    return row, names


def _arguments(call: Call) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in call.arguments.items()
        if isinstance(value, View) or (value is not None and value is not False)
    }


def _space(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """State Buffer and PSUM usage, in bytes per partition, as counters."""
    for region, name in (
        (MemoryRegion.sbuf, "State Buffer Usage"),
        (MemoryRegion.psum, "PSUM usage"),
    ):
        for time, used in _usage(timeline, region):
            args = {"bytes per partition": used}
            yield {"name": name, "ph": "C", "ts": time / 1e3, "args": args}


def _usage(timeline: Timeline, region: MemoryRegion) -> Iterator[tuple[float, int]]:
    """When the tiles that the system places come and go."""
    program, columns = timeline.program, timeline.columns
    area = program.box_table()[:, 0][columns.operands]
    users = np.repeat(np.arange(len(timeline.queue)), np.diff(columns.start))
    changes: list[tuple[float, int]] = []
    kinds = {a: program.area(a) for a in program.areas}
    wanted = [a for a, kind in kinds.items() if kind.region is region and not kind.placed]
    size = np.zeros(max(program.areas, default=0) + 1, np.int64)
    size[wanted] = [kinds[a].row_bytes for a in wanted]
    first, last = np.full(len(size), np.inf), np.full(len(size), -np.inf)
    np.minimum.at(first, area, timeline.begin[users])
    np.maximum.at(last, area, timeline.end[users])
    for a in wanted:
        if np.isfinite(first[a]):
            changes += [(float(first[a]), int(size[a])), (float(last[a]), -int(size[a]))]
    used = 0
    for time, change in sorted(changes):
        used += change
        yield time, used


def write(timelines: Sequence[Timeline], path: Path) -> None:
    """Write the trace of one or more launches as JSON."""
    with path.open("w") as file:
        json.dump({"traceEvents": list(events(timelines)), "displayTimeUnit": "ns"}, file)
