"""How an API call becomes an instruction: one compiled function for each clause, which binds the
arguments, recognises and checks the call, executes it and notes it in the record.

It is compiled from the clause's parameters so that a call costs little more than the checks it
needs: `inspect.Signature.bind` alone would take longer than a small instruction.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cache
from typing import Any

from neuroncore.base.enums import engine, oob_mode
from neuroncore.base.errors import DefinitionError, KernelError, NeuronError
from neuroncore.clause.immediate import Immediate, Register
from neuroncore.clause.instruction import Instruction, Parameter
from neuroncore.clause.operand import PSUM, Act, Op, Operand, Static, are_tiles, spread
from neuroncore.core.core import current, running
from neuroncore.core.faults import NOT_OURS, our_fault
from neuroncore.core.legality import misused
from neuroncore.core.offsets import resolve
from neuroncore.core.staging import staged
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.record.inputs import zero
from neuroncore.record.program import Program

Settle = Callable[[Instruction, dict[str, Any], tuple[Any, ...], dict[str, Any]], None]


class _Missing:
    """The default of parameters that have none, so that leaving one out reaches our message."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = _Missing()
LOCALS = {
    *("call", "core", "error", "extra", "fault", "frame", "issued", "key", "line", "name"),
    *("number", "numbers", "offsets", "program", "row", "run", "special", "tile", "unknown"),
}


def compiled(name: str, parameters: str, body: Iterable[str], scope: dict[str, Any]) -> Any:
    """A function of these parameters, whose body sees the names of `scope`."""
    text = "\n".join([f"def {name}({parameters}):", *(f"    {line}" for line in body)])
    file = f"<{scope['__name__']}.{name}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # for debuggers
    exec(compile(text, file, "exec"), scope)
    return scope[name]


def bound(instruction: Instruction, settle: Settle, issued: type[Any]) -> Callable[..., Any]:
    """The function that issues an instruction on the core of the running kernel.

    It has the clause's parameters, in its order and with its defaults, and a `name` at the end.
    `settle` is told of arguments that don't fit them: it raises, or takes the call as it is. What
    the function returns is of the class `issued`, whose slots are a `program`, the record, and the
    `row` of the instruction in it.
    Raises DefinitionError for a parameter whose name the function's own text uses.
    """
    parameters = [f"{p.name}=_{p.name}" for p in instruction.parameters]
    parameters += ["name=None"] if instruction.named else []
    scope = _scope(instruction, settle, issued)
    if taken := {p.name for p in instruction.parameters} & {*LOCALS, *scope}:
        raise DefinitionError(f"{instruction.name} can't have a parameter {min(taken)!r}")
    signature = ", ".join([*parameters, "*extra", "**unknown"])
    function = compiled(instruction.name, signature, _body(instruction), scope)
    function.__doc__ = instruction.equation
    function.__signature__ = signature_of(instruction)
    return function  # type: ignore[no-any-return]


@cache
def again(instruction: Instruction) -> Callable[..., None]:
    """The function of a core, a Call that was found legal and its arguments, in the order of the
    clause, that executes the call on the core and notes nothing."""
    parameters = ", ".join(["core", "call", *(p.name for p in instruction.parameters)])
    body = [*_distinguish(instruction), *_resolve(instruction), *_execute(instruction)]
    body += ["if call.dynamic: offsets.write_out()"]
    scope = _scope(instruction, None, lambda program, row: None)
    return compiled(instruction.name, parameters, body, scope)  # type: ignore[no-any-return]


def _scope(
    instruction: Instruction, settle: Settle | None, issued: Callable[..., Any]
) -> dict[str, Any]:
    """What the text of a function sees."""
    return {
        "__name__": __name__,
        "INSTRUCTION": instruction,
        "ISSUED": issued,
        "new": object.__new__,
        "KernelError": KernelError,
        "NeuronError": NeuronError,
        "NOT_OURS": NOT_OURS,
        "MISSING": MISSING,
        "PSUM": PSUM,
        "SKIP": oob_mode.skip,
        "Tile": Tile,
        "are_tiles": are_tiles,
        "VirtualRegister": VirtualRegister,
        "current": current,
        "declared": {p.name: p.declared for p in instruction.parameters},
        "frame_at": sys._getframe,
        "kinds": _kinds,
        "member": _member,
        "misused": misused,
        "numbered": _numbered,
        "our_fault": our_fault,
        "resolve": resolve,
        "running": running,
        "settle": settle,
        "spread": spread,
        "staged": staged,
        "zero": zero,
        **{f"_{p.name}": MISSING if p.required else p.default for p in instruction.parameters},
    }


