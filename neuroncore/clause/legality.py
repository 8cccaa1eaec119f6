"""Legality of a call, from its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from neuroncore.base.enums import engine
from neuroncore.base.errors import BufferKindError, KernelError, TargetError
from neuroncore.clause import agreement, picking
from neuroncore.clause.instruction import Call, Parameter, out_of_reach
from neuroncore.clause.operand import Act, Op, Operand, Static
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View


def of_argument(call: Call, parameter: Parameter, machine: Machine) -> Iterator[KernelError]:
    """The errors of one argument alone."""
    declared, name = parameter.declared, parameter.name
    if isinstance(declared, Operand):
        views = call.tiles(name) if declared.many else {name: call[name]}
        for one, view in views.items():
            if isinstance(view, View):
                yield from declared.violations(one, view, machine)
    elif isinstance(declared, Op | Act | Static):
        yield from declared.violations(name, call[name], machine)


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
        yield from picking.violations(call, machine)
    yield from agreement.violations(call, machine)


def stays_legal(call: Call) -> bool:
    """Return whether a call that was derived from a legal one is legal on its engine: its operands,
    each alone and together."""
    machine = call.machine
    each = (of_argument(call, parameter, machine) for parameter in call.instruction.operands)
    refused = chain(*each, agreement.violations(call, machine))
    return not out_of_reach(call, call.engine) and not any(refused)


def name_operands(call: Call) -> None:
    """Say of a legal call which of its operands are read and written, and where."""
    operands = {p.name: p.operand for p in call.instruction.operands}
    order = list(operands)  # in which a row of the record has them
    views = ((n, v) for n, v in call.arguments.items() if isinstance(v, View))
    tiles = dict(sorted(views, key=lambda one: order.index(one[0].partition("[")[0])))
    declared = {n: operands[n.partition("[")[0]] for n in tiles}
    call.reads = tuple(n for n, o in declared.items() if o and o.reads)
    call.writes = tuple(n for n, o in declared.items() if o and o.writes)
    call.dynamic = tuple(n for n, v in tiles.items() if v.dynamic)
    call.indices = tuple(n for n, v in tiles.items() for _ in range(v.indices))


def _out_of_reach(call: Call, name: str) -> KernelError:
    return BufferKindError(
        f"{name} is in psum, which the GpSimd engine can't reach",
        argument=name,
        expected="sbuf",
        got=str(call[name]),
        because="the GpSimd engine has no port to PSUM",
        hint="copy it to SBUF first with nisa.tensor_copy, or use another engine",
    )
