"""Legality of a call: each argument is checked by itself first, and then all arguments together.

A legal call becomes a Call: a use of an instruction, without its data. Calls are remembered for
later launches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from neuroncore.base.errors import KernelError, SignatureError
from neuroncore.clause import legality
from neuroncore.clause.instruction import Call, Instruction, Parameter
from neuroncore.clause.operand import Act, Op, Operand, Static, are_tiles, spread
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile

KNOWN_MOST = 1 << 14

# A memo: the legal calls of all launches, by (id of the machine, key). A Call keeps its machine
# alive.
known: dict[tuple[int, Any], Call] = {}


def checked(
    instruction: Instruction, key: Any, arguments: dict[str, Any], machine: Machine
) -> Call:
    """Return the known Call for this machine and key, or check and remember a new one. Raises the
    errors of `check`."""
    call = known.get((id(machine), key))
    if call is None:
        call = check(instruction, arguments, machine)
        if len(known) >= KNOWN_MOST:
            known.clear()
        known[id(machine), key] = call
    return call


def check(instruction: Instruction, arguments: dict[str, Any], machine: Machine) -> Call:
    """Return the Call for these arguments. Raises the first error, whose message lists the
    others."""
    call = Call(instruction, machine, {p.name: None for p in instruction.parameters})
    errors: list[KernelError] = []
    for parameter in instruction.parameters:
        errors += _taken(call, parameter, arguments[parameter.name], machine)
    if not errors:
        errors += legality.whole_call(call, machine)
    if errors:
        errors[0].more = [e.statement for e in errors[1:]]
        raise errors[0]
    legality.name_operands(call)
    return call


def _taken(call: Call, parameter: Parameter, value: Any, machine: Machine) -> Iterator[KernelError]:
    """Store the argument of one parameter in a Call. Yield the errors of this argument alone."""
    declared = parameter.declared
    if isinstance(declared, Operand) and declared.many:
        views = {n: tile.signature() for n, tile in spread(parameter.name, value).items()}
        call.arguments.update({**views, parameter.name: tuple(views.values())})
    elif isinstance(declared, Operand):
        if isinstance(value, Tile):
            call.arguments[parameter.name] = value.signature()
        elif value is None and declared.optional:
            call.arguments[parameter.name] = None
        elif declared.scalar and isinstance(value, int | float | np.number):
            call.arguments[parameter.name] = "number"
        else:
            yield _not_a_tile(call.instruction, parameter, value)
            return
    elif isinstance(declared, Op | Act):
        call.arguments[parameter.name] = _row(declared, value)
    elif isinstance(declared, Static) or declared.keyed:
        call.arguments[parameter.name] = value
    yield from legality.of_argument(call, parameter, machine)


ARRAY_HINT = (
    "pass numpy arrays to the kernel as arguments, by themselves or in lists, tuples and dicts; "
    "arrays in attributes of other objects are not copied to the device"
)


def _not_a_tile(instruction: Instruction, parameter: Parameter, value: Any) -> KernelError:
    operand = parameter.operand
    expected = "a tensor or a number" if operand and operand.scalar else "a tensor"
    if operand and operand.many:
        expected = "a list of tensors"
    return SignatureError(
        f"{instruction.name}: {parameter.name} must be {expected}",
        argument=parameter.name,
        position=parameter.position,
        got=_shown(value),
        hint=ARRAY_HINT if hasattr(value, "dtype") else None,
    )


def _shown(value: Any) -> str:
    """Return a short text for a value; for an array, its shape and type."""
    kind = type(value).__name__
    if isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype"):
        return f"{kind} of shape {tuple(value.shape)}, {value.dtype}"
    return f"{kind} {' '.join(repr(value).split()):.60}"


# --- arguments of a wrong kind ---


def misused(
    instruction: Instruction, arguments: dict[str, Any], machine: Machine
) -> KernelError | None:
    """Return the error for the first argument of a wrong kind, or None."""
    for parameter in instruction.parameters:
        value, declared = arguments[parameter.name], parameter.declared
        if parameter.always_tile and not isinstance(value, Tile):
            return _not_a_tile(instruction, parameter, value)
        if parameter.operand and parameter.operand.many and not are_tiles(value):
            return _not_a_tile(instruction, parameter, value)
        if isinstance(declared, Op | Act | Static):
            errors = declared.violations(parameter.name, _row(declared, value), machine)
            if error := next(errors, None):
                return error
        if isinstance(declared, Static) and not _is_hashable(value):
            return _no_constant(instruction, parameter, value)
    return None


def _row(declared: Op | Act | Static, value: Any) -> Any:
    """Return a value's entry in the table of operators or activation functions, or the value
    itself."""
    if isinstance(declared, Static):
        return value
    return getattr(value, "operator" if isinstance(declared, Op) else "function", value)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _no_constant(instruction: Instruction, parameter: Parameter, value: Any) -> KernelError:
    return SignatureError(
        f"{instruction.name}: {parameter.name} must be a constant",
        argument=parameter.name,
        position=parameter.position,
        got=f"{type(value).__name__} {' '.join(repr(value).split()):.60}",
    )
