"""Find the source line of each device instruction in a kernel.

For this, the device's instructions are matched with those of neuroncore's compiled program, whose
source lines are known. Two instructions have the same signature if they do the same kind of work on
operands of the same size. A device instruction can belong to a statement of the device's compiler.
The matching has six steps:

* Device instructions with the same statement and the same signature get a line that has as many
  neuroncore instructions of this signature. The first such line is used.
* If there is no such line, the device's compiler may have merged instructions. Then the device
  instructions get a line with n times as many neuroncore instructions. Each of them does 1/n of
  the work.
* The remaining instructions are matched one by one: the k-th device instruction with a signature
  gets the line of neuroncore's k-th unused instruction with this signature.
* The device copies 16-bit data as half as many 32-bit elements. So a device instruction that still
  has no line is matched with a neuroncore instruction on twice as many elements.
* All instructions of a statement get the line that most of its matched instructions have.
* Instructions that load weights and still have no line get the line of the next product of their
  engine."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.capture.encoding import DecodedInstruction
from neuroncore.capture.measured import MeasuredCore
from neuroncore.capture.moves import HBM, SBUF
from neuroncore.capture.neff import STATE_BUFFER, Graph, Statement, StaticBlock
from neuroncore.capture.trace import ENGINES
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.report.summary import product
from neuroncore.time.compiled import ISSUED
from neuroncore.time.queues import LOADS, QUEUES, is_transfer
from neuroncore.time.timeline import Timeline

ON_CHIP = MemoryRegion.sbuf, MemoryRegion.psum
PRODUCT, TRANSPOSE, LOAD, STORE, MOVE, COMPUTE = (
    *("product", "transpose", "load", "store"),
    *("DMA", "compute"),
)
DIRECTIONS = {(HBM, SBUF): LOAD, (SBUF, HBM): STORE}
WEIGHTS = "weights"  # for the next product of the engine


Signature = tuple[str, tuple[int, ...]]  # kind and sizes
Lines = Counter[tuple[Signature, str]]  # neuroncore's instructions, by signature and line


class JoinedWork(NamedTuple):
    """The work of one instruction.

    `kind`: the kind of the work, "" if the instruction only waits.
    `sizes`: for a product, its rows, columns and length; for another instruction of an engine, its
        partitions, and the elements that it reads and writes; for a transfer, its bytes.
    `engine`: "DMA" for transfers.
    `statement`: the number of the compiler's statement, -1 for none.
    `place`: the line of the kernel, "" if unknown."""

    kind: str
    sizes: tuple[int, ...]
    engine: str
    statement: int
    place: str

    @property
    def signature(self) -> Signature:
        return self.kind, self.sizes


# --- neuroncore's instructions --------------------------------------------------------------------


def ours(timeline: Timeline) -> list[JoinedWork]:
    """Return the work of neuroncore's compiled program, in program order.

    There is an entry for each instruction that the device would execute."""
    program, columns, machine = timeline.program, timeline.columns, timeline.machine
    heads = timeline.compiled.heads
    issued = np.flatnonzero((timeline.compiled.fate == ISSUED) & (heads < 0)).tolist()
    merged = 1 + np.bincount(heads[heads >= 0], minlength=len(heads))
    by_call: dict[tuple[int, int], tuple[str, tuple[int, ...], int]] = {}
    places = [program.place(line).short for line in range(len(program.lines))]
    works = []
    for row in issued:
        call, queue = int(columns.call[row]), int(timeline.queue[row])
        if (call, queue) not in by_call:
            by_call[call, queue] = _done_by(program.calls[call], queue, machine)
        kind, sizes, count = by_call[call, queue]
        if kind in (COMPUTE, LOAD, STORE):  # merging does not change the partitions of compute
            kept = int(kind == COMPUTE)
            sizes = (*sizes[:kept], *(int(merged[row]) * size for size in sizes[kept:]))
        unit = "DMA" if kind in (LOAD, STORE, MOVE) else QUEUES[queue]
        place = places[int(columns.line[row])]
        works += [JoinedWork(kind, sizes, unit, -1, place)] * count
    return [work for work in works if work.kind]


def _done_by(call: Call, queue: int, machine: Machine) -> tuple[str, tuple[int, ...], int]:
    """Return the kind and the sizes of a call's work, and how many device instructions do this
    work.

    The kind is "" if the device has no instruction for the call. A call represents all instructions
    with the same function and equal arguments."""
    if is_transfer(call, queue):
        return _direction(call), (call.written_bytes,), 1
    done = product(call, machine)
    if done is not None:
        weights = call.view(call.instruction.traits.weights)
        sizes = weights.partitions, weights.free_size, call.view("dst").free_size
        return TRANSPOSE if done.transposes else PRODUCT, sizes, done.count
    views = call.views(*call.reads, *call.writes)
    if not call.writes or not views or queue >= LOADS:
        return "", (), 0
    on_chip = [view for view in views if view.region in ON_CHIP]
    rows = max((view.partitions for view in on_chip), default=0)
    read, written = (
        max((view.free_size for view in call.views(*names) if view in on_chip), default=0)
        for names in (call.reads, call.writes)
    )
    return COMPUTE, (rows, read, written), 1


def _direction(call: Call) -> str:
    reads, writes = (
        any(view.region in ON_CHIP for view in call.views(*names))
        for names in (call.reads, call.writes)
    )
    return LOAD if writes and not reads else STORE if reads and not writes else MOVE


# --- the device's ---------------------------------------------------------------------------------


def of_core(core: MeasuredCore) -> list[tuple[int, JoinedWork]]:
    """Return the work of the kernel's instructions, in order of time.

    Each entry is a pair: the index of the instruction in `core.instructions`, and its work."""
    moves = {int(move["trigger"]): move for move in core.moves}
    works = []
    for row in core.kernel.tolist():
        move = moves.get(row)
        statement = int(core.instructions["statement"][row])
        if move is not None:
            kind = DIRECTIONS.get((int(move["source"]), int(move["target"])), MOVE)
            work = JoinedWork(kind, (int(move["bytes"]),), "DMA", statement, "")
        else:
            work = _work(core.kind(row), core.engine(row), statement)
        works.append((row, work))
    return works


def of_graph(graph: Graph) -> list[tuple[tuple[int, int], JoinedWork]]:
    """Return the work of the instructions of a compiled program, engine by engine.

    Each entry is a pair (key, work). A key consists of the engine, and the number of the
    instruction in the engine's program."""
    works = []
    for engine, code in graph.code.items():
        blocks = {(each.queue, each.number): each for each in graph.blocks[engine]}
        for number, kind in enumerate(code.instructions):
            if kind.role == "setup":
                continue
            key = str(kind.settings.get("queue")), int(kind.settings.get("block", -1))
            ends = _static(blocks[key], graph) if key in blocks else _direct(kind, graph)
            statement = code.statements[number]
            work = _work(kind, ENGINES[engine], statement)
            if kind.role == "transfer" and ends is not None:
                work = JoinedWork(*ends, "DMA", statement, "")
            works.append(((engine, number), work))
    return works


