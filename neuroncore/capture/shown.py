"""The document of a capture for the viewer's page; `view.document` makes the document of a run.

The times of a capture are measured, or estimated from a compiled program.

* A row is an instruction of the kernel or a transfer. Rows are sorted by begin.
* A column is an array with an element for each row, which the view compresses.
* A time is in ticks since the kernel began.
* A site is a place in the source. If places are unknown, it is a statement in the compiler's list.
* An event is also an instruction or a transfer, but events are not sorted. They have the numbers
  that `causes.Causes` uses."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.capture.encoding import DecodedInstruction
from neuroncore.capture.measured import LANES, Capture, MeasuredCore
from neuroncore.capture.path import PathStep, parts, steps
from neuroncore.capture.trace import FULL
from neuroncore.capture.why import busy, time_text, unknown_opcodes, unknown_text
from neuroncore.machine import Machine

Array = npt.NDArray[Any]
Json = dict[str, Any]

CRITICAL, IN_TURN, TRANSFER = 1, 2, 4  # flags of a row
MEMORIES = "sbuf", "psum"
IN_MEMORY = (1 << 25) - 1  # bits of an address within SBUF or PSUM
BINS = 2000  # intervals of the DMA throughput
TICK_NS, TICKS = 0.1, 1 << 31  # the shortest tick, and the most ticks of a run
MEASURED, ESTIMATED = "measured on a device", "an estimate of the program's own instructions"
NAMED = 3  # parts of the critical path that the sentence names


def documents(
    capture: Capture, figures: Mapping[str, Any], machine: Machine | None
) -> tuple[list[Json], list[Json]]:
    """Return the cores that ran the kernel, and the files with the lines of their instructions.

    The files are files of the kernel. If lines are unknown, the only file is a list of the
    compiler's statements."""
    cores = [core for core in capture.cores if len(core.kernel)]
    files: dict[str, str] = {}
    shown_cores = [
        _core(capture, core, files, machine)
        | {"core": number, "cores": len(cores), "figures": figures}
        for number, core in enumerate(cores)
    ]
    return shown_cores, [{"name": name, "text": text} for name, text in files.items()]


def _core(
    capture: Capture, core: MeasuredCore, files: dict[str, str], machine: Machine | None
) -> Json:
    path = steps(core)
    sites, site_of = _sites(capture, core, files)
    calls, columns = _rows(core, site_of)
    queues = [*LANES, *core.queues]
    rings = [[len(LANES) + n, name] for n, name in enumerate(core.queues)]
    shares = [(part.place, part.ns / (core.window_ns or 1.0)) for part in parts(core, path)]
    largest = ", ".join(f"{place} ({share:.0%})" for place, share in shares[:NAMED])
    path_text = f"most of the critical path: {largest}" if largest else ""
    return {
        "capture": True,
        "how": MEASURED if capture.measured else ESTIMATED,
        "kernel": capture.program,
        "machine": capture.instance,
        "verdict": {"text": time_text(core.window_ns, capture.total_ns, capture.range_ns)},
        "sentence": "; ".join(filter(None, (path_text, unknown_text(unknown_opcodes(capture))))),
        "path_share": dict(shares),
        "busy_share": busy(core),
        "tick_ns": _tick(core),
        "total_ns": core.window_ns,
        "first": 0,
        "count": len(columns["call"]),
        "instructions": len(columns["call"]),
        "queues": queues,
        "rows": {"queues": list(LANES), "collectives": ["CC-core", []], "rings": rings},
        "memories": _memories(machine),
        "kinds": [{"memory": name, "name": name.upper(), "site": -1, "placed": True}
                  for name in MEMORIES],
        "calls": calls,
        "sites": sites,
        "lines": list(_lines(core, path, sites, site_of, columns)),
        "columns": columns,
        "counters": [_throughput(core), *([_clock(core)] if len(core.clock) else [])],
        "findings": [],
        "patterns": [],
        "values": {"reason": "a capture has no values"},
    }  # fmt: skip


def _memories(machine: Machine | None) -> Json:
    """Return the sizes of SBUF and PSUM, which are 0 for an unknown machine."""
    sizes = (machine.sbuf.partition_bytes, machine.psum.partition_bytes) if machine else (0, 0)
    return {n: {"bytes": b, "bank": 0, "peak": 0} for n, b in zip(MEMORIES, sizes, strict=True)}


def _tick(core: MeasuredCore) -> float:
    return max(TICK_NS, core.window_ns / TICKS)


# --- rows: the kernel's instructions and its transfers, by when they began ------------------------


