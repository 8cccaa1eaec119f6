"""Write the functions that issue and execute instructions, from the clauses of isa/.

python docs/generate/functions.py

The functions in `neuroncore/frontend/instructions.py` bind the arguments of a call, recognize or
check the call, and record it. The functions in `neuroncore/core/execute.py` execute a call, for a
launch and for a replay. Do not edit these two files; a test fails if they are stale.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from math import inf
from pathlib import Path
from textwrap import indent

from neuroncore.base.errors import DefinitionError
from neuroncore.clause.alu import Operator
from neuroncore.clause.immediate import Immediate, Register
from neuroncore.clause.instruction import INSTRUCTIONS, Instruction, Parameter
from neuroncore.clause.operand import Act, Op, Operand, Static

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from docs.generate.executing import (  # noqa: E402
    EXECUTE_HEAD,
    docstring,
    execute_text,
    indented,
    is_tile,
)

ISSUE = ROOT / "neuroncore/frontend/instructions.py"
EXECUTE = ROOT / "neuroncore/core/execute.py"
LOCALS = {
    *("call", "core", "error", "extra", "fault", "frame", "issued", "key", "line", "name"),
    *("number", "numbers", "offsets", "program", "row", "run", "special", "tile", "unknown"),
}

ISSUE_HEAD = '''\
"""The functions that issue instructions, one for each clause. Both dialects call them.

A Call represents all uses of an instruction with equal keys. Each function binds its arguments, and
finds the Call with their key. If no Call has this key, the function checks the arguments, and makes
a new Call. Then it executes the Call and records it.
`docs/generate/functions.py` writes this file from the clauses of isa/. Do not edit it.
"""

from __future__ import annotations

import sys
from typing import Any

from neuroncore.base.enums import {enums}
from neuroncore.base.errors import KernelError, NeuronError
from neuroncore.clause.alu import OPERATORS
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.clause.operand import are_tiles
from neuroncore.core import execute
from neuroncore.core.binding import (
    MISSING,
    NOT_OURS,
    MaybeTile,
    NkiInstruction,
    Real,
    TileOrNumber,
    Tiles,
    arguments,
    kinds,
    member,
    numbered,
    settle,
    unexpected,
)
from neuroncore.core.core import current, running
from neuroncore.core.legality import misused
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.record.inputs import zero

__all__ = [
    {names}
]  # the API's module nki.isa

frame_at = sys._getframe
new = object.__new__  # takes half as long as a call of the class
'''

FREE = {  # names of the module that the functions use: no parameter may have such a name
    *("MISSING", "NkiInstruction", "PSUM", "SKIP", "Tile", "VirtualRegister", "are_tiles"),
    *("arguments", "current", "execute", "frame_at", "kinds", "member", "misused", "new"),
    *("numbered", "resolve", "running", "settle", "spread", "staged", "unexpected", "zero"),
}


def check_names(instruction: Instruction) -> None:
    """Raise DefinitionError for a parameter whose name the function's own text uses."""
    if taken := {p.name for p in instruction.parameters} & (LOCALS | FREE):
        raise DefinitionError(f"{instruction.name} can't have a parameter {min(taken)!r}")


def issue_text(instruction: Instruction) -> str:
    """Return the text of the function that issues an instruction, and of the constants that the
    function uses.

    The function has the clause's parameters, in the same order and with the same defaults, and
    `name` at the end if the API's function has this parameter.
    """
    check_names(instruction)
    parameters = [f"{p.name}: {_annotation(p)} = {_default(p)}" for p in instruction.parameters]
    parameters += ["name: Any = None"] if instruction.named else []
    parameters += ["*extra: Any", "**unknown: Any"]
    head = f"def {instruction.name}({', '.join(parameters)}) -> NkiInstruction:"
    body = "\n".join([docstring(instruction), *_issue_body(instruction)])
    return "\n".join([*_constants(instruction), "", "", head, indent(body, "    "), ""])


# --- names and constants --------------------------------------------------------------------------


def _clause(instruction: Instruction) -> str:
    return instruction.name.upper()


def _constant(p: Parameter, instruction: Instruction) -> str:
    """Return the name or the literal with which an argument is compared by identity, to find out
    whether it is the default."""
    if p.default is None or isinstance(p.default, bool):
        return repr(p.default)
    if isinstance(p.default, Enum):
        return f"{type(p.default).__name__}_{p.default.name}".upper()
    return f"{instruction.name}_{p.name}".upper()


def _constants(instruction: Instruction) -> Iterator[str]:
    yield f'{_clause(instruction)} = INSTRUCTIONS["{instruction.name}"]'
    for p in instruction.parameters:
        if _is_usual(p) and not isinstance(p.default, Enum | bool | None):
            yield f"{_constant(p, instruction)} = {p.default!r}"


def _default(p: Parameter) -> str:
    if p.required:
        return "MISSING"
    if isinstance(p.default, Enum):
        return f"{type(p.default).__name__}.{p.default.name}"
    if isinstance(p.default, Operator):
        return f'OPERATORS["{p.default.name}"]'
    return repr(p.default)