def _static(block: StaticBlock, graph: Graph) -> tuple[str, tuple[int, ...]] | None:
    if not block.moves:
        return None
    source, target = (
        SBUF if name in graph.variables and graph.variables[name].kind == STATE_BUFFER else HBM
        for name in (block.moves[0].source, block.moves[0].target)
    )
    return DIRECTIONS.get((source, target), MOVE), (sum(move.nbytes for move in block.moves),)


def _direct(kind: DecodedInstruction, graph: Graph) -> tuple[str, tuple[int, ...]] | None:
    """Return the kind and size of a transfer whose instruction contains both ends.

    The ends are variables, or entries of a table of variables. Return None for other
    instructions."""
    if not kind.blocks:
        return None
    inside = {v.number for v in graph.variables.values() if v.kind == STATE_BUFFER}
    source, target = (
        SBUF if end.kind == "variable" and end.number in inside else HBM for end in kind.blocks
    )
    return DIRECTIONS.get((source, target), MOVE), (kind.blocks[-1].nbytes,)


def _work(kind: DecodedInstruction, engine: str, statement: int) -> JoinedWork:
    """Return the work of an engine's instruction, from its operands."""
    if kind.role == "product":
        turns = kind.settings["transpose"] == "ENABLED"
        sizes = kind.settings["rows"], kind.settings["columns"], kind.operand("src").free
        return JoinedWork(TRANSPOSE if turns else PRODUCT, sizes, engine, statement, "")
    if kind.role == "compute" and kind.operands:
        rows = max(operand.rows for operand in kind.operands)
        read, written = (
            max((each.free for each in kind.operands if each.reads == reads), default=0)
            for reads in (True, False)
        )
        return JoinedWork(COMPUTE, (rows, read, written), engine, statement, "")
    return JoinedWork(WEIGHTS if kind.role == "weights" else "", (), engine, statement, "")


# --- both -----------------------------------------------------------------------------------------


def joined(theirs: Sequence[JoinedWork], our_work: Sequence[JoinedWork]) -> list[JoinedWork]:
    """Return the device's work, `theirs`, with the line (`place`) of each instruction.

    `our_work` is neuroncore's work for the same kernel."""
    places = [""] * len(theirs)
    unused = Counter((work.signature, work.place) for work in our_work)
    _by_statement(theirs, places, unused)
    _in_order(theirs, places, our_work, unused)
    votes: dict[int, Counter[str]] = defaultdict(Counter)
    for work, place in zip(theirs, places, strict=True):
        if place and work.statement >= 0:
            votes[work.statement][place] += 1
    after: dict[str, str] = {}  # the line of the next product of each engine
    for number, work in reversed([*enumerate(theirs)]):
        if work.statement in votes:
            places[number] = votes[work.statement].most_common(1)[0][0]
        if work.kind in (PRODUCT, TRANSPOSE):
            after[work.engine] = places[number]
        elif work.kind == WEIGHTS and not places[number]:
            places[number] = after.get(work.engine, "")
    return [work._replace(place=place) for work, place in zip(theirs, places, strict=True)]


