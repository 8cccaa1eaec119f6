"""The estimate of a compiled program: the times of its instructions and semaphores on a machine.

The estimate assumes nothing about a compiler. Each engine executes its instructions in order, and
an instruction begins when its semaphores have the values that it waits for. The DMA engines execute
one transfer after another. All times come from the machine's file; times of transfers are in its
section `replay`. The Tensor engine's clock changes its rate at the ends of windows of equal length
(`Clock`)."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.capture.encoding import DecodedInstruction, DecodedOperand
from neuroncore.capture.measured import CLOCK, ELEMENT, INSTRUCTION, UPDATE, Capture, MeasuredCore
from neuroncore.capture.moves import HBM, MOVE, RINGS, SBUF
from neuroncore.capture.neff import STATE_BUFFER, DmaMove, Graph, Neff, StaticBlock
from neuroncore.capture.trace import ENGINES, GPSIMD, TENSOR
from neuroncore.machine import Machine

Array = npt.NDArray[Any]

PHASES = 4  # phases of the Tensor engine's clock that are tried
ADDS = "++", "+="
MOST_INCREMENTS, MOST_COLUMNS = 1 << 10, 1 << 16


class TimedInstruction(NamedTuple):
    """A timed instruction of an engine, by its number in the engine's program.

    Three times are stored, in nanoseconds: when the instruction begins, when the engine is free
    again, and when the result is available."""

    engine: int
    number: int
    begin: float
    free: float
    end: float


@dataclass(frozen=True, eq=False)
class _Move:
    """A transfer of `elements` elements.

    `increment`: what the transfer adds to a semaphore.
    `read` and `written`: bytes.
    `source` and `target`: memories (HBM or SBUF).
    `static`: whether its descriptors are static."""

    semaphore: int
    increment: int
    read: int
    written: int
    elements: int
    source: int
    target: int
    static: bool


class _Semaphores:
    """For each semaphore, the sorted times in nanoseconds at which its value rose by one."""

    def __init__(self) -> None:
        self.times: dict[int, list[float]] = defaultdict(list)
        self.by: dict[int, int] = {}  # who increments each semaphore: an engine, or -1 for DMA

    def add(self, number: int, amount: int, ns: float, by: int) -> None:
        """Record that the engine `by` (-1 for DMA engines) adds `amount` to a semaphore at the time
        `ns`.

        Raise UsageError if `amount` is larger than in any known program."""
        if amount > MOST_INCREMENTS:
            raise UsageError(
                f"an instruction adds {amount:,} to semaphore {number}, more than "
                f"{MOST_INCREMENTS:,}, the most that is accepted"
            )
        self.by[number] = by
        for _ in range(amount):
            insort(self.times[number], ns)

    def reached(self, number: int, value: int) -> float | None:
        """Return when a semaphore reached a value; None if that is not known yet."""
        times = self.times[number]
        return None if value > len(times) else times[value - 1] if value > 0 else 0.0


class Clock:
    """The Tensor engine's clock.

    Time is divided into windows of equal length, one of which begins at `phase_ns`. The clock has
    its full rate in a window if matrix products were busy enough in the window before: the products
    must have streamed enough rows of their moving matrices through the array."""

    def __init__(self, machine: Machine, phase_ns: float) -> None:
        self.phase, self.moved = phase_ns, defaultdict[int, float](float)
        self.window_ns, self.rows = machine.fixed.clock_window_ns, machine.fixed.clock_rows
        self.slowest = 1.0 / machine.fixed.cold_clock_share

    def slow(self, ns: float) -> float:
        """Return the factor by which a product takes longer if it begins at the time `ns`."""
        if not self.window_ns:
            return 1.0
        window = int((ns - self.phase) // self.window_ns)
        return 1.0 if self.moved[window - 1] >= self.rows else self.slowest

    def move(self, begin: float, end: float, rows: float) -> None:
        if not self.window_ns:
            return
        first, last = (int((ns - self.phase) // self.window_ns) for ns in (begin, end))
        for window in range(first, last + 1):
            low = max(begin, self.phase + window * self.window_ns)
            high = min(end, self.phase + (window + 1) * self.window_ns)
            self.moved[window] += rows * (high - low) / ((end - begin) or 1.0)


class _Replay:
    """The timing of the instructions of one core."""

    def __init__(self, graph: Graph, machine: Machine, phase_ns: float) -> None:
        self.graph, self.machine, self.times = graph, machine, machine.replay
        self.clock, self.semaphores = Clock(machine, phase_ns), _Semaphores()
        self.next_number = {engine: 0 for engine in graph.code}
        self.free = dict.fromkeys(graph.code, 0.0)
        self.array_free = 0.0  # when the array has finished its last product
        self.dma_free = 0.0
        self.done: list[TimedInstruction] = []
        self.moves: list[tuple[TimedInstruction, _Move, float, float]] = []
        self.streams = {engine: code.instructions for engine, code in graph.code.items()}
        self.static = {
            engine: {(block.queue, block.number): block for block in blocks}
            for engine, blocks in graph.blocks.items()
        }

    def run(self) -> None:
        """Time all instructions of all engines.

        The next instruction is always the one that can begin first. Raise UsageError if
        instructions remain and none of them can begin."""
        while any(
            self.next_number[engine] < len(stream) for engine, stream in self.streams.items()
        ):
            ready = [(begin, engine) for engine, begin in self._ready()]
            if not ready:
                raise UsageError("the program waits for a semaphore value that is never reached")
            begin, engine = min(ready)
            self._take(engine, begin)

    def _ready(self) -> Iterator[tuple[int, float]]:
        """Yield (engine, begin in nanoseconds) for each engine's next instruction if its waits can
        be timed."""
        for engine, stream in self.streams.items():
            if self.next_number[engine] == len(stream):
                continue
            times = [
                self.semaphores.reached(wait.number, wait.value)
                for wait in stream[self.next_number[engine]].waits
                if wait.kind.startswith("S")
            ]
            if None not in times:
                ready = max([0.0, *(ns for ns in times if ns is not None)])
                if engine == GPSIMD and stream[self.next_number[engine]].blocks:
                    ready += self.times.gpsimd_start_ns
                yield engine, max(self.free[engine], ready)

    def _take(self, engine: int, begin: float) -> None:
        number = self.next_number[engine]
        kind = self.streams[engine][number]
        self.next_number[engine] += 1
        move = self._move(engine, kind) if kind.role == "transfer" else None
        if move is not None:
            done = self._trigger(engine, number, begin, move)
        elif kind.role == "product":
            done = self._product(number, begin, kind)
        else:
            busy, latency = self._cost(engine, kind)
            end = begin + busy + latency
            if kind.role == "weights":  # until the array takes them
                end = max(end, self.array_free)
            done = TimedInstruction(engine, number, begin, begin + busy, end)
        self.free[engine] = done.free
        self.done.append(done)
        for update in kind.updates:
            if not update.kind.endswith(ADDS):
                raise UsageError(f"the effect of {update.kind} on a semaphore is not estimated")
            self.semaphores.add(update.number, update.value, done.end + self._hand_over, engine)

    @property
    def _hand_over(self) -> float:
        return self.machine.fixed.semaphore_ns

    def _cost(self, engine: int, kind: DecodedInstruction) -> tuple[float, float]:
        """Return how long an instruction occupies its engine, and how much later its result is
        available.

        Both times are in nanoseconds."""
        if kind.role == "table":
            return self.machine.fixed.activation_table_ns, 0.0
        if kind.role == "weights":
            return self.times.weights_ns, 0.0
        if kind.role != "compute":
            return (0.0 if kind.role == "setup" else self.times.order_ns), 0.0
        unit = self.machine.engines[ENGINES[engine].lower()]
        streams = [operand for operand in kind.operands if operand.free > 1] or list(kind.operands)
        longest = float(max((operand.free for operand in streams), default=1))
        rate = unit.rate[_rate(kind, streams)] if ENGINES[engine] == "Vector" else 1.0
        reads_sbuf = any(operand.reads and not operand.in_psum for operand in streams)
        cycles: float = unit.overhead_cycles + unit.sbuf_access_cycles * reads_sbuf
        cycles += unit.column_cycles * _takes_columns(kind) + longest / rate
        return max(cycles, unit.min_interval_cycles) / unit.clock_ghz, unit.latency_ns

    def _product(self, number: int, begin: float, kind: DecodedInstruction) -> TimedInstruction:
        unit, read = self.machine.engines["tensor"], kind.operand("src")
        if read.free > MOST_COLUMNS:
            raise UsageError(
                f"a product streams {read.free:,} columns, more than {MOST_COLUMNS:,}, the most "
                "that is accepted"
            )
        passes = self.machine.fixed.float32_passes if read.free_bytes == 4 * read.free else 1
        begin = max(begin, self.array_free - self.times.weights_ns)
        start = max(begin, self.array_free)
        cycles = max(unit.overhead_cycles + passes * read.free, unit.min_interval_cycles)
        busy = cycles / unit.clock_ghz * self.clock.slow(start)
        self.clock.move(start, start + busy, passes * read.free)
        self.array_free = start + busy
        free, end = begin + self.times.product_ns, self.array_free + unit.latency_ns
        return TimedInstruction(TENSOR, number, begin, free, end)

    def _trigger(self, engine: int, number: int, begin: float, move: _Move) -> TimedInstruction:
        times = self.times
        issue, start, load = (
            (times.static_trigger_ns, times.static_start_ns, times.static_load_ns)
            if move.static
            else (times.direct_trigger_ns, times.direct_start_ns, times.direct_load_ns)
        )
        shown = times.order_ns if engine == GPSIMD and not move.static else issue
        done = TimedInstruction(engine, number, begin, begin + issue, begin + shown)
        moving = max(move.read, move.written) / times.gigabytes_per_s_per_engine
        busy = (move.elements * times.element_ns + moving) / RINGS
        first = max(begin + start, self.dma_free)
        self.dma_free = first + busy
        end = self.dma_free + times.done_ns + load * (move.source == HBM)
        self.semaphores.add(move.semaphore, move.increment, end, -1)
        self.moves.append((done, move, first, end))
        return done

    def _move(self, engine: int, kind: DecodedInstruction) -> _Move | None:
        settings = kind.settings
        key = str(settings.get("queue")), int(settings.get("block", -1))
        block = self.static.get(engine, {}).get(key)
        if block is not None and block.moves:
            return _static(block, self.graph)
        if not kind.blocks:
            return None
        source, target = kind.blocks
        inside = {v.number for v in self.graph.variables.values() if v.kind == STATE_BUFFER}
        reads, writes = (
            SBUF if end.kind == "variable" and end.number in inside else HBM
            for end in (source, target)
        )
        elements = max(end.nbytes // max(end.element, 1) for end in (source, target))
        amount = int(settings["increment"])
        number, sizes = int(settings["semaphore"]), (source.nbytes, target.nbytes)
        return _Move(number, amount, *sizes, elements, reads, writes, False)


def _static(block: StaticBlock, graph: Graph) -> _Move:
    def memory(name: str) -> int:
        variable = graph.variables.get(name)
        return SBUF if variable is not None and variable.kind == STATE_BUFFER else HBM

    read, written = (sum(sizes) for sizes in zip(*map(_sizes, block.moves), strict=True))
    ends = ((m.source_sizes, m.target_sizes, m.nbytes) for m in block.moves)
    elements = sum(size // max(min(a[0], b[0]), 1) for a, b, size in ends if a and b)
    source, target = memory(block.moves[0].source), memory(block.moves[0].target)
    return _Move(block.semaphore, RINGS, read, written, elements, source, target, True)


def _sizes(move: DmaMove) -> tuple[int, int]:
    return move.read_bytes, move.nbytes


def _rate(kind: DecodedInstruction, streams: Sequence[DecodedOperand]) -> str:
    """Return the name, in the machine's file, of the Vector engine's rate for an instruction.

    `streams` are the large operands of the instruction."""
    if sum(operand.reads for operand in streams) > 1:
        return "two_streams"
    apart = any(operand.steps[0] not in (0, 1) for operand in streams if operand.free > 1)
    reduces = len({operand.free for operand in kind.operands}) > 1
    if any(operand.in_psum for operand in streams) or apart or reduces:
        return "default"
    read, written = (
        {operand.free_bytes // operand.free for operand in streams if operand.reads == reads}
        for reads in (True, False)
    )
    if read == written == {2}:
        return "copy_16bit"
    return "copy_widening" if read == {2} else "copy_32bit"


def _takes_columns(kind: DecodedInstruction) -> bool:
    """Return whether an instruction reads a bias or scalar with one number per partition from
    memory."""
    values: Mapping[str, object] = kind.settings
    return "bias" in values or any(getattr(each, "is_address", False) for each in values.values())


def estimate(program: Neff, machine: Machine) -> Capture:
    """Return a capture of the program, with estimated times.

    The phase of the Tensor engine's clock is unknown, so several phases are tried. The capture has
    the times of the middle result. Its `range_ns` reaches from the shortest to the longest result,
    with a margin of the machine (`replay.range`). Raise UsageError if an instruction waits forever,
    or if an update of a semaphore is unknown."""
    window_ns = machine.fixed.clock_window_ns
    phases = range(PHASES) if window_ns else range(1)
    each = [timed(program, machine, phase * window_ns / PHASES) for phase in phases]
    each.sort(key=lambda capture: capture.busiest.window_ns)
    low, high = (
        capture.busiest.window_ns * share
        for capture, share in zip((each[0], each[-1]), machine.replay.range, strict=True)
    )
    return replace(each[len(each) // 2], range_ns=(low, high))


def timed(program: Neff, machine: Machine, phase_ns: float = 0.0) -> Capture:
    """Return a capture of the program, with the times that are estimated for one phase of the
    Tensor engine's clock.

    The phase is `phase_ns`, the time at which one of the clock's windows begins. Raise UsageError
    like `estimate`."""
    cores = []
    for number, graph in enumerate(program.graphs):
        replay = _Replay(graph, machine, phase_ns)
        replay.run()
        cores.append(_core(replay, number))
    source = "an estimate of the program's own instructions"
    return Capture(program.name, machine.name, "", source, cores, range_ns=(0.0, 0.0))


def _core(replay: _Replay, number: int) -> MeasuredCore:
    graph = replay.graph
    done = sorted(
        replay.done, key=lambda finished: (finished.begin, finished.engine, finished.number)
    )
    # by identity: `decoded` returns the same object for equal words
    kinds: dict[int, tuple[int, DecodedInstruction]] = {}
    rows = np.zeros(len(done), INSTRUCTION)
    names, places = [], {}
    for at, finished in enumerate(done):
        code, kind = graph.code[finished.engine], replay.streams[finished.engine][finished.number]
        which, _ = kinds.setdefault(id(kind), (len(kinds), kind))
        statement = code.statements[finished.number]
        rows[at] = finished.begin, finished.end, finished.engine, which, True, statement
        names.append(code.names[finished.number])
        places[finished.engine, finished.number] = at
    return MeasuredCore(
        name=graph.name,
        number=number,
        total_ns=float(rows["end_ns"].max()) if len(rows) else 0.0,
        instructions=rows,
        kinds=[kind for _, kind in kinds.values()],
        names=names,
        moves=_moves(replay, places),
        queues=[queue.shown for queue in graph.queues.values()],
        elements=_elements(replay),
        updates=_updates(replay.semaphores),
        clock=np.zeros(0, CLOCK),
        semaphores=graph.semaphores,
        statements=graph.statements,
        memory={},
    )


def _moves(replay: _Replay, places: Mapping[tuple[int, int], int]) -> Array:
    queues = list(replay.graph.queues.values())
    rows = np.zeros(len(replay.moves), MOVE)
    for at, (trigger, move, _, end) in enumerate(replay.moves):
        row = places[trigger.engine, trigger.number]
        owns = [n for n, queue in enumerate(queues) if move.semaphore in queue.semaphores]
        sizes = move.written, move.read, move.source, move.target
        rows[at] = trigger.begin, end, row, owns[0] if owns else -1, move.semaphore, *sizes
    return np.sort(rows, order="begin_ns", kind="stable")


def _elements(replay: _Replay) -> Array:
    """Return the transfers as an array of ELEMENT, with one row for each whole transfer."""
    rows = np.zeros(len(replay.moves), ELEMENT)
    for at, (_, move, first, end) in enumerate(replay.moves):
        rows[at] = first, end - replay.times.done_ns, 0, -1, move.written
    return np.sort(rows, order="begin_ns", kind="stable")


def _updates(semaphores: _Semaphores) -> Array:
    changes = [
        (ns, number, value + 1, semaphores.by[number])
        for number, times in semaphores.times.items()
        for value, ns in enumerate(times)
    ]
    return np.array(sorted(changes), UPDATE)
