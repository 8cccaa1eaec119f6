"""Operands, rules and costs of sequencers, and of cores that meet."""

from __future__ import annotations

from typing import Annotated, Any

from neuroncore.base.enums import MemoryRegion, dma_engine
from neuroncore.base.errors import FreeSizeError
from neuroncore.clause import HBM, SBUF, Call, Immediate, cost, reads, writes
from neuroncore.clause.rules import holds, one_of, same_dtype
from neuroncore.core.meeting import CORES
from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.memory.tile import Tile

OneIn = Annotated[Tile, reads("", SBUF, *HBM, starts=False)]
OneOut = Annotated[Tile, writes("", SBUF, *HBM, starts=False)]

BYTES: dict[str, Any] = {"starts": False, "free_dims": None, "moved": True}
Sent = Annotated[Tile, reads("", SBUF, **BYTES)]
Received = Annotated[Tile, writes("", SBUF, **BYTES)]
# Written, though not here: whoever touches the data waits for the barrier, and it for them.
Shared = Annotated[Tile, writes("", MemoryRegion.shared_hbm, SBUF, partial=True, **BYTES)]
Cores = Annotated[tuple[int, ...], Immediate(int, depth=1, keyed=True)]
Rank = Annotated[int, Immediate(int, keyed=True)]


def one_cycle(call: Call, machine: Machine) -> cost.Cost:
    """One cycle of the engine, and its fixed costs."""
    return cost.stream(call, machine, 1)


def memory_access(call: Call, machine: Machine) -> cost.Cost:
    """The sequencer waits for the memory; that a store takes as long as a load is assumed."""
    return cost.Cost(machine.fixed.register_load_ns, 0.0)


def own_rank(call: Call, world: World, number: int) -> range:
    """The cores of one rank."""
    return world.cores_of(world.rank(number))


def most_by_gpsimd(call: Call) -> int:
    return call.machine.limits.gpsimd_dma_elements


both_cores = holds(
    "cores", "it synchronizes cores 0 and 1", lambda call: call["cores"] == CORES,
    expected=str(CORES),
)  # fmt: skip


EXCHANGE = (
    same_dtype("src", "dst"),
    holds(
        "src", "src has at most gpsimd_dma_elements per partition with dma_engine.gpsimd_dma",
        lambda call: call.view("src").free_size <= most_by_gpsimd(call)
        or call["dma_engine"] is dma_engine.dma,
        FreeSizeError, lambda call: f"at most {most_by_gpsimd(call)} with dma_engine.gpsimd_dma",
        because="the GpSimd engine's own DMA has small buffers",
        hint="use dma_engine=nisa.dma_engine.dma",
    ),
    one_of("send_to_rank", CORES),
    one_of("recv_from_rank", CORES),
)  # fmt: skip
