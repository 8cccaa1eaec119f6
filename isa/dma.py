"""The DMA engines: sixteen engines that move data between HBM and SBUF. On the way they convert
formats, add and transpose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from neuroncore.base.enums import dge_mode, engine, oob_mode
from neuroncore.base.errors import ShapeError
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.alu import Operator, copied, in_steps
from neuroncore.clause.instruction import Fusion, Run, Traits, instruction
from neuroncore.core.core import Core
from neuroncore.core.rows import RowBlock, asked, down_columns, put
from neuroncore.memory.access import long_axes
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec

from .words import dma as words

SKIP = oob_mode.skip


@instruction(
    engine.dma,
    engine.sync,
    engine.scalar,
    cost=cost.dma,
    choose=lambda call, machine: engine.dma,
    rules=words.COPY,
    opcode="DMA_DIRECT2D",
    removed="unique_indices",
    traits=Traits(casts=True, copies=True),
)
def dma_copy(
    dst: words.Moved,
    src: words.Source,
    priority: words.Priority = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    *,
    core: Core,
) -> Run:
    """dst = src, element by element in row-major order; different formats are converted through
    float32"""
    if dst.dynamic or src.dynamic:
        return partial(moved_rows, oob_mode is SKIP)
    if dst.held is not src.held:
        return converted
    return moved_few if dst.shape == src.shape and dst.size < codec.LEAST else moved_bits


@instruction(engine.dma, cost=words.compute_cost, rules=words.COMPUTE, traits=Traits(casts=True))
def dma_compute(
    dst: words.Sum,
    srcs: words.Sources,
    reduce_op: words.Add,
    scales: words.Scales = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    *,
    core: Core,
) -> None:
    """dst = srcs[0] + srcs[1] + ..., in float32 from the left

    If an index i chooses rows: dst = dst + data[i], or dst[i] = dst[i] + data. If an index occurs
    twice (unique_indices=False), both sums are added to the same row, one after the other."""
    adds_to_itself(dst, srcs)
    into, *rows = asked_of(core, dst, srcs, oob_mode is SKIP)
    if dst.dynamic and unique_indices:
        report_repeated(core, into)
    for part in into.in_turn(unique_indices):
        codes = dst.rounded(total(reduce_op, dst.shape, [source.values() for source in rows]))
        part.write(codes, next((r.chosen for r in rows if r.chosen is not None), None))


@instruction(
    engine.dma,
    example="src=512 128",
    cost=words.transpose_cost,
    rules=words.TRANSPOSE,
    older_compiler=Fusion(engines=words.transposing_engines),
)
def dma_transpose(
    dst: words.Transposed,
    src: words.Transposable,
    axes: words.Axes = None,
    priority: words.Priority = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    *,
    core: Core,
) -> None:
    """dst[z, x, y, w] = src[w, x, y, z], or dst[y, x, w] = src[w, x, y], or dst[x, w] = src[w, x]

    If src is a gather, its row w is row i[w % P, w // P] of the tensor from which it gathers. i is
    the index, and P is the number of its partitions.
    """
    order = words.ORDERS[len(src.shape)]
    rows = asked(core, "src", src, oob_mode is SKIP, down_columns)
    chosen = None if rows.chosen is None else rows.chosen.transpose(order)
    put(dst, rows.codes().transpose(order), chosen)


def moved_bits(core: Core, dst: Tile, src: Tile) -> None:
    put(dst, src.codes())


def moved_few(core: Core, dst: Tile, src: Tile) -> None:
    """Copy a tile with so few elements that their layout does not affect the time."""
    dst.codes()[...] = src.codes()
    if dst.storage.gaps is not None:
        dst.mark_written()


def converted(core: Core, dst: Tile, src: Tile) -> None:
    if not numeric.decoded(dst, src):
        put(dst, dst.encoded(src, src.codes()))
    elif dst.storage.gaps is not None:
        dst.mark_written()


for _run in (moved_bits, moved_few, converted):
    in_steps(_run, copied)


def moved_rows(skip: bool, core: Core, dst: Tile, src: Tile) -> None:
    into, rows = asked(core, "dst", dst, skip), asked(core, "src", src, skip)
    gathers = src.dynamic and not dst.dynamic and rows.chosen is None
    if gathers and dst.held is src.held and dst.shape == src.shape:
        rows.codes(dst.codes())
        dst.mark_written()
    else:
        into.write(dst.encoded(src, rows.codes()), rows.chosen)


def asked_of(core: Core, dst: Tile, srcs: Sequence[Tile], skip: bool) -> list[RowBlock]:
    """Return the RowBlock of dst, and then the RowBlock of each source. Raises OutOfBoundsError if
    an index selects rows that don't exist, unless `skip` is true."""
    sources = (asked(core, "srcs", src, skip) for src in srcs)
    return [asked(core, "dst", dst, skip), *sources]


def total(op: Operator, shape: tuple[int, ...], values: Sequence[Array]) -> Array:
    first, *rest = (numeric.shaped(v, shape) for v in values)
    result = np.array(first)
    for term in rest:
        op.apply(result, term, result)
    return result


def adds_to_itself(dst: Tile, srcs: Sequence[Tile]) -> None:
    """Raise ShapeError if an index chooses rows at run time and none of the sources is the
    destination."""
    if not any(tile.dynamic for tile in (dst, *srcs)) or any(same_place(dst, s) for s in srcs):
        return
    raise ShapeError(
        "dma_compute: dst must be one of srcs if an index chooses rows",
        argument="srcs",
        expected=repr(dst),
        got=", ".join(map(repr, srcs)),
        because="if an index chooses rows at run time, dma_compute can only add to dst",
    )


def same_place(a: Tile, b: Tile) -> bool:
    """Return whether two tiles have the same elements. If an index chooses the elements of one, the
    same index must choose the elements of the other."""

    def place(tile: Tile) -> Any:
        steps = long_axes(tile.shape, tile.strides)
        return tile.storage, tile.offset, tile.shape, steps, tile.dtype

    i, j = (t.dynamic[0].index if t.dynamic else None for t in (a, b))
    same_index = i is j or (isinstance(i, Tile) and isinstance(j, Tile) and place(i) == place(j))
    return bool(place(a) == place(b)) and same_index


def report_repeated(core: Core, rows: RowBlock) -> None:
    """Report a row that is written twice although the kernel promises unique indices: one of the
    sums is lost."""
    repeated = rows.repeated()
    if len(repeated):
        core.report(
            "REPEATED_INDEX",
            f"dma_compute adds to row {repeated[0]} more than once, though unique_indices=True; "
            "only one of the additions will remain",
        )
