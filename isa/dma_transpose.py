"""Transposes by the DMA engines, which may gather the rows first."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Annotated

import numpy as np

from neuroncore.clause import cost
from neuroncore.clause.instruction import Call, Fusion, instruction, require
from neuroncore.clause.operand import SBUF, Static, View
from neuroncore.clause.rules import same_dtype
from neuroncore.core.core import Core
from neuroncore.enums import dge_mode, engine, oob_mode
from neuroncore.errors import DtypeError, KernelError, ShapeError, SignatureError, TargetError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import uint32

from .dma import READ, SKIP, WRITTEN, existing, fetched, priority_classes, put

WIDTHS = (2, 4)  # bytes that the engines exchange
MovedIn = Annotated[Tile, replace(READ, moved=True, widths=WIDTHS)]
MovedOut = Annotated[Tile, replace(WRITTEN, regions=(SBUF,), moved=True, widths=WIDTHS)]

ORDERS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}  # by the number of axes
GROUP = 16  # rows that hardware and software descriptors transpose at a time


def shapes(call: Call, machine: Machine) -> KernelError | None:
    dst, src, axes = call.view("dst"), call.view("src"), call["axes"]
    order = ORDERS.get(len(src.shape))
    if order is None:
        return ShapeError(
            f"dma_transpose: src has {len(src.shape)} axes",
            argument="src",
            expected="2, 3 or 4 axes",
            got=str(src),
        )
    if axes not in (None, order):
        return ShapeError(
            f"dma_transpose: {len(src.shape)} axes can't go in the order {axes}",
            argument="axes",
            expected=str(order),
            got=str(axes),
            because="the engines exchange the first axis and the last",
            hint="reorder the axes between them with src.permute",
        )
    wanted = tuple(src.shape[axis] for axis in order)
    if dst.shape == wanted:
        return None
    return ShapeError(
        f"dma_transpose: dst ({dst}) is not the transpose of src ({src})",
        argument="dst",
        expected=str(wanted),
        got=str(dst.shape),
        because=f"axis i of dst is axis {order}[i] of src",
    )


def widths(call: Call, machine: Machine) -> KernelError | None:
    src = call.view("src")
    direct = call["dge_mode"] is not dge_mode.hwdge and src.dynamic != 2
    if direct or src.dtype.itemsize == 2:
        return None
    return DtypeError(
        f"dma_transpose: src has elements of {src.dtype.itemsize} bytes",
        argument="src",
        expected="2 bytes",
        got=str(src),
        because="hardware descriptors and gathers exchange units of 2 bytes",
        also="NCC_ISFV902",
    )


MODES = {
    0: (dge_mode.unknown, dge_mode.none, dge_mode.hwdge),
    1: tuple(dge_mode),
    2: (dge_mode.unknown, dge_mode.swdge),
}


def descriptor_mode(call: Call, machine: Machine) -> KernelError | None:
    """Who may write the descriptors, by the kind of the source's address (DGE guide)."""
    mode, src = call["dge_mode"], call.view("src")
    if mode not in MODES[src.dynamic]:
        kinds = ("a static address", "a run-time address", "a gather")
        return SignatureError(
            f"dma_transpose: dge_mode.{mode.name} does not go with {kinds[src.dynamic]}",
            argument="dge_mode",
            expected=" or ".join(m.name for m in MODES[src.dynamic]),
            got=mode.name,
        )
    if call["oob_mode"] is oob_mode.skip and not src.dynamic:
        return SignatureError(
            "dma_transpose: nothing can be out of bounds where src has a static address",
            argument="oob_mode",
            expected="oob_mode.error, or a run-time index into src",
            got="skip",
        )
    if mode is dge_mode.hwdge and not machine.has("hardware_dge"):
        return _missing("hardware descriptor generation", "hardware_dge", "dge_mode", machine)
    if src.dynamic == 2 and not machine.has("indirect_transpose"):
        return _missing("gathers that transpose", "indirect_transpose", "src", machine)
    return None


def _missing(what: str, feature: str, argument: str, machine: Machine) -> KernelError:
    return TargetError(
        f"dma_transpose: {machine.name} has no {what}",
        argument=argument,
        expected=f"a machine with {feature}",
        got=f"{machine.name} ({machine.generation})",
    )


def descriptor_shapes(call: Call, machine: Machine) -> KernelError | None:
    """What descriptors made at run time can express (ISA). That the last axis has at most 128
    elements follows from the partitions of dst."""
    src = call.view("src")
    if call["dge_mode"] is dge_mode.hwdge:
        wanted = _hardware_shape(src)
    elif src.dynamic == 2:
        wanted = _gather_shape(src)
    else:
        return None
    if wanted is None:
        return None
    return ShapeError(
        f"dma_transpose: src ({src}) does not fit its descriptors",
        argument="src",
        expected=wanted,
        got=str(src.shape),
        because=f"descriptors made at run time transpose {GROUP} rows at a time",
        hint="leave dge_mode out" if src.dynamic != 2 else None,
    )