def _rows(core: MeasuredCore, site_of: Mapping[int, int]) -> tuple[list[Json], dict[str, Array]]:
    """Return the distinct instructions and transfers, and the columns of the rows."""
    kernel, count = core.kernel, len(core.kernel)
    triggers = core.moves["trigger"]
    kernel_rows = core.instructions[kernel]
    begin, end = (np.append(kernel_rows[name], core.moves[name]) for name in ("begin_ns", "end_ns"))
    kept = np.append(kernel_rows["begin_ns"] + core.busy_ns[kernel], core.moves["end_ns"])
    order = np.argsort(begin, kind="stable")
    used, kinds = np.unique(kernel_rows["kind"], return_inverse=True)
    moves = np.arange(len(triggers))
    calls = [_call(core, core.kinds[kind]) for kind in used.tolist()]
    ticks = [np.rint((when - core.window[0]) / _tick(core)) for when in (begin, kept, end)]
    statements = core.instructions["statement"][np.append(kernel, triggers)].tolist()
    lanes = core.lane[kernel].astype(np.int64)
    rows = {
        "call": np.append(kinds.reshape(-1), len(calls) + moves),
        "site": np.array([site_of.get(number, 0) for number in statements]),
        "queue": np.append(lanes, len(LANES) + core.moves["queue"]),
        **dict(zip(("begin", "kept", "end"), ticks, strict=True)),
        "flags": np.append(np.zeros(count), np.full(len(moves), TRANSFER)),
    }
    rows["flags"][_places(core)[core.causes.path]] += CRITICAL
    columns = {name: column[order].astype(np.int64) for name, column in rows.items()}
    columns["cause"] = cause = _causes(core, order)
    in_turn = (cause >= 0) & (columns["queue"][cause] == columns["queue"])
    columns["flags"] += np.where(in_turn & (columns["queue"] < len(LANES)), IN_TURN, 0)
    calls += [_transfer(core, move) for move in core.moves]
    instructions = [core.kind(row) for row in kernel.tolist()]
    each = [instructions[row] if row < count else None for row in order.tolist()]
    return calls, columns | _boxes(each)


def _places(core: MeasuredCore) -> Array:
    """Return the number of each event's row, or -1 for events without a row.

    The rows are numbered in their order before sorting: first the instructions of the kernel, then
    the transfers."""
    count = len(core.instructions) + len(core.moves)
    places = np.full(count, -1)
    places[core.kernel] = np.arange(len(core.kernel))
    places[len(core.instructions) :] = len(core.kernel) + np.arange(len(core.moves))
    return places


def _causes(core: MeasuredCore, order: Array) -> Array:
    """Return, for each row, the number of the row that is its cause, or -1 for no cause.

    `order` is the permutation that sorts the rows by begin."""
    places, sorted_place = _places(core), np.empty(len(order), np.int64)
    sorted_place[order] = np.arange(len(order))
    events = np.append(core.kernel, len(core.instructions) + np.arange(len(core.moves)))
    cause = core.causes.cause[events[order].astype(np.int64)]
    rows = np.where(cause >= 0, places[cause], -1)
    return np.where(rows >= 0, sorted_place[rows], -1)


def _call(core: MeasuredCore, kind: DecodedInstruction) -> Json:
    reads, writes = ([o.name for o in kind.operands if o.reads == r] for r in (True, False))
    document = {"operands": kind.profiler_text(core.semaphores)} | {
        operand.name: str(operand) for operand in kind.operands
    }
    return _named(kind.opcode, document, reads, writes)


def _transfer(core: MeasuredCore, move: Any) -> Json:
    trigger = int(move["trigger"])
    document = {"bytes": int(move["bytes"]), "semaphore": int(move["semaphore"])}
    by = {"started by": core.names[trigger] or core.kind(trigger).opcode}
    return _named("DMA", document | by, [], []) | {"bytes": int(move["bytes"])}


def _named(name: str, document: Json, reads: Sequence[str], writes: Sequence[str]) -> Json:
    sides = {"reads": reads, "indices": [], "writes": writes}
    return {"name": name, "arguments": document, "bytes": 0, "array": None, **sides}


