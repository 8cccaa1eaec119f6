"""How an API call becomes an instruction: one compiled function for each clause."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Any

from neuroncore.clause.instruction import INSTRUCTIONS, Instruction, Parameter
from neuroncore.clause.operand import PSUM, Act, Op, Operand, Static, are_tiles, spread
from neuroncore.enums import engine, oob_mode
from neuroncore.errors import KernelError
from neuroncore.memory.tile import Tile


@cache
def issuer(name: str) -> Callable[..., None]:
    """issue(core, *arguments) for one instruction, all arguments given, in the clause's order.

    It is compiled from the clause's parameters so that a call costs little more than the checks
    it needs: `inspect.Signature.bind` alone would take longer than a small instruction.
    """
    instruction = INSTRUCTIONS[name]
    lines = [f"def {name}(core, {', '.join(p.name for p in instruction.parameters)}):"]
    lines += [f"    {line}" for line in _body(instruction)]
    scope: dict[str, Any] = {
        "__name__": __name__,
        "INSTRUCTION": instruction,
        "MEANING": instruction.meaning,
        "Tile": Tile,
        "PSUM": PSUM,
        "SKIP": oob_mode.skip,
        "frame_at": sys._getframe,
        "spread": spread,
        "KernelError": KernelError,
        "kinds": _kinds,
        "are_tiles": are_tiles,
    }
    exec(compile("\n".join(lines), f"<issue {name}>", "exec"), scope)
    return scope[name]  # type: ignore[no-any-return]


def _body(instruction: Instruction) -> Iterator[str]:
    names = [p.name for p in instruction.parameters]
    lists = [p.name for p in instruction.operands if p.operand and p.operand.many]
    given = ", ".join(f"{n!r}: {n}" for n in names)
    everything = "{" + ", ".join([given, *(f"**spread({n!r}, {n})" for n in lists)]) + "}"
    yield "try:"
    for p in instruction.parameters:
        if isinstance(p.declared, Op | Act):
            row = "operator" if isinstance(p.declared, Op) else "function"
            guard = f" if {p.name} is not None else None" if _is_optional(p.declared) else ""
            yield f"    {p.name} = {p.name}.{row}{guard}"
        if isinstance(p.declared, Static) and p.declared.sequence:
            yield f"    if type({p.name}) is list: {p.name} = tuple({p.name})"
    for name in lists:
        yield f"    if not are_tiles({name}): raise TypeError"
    parts = [part for p in instruction.parameters if (part := _key_part(p))]
    yield f"    key = (INSTRUCTION, {', '.join(parts)})"
    yield "    call = core.calls.get(key)"
    yield "except KernelError as fault:"
    yield f"    return core.leave_out(INSTRUCTION, {everything}, fault)"
    yield "except (AttributeError, TypeError):"
    yield f"    raise core.misused(INSTRUCTION, {{{given}}}) from None"
    yield "if call is None:"
    yield f"    call = core.prepare(INSTRUCTION, key, {everything})"
    for p in instruction.parameters:
        if isinstance(p.declared, Op):
            guard = f" and {p.name} is not None" if p.declared.optional else ""
            yield f"if core.operators{guard}:"
            yield f"    {p.name} = core.operators.get({p.name}.name, {p.name})"
    yield "if call.dynamic:"
    skip = "oob_mode is SKIP" if "oob_mode" in names else "False"
    yield f"    return core.issue_dynamic(call, frame_at(2), {everything}, {skip})"
    for p in instruction.operands:
        if p.operand and p.operand.many:
            yield f"for name, tile in spread({p.name!r}, {p.name}).items():"
            yield "    if tile.storage.gaps is not None: core.check_written(name, tile)"
        elif p.operand and p.operand.reads and not p.operand.partial:
            yield f"if {_present(p)}{p.name}.storage.gaps is not None:"
            yield f"    core.check_written({p.name!r}, {p.name})"
    yield "if core.rounding is not None: core.rounding.begin(core.program_id, call.engine.value)"
    passed = [f"{n}=call.engine" if n == "engine" else f"{n}={n}" for n in names]
    yield "if core.beside is None:"
    yield f"    MEANING({', '.join([*passed, *(['core=core'] if instruction.wants_core else [])])})"
    yield f"else: core.beside.perform(call, {everything})"
    for p in instruction.operands:
        if p.operand and p.operand.writes:
            guard = _present(p).removesuffix(" and ")
            yield f"{f'if {guard}: ' if guard else ''}{p.name}.storage.version += 1"
        if p.operand and p.operand.writes and not p.operand.partial:
            yield from _note_write(p, foreign=engine.tensor not in instruction.engines)
    yield "if core.program is not None:"
    if all(p.always_tile for p in instruction.operands):
        tiles = [p.name for p in instruction.operands if p.operand and p.operand.reads]
        tiles += [p.name for p in instruction.operands if p.operand and p.operand.writes]
        yield f"    core.note(call, frame_at(2), {', '.join(tiles)})"
    else:
        yield f"    arguments = {everything}"
        yield "    core.note(call, frame_at(2), *[arguments[n] for n in call.reads + call.writes])"


def _note_write(parameter: Parameter, foreign: bool) -> Iterator[str]:
    name = parameter.name
    yield f"if {_present(parameter)}{name}.storage.gaps is not None:"
    yield f"    {name}.mark_written()"
    if foreign:
        yield f"if {_present(parameter)}{name}.storage.region is PSUM:"
        yield f"    {name}.mark_foreign(True)"


def _kinds(value: Any) -> Any:
    """The type of a parameter, and of what is in it."""
    return type(value) if type(value) is not tuple else tuple(map(type, value))


def _is_optional(declared: Op | Act) -> bool:
    return isinstance(declared, Op) and declared.optional


def _present(parameter: Parameter) -> str:
    return "" if parameter.always_tile else f"isinstance({parameter.name}, Tile) and "


def _key_part(parameter: Parameter) -> str | None:
    name, declared = parameter.name, parameter.declared
    if declared is None:
        return None
    if isinstance(declared, Static) and not isinstance(parameter.default, Enum):
        return f"kinds({name}), {name}"  # 1, 1.0 and True are one key, and not one argument
    if not isinstance(declared, Operand):
        return name
    if declared.many:
        return f"tuple([tile.signature() for tile in {name}])"
    signature = f"({name}._signature or {name}.signature())"
    if parameter.always_tile:
        return signature
    return f"{signature} if isinstance({name}, Tile) else type({name})"