def signature_of(instruction: Instruction) -> inspect.Signature:
    """The signature that users see."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    listed = [inspect.Parameter(p.name, kind, default=p.default) for p in instruction.parameters]
    named = inspect.Parameter("name", kind, default=None)
    return inspect.Signature([*listed, named] if instruction.named else listed)


def _body(instruction: Instruction) -> Iterator[str]:
    yield from _bind(instruction)
    yield "try:"
    yield from (f"    {line}" for line in _issue(instruction))
    yield "except NOT_OURS: raise"
    yield "except Exception as error: raise our_fault(INSTRUCTION, core, error) from error"
    yield "issued = new(ISSUED)  # what its __init__ does takes twice as long"
    yield "issued.program, issued.row = program, row"
    yield "return issued"


def _issue(instruction: Instruction) -> Iterator[str]:
    yield from _recognise(instruction)
    yield "try:"
    yield from (f"    {line}" for line in (*_resolve(instruction), *_execute(instruction)))
    yield "except NeuronError:"
    yield "    if core.leftovers is not None: core.leftovers.refused()"
    yield "    raise"
    yield from _note(instruction)


# --- binding and checking -------------------------------------------------------------------------


def _bind(instruction: Instruction) -> Iterator[str]:
    absent = [f"{p.name} is MISSING" for p in instruction.parameters if p.required]
    yield f"if {' or '.join(['extra', 'unknown', *absent])}:"
    yield f"    settle(INSTRUCTION, {{{_given(instruction)}}}, extra, unknown)"
    yield "core = running() or current()"


def _recognise(instruction: Instruction) -> Iterator[str]:
    """Find the Call by its key; one that the core has not seen is checked."""
    given, everything = _given(instruction), _everything(instruction)
    usual = [p for p in instruction.parameters if _is_usual(p)]
    others = [p for p in instruction.parameters if p not in usual]
    yield from _distinguish(instruction)
    yield "try:"
    yield from (f"    {line}" for p in others for line in _take(instruction, p))
    parts = [part for p in others if (part := _key_part(p))]
    if usual:
        yield f"    if {' and '.join(f'{p.name} is _{p.name}' for p in usual)}: special = None"
        yield "    else:"
        yield from (f"        {line}" for p in usual for line in _take(instruction, p))
        yield f"        special = {', '.join(str(_key_part(p)) for p in usual)},"
        parts.append("special")
    yield f"    key = (INSTRUCTION, {', '.join(parts)})"
    yield "    call = core.calls.get(key)"
    yield "except KernelError as fault:"
    yield f"    core.leave_out(INSTRUCTION, {everything}, fault)"
    yield "    return ISSUED(core.program, core.last_row)"
    yield "except (AttributeError, TypeError):"
    yield f"    fault = misused(INSTRUCTION, {{{given}}}, core.machine)"
    yield "    if fault is None: raise"
    yield "    raise fault from None"
    yield "if call is None:"
    yield f"    call = core.prepare(INSTRUCTION, key, {everything})"


def _distinguish(instruction: Instruction) -> Iterator[str]:
    """Which of the arguments that may be numbers are tiles."""
    for p in instruction.operands:
        if not (p.always_tile or p.name in instruction.lists):
            yield f"{_is_tile(p)} = isinstance({p.name}, Tile)"


def _is_usual(parameter: Parameter) -> bool:
    """Whether it is one of those that kernels mostly leave at their defaults: parts of the key that
    are together one part, None, where all are so."""
    declared = parameter.declared
    keyed = isinstance(declared, Static) or (isinstance(declared, Immediate) and declared.keyed)
    return keyed and not parameter.required


def _take(instruction: Instruction, p: Parameter) -> Iterator[str]:
    """Make of an argument what the key and the meaning take."""
    if isinstance(p.default, Enum):
        yield f"if type({p.name}) is int: {p.name} = member(_{p.name}, {p.name})"
    if isinstance(p.declared, Op | Act):
        row = "operator" if isinstance(p.declared, Op) else "function"
        guard = f" if {p.name} is not None else None" if _is_optional(p.declared) else ""
        yield f"{p.name} = {p.name}.{row}{guard}"
    if isinstance(p.declared, Immediate | Register):
        yield f"if not ({p.declared.quick(p.name)}):"
        take = f"declared[{p.name!r}].take({instruction.name!r}, {p.name!r}, {p.name})"
        yield f"    {p.name} = {take}"
    if isinstance(p.declared, Static) and p.declared.sequence:
        yield f"if type({p.name}) is list: {p.name} = tuple({p.name})"
    if p.name in instruction.lists:
        yield f"if not are_tiles({p.name}): raise TypeError"


def _resolve(instruction: Instruction) -> Iterator[str]:
    """Put tiles at known places where operands have offsets that are only known now."""
    skip = "oob_mode is SKIP" if _has(instruction, "oob_mode") else "False"
    yield "if call.dynamic:"
    yield f"    offsets = resolve(core, call, {_everything(instruction)}, {skip})"
    yield "    if offsets is None: return ISSUED(core.program, core.last_row)"
    for p in instruction.operands:
        if p.name in instruction.lists:
            yield f"    {p.name} = [offsets.tiles[n] for n in spread({p.name!r}, {p.name})]"
        else:
            yield f"    {p.name} = offsets.tiles[{p.name!r}]"


def _kinds(value: Any) -> Any:
    """The type of a parameter, and of what is in it."""
    return type(value) if type(value) is not tuple else tuple(map(type, value))


def _member(default: Enum, number: int) -> Enum | int:
    """The member of an enumeration that a published kernel gives by its number."""
    kind = type(default)
    return kind(number) if number in {member.value for member in kind} else number


def _is_optional(declared: Op | Act) -> bool:
    return isinstance(declared, Op) and declared.optional


def _key_part(parameter: Parameter) -> str | None:
    name, declared = parameter.name, parameter.declared
    if not isinstance(declared, Operand | Op | Act | Static):
        return name if declared.keyed else None
    # 1, 1.0 and True are one key, and not one argument
    if isinstance(declared, Static) and declared.flag:
        return f"type({name}), {name}"
    if isinstance(declared, Static) and not isinstance(parameter.default, Enum):
        return f"{name} if type({name}) is int else (kinds({name}), {name})"
    if not isinstance(declared, Operand):
        return name
    if declared.many:
        return f"tuple([tile.signature() for tile in {name}])"
    signature = f"({name}._signature or {name}.signature())"
    if parameter.always_tile:
        return signature
    return f"{signature} if {_is_tile(parameter)} else type({name})"


# --- executing and noting -------------------------------------------------------------------------


def _execute(instruction: Instruction) -> Iterator[str]:
    """Let it read and then write. Offsets per partition are left: their meaning sees to those."""
    for p in instruction.operands:
        if p.operand and p.operand.many and p.operand.reads and not p.operand.partial:
            yield f"for name, tile in spread({p.name!r}, {p.name}).items():"
            yield "    if tile.storage.gaps is not None and not tile.dynamic:"
            yield "        core.check_written(name, tile, followed=True)"
        elif p.operand and p.operand.reads and not (p.operand.partial or p.operand.many):
            yield f"if {_present(p)}{p.name}.storage.gaps is not None and not {p.name}.dynamic:"
            yield f"    core.check_written({p.name!r}, {p.name}, followed=True)"
    yield "if core.rounding is not None: core.rounding.begin(core.program_id, call.engine.value)"
    passed = ["core"] * instruction.wants_core + [p.name for p in instruction.varying]
    yield "run = call.run"
    yield f"if run is None: run = call.run = staged(call, {_everything(instruction)}, core)"
    yield f"if core.beside is None: run({', '.join(passed)})"
    yield f"else: core.beside.perform(call, {_everything(instruction)})"
    yield "if core.leftovers is not None:"
    yield f"    core.leftovers.follow(call, {_everything(instruction)})"
    for p in instruction.operands:
        if p.operand and p.operand.writes and p.operand.many:
            yield f"for tile in {p.name}:"
            yield "    tile.storage.version += 1"
            if not p.operand.partial:
                yield "    if tile.storage.gaps is not None and not tile.dynamic:"
                yield "        tile.mark_written()"
            continue
        if p.operand and p.operand.writes:
            guard = _present(p).removesuffix(" and ")
            yield f"{f'if {guard}: ' if guard else ''}{p.name}.storage.version += 1"
        if p.operand and p.operand.writes and not p.operand.partial:
            yield from _mark_written(p, foreign=engine.tensor not in instruction.engines)


def _mark_written(parameter: Parameter, foreign: bool) -> Iterator[str]:
    name = parameter.name
    yield f"if {_present(parameter)}{name}.storage.gaps is not None and not {name}.dynamic:"
    yield f"    {name}.mark_written()"
    if foreign:
        yield f"if {_present(parameter)}{name}.storage.region is PSUM:"
        yield f"    {name}.mark_foreign(True)"


def _note(instruction: Instruction) -> Iterator[str]:
    """The row of it in the record, as `Program.append` does. What is left out touches no window."""
    values = _values(instruction)
    read = [_window(p) for p in instruction.operands if p.operand and p.operand.reads]
    written = [_window(p) for p in instruction.operands if p.operand and p.operand.writes]
    number = [f"program.data.value(({values}))"] if values else []
    row = ", ".join(["line", "~call.index", *read, *written, *number])
    yield "program = core.program"
    yield f"if call.dynamic: row = offsets.note(frame_at(1), ({values}))"
    yield "elif program is None: row = -1"
    yield "elif program.count >= program.limit: row = core.leave_row_out()"
    yield "else:"
    yield "    frame, numbers = frame_at(1), program.numbers"
    yield "    line = core.lines.get(id(frame.f_code) + frame.f_lasti)"
    yield "    if line is None: line = core.line(frame)"
    yield f"    program.rows.extend(call.pack({row}))"
    yield "    row = program.count"
    yield "    program.count = row + 1"


def _window(parameter: Parameter) -> str:
    """An operand's window in a row, if there is a tile; that of each tile of a list."""
    name = parameter.name
    if parameter.operand and parameter.operand.many:
        return f"*[number for tile in {name} for number in program.window(tile)]"
    window = f"{name}.storage.id, numbers[{name}.geometry], {name}.offset"
    return window if parameter.always_tile else f"*(({window}) if {_is_tile(parameter)} else ())"


