"""Meetings of the cores of a launch, and exchange of data."""

from __future__ import annotations

from math import prod
from typing import Any

from neuroncore.base.errors import KernelError, ShapeError, TargetError
from neuroncore.base.structs import dataclass
from neuroncore.core.core import Core, Point
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import Format

CORES = (0, 1)


@dataclass(frozen=True)
class Parcel:
    """Data that one core sends to another."""

    to: int
    codes: Array
    dtype: Format


def cores_together(machine: Machine) -> int:
    """On how many cores the programs of a launch run at once, and can meet: those of a logical
    core (nki/get-started/about/lnc.rst)."""
    return len(CORES) if machine.has("logical_core") else 1


def meet(core: Core, point: str, bring: Any = None) -> dict[int, Any]:
    """The data that each core of the rank brings to a named point, once all are there, by the
    core's number in the rank. Raises TargetError if they are not the two cores of a logical
    core."""
    if core.peers is None or core.world.cores != len(CORES):
        raise TargetError(
            f"{point} needs two cores that can synchronize, but the kernel runs on "
            + ("more" if prod(core.grid) > len(CORES) else "one"),
            expected="a launch grid of 2: kernel[2](...)",
            got=f"grid {core.grid or 1}",
            because="only the cores of a logical core (LNC2) can synchronize",
        )
    own = frozenset(core.world.cores_of(core.rank))
    brought = core.peers.meet(core.number, Point(point, own), bring)
    return {core.world.core(number): one for number, one in brought.items()}


def exchange(core: Core, point: str, src: Tile, to: int, sender: int, dst: Tile) -> Array:
    """Codes for `dst` that core `sender` brings to a named point, while `src` goes to core `to`.

    Raises KernelError if the sender has another addressee, ShapeError if it sends another tile.
    """
    received: Parcel = meet(core, point, Parcel(to, src.codes().copy(), src.dtype))[sender]
    rank, codes = core.world.core(core.number), received.codes
    if received.to != rank:
        raise KernelError(
            f"{point}: core {rank} expects data from core {sender}, which sends to core "
            f"{received.to}",
            argument="recv_from_rank",
        )
    sent = f"{codes.shape} {received.dtype}"
    if (received.dtype, len(codes), codes.size) != (dst.dtype, dst.shape[0], dst.size):
        raise ShapeError(
            f"{point}: core {sender} sends {sent}, core {rank} expects {dst.shape} {dst.dtype}",
            argument="dst",
            expected=sent,
            got=str(dst),
        )
    return codes.reshape(dst.shape)
