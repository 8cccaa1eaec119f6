"""Text of the functions that execute instructions, made from the clauses. `functions` writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import indent

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Instruction, Parameter
from neuroncore.clause.operand import HBM

EXECUTE_HEAD = '''\
"""The functions that execute a legal Call on a core, one for each clause.

Each function first resolves the offsets that are known only at run time. It then reads its
operands, writes its results, and returns the resolved offsets. It returns None if the instruction
has no such offsets, or if the instruction is skipped. `docs/generate/functions.py` writes this file
from the clauses of isa/. Do not edit it.
"""

from __future__ import annotations

from typing import Any

from neuroncore.base.enums import oob_mode as modes
from neuroncore.clause.operand import PSUM, spread
from neuroncore.core.binding import Offsets, arguments, resolve, staged
from neuroncore.core.core import Core

SKIP = modes.skip
'''


def execute_text(instruction: Instruction) -> str:
    """Return the source of the function that executes a legal Call and records nothing. Its
    parameters are a core, the Call, and the Call's arguments in the clause's order. The last
    parameters are a bool for each operand that may be a number or None
    (`Instruction.open_operands`): whether the operand is a tile."""
    parameters = [f"{p.name}: Any" for p in instruction.parameters]
    parameters += [f"{is_tile(p)}: bool" for p in instruction.open_operands]
    listed = ", ".join(parameters)
    head = f"def {instruction.name}(core: Core, call: Any, {listed}) -> Offsets | None:"
    body = [*_resolve(instruction), *_execute(instruction)]
    text = "\n".join([docstring(instruction), *body, "return offsets"])
    return "\n".join(["", "", head, indent(text, "    "), ""])


def _resolve(instruction: Instruction) -> Iterator[str]:
    """Yield the lines that replace operands by tiles, if the offset of an operand is known only at
    run time."""
    skip = "oob_mode is SKIP" if _has(instruction, "oob_mode") else "False"
    yield "offsets = None"
    yield "if call.dynamic:"
    yield f"    offsets = resolve(core, call, arguments(call.instruction, locals()), {skip})"
    yield "    if offsets is None:"
    yield "        return None"
    for p in instruction.operands:
        if p.name in instruction.lists:
            yield f"    {p.name} = [offsets.tiles[n] for n in spread({p.name!r}, {p.name})]"
        else:
            yield f"    {p.name} = offsets.tiles[{p.name!r}]"


def _execute(instruction: Instruction) -> Iterator[str]:
    """Yield the lines that check the operands, execute the call, and mark what it has written. The
    clause's body handles offsets that differ by partition itself."""
    for p in instruction.operands:
        yield from _check_written(p)
        yield from _before_write(p)
    yield "if core.rounding is not None:"
    yield "    core.rounding.begin(core.program_id, call.engine.value)"
    passed = ["core"] * instruction.wants_core + [p.name for p in instruction.varying]
    yield "run = call.run"
    yield "if run is None:"
    yield "    run = call.run = staged(call, arguments(call.instruction, locals()), core)"
    yield "if core.shadow is None:"
    yield f"    run({', '.join(passed)})"
    yield "else:"
    yield "    core.shadow.perform(call, arguments(call.instruction, locals()))"
    yield "if core.undefined is not None:"
    yield "    core.undefined.follow(call, arguments(call.instruction, locals()))"
    for p in instruction.operands:
        if p.operand and p.operand.writes:
            yield from _mark_written(p, other_engine=engine.tensor not in instruction.engines)


def _check_written(p: Parameter) -> Iterator[str]:
    operand = p.operand
    if operand is None or not operand.reads or operand.partial:
        return
    if operand.many:
        yield f"for number, tile in enumerate({p.name}):"
        yield "    if tile.storage.gaps is not None and not tile.dynamic:"
        yield f'        core.check_written(f"{p.name}[{{number}}]", tile, followed=True)'
        return
    yield f"if {_present(p)}{p.name}.storage.gaps is not None and not {p.name}.dynamic:"
    yield f"    core.check_written({p.name!r}, {p.name}, followed=True)"


def _before_write(p: Parameter) -> Iterator[str]:
    """Yield the lines that let a run copy an argument of the kernel before the argument changes.
    Only tensors in HBM are arguments."""
    operand = p.operand
    if operand is None or not operand.writes or not {*HBM} & {*operand.regions}:
        return
    tile = "tile" if operand.many else f"{_present(p)}{p.name}"
    name = tile if operand.many else p.name
    lines = [f"if {tile}.storage.before_write is not None:"]
    lines += [f"    {name}.storage.before_write()"]
    yield from [f"for tile in {p.name}:", *indented(lines)] if operand.many else lines


def _mark_written(p: Parameter, other_engine: bool) -> Iterator[str]:
    assert p.operand is not None
    if p.operand.many:
        yield f"for tile in {p.name}:"
        yield "    tile.storage.version += 1"
        if not p.operand.partial:
            yield "    if tile.storage.gaps is not None and not tile.dynamic:"
            yield "        tile.mark_written()"
        return
    lines = [f"{p.name}.storage.version += 1"]
    if not p.operand.partial:
        lines += [f"if {p.name}.storage.gaps is not None and not {p.name}.dynamic:"]
        lines += [f"    {p.name}.mark_written()"]
    if other_engine and not p.operand.partial:
        lines += [f"if {p.name}.storage.region is PSUM:"]
        lines += [f"    {p.name}.mark_other_engine(True)"]
    if p.always_tile:
        yield from lines
        return
    yield f"if {is_tile(p)}:"
    yield from indented(lines)


# --- parts of both functions ----------------------------------------------------------------------


def docstring(instruction: Instruction) -> str:
    lines = instruction.equation.replace("\\", "\\\\").splitlines()
    return '"""' + "\n".join(lines) + ("\n" if len(lines) > 1 else "") + '"""'


def is_tile(parameter: Parameter) -> str:
    """Return the name of the variable that is true if an operand is a tile. Only operands that may
    also be numbers or None have this variable."""
    return f"{parameter.name}_is_tile"


def indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _has(instruction: Instruction, name: str) -> bool:
    return any(p.name == name for p in instruction.parameters)


def _present(parameter: Parameter) -> str:
    return "" if parameter.always_tile else f"{is_tile(parameter)} and "
