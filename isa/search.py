"""Instructions that look for elements: the greatest, those equal to given values, those not 0."""

from __future__ import annotations

from operator import index
from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause.cost import Cost, stream, streaming
from neuroncore.clause.instruction import Call, instruction, require
from neuroncore.clause.operand import SBUF, Operand, Out, Static
from neuroncore.clause.rules import same_elements, same_partitions
from neuroncore.core.core import Core
from neuroncore.enums import engine
from neuroncore.errors import (
    DtypeError,
    FreeSizeError,
    KernelError,
    ShapeError,
    SignatureError,
)
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.native.lazy import Lazy
from neuroncore.numerics import codec
from neuroncore.numerics.formats import bfloat16, float32, int32, uint16, uint32

vector, gpsimd = engine.vector, engine.gpsimd
searches: Any = Lazy("neuroncore.native.search")

EIGHT = 8  # values that the lane's registers hold to compare with what streams past
GROUP = 16  # partitions that one processor of the GpSimd engine reaches

Searched = Annotated[Tile, Operand(reads=True, free_dims="search_free_dims")]
Values = Annotated[Tile, Operand(reads=True, free_dims="search_free_dims")]
Indices = Annotated[Tile, Operand(writes=True, dtypes=(uint16, uint32))]
MaybeIndices = Annotated[Tile | None, Operand(writes=True, dtypes=(uint16, uint32), optional=True)]


def whole_number(name: str, value: Any, low: int = -(2**31), high: int = 2**31 - 1) -> int:
    """A parameter that is compiled into the instruction as an integer."""
    try:
        number = index(value)
    except KernelError:  # a register
        raise
    except TypeError:
        raise SignatureError(f"{name} must be an integer", argument=name, got=repr(value)) from None
    require(
        low <= number <= high,
        f"{name} is {number}",
        DtypeError,
        argument=name,
        expected=f"{low} to {high}",
        got=str(number),
    )
    return number


# --- eight at a time ------------------------------------------------------------------------------


def mirrored(codes: Any) -> Any:
    """Signed codes of floats as integers in the same order, +0 above -0; and back again."""
    bits = codes.dtype.itemsize * 8
    return codes ^ ((codes >> (bits - 1)) & np.iinfo(codes.dtype).max)


def ranks(codes: Any, lost: bool = False) -> Any:
    """The same with all NaN at the top, or at the bottom if they are `lost` to numbers. (Where they
    are is unpublished.)"""
    bottom, top = np.iinfo(codes.dtype).min, np.iinfo(codes.dtype).max
    infinity = {2: 0x7F80, 4: 0x7F800000, 8: 0x7FF << 52}[codes.dtype.itemsize]
    found = mirrored(codes)
    found[(codes & top) > infinity] = bottom if lost else top
    return found


def occurrences(data: Tile, vals: Tile, backwards: bool) -> Any:
    found = np.empty((data.shape[0], EIGHT), np.uint32)
    searches.occurrences(numeric.rows(data), numeric.rows(vals), found, backwards)
    return found


@instruction(
    vector,
    shapes="src: P F>=8<=search_free; dst: P 8",
    cost=streaming(),
)
def max8(dst: Out, src: Searched, *, core: Core) -> None:
    """dst[p, i] = the i-th greatest of src[p, :], i = 0...7; equal elements count one by one

    NaN is above everything (unpublished: `Options.nan_minmax`), +0 above -0.
    """
    data = numeric.rows(src)
    codes = data.view(f"i{data.itemsize}")
    found = np.empty((src.shape[0], EIGHT), codes.dtype)
    searches.largest(ranks(codes, core.options.nan_minmax == "number"), found)
    values = mirrored(found).view(data.dtype)
    values[np.isnan(values)] = np.nan
    dst.store(values)


@instruction(
    vector,
    shapes="data: P F>=8<=search_free; vals dst: P 8",
    cost=streaming(),
)
def nc_find_index8(dst: Indices, data: Searched, vals: Values) -> None:
    """dst[p, i] = the first f with data[p, f] == vals[p, i]; all ones where there is none

    If vals[p, :] holds a value several times, these take its occurrences in order, i ascending.
    """
    found = occurrences(data, vals, backwards=False)
    dst.codes()[...] = found.astype(dst.dtype.storage).reshape(dst.shape)


