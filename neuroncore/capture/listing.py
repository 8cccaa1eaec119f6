"""A compiled program as text and as JSON: instructions, DMA blocks, queues, and the map of SBUF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from neuroncore.base.units import plural, size
from neuroncore.capture.encoding import DecodedInstruction
from neuroncore.capture.neff import STATE_BUFFER, Graph, Neff, Statement
from neuroncore.capture.trace import ENGINES

SCHEMA = "neuroncore.neff/1"
PARTITION = 1 << 18  # bytes from a partition of SBUF to the next in DMA addresses
LISTED = 40  # instructions of an engine that are printed without `whole`


@dataclass(frozen=True)
class ListedRange:
    """The range of bytes that one statement writes in each partition of a memory.

    The range reaches from `first` to `last` (exclusive). `writes` is how many instructions and
    transfers of the statement write there."""

    memory: str
    first: int
    last: int
    statement: int
    writes: int


def text(program: Neff, whole: bool = False) -> Iterator[str]:
    """Yield the lines of a text about a program.

    The text lists the first LISTED instructions of each engine, or all instructions if `whole` is
    True."""
    yield (
        f"{program.name} for {program.target}, compiler {program.compiler}, "
        f"{plural(len(program.graphs), 'core')}"
    )
    for title, ends in (("input", program.inputs), ("output", program.outputs)):
        for name, (form, shape) in ends.items():
            yield f"{title:<10} {name} {form}[{','.join(map(str, shape))}]"
    for graph in program.graphs:
        if any(kind.role != "setup" for code in graph.code.values() for kind in code.instructions):
            yield from ("", *_graph(graph, whole))


def _graph(graph: Graph, whole: bool) -> Iterator[str]:
    yield graph.name
    for queue in graph.queues.values():
        numbers = f"{min(queue.semaphores)} to {max(queue.semaphores)}" if queue.semaphores else "-"
        yield f"  queue      {queue.shown}: {plural(queue.rings, 'ring')}, semaphores {numbers}"
    for variable in graph.variables.values():
        if variable.kind != STATE_BUFFER:
            shape = f" {variable.format}{list(variable.shape)}" if variable.shape else ""
            yield f"  variable   {variable.name}: {variable.kind}, {size(variable.size)}{shape}"
    for engine, code in sorted(graph.code.items()):
        yield f"  {ENGINES[engine]}: {plural(len(code.instructions), 'instruction')}"
        shown = len(code.instructions) if whole else LISTED
        for number, kind in enumerate(code.instructions[:shown]):
            place = place_of(graph.statements.get(code.statements[number]))
            operation = f"{kind.opcode} {kind.profiler_text(graph.semaphores)}"
            yield f"    {number:>5} {code.names[number]:<16} {place:<18} {operation}".rstrip()
        if len(code.instructions) > shown:
            yield f"    and {len(code.instructions) - shown:,} more (--all lists them)"
    yield from _blocks(graph)
    yield from _map(graph)


def place_of(statement: Statement | None) -> str:
    if statement is None:
        return ""
    named = f"{statement.file}:{statement.line}"
    return named if statement.line else f"statement {statement.number}"


def _blocks(graph: Graph) -> Iterator[str]:
    for engine, blocks in sorted(graph.blocks.items()):
        if blocks:
            yield f"  static DMA blocks of {ENGINES[engine]}: {len(blocks)}"
        for block in blocks[:LISTED]:
            total = size(sum(move.nbytes for move in block.moves))
            ends = (f"{block.moves[0].source} -> {block.moves[0].target}") if block.moves else ""
            yield (
                f"    {block.number:>5} {block.name:<20} {block.queue} semaphore "
                f"{block.semaphore}: {total} in {plural(len(block.moves), 'part')}, {ends}"
            )
        if len(blocks) > LISTED:
            yield f"    and {len(blocks) - LISTED:,} more"


def _map(graph: Graph) -> Iterator[str]:
    ranges = memory_map(graph)
    for memory in ("SBUF", "PSUM"):
        ranges_of_memory = [each for each in ranges if each.memory == memory]
        if ranges_of_memory:
            yield f"  {memory} by address, bytes of each partition"
        for each in ranges_of_memory:
            place = place_of(graph.statements.get(each.statement))
            times = plural(each.writes, "time")
            yield f"    {each.first:>#9x} to {each.last:#x}: {place}, written {times}"


def memory_map(graph: Graph) -> list[ListedRange]:
    """Return the ranges of SBUF and PSUM that each statement writes, sorted by address.

    Writes of the statement's transfers are included."""
    ranges: dict[tuple[str, int], list[int]] = {}
    for code in graph.code.values():
        for kind, statement in zip(code.instructions, code.statements, strict=True):
            for operand in kind.operands:
                if not operand.reads:
                    memory = "PSUM" if operand.in_psum else "SBUF"
                    first = operand.address & ((1 << 25) - 1)
                    _add(ranges, (memory, statement), first, first + operand.span_bytes)
    for first, last, statement in _moved_in(graph):
        _add(ranges, ("SBUF", statement), first, last)
    listed = [ListedRange(m, each[0], each[1], s, each[2]) for (m, s), each in ranges.items()]
    return sorted(listed, key=lambda each: (each.memory, each.first, each.last))


