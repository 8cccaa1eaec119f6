"""The sequencers: scalar registers, which hold loop bounds, conditions and addresses."""

from __future__ import annotations

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause.immediate import InRegister, InRegisterOrNumber, OutRegister
from neuroncore.clause.instruction import instruction
from neuroncore.core.core import Core
from neuroncore.memory.register import VirtualRegister, loaded
from neuroncore.numerics import codec
from neuroncore.numerics.formats import bool_, int32

from .words import collectives as words


@instruction(engine.sync, named=False, cost=words.one_cycle)
def register_move(dst: OutRegister, src: InRegisterOrNumber) -> None:
    """dst = src"""
    if isinstance(src, VirtualRegister):
        dst.set(src.value, src.load)
    else:
        dst.set(src)


@instruction(
    engine.sync, named=False, shapes="src: 1 1", cost=words.memory_access, opcode="TENSOR_LOAD"
)
def register_load(dst: OutRegister, src: words.OneIn, *, core: Core) -> None:
    """dst = src[0, 0]"""
    codes = src.codes() if src.dtype.is_integer else codec.encode(int32, src.values())
    dst.set(int(codes.flat[0]), None if core.program is None else loaded(core.program))


@instruction(
    engine.sync, named=False, shapes="dst: 1 1", cost=words.memory_access, opcode="TENSOR_STORE"
)
def register_store(dst: words.OneOut, src: InRegister) -> None:
    """dst[0, 0] = src"""
    if dst.dtype.is_integer and dst.dtype is not bool_:
        dst.codes()[...] = np.array(src.value).astype(dst.dtype.storage)
    else:
        dst.codes()[...] = numeric.constant(dst.held, src.value)