def _boxes(instructions: Sequence[DecodedInstruction | None]) -> dict[str, Array]:
    """Return two columns for the operands of all instructions.

    `operand`: the number of each operand's box.
    `boxes`: memory (0 for SBUF, 1 for PSUM), first partition, end, first byte and number of bytes;
        shape [boxes, 5]."""
    numbers: dict[tuple[int, ...], int] = {}
    operands = []
    for kind in instructions:
        operands_of = kind.operands if kind is not None else ()
        for operand in sorted(operands_of, key=lambda operand: not operand.reads):
            first = (operand.address & IN_MEMORY) - operand.before_bytes
            box = (int(operand.in_psum), 0, operand.rows, first, operand.span_bytes)
            operands.append(numbers.setdefault(box, len(numbers)))
    table = np.array([*numbers], np.int64).reshape(-1, 5)
    return {"operand": np.array(operands, np.int64), "boxes": table}


# --- lines ----------------------------------------------------------------------------------------


def _sites(
    capture: Capture, core: MeasuredCore, files: dict[str, str]
) -> tuple[list[list[Any]], dict[int, int]]:
    """Return the sites of statements with instructions, and each site's index by statement number.

    Site 0 is for instructions without a statement."""
    listed = f"statements of {capture.program}"
    used = sorted({*core.instructions["statement"][core.kernel].tolist()} & {*core.statements})
    texts = {n: core.statements[n].text for n in used if not core.statements[n].line}
    files[listed] = "\n".join(texts.get(n, "") for n in range(1, max(texts, default=0) + 1))
    for number in used:
        statement = core.statements[number]
        if statement.line and statement.file not in files:
            files[statement.file] = "".join(linecache.getlines(statement.file))
    numbers = [*files]
    sites: list[list[Any]] = [[numbers.index(listed), 0, 0, 0, 0, ""]]
    for number in used:
        statement = core.statements[number]
        spot = (statement.file, statement.line) if statement.line else (listed, number)
        sites.append([numbers.index(spot[0]), spot[1], 0, spot[1], 0, ""])
    return sites, {number: at for at, number in enumerate(used, 1)}


def _lines(
    core: MeasuredCore,
    path: Sequence[PathStep],
    sites: Sequence[Sequence[Any]],
    site_of: Mapping[int, int],
    columns: Mapping[str, Array],
) -> Iterator[Json]:
    """Yield three figures for each line: the number of its instructions, its time on the critical
    path, and its time by queue.

    `path` is the critical path. Times are in nanoseconds. The time by queue is how long the
    instructions of the line occupy each queue."""
    spots = sorted({(site[0], site[1]) for site in sites[1:]})
    line_of = np.array([spots.index((s[0], s[1])) if s[1] else len(spots) for s in sites])
    line, queues = line_of[columns["site"]], len(LANES) + len(core.queues)
    times = (columns["kept"] - columns["begin"]) * _tick(core)
    held = np.bincount(line * queues + columns["queue"], times, (len(spots) + 1) * queues)
    counts = np.bincount(line, minlength=len(spots) + 1)
    critical = np.zeros(len(spots) + 1)
    for step in path:
        critical[line_of[site_of.get(step.statement, 0)]] += step.ns
    for n, (file, number) in enumerate(spots):
        yield {
            "file": file,
            "line": number,
            "count": int(counts[n]),
            "critical_ns": float(critical[n]),
            "busy_ns": held.reshape(-1, queues)[n].round(1).tolist(),
            "transfers": 0,
            "flops": 0,
        }


# --- counters -------------------------------------------------------------------------------------


def _throughput(core: MeasuredCore) -> Json:
    """Return a counter over time: the throughput of all DMA engines together, in GB/s."""
    begin, end = core.window
    edges = np.linspace(begin, end, BINS + 1)
    moved = core.elements[core.elements["end_ns"] > core.elements["begin_ns"]]
    rate = moved["bytes"] / (moved["end_ns"] - moved["begin_ns"])
    times = np.append(moved["begin_ns"], moved["end_ns"])
    order = np.argsort(times, kind="stable")
    rates = np.cumsum(np.append(rate, -rate)[order])
    sums = np.append(0.0, np.cumsum(rates[:-1] * np.diff(times[order])))
    bytes_by = np.interp(edges, times[order], sums) if len(times) else np.zeros(BINS + 1)
    values = np.diff(bytes_by) / ((end - begin) / BINS or 1.0)
    return _counter("DMA Throughput", "GB/s", edges[:-1] - begin, values)


def _clock(core: MeasuredCore) -> Json:
    share = 100.0 * core.clock["eighths"].astype(np.float64) / FULL
    return _counter("Tensor clock", "%", core.clock["ns"] - core.window[0], share)


def _counter(name: str, unit: str, times: Array, values: Array) -> Json:
    most = float(values.max(initial=0.0)) or 1.0
    document = {"times": times.round(1).tolist(), "values": values.round(3).tolist()}
    return {"name": name, "unit": unit, "most": most, **document}
