"""Execute a program of the device's compiler on the CPU.

Five engines execute their instructions in order, and each waits for its semaphores. All copies of a
transfer are executed when an engine starts it. A program is executed only if all of its opcodes,
formats, operators and settings are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.capture import encoding
from neuroncore.capture.encoding import Condition, DecodedInstruction
from neuroncore.capture.meanings import AXES, MEANINGS, State
from neuroncore.capture.neff import Code, Graph, Neff
from neuroncore.capture.trace import ENGINES
from neuroncore.numerics import codec
from neuroncore.numerics.formats import FORMATS, Format, lookup

Array = npt.NDArray[Any]

WAITS = {"S>=": int.__ge__, "S==": int.__eq__}
UPDATES = {"S++": 1, "S--": -1, "S+=": 1}  # updates, each with the sign of the value that it adds
OPERATIONS = "copy", "cast"  # of static DMA blocks
LISTED = 12  # kinds of instructions that a refusal names


class Waiting(NamedTuple):
    """An engine that cannot continue: its next instruction, and the condition that the instruction
    waits for."""

    engine: int
    number: int
    condition: Condition


def execute(program: Neff, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """Execute a program, and return its outputs by name, in the formats of the program.

    `inputs` are arrays by name. Raise UsageError for:

    * unknown instructions (with their counts),
    * inputs that are missing or unknown, or whose shape or format is wrong,
    * a state in which all engines wait."""
    graph = working(program)
    if unknown := refused(graph):
        raise UsageError(
            "the program can't be executed: "
            + ", ".join(f"{count} {why}" for why, count in unknown.most_common(LISTED))
            + (f" and {len(unknown) - LISTED} other kinds" if len(unknown) > LISTED else "")
        )
    if extra := inputs.keys() - program.inputs.keys():
        raise UsageError(f"the program has no input {', '.join(sorted(extra))}")
    state = State(graph)
    for name, (form, shape) in program.inputs.items():
        _put(state, name, _codes(name, inputs, lookup(form), shape))
    with np.errstate(all="ignore"):
        _run(state, graph)
    return {name: _output(state, name, *output) for name, output in program.outputs.items()}


def drawn(program: Neff, seed: int) -> dict[str, Array]:
    """Return normally distributed random numbers for the inputs of a program, in their formats."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, (form, shape) in program.inputs.items():
        values = rng.standard_normal(shape).astype(np.float32)
        arrays[name] = values.astype(lookup(form).numpy)
    return arrays


def working(program: Neff) -> Graph:
    """Return the program of the only core that has instructions.

    Raise UsageError if several cores have instructions, because the order between cores is not
    known."""
    graphs = [
        graph
        for graph in program.graphs
        if any(kind.role != "setup" for code in graph.code.values() for kind in code.instructions)
    ]
    if len(graphs) > 1:
        raise UsageError(
            f"the program has instructions for {len(graphs)} cores; only a program for one core "
            "can be executed"
        )
    return graphs[0] if graphs else program.graphs[0]


# --- what is not known ----------------------------------------------------------------------------


def refused(graph: Graph) -> Counter[str]:
    """Return how many instructions can't be executed, by reason."""
    reasons: Counter[str] = Counter()
    for code in graph.code.values():
        for kind in code.instructions:
            reason = _reason(kind)
            reasons.update([f"{kind.opcode} ({reason})"] if reason else [])
        for name, count in _unusual(code):
            reasons[f"{name} (a setting that no published program has)"] += count
    reasons.update(
        f"static DMA block (unknown operation {move.operation})"
        for blocks in graph.blocks.values()
        for block in blocks
        for move in block.moves
        if move.operation not in OPERATIONS
    )
    return reasons


def _reason(kind: DecodedInstruction) -> str:
    """Return the first reason why an instruction can't be executed, or ""."""
    if not kind.known:
        return "unknown opcode"
    if not encoding.does(kind.opcode):
        return "unknown effect"
    formats = [operand.format for operand in kind.operands]
    formats += [block.format for block in kind.blocks]
    for form in formats:
        if form and encoding.our_format(form) not in FORMATS:
            return f"unknown {form}"
    conditions = [
        *(wait.kind for wait in kind.waits if wait.kind not in WAITS),
        *(update.kind for update in kind.updates if update.kind not in UPDATES),
    ]
    return f"unknown condition {conditions[0]}" if conditions else _unnamed(kind)


def _unnamed(kind: DecodedInstruction) -> str:
    """Return a text about the first setting with an unknown operator, function or axis, or ""."""
    settings = kind.settings
    checks = {
        "op": encoding.our_operator,
        "op0": encoding.our_operator,
        "op1": encoding.our_operator,
        "function": encoding.our_function,
        "dim": AXES.__getitem__,
    }
    for name, check in checks.items():
        try:
            if name in settings:
                check(settings[name])
        except LookupError:
            return f"unknown {name} {settings[name]}"
    return ""