def _hardware_shape(src: View) -> str | None:
    """What is wrong for hardware descriptors, as what there should be."""
    rows = src.shape[0]
    if len(src.shape) == 2:
        return None if rows == GROUP else f"{GROUP} rows"
    if rows not in (1, 2, 4, 8, GROUP):
        return f"1, 2, 4, 8 or {GROUP} along axis 0"
    if rows * src.shape[-2] % GROUP:
        return f"a multiple of {GROUP} rows along axes 0 and {len(src.shape) - 2} together"
    return None


def _gather_shape(src: View) -> str | None:
    if src.shape[0] % GROUP:
        return f"a multiple of {GROUP} rows"
    if len(src.shape) == 4 and 1 not in src.shape[1:3]:
        return "1 along axis 1 or 2"
    return None


def gathered_rows(src: Tile, machine: Machine) -> Array:
    """The numbers of the rows of `src`: down the first column of the index, then the next."""
    index, whole = src.dynamic[0].index, machine.limits.partitions
    assert isinstance(index, Tile)
    partitions, columns = index.shape[0], index.free_size
    legal = (
        index.dtype is uint32
        and len(index.shape) == 2
        and partitions % GROUP == 0
        and (columns == 1 or partitions == whole)
        and partitions * columns >= src.shape[0]
    )
    require(
        legal,
        f"dma_transpose can't take its rows from the index {index!r}",
        argument="src",
        expected=f"uint32, ({GROUP}k, 1) or ({whole}, k), and at least {src.shape[0]} of them",
        got=f"{index.shape} {index.dtype}",
    )
    rows: Array = index.codes().T.reshape(-1)[: src.shape[0]]
    return rows


def made_by(call: Call) -> list[engine]:
    """The older compiler loads 32-bit tiles as they are and transposes them on the Tensor engine: a
    published product that leaves transposes to loads takes as long as one that makes them itself.
    """
    return [engine.tensor if call.view("src").dtype.itemsize == 4 else engine.dma]


def product_cost(call: Call, machine: Machine) -> cost.Cost:
    """A load and then a product for each block that fills the array."""
    unit, side = machine.engines["tensor"], machine.limits.partitions
    blocks = ceil(call.view("src").size / side**2)
    cycles = blocks * (unit.overhead_cycles + side / unit.rate["transpose_float32"])
    return cost.Cost(cycles / unit.clock_ghz, machine.dma.load_latency_ns + unit.latency_ns)


def transpose_cost(call: Call, machine: Machine) -> cost.Cost:
    """A transpose gets a share of the bandwidth, and its engines to itself (ARCH2)."""
    if call.engine is engine.tensor:
        return product_cost(call, machine)
    found = cost.dma(call, machine)
    in_sbuf = call.view("src").on_chip
    share = machine.dma.transpose_from_sbuf if in_sbuf else machine.dma.transpose_from_hbm
    assert found.transfer is not None
    taken = found.transfer.ns / share + machine.dma.transpose_ns
    return replace(found, transfer=replace(found.transfer, ns=taken))


@instruction(
    engine.dma,
    cost=transpose_cost,
    rules=[
        same_dtype("src", "dst"),
        shapes,
        widths,
        descriptor_mode,
        descriptor_shapes,
        priority_classes,
    ],
    older_compiler=Fusion(engines=made_by),
)
def dma_transpose(
    dst: MovedOut,
    src: MovedIn,
    axes: Annotated[tuple[int, ...] | None, Static(sequence=True)] = None,
    priority: Annotated[int | None, Static()] = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    *,
    core: Core,
) -> None:
    """dst[z, x, y, w] = src[w, x, y, z], or dst[y, x, w] = src[w, x, y], or dst[x, w] = src[w, x]

    Where src is a gather, row w is row i[w % P, w // P] of the tensor under it, i its index of P
    partitions.
    """
    order = ORDERS[len(src.shape)]
    if not src.dynamic:
        put(dst, src.codes().transpose(order))
        return
    rows, inside = existing(src, "src", gathered_rows(src, core.machine), oob_mode is SKIP)
    codes = fetched(core, src, "src", rows, inside).transpose(order)
    if inside.all():
        put(dst, codes)
        return
    dst.codes()[..., inside] = codes[..., inside]
    chosen = np.zeros(dst.shape, np.bool_)
    chosen[..., inside] = True
    dst.mark_written(chosen)
