"""The helpers of generated functions: `frontend/instructions.py` binds and checks a call, and
`core/execute.py` executes it. `docs/generate/functions.py` writes both from the clauses.

They are generated so that a call costs little more than the checks it needs:
`inspect.Signature.bind` alone would take longer than a small instruction.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import Enum
from typing import Any

from neuroncore.clause.instruction import Instruction
from neuroncore.clause.operand import spread
from neuroncore.memory.register import VirtualRegister
from neuroncore.record.program import Program


class _Missing:
    """The default of a required parameter, so that a call without it gets neuroncore's message."""

    def __repr__(self) -> str:
        return "<required>"


MISSING: Any = _Missing()


def arguments(instruction: Instruction, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments by name, from the local names of a generated function. The tiles of a
    list also have the names by which a Call knows them."""
    given = {p.name: scope[p.name] for p in instruction.parameters}
    for name in instruction.lists:
        given |= spread(name, given[name])
    return given


def kinds(value: Any) -> Any:
    """Return the type of an argument, or the types of what is in a tuple."""
    return type(value) if type(value) is not tuple else tuple(map(type, value))


def member(default: Enum, number: int) -> Any:
    """Return the member of an enumeration that a published kernel gives by its number."""
    kind = type(default)
    return kind(number) if number in {member.value for member in kind} else number


def numbered(program: Program | None, register: VirtualRegister) -> int:
    """Return the number of a register's value in the record; -1 without a record."""
    return -1 if program is None else program.data.register(register)


def signature_of(instruction: Instruction) -> inspect.Signature:
    """Return the signature that users see."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    listed = [inspect.Parameter(p.name, kind, default=p.default) for p in instruction.parameters]
    named = inspect.Parameter("name", kind, default=None)
    return inspect.Signature([*listed, named] if instruction.named else listed)