def _unusual(code: Code) -> Iterator[tuple[str, int]]:
    """Yield pairs (opcode, count). `count` is the number of instructions with this opcode that
    contain a byte with an unknown value."""
    opcodes = encoding.opcodes()
    for opcode in np.unique(code.words[:, 0]).tolist():
        words = code.words[code.words[:, 0] == opcode]
        count = int(encoding.unpublished(words).sum()) if opcode in opcodes else 0
        if count:
            yield opcodes[opcode], count


# --- inputs and outputs ---------------------------------------------------------------------------


def _codes(
    name: str, inputs: Mapping[str, npt.ArrayLike], form: Format, shape: tuple[int, ...]
) -> Array:
    """Return the bits of an input's elements, as integers.

    If numpy lacks the format of the input, the input may be passed as raw bytes of the same
    width."""
    if name not in inputs:
        names = ", ".join(inputs) or "nothing"
        raise UsageError(f"the program's input {name} is missing; the given inputs are: {names}")
    array = np.asarray(inputs[name])
    if array.shape != shape:
        raise UsageError(f"the input {name} has the shape {array.shape}, expected {shape}")
    if array.dtype == form.numpy or array.dtype == np.dtype((np.void, form.itemsize)):
        return np.ascontiguousarray(array).view(form.storage)
    if array.dtype.kind not in "fiu" and str(array.dtype) not in FORMATS:
        raise UsageError(f"the input {name} is an array of {array.dtype}, expected {form}")
    return codec.encode(form, np.ascontiguousarray(array, np.float32))


def _put(state: State, name: str, codes: Array) -> None:
    target = state.storage.tensors.get(name)
    if target is None or target.size != codes.nbytes:
        raise UsageError(f"the program has no tensor {name} of {codes.nbytes:,} bytes")
    target[...] = codes.reshape(-1).view(np.uint8)


def _output(state: State, name: str, form: str, shape: tuple[int, ...]) -> Array:
    output_format = lookup(form)
    data = state.storage.tensors.get(name)
    if data is None or data.size != int(np.prod(shape)) * output_format.itemsize:
        raise UsageError(f"the program has no tensor {name} of the shape {shape}")
    return data.view(output_format.numpy).reshape(shape)


# --- engines --------------------------------------------------------------------------------------


def _run(state: State, graph: Graph) -> None:
    """Execute the instructions of each engine until all programs have ended. Raises UsageError if
    all engines wait."""
    next_numbers = dict.fromkeys(graph.code, 0)
    while True:
        before = sum(next_numbers.values())
        waiting = [
            waiting_engine
            for engine, code in graph.code.items()
            if (waiting_engine := _advance(state, engine, code, next_numbers)) is not None
        ]
        if not waiting:
            return
        if sum(next_numbers.values()) == before:
            raise UsageError(_deadlock(state, graph, waiting))


def _advance(state: State, engine: int, code: Code, next_numbers: dict[int, int]) -> Waiting | None:
    """Execute an engine's instructions until one has to wait.

    Return this instruction, or None at the end of the program. `next_numbers` contains the number
    of each engine's next instruction, and is updated."""
    stream = code.instructions
    while next_numbers[engine] < len(stream):
        kind = stream[next_numbers[engine]]
        for wait in kind.waits:
            if not WAITS[wait.kind](state.semaphores.get(wait.number, 0), wait.value):
                return Waiting(engine, next_numbers[engine], wait)
        try:
            MEANINGS[encoding.does(kind.opcode)](state, kind)
        except UsageError as error:
            raise UsageError(f"{_named(engine, code, next_numbers[engine])}: {error}") from None
        for update in kind.updates:
            state.add(update.number, UPDATES[update.kind] * update.value)
        next_numbers[engine] += 1
    return None


def _named(engine: int, code: Code, number: int) -> str:
    name = f" ({code.names[number]})" if code.names[number] else ""
    return f"{ENGINES[engine]} instruction {number} {code.instructions[number].opcode}{name}"


def _deadlock(state: State, graph: Graph, waiting: list[Waiting]) -> str:
    """Return the message for engines that all wait.

    The message names the first engine and its condition, and states how many other engines wait."""
    engine, number, wait = waiting[0]
    user = graph.semaphores.get(wait.number, "")
    return (
        f"the program waits forever: {_named(engine, graph.code[engine], number)} waits for "
        f"semaphore {wait.number}{f' ({user})' if user else ''} {wait.kind[1:]} {wait.value}, but "
        f"its value is {state.semaphores.get(wait.number, 0)}; number of other engines that wait: "
        f"{len(waiting) - 1}"
    )