def _values(instruction: Instruction) -> str:
    """The key of its values in a record: each and its type, None in the place of a tile."""
    parts = []
    for p in (p for p in instruction.parameters if p.is_value):
        part = f"{p.name} or zero({p.name})"
        if isinstance(p.declared, Register):
            register = f"numbered(core.program, {p.name})"
            part = f"{register} if type({p.name}) is VirtualRegister else {part}"
        elif p.operand:
            part = f"None if {_is_tile(p)} else {part}"
        parts.append(f"{part}, type({p.name}), ")
    return "".join(parts)


def _numbered(program: Program | None, register: VirtualRegister) -> int:
    """The number of what a register holds, in the record if there is one."""
    return -1 if program is None else program.data.register(register)


def _has(instruction: Instruction, name: str) -> bool:
    return any(p.name == name for p in instruction.parameters)


def _present(parameter: Parameter) -> str:
    return "" if parameter.always_tile else f"{_is_tile(parameter)} and "


def _is_tile(parameter: Parameter) -> str:
    """The variable that says whether an operand, where there may be a number or nothing, is one."""
    return f"{parameter.name}_is_tile"


def _given(instruction: Instruction) -> str:
    return ", ".join(f"{p.name!r}: {p.name}" for p in instruction.parameters)


def _everything(instruction: Instruction) -> str:
    """All arguments by name, and the tiles of lists by the names that a Call has for them."""
    lists = [f"**spread({n!r}, {n})" for n in instruction.lists]
    return "{" + ", ".join([_given(instruction), *lists]) + "}"