@instruction(
    vector,
    shapes="data: P F<=search_free; dst: P F; vals dst_idx: P 8",
    cost=streaming(),
)
def nc_match_replace8(
    dst: Out, data: Searched, vals: Values, imm: float, dst_idx: MaybeIndices = None
) -> None:
    """dst[p, :] = data[p, :], imm at f_i, the first f with data[p, f] == vals[p, i], i = 0...7

    dst_idx[p, i] = f_i, all ones where there is none. If vals[p, :] holds a value several times,
    these take its occurrences in order, i descending.
    """
    require(
        isinstance(imm, int | float | np.number),
        "imm must be a number",
        SignatureError,
        argument="imm",
        got=repr(imm),
    )
    found = occurrences(data, vals, backwards=True)
    there = found != searches.MISSING
    codes = np.array(dst.encoded(data, data.codes())).reshape(len(found), -1)
    new = codec.encode(dst.held, np.array([imm], np.float32))[0]
    codes[np.nonzero(there)[0], found[there]] = new
    dst.codes()[...] = codes.reshape(dst.shape)
    if dst_idx is not None:
        dst_idx.codes()[...] = found.astype(dst_idx.dtype.storage).reshape(dst_idx.shape)


# --- the GpSimd engine's searches -----------------------------------------------------------------


def topk_fits(call: Call, machine: Machine) -> KernelError | None:
    src, val, n = call.view("src"), call.view("val_dst"), call["n"]
    for name in ("src", "val_dst", "idx_dst"):
        if len(call.view(name).shape) != 2:
            return ShapeError(
                f"topk: {name} must have two axes",
                argument=name,
                expected="(partitions, elements)",
                got=str(call.view(name)),
            )
    if src.partitions % GROUP:
        return ShapeError(
            f"topk: {src.partitions} partitions are not a whole number of groups",
            argument="src",
            expected=f"a multiple of {GROUP} partitions",
            got=str(src),
            because=f"each processor of the GpSimd engine takes the elements of {GROUP} partitions",
        )
    if not isinstance(n, int | np.integer) or isinstance(n, bool):
        return SignatureError("topk: n must be an integer", argument="n", got=repr(n))
    most = min(machine.limits.topk_elements, GROUP * src.free_size)
    if not EIGHT <= n <= most:
        return FreeSizeError(
            f"topk: n is {n}",
            argument="n",
            expected=f"{EIGHT} to {most} for src of {src}",
            got=str(n),
            because=f"src holds {GROUP} x {src.free_size} elements in each group, and the "
            f"instruction counts to {machine.limits.topk_elements}",
        )
    most = min(machine.limits.topk_results, int(n))
    if val.free_size > most:
        return FreeSizeError(
            f"topk: {val.free_size} of {n} elements are asked for",
            argument="val_dst",
            expected=f"1 to {most} elements per partition",
            got=str(val),
        )
    return None


def topk_cost(call: Call, machine: Machine) -> Cost:
    """4 n + K cycles (ISA); the groups are worked on at the same time."""
    cycles = 4 * call["n"] + call.view("val_dst").free_size
    return stream(call, machine, cycles, machine.fixed.gpsimd_start_cycles)


def check_snake(core: Core, src: Tile, n: int) -> None:
    """Only elements that take part count as read: whole columns, and the head of the next one."""
    if src.storage.gaps is None:
        return
    columns, rest = divmod(n, GROUP)
    partitions = src.shape[0]
    if columns:
        core.check_written("src", src.window((partitions, columns), src.strides, src.offset))
    if rest:
        tail = src.window((partitions, 1), src.strides, src.offset + columns * src.strides[1])
        core.check_written("src", tail, np.flatnonzero(np.arange(partitions) % GROUP < rest))


def wound(rows: Any) -> Any:
    """Element [g, j] at [16 g + j % 16, j / 16], for whole columns."""
    columns = rows.shape[1] // GROUP
    return rows.reshape(-1, columns, GROUP).swapaxes(1, 2).reshape(-1, columns)


