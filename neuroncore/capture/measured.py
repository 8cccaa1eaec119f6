"""Measurements of the cores of a device: their instructions and transfers, with times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.capture.causes import Causes, causes
from neuroncore.capture.encoding import DecodedInstruction, decoded
from neuroncore.capture.moves import MOVE, RINGS, Triggers, of_direct, of_static, unnamed
from neuroncore.capture.neff import Code, Neff, Statement, shown
from neuroncore.capture.neff import Graph as Program
from neuroncore.capture.trace import ENGINES, SEMAPHORES, SIZE, Graph, Trace

Array = npt.NDArray[Any]

INSTRUCTION = np.dtype(
    [
        *(("begin_ns", "f8"), ("end_ns", "f8"), ("engine", "u1"), ("kind", "i4")),
        *(("own", "?"), ("statement", "i4")),
    ]
)
ELEMENT = np.dtype(
    [("begin_ns", "f8"), ("end_ns", "f8"), ("engine", "u1"), ("queue", "i2"), ("bytes", "i4")]
)
UPDATE = np.dtype([("ns", "f8"), ("semaphore", "u1"), ("value", "i8"), ("by", "i1")])
LANES = *ENGINES, "Tensor (LdWeights)"
WEIGHTS_LANE = len(ENGINES)
CLOCK = np.dtype([("ns", "f8"), ("eighths", "u1")])

# an instruction of the runtime, which is not in the program
OUTSIDE = DecodedInstruction("RUNTIME", "order", (), (), (), (), {})


@dataclass(frozen=True, eq=False)
class MeasuredCore:
    """Measurements of one core, in nanoseconds since the profiler began to count.

    `instructions`: rows of INSTRUCTION, sorted by begin. In a row, `kind` is an index of `kinds`.
        `own` is True for instructions of the kernel's compiled program and False for those that the
        runtime added. `statement` is the number of the compiler's statement, or -1 if unknown.
    `names`: the compiler's name of each instruction.
    `moves`: the kernel's DMA transfers (`moves.MOVE`); `queue` is an index of `queues`.
    `elements`: what the DMA engines moved for the kernel and for the runtime (ELEMENT); `queue` is
        an index of `queues`.
    `updates`: the new values of semaphores (UPDATE).
    `clock`: the rates of the Tensor engine's clock (CLOCK).
    `semaphores`: the names of semaphores by number.
    `memory`: for each kind of use, the bytes of HBM that it takes."""

    name: str
    number: int
    total_ns: float
    instructions: Array
    kinds: Sequence[DecodedInstruction]
    names: Sequence[str]
    moves: Array
    queues: Sequence[str]
    elements: Array
    updates: Array
    clock: Array
    semaphores: Mapping[int, str]
    statements: Mapping[int, Statement]
    memory: Mapping[str, int]

    @cached_property
    def kernel(self) -> Array:
        """The rows of the compiler's instructions, except those that only set up engines."""
        kernel = [kind.role != "setup" for kind in self.kinds]
        in_kernel = self.instructions["own"] & np.array(kernel, np.bool_)[self.instructions["kind"]]
        rows: Array = np.flatnonzero(in_kernel)
        return rows

    @property
    def window(self) -> tuple[float, float]:
        """The begin and the end of the kernel; 0 and 0 for a core without instructions.

        The kernel begins with its first instruction. The kernel ends with its last instruction or
        transfer, whichever is later."""
        if not len(self.kernel):
            return 0.0, 0.0
        rows = self.instructions[self.kernel]
        ends = np.concatenate([rows["end_ns"], self.moves["end_ns"]])
        return float(rows["begin_ns"].min()), float(ends.max())

    @property
    def window_ns(self) -> float:
        begin, end = self.window
        return end - begin

    @cached_property
    def causes(self) -> Causes:
        """The causes of the waits of the kernel's instructions and transfers."""
        return causes(self.instructions, self.kinds, self.kernel, self.moves, self.updates)

    @cached_property
    def lane(self) -> Array:
        """For each row of `instructions`, an index of LANES.

        The lane is the engine. Loads of weights have the last lane, because the Tensor engine loads
        weights while it multiplies."""
        loads = np.array([kind.role == "weights" for kind in self.kinds], np.bool_)
        rows = self.instructions
        lanes: Array = np.where(loads[rows["kind"]], WEIGHTS_LANE, rows["engine"])
        return lanes

    @cached_property
    def busy_ns(self) -> Array:
        """The nanoseconds for which each row of `instructions` occupies its lane.

        A row occupies its lane until the instruction ends or the next one in the lane begins,
        whichever is earlier."""
        rows = self.instructions
        busy: Array = rows["end_ns"] - rows["begin_ns"]
        for lane in np.unique(self.lane).tolist():
            in_lane = np.flatnonzero(self.lane == lane)
            until_next = np.diff(rows["begin_ns"][in_lane])
            busy[in_lane[:-1]] = np.minimum(busy[in_lane[:-1]], until_next)
        return busy

    def kind(self, row: int) -> DecodedInstruction:
        return self.kinds[int(self.instructions["kind"][row])]

    def engine(self, row: int) -> str:
        return ENGINES[int(self.instructions["engine"][row])]

    def queue(self, number: int) -> str:
        """Return the name of a queue of transfers; "DMA" for an unknown queue."""
        return self.queues[number] if number >= 0 else "DMA"

    def event(self, number: int) -> Any:
        """Return the row of an event. Events are the instructions, and after them the transfers."""
        move = number - len(self.instructions)
        return self.moves[move] if move >= 0 else self.instructions[number]

    def place_of_event(self, number: int) -> str:
        """Return the engine or the queue of an event."""
        move = number - len(self.instructions)
        return self.queue(int(self.moves["queue"][move])) if move >= 0 else self.engine(number)


