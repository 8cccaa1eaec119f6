"""Whether a call is legal: every argument by itself, then the whole. What has been found legal is
remembered for the launches to come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from neuroncore.clause import agreement
from neuroncore.clause.instruction import Call, Instruction, Parameter, out_of_reach
from neuroncore.clause.operand import Act, Op, Operand, Static, are_tiles, spread
from neuroncore.core import indirection
from neuroncore.enums import engine
from neuroncore.errors import BufferKindError, KernelError, SignatureError, TargetError
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View
from neuroncore.memory.tile import Tile

KNOWN_MOST = 1 << 14

# Legal calls of all launches, by machine and key: a memo. A Call holds its machine.
known: dict[tuple[int, Any], Call] = {}


def checked(
    instruction: Instruction, key: Any, arguments: dict[str, Any], machine: Machine
) -> Call:
    """A legal Call, checked now or before. Raises what `check` raises."""
    call = known.get((id(machine), key))
    if call is None:
        call = check(instruction, arguments, machine)
        if len(known) >= KNOWN_MOST:
            known.clear()
        known[id(machine), key] = call
    return call


def check(instruction: Instruction, arguments: dict[str, Any], machine: Machine) -> Call:
    """The Call that these arguments make. Raises the first thing that is wrong with them; the
    others are listed in its message."""
    call = Call(instruction, machine, {p.name: None for p in instruction.parameters})
    errors: list[KernelError] = []
    for parameter in instruction.parameters:
        errors += _taken(call, parameter, arguments[parameter.name], machine)
    if not errors:
        errors += whole_call(call, machine)
    if errors:
        errors[0].more = [e.statement for e in errors[1:]]
        raise errors[0]
    tiles = {n: v for n, v in call.arguments.items() if isinstance(v, View)}
    operands = {p.name: p.operand for p in call.instruction.operands}
    declared = {n: operands[n.partition("[")[0]] for n in tiles}
    call.reads = tuple(n for n, o in declared.items() if o and o.reads)
    call.writes = tuple(n for n, o in declared.items() if o and o.writes)
    call.dynamic = tuple(n for n, v in tiles.items() if v.dynamic)
    call.indices = tuple(n for n, v in tiles.items() for _ in range(v.indices))
    return call


def whole_call(call: Call, machine: Machine) -> Iterator[KernelError]:
    """Give a call its engine, and say what is wrong with its operands together."""
    instruction = call.instruction
    if instruction.feature and not machine.has(instruction.feature):
        yield TargetError(
            f"{machine.name} doesn't have {call.name}",
            expected=f"a machine with {instruction.feature}",
            got=f"{machine.name} ({machine.generation})",
        )
        return
    asked = call.arguments.get("engine", engine.unknown)
    if asked not in (engine.unknown, *instruction.engines):
        yield BufferKindError(
            f"{call.name} does not run on the {asked.name} engine",
            argument="engine",
            expected=" or ".join(e.name for e in instruction.engines),
            got=asked.name,
        )
        return
    call.engine = instruction.engines[0]
    if asked is not engine.unknown:
        call.engine = asked
    elif instruction.choose is not None:
        call.engine = instruction.choose(call, machine)
    yield from (_out_of_reach(call, name) for name in out_of_reach(call, call.engine))
    if any(view.picked_by for view in call.views()):
        yield from indirection.violations(call, machine)
    yield from agreement.violations(call, machine)


def _taken(call: Call, parameter: Parameter, value: Any, machine: Machine) -> Iterator[KernelError]:
    """Put one argument into a Call, and say what is wrong with it by itself."""
    declared = parameter.declared
    if isinstance(declared, Operand) and declared.many:
        views = {n: tile.signature() for n, tile in spread(parameter.name, value).items()}
        call.arguments.update({**views, parameter.name: tuple(views.values())})
        for name, view in views.items():
            yield from declared.violations(name, view, machine)
    elif isinstance(declared, Operand):
        if isinstance(value, Tile):
            view = value.signature()
            call.arguments[parameter.name] = view
            yield from declared.violations(parameter.name, view, machine)
        elif value is None and declared.optional:
            call.arguments[parameter.name] = None
        elif declared.scalar and isinstance(value, int | float | np.number):
            call.arguments[parameter.name] = "number"
        else:
            yield _not_a_tile(call.instruction, parameter, value)
    elif isinstance(declared, Op | Act):
        row = getattr(value, "operator" if isinstance(declared, Op) else "function", value)
        call.arguments[parameter.name] = row
        yield from declared.violations(parameter.name, row, machine)
    elif isinstance(declared, Static):
        call.arguments[parameter.name] = value
        yield from declared.violations(parameter.name, value, machine)
    elif declared.keyed:
        call.arguments[parameter.name] = value


def _not_a_tile(instruction: Instruction, parameter: Parameter, value: Any) -> KernelError:
    operand = parameter.operand
    expected = "a tensor or a number" if operand and operand.scalar else "a tensor"
    if operand and operand.many:
        expected = "a list of tensors"
    return SignatureError(
        f"{instruction.name}: {parameter.name} must be {expected}",
        argument=parameter.name,
        position=parameter.position,
        got=f"{type(value).__name__} {' '.join(repr(value).split()):.60}",
        hint="numpy arrays enter a kernel as its arguments" if hasattr(value, "dtype") else None,
    )


def _out_of_reach(call: Call, name: str) -> KernelError:
    return BufferKindError(
        f"{name} is in psum, which the GpSimd engine can't reach",
        argument=name,
        expected="sbuf",
        got=str(call[name]),
        because="the GpSimd engine has no port to PSUM",
        hint="copy it to SBUF first with nisa.tensor_copy, or use another engine",
    )


# --- arguments of the wrong kind altogether ---


def misused(instruction: Instruction, arguments: dict[str, Any], machine: Machine) -> KernelError:
    """The error for arguments of the wrong kind altogether."""
    for parameter in instruction.parameters:
        value = arguments[parameter.name]
        if parameter.always_tile and not isinstance(value, Tile):
            return _not_a_tile(instruction, parameter, value)
        if parameter.operand and parameter.operand.many and not are_tiles(value):
            return _not_a_tile(instruction, parameter, value)
        if isinstance(parameter.declared, Op | Act | Static):
            errors = parameter.declared.violations(parameter.name, value, machine)
            if error := next(errors, None):
                return error
    return SignatureError(f"{instruction.name} was given arguments it can't use")
