"""Sums by the DMA engines, on the way from one memory to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.arithmetic import Operator
from neuroncore.clause.instruction import Call, instruction, require
from neuroncore.clause.operand import HBM, SBUF, Op, Operand, Static, View
from neuroncore.core.core import Core
from neuroncore.enums import engine, oob_mode
from neuroncore.errors import (
    BufferKindError,
    DynamicControlError,
    KernelError,
    OperatorError,
    ShapeError,
    SignatureError,
)
from neuroncore.machine import Machine
from neuroncore.memory.access import long_axes
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec

from .dma import SKIP, Destination, fetched, row_numbers, scatter

Sources = Annotated[
    Sequence[Tile],
    Operand(reads=True, many=True, regions=(SBUF, *HBM), starts=False, free_dims=None),
]
GATHER = 2  # View.dynamic of a vector offset


def sources(call: Call, machine: Machine) -> KernelError | None:
    """One to sixteen, each with as many elements as the sum."""
    dst, srcs, most = call.view("dst"), call["srcs"], machine.limits.dma_sources
    if not 0 < len(srcs) <= most:
        return ShapeError(
            f"dma_compute: srcs lists {len(srcs)} tensors",
            argument="srcs",
            expected=f"1 to {most}",
            got=str(len(srcs)),
        )
    for i, src in enumerate(srcs):
        if src.size != dst.size:
            return ShapeError(
                f"dma_compute: srcs[{i}] has {src.size} elements, dst has {dst.size}",
                argument="srcs",
                expected=f"{dst.size} elements ({dst})",
                got=f"{src.size} elements ({src})",
                because="the sum is taken element by element",
            )
    return None


def scales_of_one(call: Call, machine: Machine) -> KernelError | None:
    scales, count = call["scales"], len(call["srcs"])
    if scales is None or (isinstance(scales, tuple) and scales == (1.0,) * count):
        return None
    return OperatorError(
        f"dma_compute: scales is {scales}",
        argument="scales",
        expected=f"None, or {count} times 1.0",
        got=str(scales),
        because="the engines add but don't multiply",
        hint="scale with nisa.tensor_scalar once the tile is in SBUF",
    )


def indirect(call: Call, machine: Machine) -> KernelError | None:
    """Rows picked at run time: dst = dst + src[i], or dst[i] = dst[i] + src (ISA)."""
    dst, srcs = call.view("dst"), call["srcs"]
    kinds = [dst.dynamic, *(src.dynamic for src in srcs)]
    if 1 in kinds:
        return DynamicControlError(
            "dma_compute: an address that is known only at run time",
            argument="srcs" if dst.dynamic != 1 else "dst",
            expected="a constant address, or rows picked by a vector offset",
            because="its descriptors are written before the kernel runs",
            hint="move the data with nisa.dma_copy first",
        )
    if GATHER not in kinds:
        return None
    if call["unique_indices"] is not True:
        return SignatureError(
            "dma_compute: unique_indices must be True",
            argument="unique_indices",
            got=repr(call["unique_indices"]),
            because="rows that are asked for twice would be read before both sums are written",
        )
    if len(srcs) == 2 and kinds.count(GATHER) == 1 + (dst.dynamic == GATHER):
        return _memories(dst, srcs)
    return ShapeError(
        "dma_compute: rows picked at run time take two sources, one of them dst itself",
        argument="srcs",
        expected="[dst, data[i]] into SBUF, or [dst[i], data] into dst[i] in HBM",
        got=", ".join(f"{s}{' picked' if s.dynamic else ''}" for s in srcs),
    )


def _memories(dst: View, srcs: tuple[View, ...]) -> KernelError | None:
    fixed = dst if not dst.dynamic else next(src for src in srcs if not src.dynamic)
    if fixed.region is SBUF:
        return None
    return BufferKindError(
        f"dma_compute: {'dst' if not dst.dynamic else 'the data to add'} is not in SBUF",
        argument="dst" if not dst.dynamic else "srcs",
        expected="sbuf",
        got=str(fixed),
        because="rows picked at run time are in HBM, what they meet is in SBUF",
    )


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


@instruction(engine.dma, cost=compute_cost, rules=[sources, scales_of_one, indirect])
def dma_compute(
    dst: Destination,
    srcs: Sources,
    reduce_op: Annotated[Operator, Op(names=("add",))],
    scales: Annotated[tuple[float, ...] | None, Static(sequence=True)] = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    *,
    core: Core,
) -> None:
    """dst = srcs[0] + srcs[1] + ..., in float32 from the left

    With rows picked by an index i: dst = dst + data[i], or dst[i] = dst[i] + data.
    """
    picked = next((tile for tile in (dst, *srcs) if tile.dynamic), None)
    if picked is None:
        dst.store(total(reduce_op, dst.shape, [s.values() for s in srcs]))
        dst.mark_written()
        return
    require(
        any(same_place(dst, src) for src in srcs),
        "dma_compute: neither of srcs is dst",
        argument="srcs",
        expected=repr(dst),
        got=", ".join(map(repr, srcs)),
        because="rows picked at run time are added to what is there",
    )
    rows, inside = row_numbers(picked, "dst" if picked is dst else "srcs", oob_mode is SKIP)
    values = [
        codec.decode(src.held, fetched(core, src, "srcs", rows, inside))
        if src.dynamic
        else src.values()
        for src in srcs
    ]
    codes = dst.rounded(total(reduce_op, dst.shape, values))
    if picked is dst:
        report_repeated(core, rows[inside])
        scatter(dst, codes, rows, inside, None)
        return
    chosen = np.broadcast_to(inside.reshape(-1, *[1] * (len(picked.shape) - 1)), picked.shape)
    chosen = chosen.reshape(dst.shape)
    dst.codes()[chosen] = codes[chosen]
    dst.mark_written(chosen)


def total(op: Operator, shape: tuple[int, ...], values: Sequence[Array]) -> Array:
    first, *rest = (numeric.shaped(v, shape) for v in values)
    result = np.array(first)
    for more in rest:
        op.apply(result, more, result)
    return result


def same_place(a: Tile, b: Tile) -> bool:
    """Whether two tiles are the same elements, be they picked by the same index."""

    def place(tile: Tile) -> Any:
        steps = long_axes(tile.shape, tile.strides)
        return tile.storage, tile.offset, tile.shape, steps, tile.dtype

    indices = [t.dynamic[0].index if t.dynamic else None for t in (a, b)]
    i, j = indices
    same_index = i is j or (isinstance(i, Tile) and isinstance(j, Tile) and place(i) == place(j))
    return bool(place(a) == place(b)) and same_index


def report_repeated(core: Core, rows: Array) -> None:
    """A promise that was not kept; one of the sums is lost."""
    numbers, counts = np.unique(rows, return_counts=True)
    if (counts > 1).any():
        core.report(
            "REPEATED_INDEX",
            f"dma_compute adds to row {numbers[counts > 1][0]} more than once, though "
            "unique_indices=True; only one of the sums will be there",
        )
