"""What the two cores of a logical core do together: meet, and exchange tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from neuroncore.clause import cost
from neuroncore.clause.instruction import Call, instruction, require
from neuroncore.clause.operand import SBUF, Operand, Static
from neuroncore.clause.rules import same_dtype, same_elements
from neuroncore.core.core import Core, Peers
from neuroncore.enums import MemoryRegion, dma_engine, engine
from neuroncore.errors import FreeSizeError, KernelError, ShapeError, TargetError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import Format

CORES = (0, 1)
Shared = Annotated[
    Tile,
    Operand(
        writes=True,  # whoever touches the data waits for the barrier, and it for them
        partial=True,
        regions=(MemoryRegion.shared_hbm, SBUF),
        starts=False,
        free_dims=None,
        moved=True,
    ),
]


def peers_of(core: Core, name: str) -> Peers:
    if core.peers is None:
        raise TargetError(
            f"{name} needs two cores, and the kernel runs on one",
            expected="a launch grid of 2: kernel[2](...)",
            got=f"grid {core.grid or 1}",
            because="the cores of a logical core (LNC2) are the only ones that can meet",
        )
    return core.peers


def barrier_cost(call: Call, machine: Machine) -> cost.Cost:
    """A semaphore is sent to the other core, and one is waited for."""
    return cost.stream(call, machine, 1)


@instruction(
    engine.gpsimd,
    engine.vector,
    engine.scalar,
    engine.tensor,
    engine.sync,
    cost=barrier_cost,
    feature="logical_core",
    meets=True,
)
def core_barrier(
    data: Shared, cores: Sequence[int], engine: engine = engine.gpsimd, *, core: Core
) -> None:
    """no core goes on before all of `cores` are here; what they wrote to data is then there"""
    if data.region is SBUF:
        # Published kernels end a loop so; the documents want shared HBM.
        core.report(
            "NOT_SHARED",
            f"core_barrier: data ({data}) is this core's own; nothing of the other core's is there "
            "after the barrier that wasn't before",
        )
    require(
        tuple(cores) == CORES,
        "core_barrier brings together cores 0 and 1",
        argument="cores",
        expected=str(CORES),
        got=str(tuple(cores)),
    )
    peers_of(core, "core_barrier").meet(core.program_id, "core_barrier", CORES, None)


@dataclass(frozen=True)
class Parcel:
    """What one core sends to another."""

    to: int
    codes: Array
    dtype: Format


def small_enough_for_gpsimd(call: Call, machine: Machine) -> KernelError | None:
    most = machine.limits.gpsimd_dma_elements
    if call["dma_engine"] is dma_engine.dma or call.view("src").free_size <= most:
        return None
    return FreeSizeError(
        f"sendrecv: src has {call.view('src').free_size} elements per partition",
        argument="src",
        expected=f"at most {most} with dma_engine.gpsimd_dma",
        got=str(call.view("src")),
        because="the GpSimd engine's own DMA has small buffers",
        hint="use dma_engine=nisa.dma_engine.dma",
    )


@instruction(
    engine.dma,
    cost=cost.dma,
    rules=[same_dtype("src", "dst"), same_elements("src", "dst"), small_enough_for_gpsimd],
    feature="logical_core",
    opcode="SENDRECV",
    meets=True,
)
def sendrecv(
    src: Annotated[
        Tile, Operand(reads=True, regions=(SBUF,), starts=False, free_dims=None, moved=True)
    ],
    dst: Annotated[
        Tile, Operand(writes=True, regions=(SBUF,), starts=False, free_dims=None, moved=True)
    ],
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: Annotated[dma_engine, Static()] = dma_engine.dma,
    *,
    core: Core,
) -> None:
    """dst = src of core recv_from_rank, while src goes to core send_to_rank"""
    for name, rank in (("send_to_rank", send_to_rank), ("recv_from_rank", recv_from_rank)):
        require(
            rank in CORES,
            f"sendrecv: there is no core {rank}",
            argument=name,
            expected="0 or 1",
            got=str(rank),
        )
    parcel = Parcel(int(send_to_rank), src.codes().copy(), src.dtype)
    point = f"sendrecv(pipe_id={pipe_id})"
    peers = peers_of(core, "sendrecv")
    received = peers.meet(core.program_id, point, CORES, parcel)[int(recv_from_rank)]
    _check_parcel(received, dst, core.program_id, int(recv_from_rank))
    dst.codes()[...] = received.codes.reshape(dst.shape)


def _check_parcel(parcel: Parcel, dst: Tile, rank: int, sender: int) -> None:
    require(
        parcel.to == rank,
        f"sendrecv: core {rank} expects data from core {sender}, which sends to core {parcel.to}",
        KernelError,
        argument="recv_from_rank",
    )
    sent = f"{parcel.codes.shape} {parcel.dtype}"
    require(
        parcel.dtype is dst.dtype
        and parcel.codes.shape[0] == dst.shape[0]
        and parcel.codes.size == dst.size,
        f"sendrecv: core {sender} sends {sent}, core {rank} expects {dst.shape} {dst.dtype}",
        ShapeError,
        argument="dst",
        expected=sent,
        got=str(dst),
    )
