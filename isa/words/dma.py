"""Operands, rules and costs of DMA transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Annotated

from neuroncore.base.enums import dge_mode, engine, oob_mode
from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    DynamicControlError,
    KernelError,
    OperatorError,
    SignatureError,
)
from neuroncore.clause import cost
from neuroncore.clause.alu import Operator
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import HBM, SBUF, Op, reads
from neuroncore.clause.refusal import Rule
from neuroncore.clause.rules import bits_if_opaque, holds, needs, same_dtype, same_total
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile

READ = reads("", SBUF, *HBM, starts=False, free_dims=None)
WRITTEN = replace(READ, reads=False, writes=True, partial=True, skips=True)
WIDTHS = (2, 4)  # bytes of elements that the DMA engines transpose
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

# the order of axes of a transpose, by the number of axes
ORDERS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
AT_RUN_TIME, PICKED = 1, 2  # values of View.dynamic: an address, and rows that an index chooses
SOFTWARE = (dge_mode.unknown, dge_mode.swdge)
COMMAND = (engine.sync, engine.scalar)
ONE_OF_TWO = ([True, False], [False, True])


def by_hardware(call: Call) -> bool:
    return call["dge_mode"] is dge_mode.hwdge


def picks_rows(call: Call) -> bool:
    return any(view.dynamic == PICKED for view in call.views())


# --- rules ----------------------------------------------------------------------------------------

HARDWARE = needs("hardware_dge", "hardware descriptor generation", "dge_mode", by_hardware)
PRIORITIES = (
    needs("dma_priority", "DMA priorities", "priority", lambda call: call["priority"] is not None),
    holds(
        "priority", "priority must be 0 (first) to 3, or None",
        lambda call: call["priority"] in (None, 0, 1, 2, 3), SignatureError, "0 to 3, or None",
    ),
)  # fmt: skip


def by_software(kind: type[KernelError]) -> Rule:
    return holds(
        "dge_mode", "for a gather or scatter, dge_mode must be unknown or swdge",
        lambda call: call["dge_mode"] in SOFTWARE or not picks_rows(call), kind, "unknown or swdge",
        because="software on the GpSimd engine writes the descriptors of gathers and scatters",
    )  # fmt: skip


COPY = (
    same_total("dst", "src"),
    bits_if_opaque("dst", "src"),
    by_software(BufferKindError),
    holds(
        "engine", "engine is allowed only with dge_mode=hwdge, and must then be sync or scalar",
        lambda call: call["engine"] in (engine.unknown, *(COMMAND if by_hardware(call) else ())),
        BufferKindError, got=lambda call: f"{call['engine']!r} with {call['dge_mode']!r}",
        because="the sync and scalar engines can issue only DMAs with hardware descriptors",
    ),
    HARDWARE,
    same_dtype("src", "dst", "hardware descriptors don't convert formats").when(
        "with dge_mode=hwdge", by_hardware, hint="leave dge_mode out"
    ),
    *PRIORITIES,
)  # fmt: skip


def is_constant(name: str) -> Rule:
    return holds(
        name, f"{name} must have a constant address, unless an index picks rows",
        lambda call: all(view.dynamic != AT_RUN_TIME for view in call.tiles(name).values()),
        DynamicControlError, "a constant address, or rows that a vector offset picks",
        because="descriptors of dma_compute are written before the kernel runs, not at run time",
        hint="first move the data with nisa.dma_copy",
    )  # fmt: skip


COMPUTE = (
    holds(
        "oob_mode",
        "oob_mode must be error, unless an index picks rows",
        lambda call: call["oob_mode"] is oob_mode.error or picks_rows(call),
        SignatureError, "oob_mode.error", because="a constant address is never out of bounds",
    ),
    holds(
        "srcs", "srcs must have 1 to dma_sources tensors (dma_sources is a limit of the machine)",
        lambda call: 0 < len(call["srcs"]) <= call.machine.limits.dma_sources,
        expected=lambda call: f"1 to {call.machine.limits.dma_sources} tensors",
        got=lambda call: len(call["srcs"]),
        statement=lambda call: f"srcs has {len(call['srcs'])} tensors, which is out of range",
    ),
    same_total("dst", "srcs"),
    holds(
        "scales", "scales must be None, or 1.0 for each tensor of srcs",
        lambda call: call["scales"] in (None, (1.0,) * len(call["srcs"])), OperatorError,
        lambda call: f"None or {[1.0] * len(call['srcs'])}",
        because="the DMA engines add, but do not multiply",
        hint="scale the tile with nisa.tensor_scalar when it is in SBUF",
    ),
    is_constant("dst"),
    is_constant("srcs"),
    holds(
        "srcs",
        "if an index picks rows, srcs must have two tensors, and the index must pick rows of "
        "exactly one of them",
        lambda call: not picks_rows(call) or [bool(v.dynamic) for v in call["srcs"]] in ONE_OF_TWO,
        expected="[dst, data[i]] for dst in SBUF, or [dst[i], data] for dst[i] in HBM",
    ),
    holds(
        "dst", "if an index picks rows of srcs but not of dst, dst must be in SBUF",
        lambda call: call.view("dst").region is SBUF or call.view("dst").dynamic
        or not picks_rows(call), BufferKindError, "sbuf",
    ),
    holds(
        "srcs", "if an index picks rows of dst, the other operand must be in SBUF",
        lambda call: call.view("dst").dynamic != PICKED
        or all(view.dynamic or view.region is SBUF for view in call["srcs"]),
        BufferKindError, "the picked rows in hbm, and the other operand in sbuf",
    ),
)  # fmt: skip


def order(call: Call) -> tuple[int, ...]:
    return ORDERS.get(len(call.view("src").shape), ())


def transposed(call: Call) -> tuple[int, ...]:
    return tuple(call.view("src").shape[axis] for axis in order(call))


def at_a_time(call: Call) -> int:
    return call.machine.limits.transposed_rows


def fits_hardware(call: Call) -> bool:
    """Return whether hardware can transpose this shape. The limit of 128 elements along the last
    axis is not checked here: that axis becomes the partitions of dst, whose number is checked
    elsewhere."""
    shape, group = call.view("src").shape, at_a_time(call)
    if len(shape) < 3:
        return shape[:1] == (group,)
    return group % shape[0] == 0 and shape[0] * shape[-2] % group == 0


def hardware_rows(call: Call) -> str:
    axes = len(call.view("src").shape)
    group = at_a_time(call)
    many = f"of axis 0 is 1, 2, 4, 8 or {group}; times the size of axis {axes - 2}, it is a"
    return f"{group} rows" if axes < 3 else f"the size {many} multiple of {group}"


def fits_gathers(call: Call) -> bool:
    shape = call.view("src").shape
    return shape[0] % at_a_time(call) == 0 and (len(shape) != 4 or 1 in shape[1:3])


TRANSPOSE = (
    same_dtype("src", "dst"),
    holds("src", "src must have 2, 3 or 4 axes", order),
    holds(
        "axes", "axes must exchange the first and the last axis, and no others",
        lambda call: call["axes"] in (None, order(call)), expected=order,
        hint="reorder the inner axes with src.permute",
    ),
    holds(
        "dst", "dst must have the shape of src with the first and the last axis exchanged",
        lambda call: call.view("dst").shape == transposed(call) or not order(call),
        expected=transposed,
    ),
    holds(
        "src", "with dge_mode=hwdge, and for a gather, an element of src must have 2 bytes",
        lambda call: call.view("src").dtype.itemsize == 2
        or not (by_hardware(call) or picks_rows(call)),
        DtypeError, "elements of 2 bytes", also="NCC_ISFV902",
    ),
    by_software(SignatureError),
    holds(
        "dge_mode", "dge_mode must not be swdge if src has a constant address",
        lambda call: call["dge_mode"] is not dge_mode.swdge or call.view("src").dynamic,
        SignatureError, "unknown, none or hwdge",
    ),
    holds(
        "oob_mode",
        "oob_mode must be error, unless src has a run-time index",
        lambda call: call["oob_mode"] is oob_mode.error or call.view("src").dynamic,
        SignatureError, "oob_mode.error", because="a constant address is never out of bounds",
    ),
    HARDWARE,
    needs("indirect_transpose", "gathers that transpose", "src", picks_rows),
    holds(
        "src", "with dge_mode=hwdge, a src of two axes must have 16 rows. For more axes, the size "
        "of axis 0 must be 1, 2, 4, 8 or 16; times the size of the second-to-last axis, it must be "
        "a multiple of 16 (ISA)",
        lambda call: fits_hardware(call) or not by_hardware(call),
        expected=hardware_rows, hint="leave dge_mode out",
    ),
    holds(
        "src",
        "for a gather, the size of axis 0 of src must be a multiple of 16; if src has four axes, "
        "axis 1 or axis 2 must have size 1 (ISA)",
        lambda call: fits_gathers(call) or not picks_rows(call),
        expected=lambda call: f"a multiple of {at_a_time(call):,} rows; with four axes, size 1 of "
        "axis 1 or axis 2",
    ),
    *PRIORITIES,
)  # fmt: skip


# --- costs ----------------------------------------------------------------------------------------


def compute_cost(call: Call, machine: Machine) -> cost.Cost:
    """The time of moving each source to dst. Sums get only a share of the bandwidth (ARCH3)."""
    dst = call.view("dst")
    parts = [cost.move(dst, src, machine) for src in call["srcs"]]
    moves = [part.transfer for part in parts if part.transfer is not None]
    first, last = min(m.first for m in moves), max(m.last for m in moves)
    work = sum(m.ns * (m.last - m.first + 1) for m in moves)
    time = work / (last - first + 1) / machine.dma.accumulate
    software = any(m.software for m in moves)
    transfer = cost.Transfer(first, last, time, moves[0].store, software)
    return cost.Cost(max(p.busy_ns for p in parts), parts[0].latency_ns, transfer=transfer)


def transposing_engines(call: Call, machine: Machine) -> list[engine]:
    """Return a list with the one engine on which the older API's compiler transposes. The compiler
    loads 32-bit tiles unchanged, and transposes them on the Tensor engine. The evidence is a
    published kernel for a product: it takes the same time whether its loads or separate
    instructions transpose."""
    return [engine.tensor if call.view("src").dtype.itemsize == 4 else engine.dma]


def product_cost(call: Call, machine: Machine) -> cost.Cost:
    """The time of a load, and of the products that transpose the tile: one for each 128 x 128
    elements, which is the size of the array."""
    unit, side = machine.engines["tensor"], machine.limits.partitions
    blocks = ceil(call.view("src").size / side**2)
    rows = side / unit.rate["transpose_float32"]
    busy = blocks * (unit.overhead_cycles + rows) / unit.clock_ghz
    return cost.Cost(busy, machine.dma.load_latency_ns + unit.latency_ns, rows=blocks * rows)


def transpose_cost(call: Call, machine: Machine) -> cost.Cost:
    """The time of a DMA transfer that gets only a share of the bandwidth (ARCH2). If the older
    API's compiler transposes on the Tensor engine, the cost is `product_cost`."""
    if call.engine is engine.tensor:
        return product_cost(call, machine)
    moved = cost.dma(call, machine)
    in_sbuf = call.view("src").on_chip
    share = machine.dma.transpose_from_sbuf if in_sbuf else machine.dma.transpose_from_hbm
    assert moved.transfer is not None
    return replace(moved, transfer=replace(moved.transfer, ns=moved.transfer.ns / share))
