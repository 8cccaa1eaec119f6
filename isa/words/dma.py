"""Operands, rules and costs of transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Annotated

from neuroncore.clause import (
    HBM,
    SBUF,
    Call,
    Fault,
    Immediate,
    Op,
    Operand,
    Operator,
    Rule,
    View,
    cost,
    fault,
    rule,
)
from neuroncore.clause.rules import (
    bits_if_opaque,
    holds,
    needs,
    same_dtype,
    same_total,
)
from neuroncore.core.rows import GROUP
from neuroncore.enums import dge_mode, engine, oob_mode
from neuroncore.errors import (
    BufferKindError,
    DtypeError,
    DynamicControlError,
    KernelError,
    OperatorError,
    SignatureError,
)
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile

READ = Operand(reads=True, regions=(SBUF, *HBM), starts=False, free_dims=None)
WRITTEN = replace(READ, reads=False, writes=True, partial=True)
WIDTHS = (2, 4)  # bytes that the engines exchange
Source = Annotated[Tile, replace(READ, moved=True)]
Moved = Annotated[Tile, replace(WRITTEN, moved=True)]
Sources = Annotated[Sequence[Tile], replace(READ, many=True)]
Sum = Annotated[Tile, WRITTEN]
Transposable = Annotated[Tile, replace(READ, moved=True, widths=WIDTHS)]
Transposed = Annotated[Tile, replace(WRITTEN, regions=(SBUF,), moved=True, widths=WIDTHS)]

Add = Annotated[Operator, Op(names=("add",))]
Scales = Annotated[tuple[float, ...] | None, Immediate(float, depth=1, optional=True, keyed=True)]
Axes = Annotated[tuple[int, ...] | None, Immediate(int, depth=1, optional=True, keyed=True)]
Priority = Annotated[int | None, Immediate(int, optional=True, keyed=True)]

ORDERS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}  # of transposes, by the number of axes
PICKED = 2  # View.dynamic of rows that an index picks
ADDRESSES = ("a static address", "a run-time address", "a gather or scatter")
ANY, SOFTWARE = tuple(dge_mode), (dge_mode.unknown, dge_mode.swdge)


def is_load(call: Call) -> bool:
    return call.view("dst").on_chip and not call.view("src").on_chip


def by_hardware(call: Call) -> bool:
    return call["dge_mode"] is dge_mode.hwdge


def picks_rows(call: Call) -> bool:
    return any(view.dynamic == PICKED for view in call.views())


# --- descriptors ----------------------------------------------------------------------------------


def descriptors(kind: type[KernelError], static: tuple[dge_mode, ...], *names: str) -> Rule:
    """Who may write them, by the kind of address (DGE guide)."""
    modes = (static, ANY, SOFTWARE)

    @rule(kind, "software writes the descriptors of a gather or scatter (dge_mode)")
    def check(call: Call, machine: Machine) -> Fault | None:
        mode, dynamic = call["dge_mode"], max(view.dynamic for view in call.views(*names))
        if mode in modes[dynamic]:
            return None
        expected = " or ".join(m.name for m in modes[dynamic])
        because = "the GpSimd engine's software writes its descriptors" if dynamic else None
        said = f"{ADDRESSES[dynamic]} can't have dge_mode={mode.name}"
        return fault("dge_mode", said, expected, mode.name, because=because)

    return check


@rule(BufferKindError, because="an engine's sequencer commands hardware descriptors only")
def commanding_engine(call: Call, machine: Machine) -> Fault | None:
    """engine= is sync or scalar, and goes with dge_mode=hwdge only"""
    asked, mode = call["engine"], call["dge_mode"]
    if asked is engine.unknown or (by_hardware(call) and asked in (engine.sync, engine.scalar)):
        return None
    said = f"engine={asked.name} doesn't go with dge_mode={mode.name}"
    return fault("engine", said, "sync or scalar with dge_mode=hwdge, or none", asked.name)


PRIORITIES = (
    needs("dma_priority", "DMA priorities", "priority", lambda call: call["priority"] is not None),
    holds(
        "priority", "priority is 0 (first) to 3, or None",
        lambda call: call["priority"] in (None, 0, 1, 2, 3), SignatureError, "0 (first) to 3",
    ),
)  # fmt: skip
HARDWARE = needs("hardware_dge", "hardware descriptor generation", "dge_mode", by_hardware)
COPY = (
    same_total("dst", "src"),
    bits_if_opaque("dst", "src"),
    descriptors(BufferKindError, ANY, "dst", "src"),
    commanding_engine,
    HARDWARE,
    same_dtype("src", "dst").when(
        "with dge_mode=hwdge",
        by_hardware,
        because="hardware descriptors don't convert",
        hint="leave dge_mode out",
    ),
    *PRIORITIES,
)


# --- sums -----------------------------------------------------------------------------------------


@rule()
def number_of_sources(call: Call, machine: Machine) -> Fault | None:
    """srcs lists 1 to dma_sources tensors"""
    count, most = len(call["srcs"]), machine.limits.dma_sources
    if 0 < count <= most:
        return None
    return fault("srcs", f"srcs lists {count} tensors", f"1 to {most}", count)


@rule(
    OperatorError,
    because="the engines add but don't multiply",
    hint="scale with nisa.tensor_scalar once the tile is in SBUF",
)
def scales_of_one(call: Call, machine: Machine) -> Fault | None:
    """scales is None, or 1.0 for each of srcs"""
    scales, count = call["scales"], len(call["srcs"])
    if scales in (None, (1.0,) * count):
        return None
    return fault("scales", f"scales is {scales}", f"None, or {count} times 1.0", scales)


@rule(
    DynamicControlError,
    because="its descriptors are written before the kernel runs",
    hint="move the data with nisa.dma_copy first",
)
def no_registers(call: Call, machine: Machine) -> Fault | None:
    """addresses are constant, or rows that an index picks"""
    names = [name for name, view in call.tiles("dst", "srcs").items() if view.dynamic == 1]
    if not names:
        return None
    said = f"the address of {names[0]} is known only at run time"
    expected = "a constant address, or rows picked by a vector offset"
    return fault("dst" if "dst" in names else "srcs", said, expected)


@rule()
def adds_to_rows(call: Call, machine: Machine) -> Fault | None:
    """rows picked at run time take two sources, one of them dst itself"""
    srcs = call["srcs"]
    picked = [view for view in srcs if view.dynamic]
    if not picks_rows(call) or (len(srcs) == 2 and len(picked) == 1):
        return None
    expected = "[dst, data[i]] into SBUF, or [dst[i], data] into dst[i] in HBM"
    got = ", ".join(f"{s}{' picked' if s.dynamic else ''}" for s in srcs)
    said = f"{len(srcs)} sources, {len(picked)} of them picked at run time"
    return fault("srcs", said, expected, got)


@rule(BufferKindError)
def meets_in_sbuf(call: Call, machine: Machine) -> Fault | None:
    """rows picked at run time are in HBM, and what they meet is in SBUF"""
    tiles = call.tiles("dst", "srcs")
    fixed = next((name for name, view in tiles.items() if not view.dynamic), None)
    if not picks_rows(call) or fixed is None or tiles[fixed].region is SBUF:
        return None
    return fault(fixed.partition("[")[0], f"{fixed} is not in SBUF", "sbuf", tiles[fixed])


COMPUTE = (
    number_of_sources,
    same_total("dst", "srcs"),
    scales_of_one,
    no_registers,
    holds(
        "unique_indices", "unique_indices must be True where rows are picked at run time",
        lambda call: call["unique_indices"] is True or not picks_rows(call), SignatureError, "True",
        because="rows that are asked for twice would be read before both sums are written",
    ),
    adds_to_rows,
    meets_in_sbuf,
)  # fmt: skip


def compute_cost(call: Call, machine: Machine) -> cost.Cost:
    """Every source is moved; sums get a share of the bandwidth (ARCH3)."""
    dst = call.view("dst")
    parts = [cost.move(dst, src, machine) for src in call["srcs"]]
    moves = [part.transfer for part in parts if part.transfer is not None]
    first, last = min(m.first for m in moves), max(m.last for m in moves)
    work = sum(m.ns * (m.last - m.first + 1) for m in moves)
    each = work / (last - first + 1) / machine.dma.accumulate
    software = any(m.software for m in moves)
    transfer = cost.Transfer(first, last, each, moves[0].store, software)
    return cost.Cost(max(p.busy_ns for p in parts), parts[0].latency_ns, transfer=transfer)


# --- transposes -----------------------------------------------------------------------------------


@rule()
def exchanged_axes(call: Call, machine: Machine) -> Fault | None:
    """the axes of dst are those of src in the order (1, 0), (2, 1, 0) or (3, 1, 2, 0)"""
    dst, src, axes = call.view("dst"), call.view("src"), call["axes"]
    order = ORDERS.get(len(src.shape))
    if order is None:
        return fault("src", f"src has {len(src.shape)} axes", "2, 3 or 4 axes")
    if axes not in (None, order):
        said = f"{len(src.shape)} axes can't go in the order {axes}"
        because = "the engines exchange the first axis and the last"
        hint = "reorder the axes between them with src.permute"
        return fault("axes", said, order, axes, because=because, hint=hint)
    wanted = tuple(src.shape[axis] for axis in order)
    if dst.shape == wanted:
        return None
    because = f"axis i of dst is axis {order}[i] of src"
    said = f"dst ({dst}) is not the transpose of src ({src})"
    return fault("dst", said, wanted, dst.shape, because=because)


@rule(because=f"descriptors made at run time transpose {GROUP} rows at a time")
def whole_groups(call: Call, machine: Machine) -> Fault | None:
    """descriptors made at run time take 16 rows at a time: of hardware 16, or of more than two axes
    1, 2, 4, 8 or 16 along the first, 16k together with the last but one; of a gather 16k, and 1
    along axis 1 or 2 of four (ISA)"""
    src = call.view("src")
    wanted = _for_hardware(src.shape) if by_hardware(call) else _for_gathers(src)
    if wanted is None:
        return None
    hint = "leave dge_mode out" if by_hardware(call) else None
    return fault("src", f"src ({src}) does not fit its descriptors", wanted, src.shape, hint=hint)


def _for_hardware(shape: tuple[int, ...]) -> str | None:
    """What there should be, of what is wrong. At most 128 along the last axis follow from dst."""
    if len(shape) < 3:
        return None if shape[:1] == (GROUP,) else f"{GROUP} rows"
    if shape[0] not in (1, 2, 4, 8, GROUP):
        return f"1, 2, 4, 8 or {GROUP} along axis 0"
    if shape[0] * shape[-2] % GROUP:
        return f"a multiple of {GROUP} rows along axes 0 and {len(shape) - 2} together"
    return None


def _for_gathers(src: View) -> str | None:
    if src.dynamic == PICKED and src.shape[0] % GROUP:
        return f"a multiple of {GROUP} rows"
    if src.dynamic == PICKED and len(src.shape) == 4 and 1 not in src.shape[1:3]:
        return "1 along axis 1 or 2"
    return None


def two_bytes(call: Call) -> bool:
    return call.view("src").dtype.itemsize == 2 or not (by_hardware(call) or picks_rows(call))


TRANSPOSE = (
    same_dtype("src", "dst"),
    exchanged_axes,
    holds(
        "src", "src has units of 2 bytes for hardware descriptors and gathers", two_bytes,
        DtypeError, "2 bytes", also="NCC_ISFV902",
    ),
    descriptors(SignatureError, (dge_mode.unknown, dge_mode.none, dge_mode.hwdge), "src"),
    holds(
        "oob_mode", "oob_mode is error where src has a static address: nothing is out of bounds",
        lambda call: call["oob_mode"] is oob_mode.error or call.view("src").dynamic,
        SignatureError, "oob_mode.error, or a run-time index into src",
    ),
    HARDWARE,
    needs("indirect_transpose", "gathers that transpose", "src", picks_rows),
    whole_groups,
    *PRIORITIES,
)  # fmt: skip


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