@dataclass(frozen=True, eq=False)
class Capture:
    """A run of one program: the measurements of its cores, and their file.

    Times are measured, or estimated from the program's own instructions. For estimated times,
    `range_ns` is the range in nanoseconds in which 80 % of measurements of the kernel's time are
    expected."""

    program: str
    instance: str
    runtime: str
    source: str
    cores: Sequence[MeasuredCore]
    range_ns: tuple[float, float] | None = None

    @property
    def measured(self) -> bool:
        return self.range_ns is None

    @property
    def busiest(self) -> MeasuredCore:
        """The core that ran the kernel: often only one of the two cores of a logical core."""
        return max(self.cores, key=lambda core: (len(core.kernel), core.total_ns))

    @property
    def total_ns(self) -> float:
        """The time that the profiler calls total_time."""
        return max((core.total_ns for core in self.cores), default=0.0)


def of_trace(trace: Trace, source: str, neff: Neff | None = None) -> Capture:
    """Return the capture of a trace.

    `neff`: the compiled program, from which the compiler's names are taken.
    `source`: the file of the trace."""
    programs = {graph.name: graph for graph in neff.graphs} if neff is not None else {}
    cores = [_core(graph, trace.origin_ps, programs.get(graph.name)) for graph in trace.graphs]
    return Capture(trace.program, trace.instance, trace.runtime, source, cores)


def _core(graph: Graph, origin_ps: int, program: Program | None) -> MeasuredCore:
    rows, kinds, names = _instructions(graph, origin_ps, program)
    updates = _in_ns(graph.updates, UPDATE, origin_ps)
    raw = sorted({(key, shown(name)) for key, name in graph.queues.items()})
    names_of = dict(raw)
    queues = [*dict.fromkeys(names_of.values())]
    elements = _elements(graph, origin_ps, names_of, queues)
    triggers = Triggers(rows, kinds, updates, elements, queues)
    moves = [*of_direct(triggers)]
    moves += of_static(triggers, graph, program) if program is not None else unnamed(triggers)
    return MeasuredCore(
        name=graph.name,
        number=graph.core,
        total_ns=graph.total_ps / 1e3,
        instructions=rows,
        kinds=kinds,
        names=names,
        moves=np.sort(np.array(moves, MOVE), order="begin_ns", kind="stable"),
        queues=queues,
        elements=elements,
        updates=updates,
        clock=_in_ns(graph.clock, CLOCK, origin_ps),
        semaphores=program.semaphores if program is not None else SEMAPHORES,
        statements=program.statements if program is not None else {},
        memory=graph.memory,
    )


def _in_ns(records: Array, dtype: np.dtype[Any], origin_ps: int) -> Array:
    """Return records with times in nanoseconds since `origin_ps` instead of picoseconds."""
    converted = np.zeros(len(records), dtype)
    for name in records.dtype.names or ():
        if name == "ps":
            converted["ns"] = (records["ps"] - origin_ps) / 1e3
        elif name in ("begin_ps", "end_ps"):
            converted[f"{name[:-3]}_ns"] = (records[name] - origin_ps) / 1e3
        elif name in (dtype.names or ()):
            converted[name] = records[name]
    return converted


def _elements(
    graph: Graph, origin_ps: int, names: Mapping[tuple[int, int], str], queues: Sequence[str]
) -> Array:
    """Return the elements that DMA engines moved, each with its queue as an index of `queues`.

    `names` lists the names of queues by DMA engine and number. Older files number these engines
    from 0 in each core; newer files use the numbers of the device."""
    elements = _in_ns(graph.transfers, ELEMENT, origin_ps)
    numbers = {(e % RINGS, q): queues.index(name) for (e, q), name in names.items()}
    both = np.stack((graph.transfers["engine"], graph.transfers["queue"]), axis=1)
    keys, which = np.unique(both, axis=0, return_inverse=True)
    known = np.array([numbers.get((int(e) % RINGS, int(q)), -1) for e, q in keys], np.int16)
    elements["queue"] = known[which.reshape(-1)] if len(keys) else -1
    return elements


def _instructions(
    graph: Graph, origin_ps: int, program: Program | None
) -> tuple[Array, list[DecodedInstruction], list[str]]:
    """Return the instructions of a core.

    The three values are the rows of INSTRUCTION, the distinct instructions, and the compiler's name
    for each row."""
    rows = _in_ns(graph.instructions, INSTRUCTION, origin_ps)
    rows["statement"] = -1
    names, numbers = np.full(len(rows), "", object), {b"": 0}  # of distinct instructions
    for engine, stream in graph.streams.items():
        here = np.flatnonzero((rows["engine"] == engine) & (graph.instructions["pc"] >= 0))
        pcs = graph.instructions["pc"][here]
        words = stream.code[pcs].reshape(-1).view(f"V{SIZE}").tolist()
        rows["kind"][here] = [numbers.setdefault(word, len(numbers)) for word in words]
        code = program.code.get(engine) if program is not None else None
        if code is not None:
            _name(rows, names, here, stream.place[pcs], code)
    return rows, [OUTSIDE, *map(decoded, [*numbers][1:])], names.tolist()


def _name(rows: Array, names: Array, here: Array, places: Array, code: Code) -> None:
    """Set the compiler's names and statements of an engine's instructions.

    `here`: the rows of these instructions.
    `code`: the engine's compiled program.
    `places`: the positions of the instructions in `code` (-1 for instructions of the runtime)."""
    known = (places >= 0) & (places < len(code.names))
    if known.any():
        names[here[known]] = np.array(code.names, object)[places[known]]
        rows["statement"][here[known]] = np.array(code.statements, np.int64)[places[known]]