def write_snake(tile: Tile, codes: Any) -> None:
    """Write each group's codes[g] to its snake; what is beyond stays as it is."""
    groups, count = codes.shape
    columns = -(-count // GROUP)
    padded = np.zeros((groups, columns * GROUP), codes.dtype)
    padded[:, :count] = codes
    chosen = np.zeros(tile.shape, np.bool_)
    chosen[:, :columns] = wound(np.arange(columns * GROUP) < np.full((groups, 1), count))
    tile.codes()[chosen] = wound(padded)[chosen[:, :columns]]
    tile.mark_written(chosen)


@instruction(
    gpsimd,
    cost=topk_cost,
    rules=[
        same_partitions("src", "val_dst", "idx_dst"),
        same_elements("val_dst", "idx_dst"),
        topk_fits,
    ],
)
def topk(
    val_dst: Annotated[
        Tile, Operand(writes=True, partial=True, regions=(SBUF,), dtypes=(bfloat16,))
    ],
    idx_dst: Annotated[Tile, Operand(writes=True, partial=True, regions=(SBUF,), dtypes=(uint32,))],
    src: Annotated[Tile, Operand(reads=True, partial=True, regions=(SBUF,), dtypes=(bfloat16,))],
    n: Annotated[int, Static()],
    *,
    core: Core,
) -> None:
    """val_dst[j] = src[idx_dst[j]], the K greatest of src[0...n-1], ascending; in each group

    A group is 16 partitions, and element j of it is in its partition j % 16, column j / 16, of src
    as of the results: these are in the first K / 16 columns, and the rest is left as it is. Of
    equal elements the first are taken (unpublished).
    """
    check_snake(core, src, n)
    columns = -(-n // GROUP)
    blocks = src.codes()[:, :columns].reshape(-1, GROUP, columns)
    snake = blocks.swapaxes(1, 2).reshape(len(blocks), -1)[:, :n]
    order = np.argsort(~ranks(snake.view(f"i{snake.itemsize}")), axis=1, kind="stable")
    chosen = order[:, : val_dst.free_size][:, ::-1]
    write_snake(val_dst, np.take_along_axis(snake, chosen, 1))
    write_snake(idx_dst, chosen.astype(np.uint32))


def one_more(call: Call, machine: Machine) -> KernelError | None:
    src, dst = call.view("src"), call.view("dst")
    if dst.free_size == src.free_size + 1:
        return None
    return ShapeError(
        f"{call.name}: dst has {dst.free_size} elements per partition, src {src.free_size}",
        argument="dst",
        expected=f"{src.free_size + 1} elements per partition",
        got=str(dst),
        because="the count stands behind as many indices as there are elements",
    )


@instruction(
    gpsimd,
    cost=streaming(extra="gpsimd_start_cycles"),
    rules=[same_partitions("src", "dst"), one_more],
    feature="nonzero_with_count",
)
def nonzero_with_count(
    dst: Annotated[Tile, Operand(writes=True, partial=True, regions=(SBUF,), dtypes=(int32,))],
    src: Annotated[
        Tile, Operand(reads=True, partial=True, regions=(SBUF,), dtypes=(float32, int32))
    ],
    index_offset: int = 0,
    padding_val: int = -1,
    *,
    core: Core,
) -> None:
    """dst[p, :] = [f + index_offset where src[p, f] != 0, padding_val ..., count];  p = 0, 16...

    The other partitions of dst are left as they are, those of src are not read.
    """
    offset = whole_number("index_offset", index_offset)
    padding = whole_number("padding_val", padding_val)
    partitions = np.arange(0, src.shape[0], GROUP)
    if src.storage.gaps is not None:
        core.check_written("src", src, partitions)
    found = src.codes()[::GROUP].reshape(len(partitions), -1) != 0
    count = found.sum(axis=1, keepdims=True)
    places = np.argsort(~found, axis=1, kind="stable") + offset
    listed = np.where(np.arange(found.shape[1]) < count, places, padding)
    codes = np.hstack([listed, count]).astype(np.int32)
    dst.codes()[::GROUP] = codes.reshape(len(codes), *dst.shape[1:])
    chosen = np.zeros(dst.shape, np.bool_)
    chosen[::GROUP] = True
    dst.mark_written(chosen)
