"""Operands, rules and costs of sequencers, and of cores that meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from neuroncore.clause import HBM, SBUF, Call, Immediate, Operand, cost
from neuroncore.clause.rules import holds, one_of, same_dtype
from neuroncore.core.meeting import CORES
from neuroncore.enums import MemoryRegion, dma_engine
from neuroncore.errors import FreeSizeError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile

OneIn = Annotated[Tile, Operand(reads=True, regions=(SBUF, *HBM), starts=False)]
OneOut = Annotated[Tile, Operand(writes=True, regions=(SBUF, *HBM), starts=False)]

SENT = Operand(reads=True, regions=(SBUF,), starts=False, free_dims=None, moved=True)
RECEIVED = replace(SENT, reads=False, writes=True)
MEMORIES = (MemoryRegion.shared_hbm, SBUF)
Sent = Annotated[Tile, SENT]
Received = Annotated[Tile, RECEIVED]
# Written, though not here: whoever touches the data waits for the barrier, and it for them.
Shared = Annotated[Tile, replace(RECEIVED, partial=True, regions=MEMORIES)]
Cores = Annotated[tuple[int, ...], Immediate(int, depth=1, keyed=True)]
Rank = Annotated[int, Immediate(int, keyed=True)]


def one_cycle(call: Call, machine: Machine) -> cost.Cost:
    """One cycle of the engine, and its fixed costs."""
    return cost.stream(call, machine, 1)


def memory_access(call: Call, machine: Machine) -> cost.Cost:
    """The sequencer waits for the memory; that a store takes as long as a load is assumed."""
    return cost.Cost(machine.fixed.register_load_ns, 0.0)


def few(call: Call) -> int:
    return call.machine.limits.gpsimd_dma_elements


both_cores = holds(
    "cores", "it brings together cores 0 and 1", lambda call: call["cores"] == CORES,
    expected=str(CORES),
)  # fmt: skip


EXCHANGE = (
    same_dtype("src", "dst"),
    holds(
        "src", "src has at most gpsimd_dma_elements per partition with dma_engine.gpsimd_dma",
        lambda call: call.view("src").free_size <= few(call)
        or call["dma_engine"] is dma_engine.dma,
        FreeSizeError, lambda call: f"at most {few(call)} with dma_engine.gpsimd_dma",
        because="the GpSimd engine's own DMA has small buffers",
        hint="use dma_engine=nisa.dma_engine.dma",
    ),
    one_of("send_to_rank", CORES),
    one_of("recv_from_rank", CORES),
)  # fmt: skip
