"""The DMA engines: sixteen movers between HBM and SBUF, which convert formats on the way."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Annotated

import numpy as np

from neuroncore.clause import cost
from neuroncore.clause.instruction import Call, Fusion, instruction
from neuroncore.clause.operand import HBM, SBUF, Operand, Static
from neuroncore.clause.rules import bits_if_opaque, same_total
from neuroncore.core.core import Core
from neuroncore.enums import dge_mode, engine, oob_mode
from neuroncore.errors import (
    BufferKindError,
    DtypeError,
    KernelError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    TargetError,
)
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile

SKIP = oob_mode.skip
READ = Operand(reads=True, regions=(SBUF, *HBM), starts=False, free_dims=None)
WRITTEN = replace(READ, reads=False, writes=True, partial=True)
Destination = Annotated[Tile, WRITTEN]


def descriptors(call: Call, machine: Machine) -> KernelError | None:
    """What each way to generate descriptors can't do (ISA, DGE guide)."""
    dst, src = call.view("dst"), call.view("src")
    if 2 in (dst.dynamic, src.dynamic) and call["dge_mode"] in (dge_mode.hwdge, dge_mode.none):
        return BufferKindError(
            f"{call.name}: a gather or scatter can't have dge_mode={call['dge_mode'].name}",
            argument="dge_mode",
            expected="swdge or unknown",
            got=call["dge_mode"].name,
            because="the GpSimd engine's software writes its descriptors",
        )
    if call["dge_mode"] is not dge_mode.hwdge:
        return _no_sequencer(call)
    if call["engine"] not in (engine.unknown, engine.sync, engine.scalar):
        return BufferKindError(
            f"{call.name}: the {call['engine'].name} engine commands no hardware descriptors",
            argument="engine",
            expected="sync or scalar",
            got=call["engine"].name,
        )
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
    return None


def _no_sequencer(call: Call) -> KernelError | None:
    if call["engine"] is engine.unknown:
        return None
    return BufferKindError(
        f"{call.name}: engine= goes with dge_mode=hwdge only",
        argument="engine",
        because="other transfers aren't issued by an engine's sequencer",
    )


def priority_classes(call: Call, machine: Machine) -> KernelError | None:
    priority = call["priority"]
    if priority is None:
        return None
    if not machine.has("dma_priority"):
        return TargetError(
            f"{call.name}: {machine.name} has no DMA priorities",
            argument="priority",
            expected="a machine with dma_priority",
            got=f"{machine.name} ({machine.generation})",
        )
    if type(priority) is int and 0 <= priority < 4:
        return None
    return SignatureError(
        f"{call.name}: there is no priority {priority!r}",
        argument="priority",
        expected="0 (first) to 3",
        got=repr(priority),
    )


def is_load(call: Call) -> bool:
    return call.view("dst").on_chip and not call.view("src").on_chip


@instruction(
    engine.dma,
    engine.sync,
    engine.scalar,
    cost=cost.dma,
    choose=lambda call, machine: engine.dma,
    rules=[same_total("dst", "src"), bits_if_opaque("dst", "src"), descriptors, priority_classes],
    opcode="DMA_DIRECT2D",
    older_compiler=Fusion(once=is_load),
)
def dma_copy(
    dst: Annotated[Tile, replace(WRITTEN, moved=True)],
    src: Annotated[Tile, replace(READ, moved=True)],
    priority: Annotated[int | None, Static()] = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    *,
    core: Core,
) -> None:
    """dst = src, element by element in row-major order; formats convert through float32"""
    skip = oob_mode is SKIP
    if not src.dynamic and not dst.dynamic:
        put(dst, dst.encoded(src, src.codes()))
        return
    rows = row_numbers(dst, "dst", skip) if dst.dynamic else None
    codes, inside = gather(core, src, skip) if src.dynamic else (src.codes(), None)
    codes = dst.encoded(src, codes)
    chosen = None
    if inside is not None and not inside.all():
        chosen = np.zeros(codes.shape, np.bool_)
        chosen[inside] = True
        chosen = chosen.reshape(dst.shape)
    if rows is not None:
        scatter(dst, codes.reshape(dst.shape), *rows, chosen)
    elif chosen is None:
        put(dst, codes)
    else:
        dst.codes()[chosen] = codes.reshape(dst.shape)[chosen]
        dst.mark_written(chosen)