def _annotation(p: Parameter) -> str:
    declared = p.declared
    if isinstance(declared, Operand):
        if declared.many:
            return "Tiles"
        return "Tile" if p.always_tile else "TileOrNumber" if declared.scalar else "MaybeTile"
    if isinstance(p.default, Enum):
        return f"{type(p.default).__name__} | int"
    if isinstance(declared, Immediate) and not declared.depth:
        kind = "int" if declared.kind is int else "Real"
    elif isinstance(declared, Static) and declared.flag:
        kind = "bool"
    else:
        return "Any"
    return f"{kind} | None" if p.default is None else kind


# --- binding and checking -------------------------------------------------------------------------


def _issue_body(instruction: Instruction) -> Iterator[str]:
    clause = _clause(instruction)
    absent = [f"{p.name} is MISSING" for p in instruction.parameters if p.required]
    yield f"if {' or '.join(['extra', 'unknown', *absent])}:"
    yield f"    settle({clause}, locals(), extra, unknown)"
    yield "core: Any = running() or current()"
    yield "try:"
    yield from indented(_issue(instruction))
    yield "except NOT_OURS:"
    yield "    raise"
    yield "except Exception as error:"
    yield f"    raise unexpected({clause}, core, error, locals()) from error"
    yield "issued = new(NkiInstruction)"
    yield "issued.program, issued.row = program, row"
    yield "return issued"


def _issue(instruction: Instruction) -> Iterator[str]:
    yield from _recognize(instruction)
    names = [*(p.name for p in instruction.parameters), *map(is_tile, instruction.open_operands)]
    listed = ", ".join(["core", "call", *names])
    yield "try:"
    yield f"    offsets = execute.{instruction.name}({listed})"
    yield "except NeuronError:"
    yield "    if core.undefined is not None:"
    yield "        core.undefined.refused()"
    yield "    raise"
    yield from _record(instruction)


def _recognize(instruction: Instruction) -> Iterator[str]:
    """Yield the lines that find the Call by its key, and check a Call that is new to the core."""
    clause = _clause(instruction)
    usual = [p for p in instruction.parameters if _is_usual(p)]
    others = [p for p in instruction.parameters if p not in usual]
    yield from _find_tiles(instruction)
    yield "try:"
    yield from indented(line for p in others for line in _take(instruction, p))
    parts = [part for p in others if (part := _key_part(p))]
    if usual:
        given = " or ".join(f"{p.name} is not {_constant(p, instruction)}" for p in usual)
        yield "    special: Any = None"
        yield f"    if {given}:"
        yield from indented(indented(line for p in usual for line in _take(instruction, p)))
        yield f"        special = ({', '.join(str(_key_part(p)) for p in usual)},)"
        parts.append("special")
    yield f"    key = ({', '.join([clause, *parts])},)"
    yield "    call = core.calls.get(key)"
    yield "except KernelError as fault:"
    yield f"    core.leave_out({clause}, arguments({clause}, locals()), fault)"
    yield "    return NkiInstruction(core.program, core.last_row)"
    yield "except (AttributeError, TypeError):"
    yield f"    wrong = misused({clause}, locals(), core.machine)"
    yield "    if wrong is None:"
    yield "        raise"
    yield "    raise wrong from None"
    yield "if call is None:"
    yield f"    call = core.prepare({clause}, key, arguments({clause}, locals()))"


def _find_tiles(instruction: Instruction) -> Iterator[str]:
    """Yield the lines that find out which arguments are tiles, among those that may be numbers."""
    for p in instruction.open_operands:
        yield f"{is_tile(p)} = isinstance({p.name}, Tile)"


def _is_usual(parameter: Parameter) -> bool:
    """Return whether kernels mostly leave a parameter at its default. All such parameters together
    are one part of the key, which is None if each of them has its default."""
    declared = parameter.declared
    keyed = isinstance(declared, Static) or (isinstance(declared, Immediate) and declared.keyed)
    return keyed and not parameter.required


def _take(instruction: Instruction, p: Parameter) -> Iterator[str]:
    """Yield the lines that convert an argument to the form that the key and the clause's body
    take."""
    if isinstance(p.default, Enum):
        yield f"if type({p.name}) is int:"
        yield f"    {p.name} = member({_constant(p, instruction)}, {p.name})"
    if isinstance(p.declared, Op | Act):
        row = "operator" if isinstance(p.declared, Op) else "function"
        guard = f" if {p.name} is not None else None" if _is_optional(p.declared) else ""
        yield f"{p.name} = {p.name}.{row}{guard}"
    if isinstance(p.declared, Immediate | Register):
        yield f"if not ({_is_taken_as_it_is(p.name, p.declared)}):"
        take = f"declared[{p.name!r}].take({instruction.name!r}, {p.name!r}, {p.name})"
        yield f"    {p.name} = {_clause(instruction)}.{take}"
    if isinstance(p.declared, Static) and p.declared.sequence:
        yield f"if type({p.name}) is list:"
        yield f"    {p.name} = tuple({p.name})"
    if p.name in instruction.lists:
        yield f"if not are_tiles({p.name}):"
        yield "    raise TypeError"


