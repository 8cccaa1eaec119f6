"""A timeline as Chrome Trace Events, which Perfetto opens (ui.perfetto.dev, "Open trace file").

Times are whole nanoseconds, as Perfetto stores them, but the format writes them in microseconds.
Text that similar instructions share is generated once."""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.clause.instruction import Call
from neuroncore.memory.geometry import View
from neuroncore.record import loops as native
from neuroncore.record.columns import owners
from neuroncore.time.queues import GPSIMD, LOADS, SCALAR, STORES
from neuroncore.time.schedule import Timeline
from neuroncore.time.syncs import collectives

Numbers = npt.NDArray[np.number]
Track = tuple[npt.NDArray[np.int64], Numbers]


def whole(ns: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return times as whole nanoseconds.

    Times are first rounded to picoseconds, which removes rounding errors of sums in different
    orders."""
    return np.rint(np.round(ns, 3)).astype(np.int64)


def usage(timeline: Timeline, region: MemoryRegion) -> Track:
    """Return the bytes per partition that are in use in a memory over time.

    Tiles at addresses that the kernel chose are not included."""
    program, columns = timeline.program, timeline.columns
    areas = program.boxes().areas
    bytes_of = [
        kind.row_bytes if kind.region is region and not kind.placed else 0 for kind in areas.kinds
    ]
    size = np.array(bytes_of, np.int64)[areas.kind]
    area = areas.of_box[columns.operands]
    users = owners(columns.start)
    first, last = np.full(len(size), np.inf), np.full(len(size), -np.inf)
    np.minimum.at(first, area, timeline.begin[users])
    np.maximum.at(last, area, timeline.end[users])
    used = np.isfinite(first) & (size > 0)
    return _sum(first[used], last[used], size[used])


def pending(timeline: Timeline) -> Track:
    """Return the number of transfers in progress over time.

    A transfer is in progress from its issue until its data are visible."""
    moves = timeline.moves
    begin, end = timeline.begin[moves], timeline.end[moves]
    return _sum(begin, end, np.ones(len(begin), np.int64))


def throughput(timeline: Timeline) -> Track:
    """Return the throughput of transfers over time, in GB/s.

    Bytes count only while DMA engines move them: in the last part of a transfer
    (`Timeline.transfer_ns`)."""
    program, columns = timeline.program, timeline.columns
    moved = [call.written_bytes for call in program.calls]
    size, done = np.array(moved, np.float64)[columns.call], timeline.done
    moving = timeline.moves & (timeline.transfer_ns > 0)
    last = whole(done[moving])
    first = np.minimum(whole((done - timeline.transfer_ns)[moving]), last - 1)
    return _sum(first, last, size[moving] / (last - first))


def _sum(first: Numbers, last: Numbers, size: Numbers) -> Track:
    """Return the times at which a total changes, and the total from then on.

    Item n adds size[n] to the total from first[n] to last[n]. Totals are rounded to a thousandth,
    which removes rounding errors."""
    time = whole(np.concatenate([first, last]).astype(np.float64))
    order = np.argsort(time, kind="stable")
    time, total = time[order], np.cumsum(np.concatenate([size, -size])[order])
    total = np.maximum(np.round(total, 3), 0)
    settled = np.diff(time, append=np.iinfo(np.int64).max) > 0
    time, total = time[settled], total[settled]
    changes = np.diff(total, prepend=0) != 0
    return time[changes], total[changes]


Array = npt.NDArray[Any]

# The profiler's rows, in the profiler's order. Each ring and each engine that issues transfers has
# as many rows for transfers as are in progress at the same time.
ROWS = ("TensorMatrix (Matmul)", "Vector", "Scalar", "GpSimd", "Sync")
COLLECTIVES = "CC-core"  # collectives
RINGS = {
    LOADS: "qSyncIO0",
    STORES: "qSyncIO1",
    SCALAR: "qScalarDynamicHW",
    GPSIMD: "qGpSimdDynamic",
}
Flows = Literal["none", "path", "all"]
CHUNK = 4096  # events that are formatted together


def events(timelines: Sequence[Timeline], flows: Flows = "path") -> Iterator[dict[str, Any]]:
    """Yield the events of a trace. Each timeline is a process.

    Every instruction is a slice on the row of its queue. A transfer that an engine issues is also a
    slice on the engine's row. A slice shows similar operands together, and omits default arguments.

    `flows`: the arrows: "none", "path" for the critical path, or "all" for all waits, from the
        cause to the waiting instruction"""
    for texts in _texts(timelines, flows):
        yield from json.loads(f"[{texts}]")


def write(timelines: Sequence[Timeline], path: Path, flows: Flows = "path") -> None:
    """Write the trace of one or more launches as JSON."""
    write_texts(path, _texts(timelines, flows))


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """Write a trace as JSON. Each of `texts` is an event, or several with commas between them.
    Raises OSError."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","traceEvents":[')
        for number, text in enumerate(texts):
            file.write(",\n" * (number > 0) + text)
        file.write("]}\n")


def _texts(timelines: Sequence[Timeline], flows: Flows) -> Iterator[str]:
    """Yield the events of all timelines as JSON: texts of several events, separated by commas."""
    for pid, timeline in enumerate(timelines):
        row, names = _rows(timeline)
        folder = _folder(timeline)
        yield ",\n".join(map(_json, _names(timeline, pid, names, folder)))
        yield from _slices(timeline, pid, row, _places(timeline, folder))
        yield from _arrows(timeline, pid, row, flows)
        for name, unit, (time, value) in _counters(timeline):
            event = f'{{"name":"{name}","ph":"C","pid":{pid},"ts":%.3f,"args":{{{unit}}}}}'
            yield from _formatted([event], np.zeros(len(time), np.int64), time / 1e3, value)


def _counters(timeline: Timeline) -> Iterator[tuple[str, str, Track]]:
    """Yield each counter: the profiler's name, the JSON format of its value, and its values over
    time.

    Counters of memory are bytes per partition."""
    yield "State Buffer Usage", '"bytes":%d', usage(timeline, MemoryRegion.sbuf)
    yield "PSUM usage", '"bytes":%d', usage(timeline, MemoryRegion.psum)
    yield "Pending DMA Count", '"transfers":%d', pending(timeline)
    yield "DMA Throughput", '"GB/s":%.3f', throughput(timeline)


def _arrows(timeline: Timeline, pid: int, row: Array, flows: Flows) -> Iterator[str]:
    """Yield the arrows between instructions that `events` describes.

    `row`: the row of each instruction in the trace."""
    if flows == "none":
        return
    if flows == "all":
        waits = np.flatnonzero(timeline.cause >= 0)
        causes = timeline.cause[waits]
    else:
        path = timeline.critical_path
        causes, waits = path[:-1], path[1:]
    event = f'{{"name":"waited for","cat":"flow","ph":"%s","bp":"e","pid":{pid},"tid":%%d,'
    event += f'"ts":%%.3f,"id":{pid + 1}%%09d}}'  # numbered per process
    begin, until = whole(timeline.begin), whole(_until(timeline))
    last = np.minimum(until[causes] - 1, begin[waits])  # a time inside the slice
    ends = ("s", row[causes], np.maximum(begin[causes], last)), ("f", row[waits], begin[waits])
    for phase, rows, ns in ends:
        formats, kind = [event % phase], np.zeros(len(waits), np.int64)
        yield from _formatted(formats, kind, rows, ns / 1e3, waits)


def _names(
    timeline: Timeline, pid: int, rows: Sequence[str], folder: str
) -> Iterator[dict[str, Any]]:
    """Yield the names of a process and its rows."""
    covers = timeline.program.coverage
    kind = f"estimate of {covers}" if covers else "estimate"
    world = timeline.world
    where = f"launch {pid}" if world.ranks == 1 else world.named(timeline.core)
    name = f"{where}: NeuronCore {timeline.machine.name} ({kind})"
    fields = {"ph": "M", "pid": pid}
    yield {"name": "process_name", **fields, "args": {"name": name}}
    yield {"name": "process_labels", **fields, "args": {"labels": f"sources in {folder or '.'}"}}
    for tid, row in enumerate(rows):
        yield {"name": "thread_name", **fields, "tid": tid, "args": {"name": row}}
        yield {"name": "thread_sort_index", **fields, "tid": tid, "args": {"sort_index": tid}}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _formatted(formats: Sequence[str], kind: Array, *columns: Array) -> Iterator[str]:
    """Yield texts of up to CHUNK events.

    Event n has the format formats[kind[n]], filled with entry n of each column."""
    values = np.column_stack(columns)
    for begin in range(0, len(kind), CHUNK):
        part = slice(begin, begin + CHUNK)
        kinds: list[int] = kind[part].tolist()
        texts = ",\n".join([formats[k] for k in kinds])
        yield texts % tuple(values[part].ravel().tolist())


def _slices(timeline: Timeline, pid: int, row: Array, places: list[str]) -> Iterator[str]:
    """Yield the slices in the order in which they begin.

    If an engine issues a transfer, a slice on the engine's row follows the slice of the transfer.

    `row`: the row of each instruction in the trace.
    `places`: the source lines as JSON."""
    order = np.argsort(timeline.begin, kind="stable")
    slices = np.repeat(order, 1 + (timeline.moves & (timeline.queue < LOADS))[order])
    is_issue = np.diff(slices, prepend=-1) == 0
    call, line = timeline.columns.call[slices], timeline.columns.line[slices]
    tid = np.where(is_issue, timeline.queue[slices], row[slices])
    begin, end = whole(timeline.begin)[slices], whole(timeline.end)[slices]
    issued = whole(timeline.begin + timeline.busy)[slices]
    until = np.where(is_issue, issued, whole(_until(timeline))[slices])
    like = np.column_stack((call, line, tid, end > until))
    first, kind = native.distinct(like)
    described = [_described(call) for call in timeline.program.calls]
    formats = []
    for c, n, t, later in like[first].tolist():
        head, tail = described[c]
        numbers = f'"pid":{pid},"tid":{t},"ts":%.3f,"dur":%.3f,"args":{{"id":%d'
        ready = ',"result_ready_us":%.3f' if later else "%.0s"
        formats.append(f'{head},{numbers}{ready},"nki_source_location":{places[n]}{tail}')
    yield from _formatted(formats, kind, begin / 1e3, (until - begin) / 1e3, slices, end / 1e3)


def _until(timeline: Timeline) -> Array:
    """Return the end of each instruction's slice in nanoseconds.

    A transfer's slice ends when its data are visible. Any other slice ends when the instruction
    leaves its queue."""
    until: Array = np.where(timeline.moves, timeline.end, timeline.begin + timeline.busy)
    return until


def _rows(timeline: Timeline) -> tuple[Array, list[str]]:
    """Return the row of every instruction in the trace, and the names of the rows.

    A queue that issues transfers has several rows, and each transfer takes the first free row.
    Collectives, if there are any, have a separate row."""
    names, row = [*ROWS], timeline.queue.copy()
    syncs = [i for i, _ in collectives(timeline.compiled)]
    if syncs:
        row[syncs] = len(names)
        names.append(COLLECTIVES)
    transfers = np.setdiff1d(np.flatnonzero(timeline.moves), syncs)
    transfers = transfers[np.argsort(timeline.begin[transfers], kind="stable")]
    times = timeline.begin[transfers].tolist(), _until(timeline)[transfers].tolist()
    free: dict[int, list[int]] = {ring: [] for ring in RINGS}
    busy: dict[int, list[tuple[float, int]]] = {ring: [] for ring in RINGS}
    count = dict.fromkeys(RINGS, 0)
    for i, begin, until in zip(transfers.tolist(), *times, strict=True):
        ring = int(timeline.queue[i])
        while busy[ring] and busy[ring][0][0] <= begin:
            heappush(free[ring], heappop(busy[ring])[1])
        if not free[ring]:
            heappush(free[ring], len(names))
            names.append(f"{RINGS[ring]} {count[ring]}")
            count[ring] += 1
        row[i] = tid = heappop(free[ring])
        heappush(busy[ring], (until, tid))
    return row, names


def _described(call: Call) -> tuple[str, str]:
    """Return the JSON of an instruction's slice as two format strings.

    The source line is inserted between them."""
    names_by_view: dict[str, list[str]] = {}
    defaults = {p.name: p.default for p in call.instruction.parameters}
    others: dict[str, str] = {}
    for name, value in call.shown_arguments.items():
        if isinstance(value, View):
            names_by_view.setdefault(str(value), []).append(name)
        elif value != defaults.get(name):
            others[name] = str(value)
    arguments = {", ".join(names): view for view, names in names_by_view.items()} | others
    head = _json({"name": call.name, "cat": call.instruction.opcode, "ph": "X"})
    tail = "".join(f",{_json(name)}:{_json(value)}" for name, value in arguments.items())
    return _quoted(head)[:-1], _quoted(tail) + "}}"


def _quoted(text: str) -> str:
    """Return a text with its percent signs doubled, for use in a format string."""
    return text.replace("%", "%%")


def _folder(timeline: Timeline) -> str:
    """Return the common folder of all source files, or "" if there is none. Paths in the trace are
    relative to this folder."""
    files = {timeline.program.place(i).file for i in range(len(timeline.program.lines))}
    folders = [os.path.dirname(file) for file in files if os.path.isabs(file)]
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:  # on several drives
        return ""


def _places(timeline: Timeline, folder: str) -> list[str]:
    places = [str(timeline.program.place(i)) for i in range(len(timeline.program.lines))]
    prefix = os.path.join(folder, "") if folder else ""
    return [_quoted(json.dumps(place.removeprefix(prefix))) for place in places]