def _add(
    ranges: dict[tuple[str, int], list[int]], key: tuple[str, int], first: int, last: int
) -> None:
    """Add a write of the bytes from `first` to `last` (exclusive) to the range of a statement.

    `key` is (memory, statement). A range is a list: first byte, last byte (exclusive), number of
    writes."""
    known = ranges.setdefault(key, [first, last, 0])
    known[0], known[1], known[2] = min(known[0], first), max(known[1], last), known[2] + 1


def _moved_in(graph: Graph) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, end, statement) for each transfer that writes to SBUF.

    The range from begin to end is in bytes of each partition."""
    inside = {v.name for v in graph.variables.values() if v.kind == STATE_BUFFER}
    for engine, code in graph.code.items():
        blocks = {(each.queue, each.number): each for each in graph.blocks[engine]}
        for kind, statement in zip(code.instructions, code.statements, strict=True):
            key = str(kind.settings.get("queue")), int(kind.settings.get("block", -1))
            block = blocks.get(key)
            for move in block.moves if block is not None else ():
                if move.target in inside and move.target_sizes:
                    first = move.target_offset % PARTITION
                    yield first, first + int(move.target_sizes[0]), statement
            for end in kind.blocks:
                if not end.reads and end.kind == "variable" and end.steps and end.number == 0:
                    first = end.address % PARTITION
                    yield first, first + end.element, statement


def document(program: Neff) -> dict[str, Any]:
    """Return the listing as JSON, with all instructions."""
    return {
        "schema": SCHEMA,
        "name": program.name,
        "target": program.target,
        "compiler": program.compiler,
        "inputs": {name: [form, list(shape)] for name, (form, shape) in program.inputs.items()},
        "outputs": {name: [form, list(shape)] for name, (form, shape) in program.outputs.items()},
        "cores": [_core(graph) for graph in program.graphs],
    }


def _core(graph: Graph) -> dict[str, Any]:
    return {
        "name": graph.name,
        "engines": {ENGINES[engine]: _rows(graph, engine) for engine in sorted(graph.code)},
        "queues": [
            {"name": queue.shown, "rings": queue.rings, "semaphores": list(queue.semaphores)}
            for queue in graph.queues.values()
        ],
        "blocks": {
            ENGINES[engine]: [
                {
                    "number": block.number,
                    "name": block.name,
                    "queue": block.queue,
                    "semaphore": block.semaphore,
                    "bytes": sum(move.nbytes for move in block.moves),
                    "moves": [[move.source, move.target, move.nbytes] for move in block.moves],
                }
                for block in blocks
            ]
            for engine, blocks in sorted(graph.blocks.items())
        },
        "memory": [vars(each) for each in memory_map(graph)],
    }


def _rows(graph: Graph, engine: int) -> list[Mapping[str, Any]]:
    code = graph.code[engine]
    each = zip(code.instructions, code.names, code.statements, strict=True)
    return [_row(graph, kind, name, number) for kind, name, number in each]


def _row(graph: Graph, kind: DecodedInstruction, name: str, statement: int) -> Mapping[str, Any]:
    return {
        "name": name,
        "place": place_of(graph.statements.get(statement)),
        "opcode": kind.opcode,
        "operands": kind.profiler_text(graph.semaphores),
    }