def _is_taken_as_it_is(name: str, declared: Immediate | Register) -> str:
    """Return an expression that is true for a value that `take` would return unchanged."""
    if isinstance(declared, Register):
        free = f" and not {name}.frozen" if declared.written else ""
        number = f" or {_is_taken_as_it_is(name, declared.numbers)}" if declared.number else ""
        return f"type({name}) is VirtualRegister{free}{number}"
    absent = f"{name} is None or " if declared.optional else ""
    if declared.depth:
        return f"{absent}type({name}) is tuple and not {name}"
    if declared.kind is float and declared.low == -inf:
        return f"{absent}type({name}) is float or type({name}) is int"
    low, high = declared.low, declared.high
    bounds = ("" if low == -inf else f"{low} <= ") + name + ("" if high == inf else f" <= {high}")
    within = "" if bounds == name else f" and {bounds}"
    return f"{absent}type({name}) is {declared.kind.__name__}{within}"


def _is_optional(declared: Op | Act) -> bool:
    return isinstance(declared, Op) and declared.optional


def _key_part(parameter: Parameter) -> str | None:
    name, declared = parameter.name, parameter.declared
    if not isinstance(declared, Operand | Op | Act | Static):
        return name if declared.keyed else None
    # 1, 1.0 and True are one key, but different arguments
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
    return f"{signature} if {is_tile(parameter)} else type({name})"


# --- recording ------------------------------------------------------------------------------------


def _record(instruction: Instruction) -> Iterator[str]:
    """Yield the lines that append the instruction's row to the record, as `Program.append` does. A
    skipped instruction has no row."""
    values = _values(instruction)
    read = [_window(p) for p in instruction.operands if p.operand and p.operand.reads]
    written = [_window(p) for p in instruction.operands if p.operand and p.operand.writes]
    number = [f"program.data.value(({values}))"] if values else []
    row = ", ".join(["line", "~call.index", *read, *written, *number])
    yield "program = core.program"
    yield "if call.dynamic:"
    yield "    if offsets is None:"
    yield "        return NkiInstruction(program, core.last_row)"
    yield f"    row = offsets.note(frame_at(1), ({values}))"
    yield "elif program is None:"
    yield "    row = -1"
    yield "elif program.count >= program.room and not program.make_room():"
    yield "    row = core.leave_row_out()"
    yield "else:"
    yield "    frame, numbers = frame_at(1), program.numbers"
    yield "    line = core.lines.get(id(frame.f_code) + frame.f_lasti)"
    yield "    if line is None:"
    yield "        line = core.line(frame)"
    yield f"    program.rows.extend(call.pack({row}))"
    yield "    row = program.count"
    yield "    program.count = row + 1"


def _window(parameter: Parameter) -> str:
    """Return the text of an operand's window in a row. An operand that is not a tile has no window,
    and a list of tiles has a window for each tile."""
    name = parameter.name
    if parameter.operand and parameter.operand.many:
        return f"*[number for tile in {name} for number in program.window(tile)]"
    window = f"{name}.storage.id, numbers[{name}.geometry], {name}.offset"
    return window if parameter.always_tile else f"*(({window}) if {is_tile(parameter)} else ())"


def _values(instruction: Instruction) -> str:
    """Return the text of the key of an instruction's values in a record: each value and its type. A
    tile has the value None, and the type Tile in both dialects, because one call may get the tiles
    of either dialect."""
    parts = []
    for p in (p for p in instruction.parameters if p.is_value):
        part, kind = f"{p.name} or zero({p.name})", f"type({p.name})"
        if isinstance(p.declared, Register):
            register = f"numbered(core.program, {p.name})"
            part = f"{register} if type({p.name}) is VirtualRegister else {part}"
        elif p.operand:
            part, kind = f"None if {is_tile(p)} else {part}", f"Tile if {is_tile(p)} else {kind}"
        parts.append(f"{part}, {kind}, ")
    return "".join(parts)


# --- the files ------------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """Return the text of each generated file, not yet formatted."""
    clauses = [INSTRUCTIONS[name] for name in sorted(INSTRUCTIONS)]
    members = {p.default for i in clauses for p in i.parameters if isinstance(p.default, Enum)}
    enums = ", ".join(sorted({type(m).__name__ for m in members}))
    constants = sorted(f"{type(m).__name__}_{m.name}".upper() + f" = {m}" for m in members)
    names = ", ".join(f'"{one.name}"' for one in clauses if one.module == "nki.isa")
    head = ISSUE_HEAD.replace("{enums}", enums).replace("{names}", names)
    issue = [head, *constants, *map(issue_text, clauses)]
    execute = [EXECUTE_HEAD, *map(execute_text, clauses)]
    return {ISSUE: "\n".join(issue), EXECUTE: "\n".join(execute)}


def main() -> None:
    for path, text in pages().items():
        path.write_text(text)
        subprocess.run([sys.executable, "-m", "ruff", "format", "-q", path], check=True)


if __name__ == "__main__":
    main()
