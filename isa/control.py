"""Instructions of the sequencers for scalar registers, which contain loop bounds, conditions and
addresses; and instructions by which the two cores of a logical core synchronize and exchange
tiles."""

from __future__ import annotations

import numpy as np

from neuroncore.base.enums import dma_engine, engine
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.immediate import InRegister, InRegisterOrNumber, Integer, OutRegister
from neuroncore.clause.instruction import Traits, instruction
from neuroncore.clause.operand import SBUF
from neuroncore.core.core import Core
from neuroncore.core.system import exchange, meet
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


@instruction(
    engine.gpsimd,
    engine.vector,
    engine.scalar,
    engine.tensor,
    engine.sync,
    example="cores=(0, 1)",
    cost=words.one_cycle,  # the cost of sending a semaphore to the other core and waiting for one
    rules=[words.both_cores],
    feature="logical_core",
    meets=words.cores_of_rank,
    traits=Traits(computes=False),
)
def core_barrier(
    data: words.Shared, cores: words.Cores, engine: engine = engine.gpsimd, *, core: Core
) -> None:
    """no core continues before all `cores` have arrived; then their writes to data are visible"""
    if data.region is SBUF:
        # The documentation requires shared HBM, but published kernels end a loop with such a
        # barrier.
        core.report(
            "NOT_SHARED",
            f"core_barrier: data ({data}) is in SBUF, which only one core can access; the barrier "
            "only orders accesses to shared HBM",
        )
    meet(core, "core_barrier", cores=cores)


@instruction(
    engine.dma,
    shapes="src dst: P F",
    cost=cost.dma,
    rules=words.EXCHANGE,
    feature="logical_core",
    opcode="SENDRECV",
    removed="use_gpsimd_dma",
    meets=words.cores_of_rank,
    traits=Traits(exchanges=True),
)
def sendrecv(
    src: words.Sent,
    dst: words.Received,
    send_to_rank: words.Rank,
    recv_from_rank: words.Rank,
    pipe_id: Integer,
    dma_engine: dma_engine = dma_engine.dma,
    *,
    core: Core,
) -> None:
    """dst = the src that core recv_from_rank sends; this core sends its src to core send_to_rank"""
    point = f"sendrecv(pipe_id={pipe_id})"
    dst.codes()[...] = exchange(core, point, src, send_to_rank, recv_from_rank, dst)
