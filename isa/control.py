"""The sequencers: scalar registers, which hold loop bounds, conditions and addresses."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.instruction import Call, instruction, require
from neuroncore.clause.operand import HBM, SBUF, Operand
from neuroncore.core.core import Core
from neuroncore.enums import engine
from neuroncore.errors import DynamicControlError, KernelError, ShapeError, SignatureError
from neuroncore.machine import Machine
from neuroncore.memory.register import Load, VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import bool_, int32

sync = engine.sync

OneIn = Annotated[Tile, Operand(reads=True, regions=(SBUF, *HBM), starts=False)]
OneOut = Annotated[Tile, Operand(writes=True, regions=(SBUF, *HBM), starts=False)]


def sequencer(call: Call, machine: Machine) -> cost.Cost:
    return cost.stream(call, machine, 1)


def memory_access(call: Call, machine: Machine) -> cost.Cost:
    """The sequencer waits for the memory; that a store takes as long as a load is assumed."""
    return cost.Cost(machine.fixed.register_load_ns, 0.0)


def one_element(name: str):  # type: ignore[no-untyped-def]
    def rule(call: Call, machine: Machine) -> KernelError | None:
        view = call.view(name)
        if view.size == 1:
            return None
        return ShapeError(
            f"{call.name}: {name} must have one element",
            argument=name,
            expected="shape (1, 1)",
            got=str(view),
        )

    return rule


def require_register(value: object, name: str) -> None:
    require(
        isinstance(value, VirtualRegister),
        f"{name} must be a register",
        DynamicControlError,
        argument=name,
        got=repr(value),
        hint="allocate one with nisa.register_alloc",
    )


@instruction(sync, named=False, cost=sequencer)
def register_move(dst: VirtualRegister, src: VirtualRegister | int) -> None:
    """dst = src"""
    require_register(dst, "dst")
    if not isinstance(src, VirtualRegister):
        require(
            isinstance(src, int | np.integer),
            "src must be an integer or a register",
            SignatureError,
            argument="src",
            got=repr(src),
        )
    if isinstance(src, VirtualRegister):
        dst.set(src.value, src.load)
    else:
        dst.set(int(src))


@instruction(
    sync, named=False, cost=memory_access, rules=[one_element("src")], opcode="TENSOR_LOAD"
)
def register_load(dst: VirtualRegister, src: OneIn, *, core: Core) -> None:
    """dst = src[0, 0]"""
    require_register(dst, "dst")
    codes = src.codes() if src.dtype.is_integer else codec.encode(int32, src.values())
    program = core.program
    dst.set(int(codes.flat[0]), None if program is None else Load(program, program.issued))


@instruction(
    sync, named=False, cost=memory_access, rules=[one_element("dst")], opcode="TENSOR_STORE"
)
def register_store(dst: OneOut, src: VirtualRegister) -> None:
    """dst[0, 0] = src"""
    require_register(src, "src")
    if dst.dtype.is_integer and dst.dtype is not bool_:
        dst.codes()[...] = np.array(src.value).astype(dst.dtype.storage)
    else:
        dst.codes()[...] = numeric.constant(dst.held, src.value)
