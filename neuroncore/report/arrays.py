"""The instructions, source lines and tiles of a run as structured numpy arrays.

`pandas.DataFrame(table)` accepts each array. Times are nanoseconds of the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.record.columns import owners
from neuroncore.time.loops.work import OWN_QUEUE
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.timeline import before_in_queue

Array = npt.NDArray[Any]

INSTRUCTION = np.dtype([
    ("core", np.int16),
    ("name", object),
    ("opcode", object),
    ("queue", object),
    ("place", object),
    ("begin_ns", np.float64),
    ("busy_ns", np.float64),
    ("done_ns", np.float64),
    ("end_ns", np.float64),
    ("waited_for", np.int32),
    ("critical", np.bool_),
])  # fmt: skip
LINE = np.dtype([
    ("place", object),
    ("text", object),
    ("count", np.int64),
    ("busy_ns", np.float64),
    ("instruction_ns", np.float64),
    ("critical_ns", np.float64),
    ("transfers", np.int64),
    ("transfer_bytes", np.int64),
])  # fmt: skip
TILE = np.dtype([
    ("core", np.int16),
    ("name", object),
    ("memory", object),
    ("partitions", np.int64),
    ("row_bytes", np.int64),
    ("place", object),
    ("accesses", np.int64),
    ("first", np.int64),
    ("last", np.int64),
])  # fmt: skip


def instructions(timelines: Sequence[Timeline]) -> Array:
    """Return a row for each recorded instruction, core by core, in program order.

    `begin_ns`: the time at which the instruction begins.
    `busy_ns`: how long the instruction occupies its queue.
    `done_ns`: the time at which its work ends.
    `end_ns`: the time at which its result is available.
    `waited_for`: the instruction of the same core for which it waited, or -1. The instruction is
        given by its position among the core's rows.
    `critical`: whether the instruction is on the critical path."""
    return _together([_instructions(core, t) for core, t in enumerate(timelines)], INSTRUCTION)


def _instructions(core: int, timeline: Timeline) -> Array:
    program, columns = timeline.program, timeline.columns
    rows = np.zeros(len(columns.call), INSTRUCTION)
    rows["core"] = core
    rows["name"] = _objects([call.name for call in program.calls])[columns.call]
    rows["opcode"] = _objects([c.instruction.opcode for c in program.calls])[columns.call]
    rows["queue"] = _objects(QUEUES)[timeline.queue]
    rows["place"] = _places(timeline)[columns.line]
    for name in ("begin", "busy", "done", "end"):
        rows[f"{name}_ns"] = getattr(timeline, name)
    in_turn = before_in_queue(timeline.queue, timeline.begin)
    rows["waited_for"] = np.where(timeline.cause == OWN_QUEUE, in_turn, timeline.cause)
    rows["critical"][timeline.critical_path] = True
    return rows


def lines(timelines: Sequence[Timeline]) -> Array:
    """Return a row for each source line that has instructions, with sums over all cores.

    The rows are sorted by `critical_ns`, the largest first.

    `instruction_ns`: the time from begin to result, summed over the line's instructions.
    `busy_ns`: the time for which the line's instructions occupy their queues.
    `critical_ns`: the line's time on the critical paths of the cores, with waits for its results.
    `transfers`: the number of DMA instructions that the program has for this line.
    `transfer_bytes`: the bytes of these DMA instructions."""
    rows: dict[str, Array] = {}
    for timeline in timelines:
        for row in _lines(timeline):
            if (known := rows.setdefault(row["place"], row)) is not row:
                for name in LINE.names[2:]:  # type: ignore[index]
                    known[name] += row[name]
    table = np.array([tuple(row) for row in rows.values()], LINE)
    order = np.lexsort((-table["instruction_ns"], -table["critical_ns"]))
    return table[order]


def _lines(timeline: Timeline) -> Array:
    program, columns, line = timeline.program, timeline.columns, timeline.columns.line
    count = len(program.lines)
    rows = np.zeros(count, LINE)
    rows["place"] = _places(timeline)
    rows["text"] = _objects([program.place(i).text.strip() for i in range(count)])
    rows["count"] = np.bincount(line, minlength=count)
    rows["busy_ns"] = np.bincount(line, timeline.busy, count)
    rows["instruction_ns"] = np.bincount(line, timeline.end - timeline.begin, count)
    path = timeline.critical_path
    until = np.append(timeline.begin[path[1:]], timeline.end[path[-1:]])
    rows["critical_ns"] = np.bincount(line[path], until - timeline.begin[path], count)
    moved, size = timeline.moves, np.zeros(len(program.calls))
    for call in np.unique(columns.call[moved]).tolist():
        size[call] = program.calls[call].written_bytes
    rows["transfers"] = np.bincount(line[moved], minlength=count)
    rows["transfer_bytes"] = np.bincount(line[moved], size[columns.call[moved]], count)
    return rows[rows["count"] > 0]


def tiles(timelines: Sequence[Timeline]) -> Array:
    """Return a row for each tensor that instructions accessed, core by core, in order of first use.

    `row_bytes`: the bytes in each of the tensor's `partitions`.
    `place`: the line that created the tensor; empty for arguments.
    `first` and `last`: the first and the last instruction that accessed the tensor, as positions
        among the rows of `instructions` for the same core.

    All tensors of a memory whose addresses the kernel chose share one row, without a place."""
    return _together([_tiles(core, t) for core, t in enumerate(timelines)], TILE)


def _tiles(core: int, timeline: Timeline) -> Array:
    program, columns = timeline.program, timeline.columns
    area = program.box_table()[:, 0][columns.operands]
    numbers, which, counts = np.unique(area, return_inverse=True, return_counts=True)
    user = owners(columns.start)
    rows = np.zeros(len(numbers), TILE)
    rows["core"], rows["accesses"], rows["first"] = core, counts, len(user)
    np.minimum.at(rows["first"], which, user)
    np.maximum.at(rows["last"], which, user)
    areas = [program.area(number) for number in numbers.tolist()]
    rows["name"] = _objects([area.name for area in areas])
    rows["memory"] = _objects([area.region.value for area in areas])
    rows["partitions"] = [area.partitions for area in areas]
    rows["row_bytes"] = [area.row_bytes for area in areas]
    places = np.append(_places(timeline), "")  # the last entry is for -1
    rows["place"] = places[[area.line for area in areas]]
    return rows[np.argsort(rows["first"], kind="stable")]


def _together(parts: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def _places(timeline: Timeline) -> Array:
    return _objects([str(timeline.program.place(i)) for i in range(len(timeline.program.lines))])


def _objects(values: Sequence[str]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array
