"""Instructions of the two cores of a logical core: they meet, and exchange tiles."""

from __future__ import annotations

from neuroncore.base.enums import dma_engine, engine
from neuroncore.clause import cost
from neuroncore.clause.immediate import Integer
from neuroncore.clause.instruction import Traits, instruction
from neuroncore.clause.operand import SBUF
from neuroncore.core.core import Core
from neuroncore.core.system import exchange, meet

from .words import collectives as words


@instruction(
    engine.gpsimd,
    engine.vector,
    engine.scalar,
    engine.tensor,
    engine.sync,
    example="cores=(0, 1)",
    cost=words.one_cycle,  # a semaphore is sent to the other core, and one is waited for
    rules=[words.both_cores],
    feature="logical_core",
    meets=words.own_rank,
    traits=Traits(computes=False),
)
def core_barrier(
    data: words.Shared, cores: words.Cores, engine: engine = engine.gpsimd, *, core: Core
) -> None:
    """no core goes on before all of `cores` are here; what they wrote to data is then there"""
    if data.region is SBUF:
        # Published kernels end a loop so; the documents want shared HBM.
        core.report(
            "NOT_SHARED",
            f"core_barrier: data ({data}) is this core's own; no data of the other core is visible "
            "after the barrier that wasn't before",
        )
    meet(core, "core_barrier")


@instruction(
    engine.dma,
    shapes="src dst: P F",
    cost=cost.dma,
    rules=words.EXCHANGE,
    feature="logical_core",
    opcode="SENDRECV",
    meets=words.own_rank,
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
    """dst = src of core recv_from_rank, while src goes to core send_to_rank"""
    point = f"sendrecv(pipe_id={pipe_id})"
    dst.codes()[...] = exchange(core, point, src, send_to_rank, recv_from_rank, dst)
