"""Gathers on the GpSimd engine: elements picked by indices that are data, within a partition or by
a core's sixteen partitions together."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.instruction import Call, instruction
from neuroncore.clause.operand import SBUF, Operand, Static
from neuroncore.clause.rules import same_dtype, same_elements, same_partitions
from neuroncore.enums import engine
from neuroncore.errors import KernelError, OutOfBoundsError, ShapeError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import uint16, uint32

gpsimd = engine.gpsimd

MovedIn = Annotated[Tile, Operand(reads=True, regions=(SBUF,), moved=True)]
MovedOut = Annotated[Tile, Operand(writes=True, regions=(SBUF,), moved=True)]

CORE = 16  # partitions that one of the eight cores is connected to
RUNS = (1, 2, 4, 8, 16, 32)
GROUP = 512  # elements per partition that one group of instructions gathers (ISA)


def inside(indices: Any, size: int, run: int, argument: str) -> None:
    """Refuse indices, [groups, count], whose `run` elements leave the `size` there are. What the
    device would fetch is undefined (ISA)."""
    beyond = indices > size - run
    if not beyond.any():
        return
    group, place = np.argwhere(beyond)[0]
    raise OutOfBoundsError(
        f"index {place} of {'core' if argument == 'index' else 'partition'} {group} is "
        f"{indices[group, place]}",
        argument=argument,
        expected=f"0 to {size - run}",
        got=str(indices[group, place]),
        because=f"a partition has {size} elements"
        + (f", and {run} are read from each index on" if run > 1 else ""),
    )


def whole_cores(call: Call, machine: Machine) -> KernelError | None:
    view = call.view("src_buffer")
    if view.partitions % CORE == 0:
        return None
    return ShapeError(
        f"{call.name}: src_buffer has {view.partitions} partitions",
        argument="src_buffer",
        expected=f"a multiple of {CORE} partitions",
        got=str(view),
        because=f"each GpSimd core works on {CORE} partitions",
    )


def index_counts(call: Call, machine: Machine) -> KernelError | None:
    """As many indices as there are, and as many results as they ask for."""
    run, valid = call["num_elem_per_idx"], call["num_valid_indices"]
    dst, there = call.view("dst"), CORE * call.view("index").free_size
    if run not in RUNS:
        return ShapeError(
            f"{call.name}: num_elem_per_idx is {run!r}",
            argument="num_elem_per_idx",
            expected=f"one of {', '.join(map(str, RUNS))}",
            got=repr(run),
        )
    most = min(there, machine.limits.gather_indices)
    count = there if valid is None else valid
    if not isinstance(count, int) or not 0 < count <= most:
        return ShapeError(
            f"{call.name}: a core can't take {count!r} indices",
            argument="index" if valid is None else "num_valid_indices",
            expected=f"1 to {most}",
            got=repr(count),
            because=f"index has {there} for each core, and a core takes at most "
            f"{machine.limits.gather_indices}",
        )
    if dst.free_size == count * run:
        return None
    return ShapeError(
        f"{call.name}: {count} indices of {run} elements don't fill dst ({dst})",
        argument="dst",
        expected=f"{count * run} elements per partition",
        got=f"{dst.free_size}",
    )


def local_gather_cost(call: Call, machine: Machine) -> cost.Cost:
    """The published 150 + elements / C would make it cheaper the less it gathers at a time, and
    16-bit formats slower; times C it is what the engine's ports allow (ISA226)."""
    run, element_bytes = call["num_elem_per_idx"], call.view("dst").dtype.itemsize
    factor = (28 + 4 * run) / (4 * run) / min(4 / element_bytes, run)
    start = machine.fixed.gpsimd_start_cycles
    return cost.stream(call, machine, call.view("dst").free_size * factor, start)


@instruction(
    gpsimd,
    cost=cost.dynamic(local_gather_cost),
    rules=[
        same_dtype("src_buffer", "dst"),
        same_partitions("dst", "src_buffer", "index"),
        whole_cores,
        index_counts,
    ],
)
def local_gather(
    dst: MovedOut,
    src_buffer: MovedIn,
    index: Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=(uint16,))],
    num_elem_per_idx: Annotated[int, Static()] = 1,
    num_valid_indices: Annotated[int | None, Static()] = None,
) -> None:
    """dst[16c + p, n*i + j] = src_buffer[16c + p, index[16c + i % 16, i // 16] + j], j < n

    n is num_elem_per_idx, i counts up to num_valid_indices. An index counts elements.
    """
    run, partitions = num_elem_per_idx, src_buffer.shape[0]
    table = src_buffer.codes().reshape(partitions // CORE, CORE, -1)
    indices = index.codes().reshape(partitions // CORE, CORE, -1)
    indices = indices.swapaxes(1, 2).reshape(partitions // CORE, -1)[:, :num_valid_indices]
    inside(indices, table.shape[2], run, "index")
    places = indices.astype(np.intp)[:, np.newaxis, :, np.newaxis] + np.arange(run)
    found = np.take_along_axis(table, places.reshape(len(table), 1, -1), 2)
    dst.codes()[...] = found.reshape(dst.shape)


def n_gather_cost(call: Call, machine: Machine) -> cost.Cost:
    count = call.view("dst").free_size
    start = machine.fixed.gpsimd_start_cycles * ceil(count / GROUP)
    return cost.stream(call, machine, count / cost.rate(machine, gpsimd, "default"), start)


@instruction(
    gpsimd,
    cost=cost.dynamic(n_gather_cost),
    rules=[
        same_dtype("data", "dst"),
        same_elements("dst", "indices"),
        same_partitions("dst", "data"),
    ],
)
def nc_n_gather(
    dst: MovedOut,
    data: MovedIn,
    indices: Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=(uint32,))],
) -> None:
    """dst[p, f] = data[p, indices[p, f]], the free axes of data as one"""
    table = data.codes().reshape(data.shape[0], -1)
    places = indices.codes().reshape(data.shape[0], -1)
    inside(places, table.shape[1], 1, "indices")
    found = np.take_along_axis(table, places.astype(np.intp), 1)
    dst.codes()[...] = numeric.shaped(found, dst.shape)