def _by_statement(theirs: Sequence[JoinedWork], places: list[str], unused: Lines) -> None:
    """Set the places of device instructions, statement by statement.

    Instructions of a statement with the same signature (kind and sizes) get the first line that has
    as many neuroncore instructions. If no line has, they get a line with n times as many
    instructions, of which n do the work of one. Lines that are used are removed from `unused`."""
    groups: dict[tuple[Signature, int], list[int]] = defaultdict(list)
    for number, work in enumerate(theirs):
        if work.sizes and work.statement >= 0:
            groups[work.signature, work.statement].append(number)
    for fits in (_equal, _merged):
        for (signature, _), rows in groups.items():
            if places[rows[0]]:
                continue
            same = (k for k, n in unused.items() if n == len(rows) * fits(signature, k[0]))
            match = next((key for key in same if unused[key]), None)
            if match is not None:
                del unused[match]
                for row in rows:
                    places[row] = match[1]


def _equal(whole: Signature, part: Signature) -> int:
    return int(whole == part)


def _merged(whole: Signature, part: Signature) -> int:
    """Return how many instructions `part` do the work of one instruction `whole`.

    The result is the factor by which all sizes of `whole` except the partitions are larger than
    those of `part`. Return 0 if there is no such factor."""
    (kind, sizes), (other, smaller) = whole, part
    if kind != other or not smaller[-1] or sizes[-1] % smaller[-1]:
        return 0
    count = sizes[-1] // smaller[-1]
    times = [1] * (len(sizes) > 1) + [count] * len(sizes)
    each = zip(sizes, smaller, times, strict=False)
    return count if all(size == small * n for size, small, n in each) else 0


def _in_order(
    theirs: Sequence[JoinedWork], places: list[str], our_work: Sequence[JoinedWork], unused: Lines
) -> None:
    """Set the places of the remaining device instructions.

    The n-th with a signature gets the line of neuroncore's n-th in `unused`. Otherwise it gets the
    line of an instruction on twice as many elements (`_as_16_bit`)."""
    waiting: dict[Signature, deque[str]] = defaultdict(deque)
    for work in our_work:
        if unused[work.signature, work.place]:
            waiting[work.signature].append(work.place)
    for signature_of in (_signature, _as_16_bit):
        for number, work in enumerate(theirs):
            lines = waiting.get(signature_of(work)) if work.sizes and not places[number] else None
            if lines:
                places[number] = lines.popleft()


def _signature(work: JoinedWork) -> Signature:
    return work.signature


def _as_16_bit(work: JoinedWork) -> Signature:
    """Return neuroncore's signature for a device's copy, if it may be a copy of 16-bit elements.

    The device copies the same bytes as half as many 32-bit elements."""
    counts = 2 if work.kind == COMPUTE else 1
    return work.kind, (*work.sizes[:1], *(counts * size for size in work.sizes[1:]))


def at_source(core: MeasuredCore, timeline: Timeline) -> MeasuredCore:
    """Return a measured core whose statements are lines of the kernel.

    `timeline` is the estimate of that kernel."""
    device_work = of_core(core)
    works = joined([work for _, work in device_work], ours(timeline))
    places = map(timeline.program.place, range(len(timeline.program.lines)))
    texts = {place.short: place.text.strip() for place in places}
    numbers = {short: number for number, short in enumerate(texts)}
    rows = core.instructions.copy()
    rows["statement"] = -1
    for (row, _), work in zip(device_work, works, strict=True):
        rows["statement"][row] = numbers.get(work.place, -1)
    statements = {numbers[short]: _line(numbers[short], short, texts[short]) for short in texts}
    return replace(core, instructions=rows, statements=statements)


def matched(core: MeasuredCore) -> tuple[int, int]:
    """Return how many instructions have a line of the kernel, and how many there are.

    `core` is from `at_source`. Only products and other computations count, because a trace without
    its program does not say which transfers are loads."""
    works = [work for _, work in of_core(core) if work.kind in (PRODUCT, TRANSPOSE, COMPUTE)]
    return sum(work.statement >= 0 for work in works), len(works)


def _line(number: int, short: str, text: str) -> Statement:
    file, _, line = short.rpartition(":")
    return Statement(number, text, file, int(line) if line.isdecimal() else 0)
