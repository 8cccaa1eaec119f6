"""The DMA engines: sixteen movers between HBM and SBUF, which convert formats on the way."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from neuroncore import codec, cost
from neuroncore.enums import dge_mode, engine, oob_mode
from neuroncore.errors import (
    BufferKindError,
    DtypeError,
    KernelError,
    OutOfBoundsError,
    TargetError,
)
from neuroncore.instruction import HBM, SBUF, Call, Operand, Static, instruction
from neuroncore.machine import Machine
from neuroncore.rules import same_total
from neuroncore.tile import Array, Tile

Source = Annotated[
    Tile, Operand(reads=True, regions=(SBUF, *HBM), starts=False, free_dims=None, free=None)
]
Destination = Annotated[
    Tile, Operand(writes=True, regions=(SBUF, *HBM), starts=False, free_dims=None, free=None)
]


def descriptors(call: Call, machine: Machine) -> KernelError | None:
    """What hardware descriptor generation can't do (ISA, DGE guide)."""
    if call["dge_mode"] is not dge_mode.hwdge:
        if call["engine"] is not engine.unknown:
            return BufferKindError(
                f"{call.name}: engine= goes with dge_mode=hwdge only",
                argument="engine",
                because="other transfers aren't issued by an engine's sequencer",
            )
        return None
    dst, src = call.view("dst"), call.view("src")
    if not machine.has("hardware_dge"):
        return TargetError(
            f"{call.name}: {machine.name} has no hardware descriptor generation",
            argument="dge_mode",
            expected="a machine with hardware_dge",
            got=f"{machine.name} ({machine.generation})",
        )
    if dst.dtype is not src.dtype:
        return DtypeError(
            f"{call.name}: hardware descriptors don't convert {src.dtype} to {dst.dtype}",
            argument="dst",
            expected=str(src.dtype),
            got=str(dst.dtype),
            hint="leave dge_mode out",
        )
    if 2 in (dst.dynamic, src.dynamic):
        return BufferKindError(
            f"{call.name}: hardware descriptors don't gather or scatter",
            argument="dge_mode",
            hint="use dge_mode=nisa.dge_mode.swdge",
        )
    return None


def priority_classes(call: Call, machine: Machine) -> KernelError | None:
    if call["priority"] is None or machine.has("dma_priority"):
        return None
    return TargetError(
        f"{call.name}: {machine.name} has no DMA priorities",
        argument="priority",
        expected="a machine with dma_priority",
        got=f"{machine.name} ({machine.generation})",
    )


@instruction(
    engine.dma,
    engine.sync,
    engine.scalar,
    cost=cost.dma,
    choose=lambda call, machine: engine.dma,
    rules=[same_total("dst", "src"), descriptors, priority_classes],
    opcode="DMA_DIRECT2D",
)
def dma_copy(
    dst: Destination,
    src: Source,
    priority: Annotated[int | None, Static()] = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
) -> None:
    """dst = src, element by element in row-major order; formats convert through float32"""
    skip = oob_mode.name == "skip"
    if not src.dynamic and not dst.dynamic:
        put(dst, convert(src, dst, src.codes()))
        return
    codes, inside = gather(src, skip) if src.dynamic else (src.codes(), None)
    codes = convert(src, dst, codes)
    if dst.dynamic:
        scatter(dst, codes.reshape(dst.shape), skip)
    elif inside is None or inside.all():
        put(dst, codes)
        dst.mark_written()
    else:
        chosen = np.zeros(codes.shape, np.bool_)
        chosen[inside] = True
        chosen = chosen.reshape(dst.shape)
        dst.codes()[chosen] = codes.reshape(dst.shape)[chosen]
        dst.mark_written(chosen)


def put(dst: Tile, codes: Array) -> None:
    target = dst.codes()
    target[...] = codes if codes.shape == target.shape else codes.reshape(target.shape)


def convert(src: Tile, dst: Tile, codes: Array) -> Array:
    return codec.cast(src.dtype, dst.dtype, codes)


def every_row(tile: Tile) -> Tile:
    """The rows that a vector offset can choose from, as axis 0."""
    (dynamic,) = tile.dynamic
    shape = (dynamic.limit + 1, *tile.shape[1:])
    return tile.window(shape, (dynamic.step, *tile.strides[1:]), tile.offset, dynamic=())


def row_numbers(tile: Tile, skip: bool) -> tuple[Array, Array]:
    """The row that each partition asks for, and whether there is such a row.

    Raises OutOfBoundsError where there is not, unless those are skipped.
    """
    (dynamic,) = tile.dynamic
    assert isinstance(dynamic.index, Tile)
    rows = dynamic.index.codes().reshape(-1)[: tile.shape[0]].astype(np.int64)
    inside = (rows >= 0) & (rows <= dynamic.limit)
    if not skip and not inside.all():
        worst = int(np.argmin(inside))
        raise OutOfBoundsError(
            f"partition {worst} asks for row {rows[worst]}",
            expected=f"0 to {dynamic.limit}",
            got=str(rows[worst]),
            because="address checking is on for gather and scatter: the device stops here",
            hint="clamp the indices, or pass oob_mode=nisa.oob_mode.skip",
        )
    return rows, inside


def gather(tile: Tile, skip: bool) -> tuple[Array, Array]:
    rows, inside = row_numbers(tile, skip)
    return every_row(tile).codes()[np.where(inside, rows, 0)], inside


def scatter(tile: Tile, codes: Array, skip: bool) -> None:
    """Rows that are chosen twice keep what the later partition wrote."""
    rows, inside = row_numbers(tile, skip)
    target = every_row(tile)
    target.codes()[rows[inside]] = codes[inside]
    if target.storage.gaps is not None:
        chosen = np.zeros(target.shape, np.bool_)
        chosen[rows[inside]] = True
        target.mark_written(chosen)
