"""A measured run as Chrome Trace Events, which Perfetto opens. `report.perfetto` writes such a
trace for an estimate.

Rows are the engines, the queues of transfers and the DMA engines; counters are the semaphores, the
Tensor engine's clock, and the number of transfers that are in progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np

from neuroncore.capture.measured import Capture, MeasuredCore
from neuroncore.capture.path import place_of
from neuroncore.capture.trace import ENGINES, FULL
from neuroncore.report.perfetto import write_texts

Event = dict[str, Any]


def write(capture: Capture, path: Path) -> None:
    """Write the trace of a capture as JSON. Raises OSError."""
    write_texts(path, (json.dumps(event, separators=(",", ":")) for event in events(capture)))


def events(capture: Capture) -> Iterator[Event]:
    """Yield the events of all cores. Each core is a process of the trace."""
    for pid, core in enumerate(capture.cores):
        yield from _core(capture, core, pid)


def _core(capture: Capture, core: MeasuredCore, pid: int) -> Iterator[Event]:
    rows, moved = _rows_of_moves(core)
    names = [*ENGINES, *rows]
    title = f"{capture.program}: {core.name} on {capture.instance} (measured)"
    yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": title}}
    engines = sorted({int(number) for number in core.elements["engine"]})
    names += [f"DMA engine {number}" for number in engines]
    for tid, name in enumerate(names):
        document: Event = {"ph": "M", "pid": pid, "tid": tid}
        yield {"name": "thread_name", **document, "args": {"name": name}}
        yield {"name": "thread_sort_index", **document, "args": {"sort_index": tid}}
    yield from _instructions(core, pid)
    yield from _transfers(core, pid, moved)
    first = len(ENGINES) + len(rows)
    for element in core.elements:
        tid = first + engines.index(int(element["engine"]))
        name = core.queue(int(element["queue"]))
        yield _slice(name, pid, tid, element, {"bytes": int(element["bytes"])})
    yield from _counters(core, pid)


def _transfers(core: MeasuredCore, pid: int, rows: Sequence[int]) -> Iterator[Event]:
    for move, row in zip(core.moves, rows, strict=True):
        trigger = int(move["trigger"])
        about: Event = {"bytes": int(move["bytes"]), "semaphore": int(move["semaphore"])}
        about |= {"instruction": core.names[trigger], "place": place_of(core, trigger)}
        yield _slice("DMA", pid, len(ENGINES) + row, move, about)


def _slice(name: str, pid: int, tid: int, row: Any, about: Event) -> Event:
    begin, end = float(row["begin_ns"]), float(row["end_ns"])
    times = {"ts": begin / 1e3, "dur": (end - begin) / 1e3}
    return {"name": name, "ph": "X", "pid": pid, "tid": tid, **times, "args": about}


def _instructions(core: MeasuredCore, pid: int) -> Iterator[Event]:
    texts = [kind.profiler_text(core.semaphores) for kind in core.kinds]
    for row, instruction in enumerate(core.instructions):
        number = int(instruction["kind"])
        about: Event = {"operands": texts[number]}
        about |= {"instruction": core.names[row]} if core.names[row] else {}
        about |= {"place": place} if (place := place_of(core, row)) else {}
        about |= {} if instruction["own"] else {"of": "the runtime"}
        yield _slice(core.kinds[number].opcode, pid, int(instruction["engine"]), instruction, about)


def _rows_of_moves(core: MeasuredCore) -> tuple[list[str], list[int]]:
    """Return the names of the trace's rows for transfers, and the index of each transfer's row.

    A queue has as many rows as it has transfers in progress at the same time."""
    names: list[str] = []
    free: dict[int, list[int]] = {}
    taken: dict[int, list[tuple[float, int]]] = {}
    rows = []
    for move in core.moves:
        queue = int(move["queue"])
        free_rows, busy = free.setdefault(queue, []), taken.setdefault(queue, [])
        while busy and busy[0][0] <= move["begin_ns"]:
            heappush(free_rows, heappop(busy)[1])
        if not free_rows:
            known = sum(1 for name in names if name.startswith(f"{core.queue(queue)} "))
            heappush(free_rows, len(names))
            names.append(f"{core.queue(queue)} {known}")
        row = heappop(free_rows)
        heappush(busy, (float(move["end_ns"]), row))
        rows.append(row)
    return names, rows


def _counters(core: MeasuredCore, pid: int) -> Iterator[Event]:
    for number in np.unique(core.updates["semaphore"]).tolist():
        changes = core.updates[core.updates["semaphore"] == number]
        label = core.semaphores.get(number, "")
        name = f"S[{number}] {label}".strip()
        yield from _counter(name, pid, changes["ns"].tolist(), changes["value"].tolist(), "value")
    clock = core.clock
    shares = (clock["eighths"] / FULL).tolist()
    yield from _counter("Tensor clock", pid, clock["ns"].tolist(), shares, "of full")
    ends = np.concatenate([core.moves["begin_ns"], core.moves["end_ns"]])
    step = np.repeat([1, -1], len(core.moves))
    order = np.lexsort((-step, ends))
    pending = np.cumsum(step[order]).tolist()
    yield from _counter("Pending DMA Count", pid, ends[order].tolist(), pending, "transfers")


def _counter(
    name: str, pid: int, times: Sequence[float], values: Sequence[float], unit: str
) -> Iterator[Event]:
    for ns, value in zip(times, values, strict=True):
        yield {"name": name, "ph": "C", "pid": pid, "ts": ns / 1e3, "args": {unit: value}}
