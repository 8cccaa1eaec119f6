"""Rebuild the arguments of an instruction from its record. Replays execute instructions with the
rebuilt arguments. Loops of the older API also use them, to repeat the instructions of an earlier
iteration (`known_iterations`).

A Call is a use of an instruction without its data (`neuroncore.clause.instruction`). Many
instructions may have the same Call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from neuroncore.clause.immediate import Register
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import Operand
from neuroncore.core import execute
from neuroncore.core.binding import Offsets
from neuroncore.memory.geometry import View


class ArgumentPlan(NamedTuple):
    """How to rebuild the arguments of a Call from a recorded instruction.

    `constants`: for each parameter, its constant argument or None. Then, for each of
    `Instruction.open_operands`, whether it is a tile.
    `tiles`: pairs (position of a parameter, position of its tile in the record)
    `lists`: pairs (position of a parameter, positions of its tiles in the record)
    `values`: pairs (position of a parameter, position in `Instruction.values`)"""

    call: Call
    run: Callable[..., Offsets | None]
    constants: list[Any]
    tiles: list[tuple[int, int]]
    lists: list[tuple[int, list[int]]]
    values: list[tuple[int, int]]
    operands: dict[str, int]  # by name: the operand's position in the record
    loads: int  # the position of the parameter for a register that is written; -1 if there is none
    nbytes: int  # bytes of all results


def plan(call: Call) -> ArgumentPlan:
    """Return the ArgumentPlan of a Call. Don't change its lists: copies of the Call share them."""
    others = call.derived(__name__, lambda: _made(call)[1:])
    return ArgumentPlan(call, *others)


def _made(call: Call) -> ArgumentPlan:
    instruction = call.instruction
    operands = {n: 2 + i for i, n in enumerate(call.reads)}
    first = 2 + call.inputs
    operands |= {n: first + i for i, n in enumerate(call.writes)}
    constants: list[Any] = [None] * len(instruction.parameters)
    tiles, lists, values, loads = [], [], [], -1
    for slot, p in enumerate(instruction.parameters):
        declared = p.declared
        if isinstance(declared, Operand) and declared.many:
            many = [operands[n] for n in operands if n.partition("[")[0] == p.name]
            lists.append((slot, many))
        elif p.name in operands:
            tiles.append((slot, operands[p.name]))
        elif isinstance(declared, Register) and declared.written:
            loads = slot
        elif p.is_value and (p.operand is None or call.arguments[p.name] is not None):
            values.append((slot, instruction.values.index(p.name)))
        else:
            constants[slot] = call.arguments[p.name]
    constants += [isinstance(call.arguments[p.name], View) for p in instruction.open_operands]
    run = getattr(execute, instruction.name)
    nbytes = call.written_bytes
    return ArgumentPlan(call, run, constants, tiles, lists, values, operands, loads, nbytes=nbytes)