def put(dst: Tile, codes: Array) -> None:
    target = dst.codes()
    target[...] = codes if codes.shape == target.shape else codes.reshape(target.shape)
    dst.mark_written()


def every_row(tile: Tile) -> Tile:
    """The rows that a vector offset can choose from, as axis 0."""
    (dynamic,) = tile.dynamic
    shape = (dynamic.limit + 1, *tile.shape[1:])
    return tile.window(shape, (dynamic.step, *tile.strides[1:]), tile.offset, dynamic=())


def row_numbers(tile: Tile, name: str, skip: bool) -> tuple[Array, Array]:
    """The row that each partition asks for, and whether there is such a row.

    Raises OutOfBoundsError where there is not, unless those are skipped.
    """
    (dynamic,) = tile.dynamic
    index = dynamic.index
    assert isinstance(index, Tile)
    if index.free_size != 1 or index.shape[0] < tile.shape[0]:
        raise ShapeError(
            f"the index of {name} has shape {index.shape}",
            argument=name,
            expected=f"({tile.shape[0]}, 1)",
            got=repr(index),
            because="each partition takes one row number",
        )
    return existing(tile, name, index.codes().reshape(-1)[: tile.shape[0]], skip)


def existing(tile: Tile, name: str, numbers: Array, skip: bool) -> tuple[Array, Array]:
    """Row numbers as integers, and which of them the tile has. Raises OutOfBoundsError as above."""
    (dynamic,) = tile.dynamic
    rows = numbers.astype(np.int64)
    inside = (rows >= 0) & (rows <= dynamic.limit)
    if not skip and not inside.all():
        worst = int(np.argmin(inside))
        raise OutOfBoundsError(
            f"partition {worst} of {name} asks for row {rows[worst]}",
            argument=name,
            expected=f"0 to {dynamic.limit}",
            got=str(rows[worst]),
            because="address checking is on for gather and scatter: the device stops here",
            hint="clamp the indices, or pass oob_mode=nisa.oob_mode.skip",
            also=f"index {rows[worst] * dynamic.step} is out of bounds for axis 0 with size "
            f"{prod(tile.storage.shape)}",
        )
    return rows, inside


def gather(core: Core, tile: Tile, skip: bool) -> tuple[Array, Array]:
    rows, inside = row_numbers(tile, "src", skip)
    return fetched(core, tile, "src", rows, inside), inside


def fetched(core: Core, tile: Tile, name: str, rows: Array, inside: Array) -> Array:
    """The rows that are asked for, some row where there is no such row."""
    table = every_row(tile)
    if table.storage.gaps is not None:
        core.check_written(name, table, rows[inside])
    codes: Array = table.codes()[np.where(inside, rows, 0)]
    return codes


def scatter(tile: Tile, codes: Array, rows: Array, inside: Array, chosen: Array | None) -> None:
    """Rows that are asked for twice keep what the later partition wrote. `chosen` elements only,
    if given."""
    table = every_row(tile)
    rows, codes = rows[inside], codes[inside]
    flags = np.ones(codes.shape, np.bool_) if chosen is None else chosen[inside]
    if chosen is None:
        table.codes()[rows] = codes
    else:
        for row, values, kept in zip(rows, codes, flags, strict=True):
            table.codes()[row, ...][kept] = values[kept]
    if table.storage.gaps is not None:
        written = np.zeros(table.shape, np.bool_)
        np.logical_or.at(written, rows, flags)
        table.mark_written(written)
