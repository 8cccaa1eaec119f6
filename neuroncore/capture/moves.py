"""The DMA transfers of a kernel: the instructions that start them, and when their bytes arrive.

A transfer ends when its semaphore has been incremented 16 times, once by each DMA engine. Transfers
of a queue end in the order in which they are started. An element is what one DMA engine moves at a
time. A static block is a group of transfers whose descriptors are written before the program runs.
A `Row` is a tuple that describes a transfer; its values are the fields of MOVE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.capture.encoding import DecodedInstruction, decoded
from neuroncore.capture.neff import STATE_BUFFER, DmaMove, StaticBlock
from neuroncore.capture.neff import Graph as Program
from neuroncore.capture.trace import ENGINES, Graph

Array = npt.NDArray[Any]

RINGS = 16  # DMA engines, each of which increments the semaphore of a transfer
BLOCK = 16  # semaphores of a queue
FIRST = 8  # the first semaphore of queues
MARK = 4  # bytes that increment the semaphore, in each DMA engine's last element of a transfer
ALIGNED = 16  # the sizes of all other elements are multiples of this many bytes

MOVE = np.dtype(
    [
        *(("begin_ns", "f8"), ("end_ns", "f8"), ("trigger", "i4")),
        *(("queue", "i2"), ("semaphore", "u1"), ("bytes", "i8"), ("read_bytes", "i8")),
        *(("source", "i1"), ("target", "i1")),
    ]
)
UNKNOWN, HBM, SBUF = range(3)  # where a transfer reads and writes
Row = tuple[float, float, int, int, int, int, int, int, int]  # of MOVE


@dataclass(frozen=True, eq=False)
class Triggers:
    """The data from which transfers are found.

    `rows` and `kinds` are the instructions of a core. `updates` are the changes of its semaphores.
    The elements are what its DMA engines moved."""

    rows: Array
    kinds: Sequence[DecodedInstruction]
    updates: Array
    elements: Array
    queues: Sequence[str]

    def of_role(self) -> list[int]:
        """Return the rows of the compiler's instructions that start transfers, in the order of
        time."""
        starts = np.array([kind.role == "transfer" for kind in self.kinds], np.bool_)
        rows: list[int] = np.flatnonzero(self.rows["own"] & starts[self.rows["kind"]]).tolist()
        return rows

    def kind(self, row: int) -> DecodedInstruction:
        return self.kinds[int(self.rows["kind"][row])]

    def increments(self) -> dict[int, Array]:
        """Return when DMA engines incremented each semaphore since the kernel began, in
        nanoseconds."""
        program_rows = self.rows[self.rows["own"]]
        begun = program_rows["begin_ns"].min() if len(program_rows) else 0.0
        updates = self.updates
        by_dma = (updates["by"] < 0) & (updates["value"] > 0) & (updates["ns"] >= begun)
        return {
            number: updates["ns"][by_dma & (updates["semaphore"] == number)]
            for number in np.unique(updates["semaphore"][by_dma]).tolist()
        }

    def queues_of(self, engine: int) -> list[int]:
        """Return the queues of an engine as indices of `queues`.

        The name of a queue begins with q and the name of its engine."""
        return [n for n, name in enumerate(self.queues) if name.startswith(f"q{ENGINES[engine]}")]


def of_direct(triggers: Triggers) -> Iterator[Row]:
    """Yield the transfers of instructions that contain the source, the destination and the
    semaphore."""
    increments, count = triggers.increments(), defaultdict[int, int](int)
    for row in triggers.of_role():
        kind = triggers.kind(row)
        if "semaphore" not in kind.settings:
            continue
        number = int(kind.settings["semaphore"])
        count[number] += int(kind.settings["increment"])
        queues = triggers.queues_of(int(triggers.rows["engine"][row]))
        dynamic = [n for n in queues if "Dynamic" in triggers.queues[n]]
        ends = [(each.nbytes, SBUF if each.in_sbuf else HBM) for each in kind.blocks]
        (read, source), (size, target) = ends
        end = _end(triggers, row, increments.get(number), count[number])
        begin = float(triggers.rows["begin_ns"][row])
        queue = dynamic[0] if dynamic else -1
        yield begin, end, row, queue, number, size, read, source, target


def of_static(triggers: Triggers, graph: Graph, program: Program) -> Iterator[Row]:
    """Yield the transfers of static blocks.

    Their sizes in bytes and their memories come from the compiled program."""
    increments, count = triggers.increments(), defaultdict[int, int](int)
    for row in triggers.of_role():
        if "semaphore" in triggers.kind(row).settings:
            continue
        engine = int(triggers.rows["engine"][row])
        block = _block(row, engine, graph, program)
        if block is None or not block.moves:
            continue
        count[block.semaphore] += RINGS
        queue = program.queues[block.queue].shown if block.queue in program.queues else ""
        number = triggers.queues.index(queue) if queue in triggers.queues else -1
        end = _end(triggers, row, increments.get(block.semaphore), count[block.semaphore])
        begin = float(triggers.rows["begin_ns"][row])
        yield begin, end, row, number, block.semaphore, *_ends(block, program)


def _ends(block: StaticBlock, program: Program) -> tuple[int, int, int, int]:
    """Return the bytes written and read by a block, and the memories of the source and the
    target."""

    def memory(name: str) -> int:
        variable = program.variables.get(name)
        return UNKNOWN if variable is None else SBUF if variable.kind == STATE_BUFFER else HBM

    written, read = (sum(sizes) for sizes in zip(*map(_sizes_of, block.moves), strict=True))
    first = block.moves[0]
    return written, read, memory(first.source), memory(first.target)


def _sizes_of(move: DmaMove) -> tuple[int, int]:
    return move.nbytes, move.read_bytes


def _block(row: int, engine: int, graph: Graph, program: Program) -> StaticBlock | None:
    """Return the static block that is started by the instruction in a row; None if unknown.

    The name of the block is read from the compiled program, because the runtime has replaced the
    compiler's instruction in the trace."""
    place = int(graph.streams[engine].place[graph.instructions["pc"][row]])
    code = program.code.get(engine)
    if code is None or not 0 <= place < len(code.words):
        return None
    settings = decoded(code.words[place].tobytes()).settings
    key = settings.get("queue"), settings.get("block")
    each = program.blocks[engine]
    return next((block for block in each if (block.queue, block.number) == key), None)


