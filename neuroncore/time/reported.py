"""Rules that make instructions wait. One source reports each of these rules, and no other source
confirms it yet.

Loads wait for their turn with the values `single` and `limited` of `Options.loads`:

`single`: a load of an operand of a product waits for the previous load of the same source line:
until the tile that the previous load wrote has been read for the last time. Each product then takes
as long as a whole transfer by DMA. Products of rows that were normalized before take 3.6 to 4.1 us
each on trn2 (AccelOpt's add_rmsnorm_matmul and matmul_add_rmsnorm, as kda-for-trainium and
voyager-compiler measured them).

`limited`: every load waits in this way if the tiles that DMA writes take more than `ahead_bytes`
(88 KiB) of a partition at one time. Streaming is then four times slower on trn1 with NKI 0.6,
because the compiler places such tiles in one half of SBUF
(aws-samples/sample-spectral-dns-on-aws-neuron, docs/neuron-rules.md).

This module also has two rules of `Options.assume`:

`loop-drains`: if the device runs a loop, the compiler ends each iteration with a wait for all DMA
queues and a barrier of all engines. So no instruction overlaps with another iteration. Streams of
tiles that take 3.2 us each in an unrolled loop take 11.9 us in such a loop on trn1 with NKI 0.6
(the same page). The barrier itself takes no time in the model.

`copies-in-turn`: a copy out of PSUM begins after the previous instruction of its engine, as in
queues that keep the order of the program. The reason for this rule: in NKIBench, kernels with long
element-wise work after products take longer than the estimate without the rule, as if the copies
waited behind this work.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.record.program import Program
from neuroncore.time.loops.dependencies import Accesses, Flow
from neuroncore.time.loops.work import Queues

Array = npt.NDArray[Any]


def in_turn(program: Program, accesses: Accesses, flow: Flow, ahead_bytes: int) -> Array:
    """Return which instructions are loads that wait for their turn (see the module).

    `flow`: must have reaching definitions: the instruction that wrote what each operand reads
    `ahead_bytes`: the bytes of a partition that DMA may write before the rule `limited` applies"""
    loads = _loads(program)
    if program.loads == "single":
        uses, flags = _uses(accesses, flow, loads), np.zeros_like(loads)
        multiplies = np.array([c.instruction.traits.multiplies for c in program.calls], np.bool_)
        by_product = multiplies[program.columns().call[accesses.user[uses]]]
        flags[flow.reaching[uses[by_product]]] = True
        return flags
    full = program.loads == "limited" and _peak(program, accesses, loads) > ahead_bytes
    return loads if full else np.zeros_like(loads)


def waits(program: Program, accesses: Accesses, flow: Flow, turns: Array) -> Array:
    """Return pairs (a load that waits for its turn, the instruction that it waits for): the last
    reader of the previous load of the same line.

    `turns`: flags the loads that wait for their turn"""
    uses = _uses(accesses, flow, turns)
    last = np.full(len(turns), -1, np.int64)
    np.maximum.at(last, flow.reaching[uses], accesses.user[uses])
    line = program.columns().line
    loads = np.flatnonzero(turns)
    loads = loads[np.argsort(line[loads], kind="stable")]
    follows = line[loads[1:]] == line[loads[:-1]]
    load, reader = loads[1:][follows], last[loads[:-1]][follows]
    kept = (reader >= 0) & (reader < load)
    return np.column_stack((load[kept], reader[kept]))


def copies_in_turn(program: Program, queue: Array, issued: Array) -> Array:
    """Return pairs of instructions: a copy out of PSUM, and the previous instruction on the same
    engine.

    `queue`: queue[i] is the queue of instruction i
    `issued`: issued[i] is True if the compiler keeps instruction i"""
    copies = np.zeros(len(program.calls), np.bool_)
    for number, call in enumerate(program.calls):
        in_psum = (view.region is MemoryRegion.psum for view in call.views(*call.reads))
        copies[number] = call.instruction.traits.copies and any(in_psum)
    rows = np.flatnonzero(issued)
    rows = rows[np.argsort(queue[rows], kind="stable")]
    copy, before = rows[1:], rows[:-1]
    kept = (queue[copy] == queue[before]) & copies[program.columns().call[copy]]
    return np.column_stack((copy[kept], before[kept]))


def sort_by_iterations(program: Program, order: Array, start: Array) -> None:
    """Sort each queue by the iterations of loops that the device runs, one iteration after the
    other.

    `order`, `start`: queue q has the instructions order[start[q]:start[q + 1]]"""
    iteration = iterations(program)
    for q in range(len(start) - 1):
        rows = order[start[q] : start[q + 1]]
        rows[:] = rows[np.argsort(iteration[rows], kind="stable")]


def drains(program: Program, queues: Queues) -> Array:
    """Return pairs (begin, end) of instructions: `begin` may be the first of an iteration on its
    queue, and `end` the last of the previous iteration.

    There may be several, because a queue can reorder instructions (`Queues.limits`)."""
    iteration, pairs = iterations(program), [np.zeros((0, 2), np.int64)]
    first: dict[int, list[Array]] = {}
    last: dict[int, list[Array]] = {}
    for q in range(len(queues.limits)):
        rows = queues.order[queues.start[q] : queues.start[q + 1]]
        reach = int(queues.limits[q, :2].max())
        for part in np.split(rows, np.flatnonzero(np.diff(iteration[rows])) + 1):
            if len(part):
                first.setdefault(int(iteration[part[0]]), []).append(part[:reach])
                last.setdefault(int(iteration[part[0]]), []).append(part[-reach:])
    numbers = sorted(first)
    for before, number in pairwise(numbers):
        begins, ends = np.concatenate(first[number]), np.concatenate(last[before])
        pairs.append(np.column_stack((np.repeat(begins, len(ends)), np.tile(ends, len(begins)))))
    return np.concatenate(pairs)


def iterations(program: Program) -> Array:
    """Return the number of ended iterations, of loops that the device runs, before each
    instruction."""
    ends = np.array(program.data.loop_ends, np.int64)
    numbers: Array = np.searchsorted(ends, np.arange(len(program)), "right")
    return numbers


def _uses(accesses: Accesses, flow: Flow, flags: Array) -> Array:
    """Return the indices of the operands that read results of instructions with a flag."""
    operands: Array = np.flatnonzero(accesses.is_read & (flow.reaching >= 0) & flags[flow.reaching])
    return operands


def _loads(program: Program) -> Array:
    """Return, for each instruction, whether it loads a tile from HBM to SBUF."""
    is_load = np.zeros(len(program.calls), np.bool_)
    for number, call in enumerate(program.calls):
        reads, writes = call.views(*call.reads), call.views(*call.writes)
        fills = [view.region is MemoryRegion.sbuf for view in writes]
        is_load[number] = bool(fills) and all(fills) and not any(view.on_chip for view in reads)
        is_load[number] &= bool(reads)
    loads: Array = is_load[program.columns().call]
    return loads


def _peak(program: Program, accesses: Accesses, loads: Array) -> int:
    """Return the most bytes per partition that loaded tiles take at one time, in program order."""
    areas = program.boxes().areas
    area = areas.of_box[accesses.operands]
    first, last = np.full(len(areas.kind), len(loads)), np.full(len(areas.kind), -1)
    np.maximum.at(last, area, accesses.user)
    written = loads[accesses.user] & ~accesses.is_read
    np.minimum.at(first, area[written], accesses.user[written])
    size = np.array([kind.row_bytes for kind in areas.kinds], np.int64)[areas.kind]
    areas_used = np.flatnonzero(last >= first)
    change = np.zeros(len(loads) + 1, np.int64)
    np.add.at(change, first[areas_used], size[areas_used])
    np.add.at(change, last[areas_used] + 1, -size[areas_used])
    return int(np.cumsum(change).max(initial=0))