def unnamed(triggers: Triggers) -> Iterator[Row]:
    """Yield the transfers of static blocks without a compiled program.

    Instructions of an engine that write to the same address start transfers of the same queue. This
    queue is found from its number of transfers and from its begin."""
    doorbells: dict[tuple[int, int], list[int]] = {}
    for row in triggers.of_role():
        settings = triggers.kind(row).settings
        if "semaphore" not in settings:
            key = int(triggers.rows["engine"][row]), int(settings.get("dst", 0))
            doorbells.setdefault(key, []).append(row)
    taken = {
        int(triggers.kind(row).settings["semaphore"]) - FIRST
        for row in triggers.of_role()
        if "semaphore" in triggers.kind(row).settings
    }
    ended = _ended(triggers, {number // BLOCK for number in taken})
    free: dict[int, list[int]] = {}
    static = partial(_static_queues, triggers)
    for (engine, _), rows in doorbells.items():
        ends = _likely(triggers, rows, ended)
        queue = _fitting(triggers.elements, free.setdefault(engine, static(engine)), len(rows))
        sizes = _sizes(triggers.elements, queue, len(rows))
        for row, (end, semaphore), size in zip(rows, ends, sizes, strict=True):
            begin = float(triggers.rows["begin_ns"][row])
            yield begin, end, row, queue, semaphore, size, size, UNKNOWN, UNKNOWN


def _ended(triggers: Triggers, taken: set[int]) -> list[list[tuple[float, int]]]:
    """Return the end of each transfer as (time in nanoseconds, semaphore).

    There is a sorted list for each group of BLOCK semaphores, which belong to one queue. Groups in
    `taken` are left out, because other transfers use them."""
    blocks = defaultdict[int, list[tuple[float, int]]](list)
    for number, times in triggers.increments().items():
        if number >= FIRST and (number - FIRST) // BLOCK not in taken:
            ends = times[RINGS - 1 :: RINGS].tolist()
            blocks[(number - FIRST) // BLOCK] += [(end, number) for end in ends]
    return [sorted(each) for each in blocks.values() if each]


def _likely(
    triggers: Triggers, rows: Sequence[int], ended: list[list[tuple[float, int]]]
) -> list[tuple[float, int]]:
    """Return the ends (time, semaphore) of the transfers that the instructions in `rows` start.

    Each list in `ended` has the ends of some transfers. This removes and returns the first list
    that has one end for each of `rows`, not earlier than the begin of the row's instruction. If
    there is no such list, transfers end when their instructions end, and the semaphores are 0."""
    begins = triggers.rows["begin_ns"][rows].tolist()
    for block in sorted(ended):
        fits = len(block) == len(rows)
        if fits and all(end >= begin for (end, _), begin in zip(block, begins, strict=True)):
            ended.remove(block)
            return block
    return [(float(triggers.rows["end_ns"][row]), 0) for row in rows]


def _static_queues(triggers: Triggers, engine: int) -> list[int]:
    """Return the static queues of an engine that moved data, sorted by the time of their first
    element.

    The queues are indices of `queues`."""
    elements = triggers.elements
    used = {
        number: float(elements["begin_ns"][elements["queue"] == number].min())
        for number in triggers.queues_of(engine)
        if "Dynamic" not in triggers.queues[number] and (elements["queue"] == number).any()
    }
    return sorted(used, key=lambda number: used[number])


def _fitting(elements: Array, free: list[int], count: int) -> int:
    """Remove a queue from the list `free`, and return it; -1 if the list is empty.

    The chosen queue is the first one with `count` transfers on each of its DMA engines. If there is
    none, it is the first queue of the list."""
    for queue in free:
        last = (elements["queue"] == queue) & (elements["bytes"] % ALIGNED == MARK)
        if {*np.unique(elements["engine"][last], return_counts=True)[1].tolist()} == {count}:
            free.remove(queue)
            return queue
    return free.pop(0) if free else -1


def _sizes(elements: Array, queue: int, count: int) -> list[int]:
    """Return the bytes of each of the `count` transfers of a queue.

    All sizes are 0 if the queue's elements do not show where its transfers end."""
    of_queue = elements[elements["queue"] == queue] if queue >= 0 else elements[:0]
    sizes = np.zeros(count, np.int64)
    for ring in np.unique(of_queue["engine"]).tolist():
        on_ring = of_queue[of_queue["engine"] == ring]
        last = on_ring["bytes"] % ALIGNED == MARK
        if np.count_nonzero(last) != count:
            return [0] * count
        which = np.minimum(np.cumsum(last) - last, count - 1)
        np.add.at(sizes, which, on_ring["bytes"].astype(np.int64) - MARK * last)
    return [int(size) for size in sizes]


def _end(triggers: Triggers, row: int, times: Array | None, count: int) -> float:
    """Return the time in nanoseconds of the `count`-th increment in `times`.

    If there are fewer increments, return the end of the instruction in `row`."""
    if times is None or count > len(times):
        return float(triggers.rows["end_ns"][row])
    return float(times[count - 1])
