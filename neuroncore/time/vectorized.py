"""Merging of small instructions. If all iterations of a parallel loop have a small instruction, the
older API's compiler merges the instructions of all iterations into one.

The following published programs show this merging; the names in parentheses are their repositories.

* Profiles of attention on trn2 (trainium-kernel-fusion) have one reduction, and one reciprocal, of
  a few elements for all tiles of a loop. All other instructions of the loop run before or after
  this merged instruction, for as many tiles as PSUM has room for.
* In depthwise convolutions on trn1 (autocomp), an inner loop of 64 iterations, which have 192
  elements in all, takes the time of one instruction. With 2048 iterations, the same loop takes the
  time of 2048 instructions.
* A compiled program of a convolution (sahiljain01/asst4-trainium) has one copy where an inner loop
  makes three.

A loop whose products accumulate in one tile of PSUM is parallel too: the SDK's documentation of
affine_range says that such a sum does not make iterations depend on each other. Autocomp's
attention has such loops with small reductions and exponentials.

Loads and stores of neighboring iterations are merged too, up to `merged_bytes` of the machine, but
not in programs whose compiler flag FLAG skips such passes (cs149stanfordasst4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM, SBUF
from neuroncore.machine import Machine
from neuroncore.record.loops import distinct
from neuroncore.record.program import Program
from neuroncore.time.loops.dependencies import Accesses
from neuroncore.time.loops.iterations import independent

Array = npt.NDArray[Any]
FLOAT_BYTES = 4
UNFIT = 1 << 40  # the size of a call that can't be merged, larger than any limit
BLOCK_ROWS = 1 << 20  # instructions of loops that are reordered at one time
FLAG = "skip_middle_end_transformations"  # with this flag, convolutions show no merging


class LoopPlan(NamedTuple):
    """A new order of the instructions of a loop, which are numbered iteration by iteration.

    `order`: the new order of the instructions
    `heads`: instruction k is merged with instruction heads[k]; k itself if it is not merged
    `segment`: the segment of each instruction of an iteration: consecutive instructions that are
        not merged; -1 for an instruction that is merged over iterations"""

    order: Array
    heads: Array
    segment: Array


class Loops(NamedTuple):
    """Executions of parallel loops, as ranges of instructions. All iterations of an
    execution have equally many instructions, but the first may have more.

    `depth`: the number of loops around the instructions, including this loop
    `times`: the number of iterations
    `width`: the number of instructions of an iteration
    `begin`, `end`: the instructions where the execution begins and ends"""

    depth: Array
    times: Array
    width: Array
    begin: Array
    end: Array


def vectorized(program: Program, machine: Machine, reach: int) -> tuple[Program, Array]:
    """Return two results:

    1. the program with loops split into segments, where this allows small instructions to be
       merged;
    2. for each of its instructions, the first instruction with which it is merged; -1 for that
       instruction itself, and for instructions that are not merged.

    A merged instruction has at most as many elements per partition as a bank of PSUM has float32
    numbers. Only loops with at most `reach` instructions per iteration are split: the compiler does
    not move an instruction further."""
    no_heads = np.full(len(program), -1, np.int32)
    marks = program.data.marks()
    if not len(marks) or FLAG in program.flags or len(program.edges()):
        return program, no_heads
    if (program.decided() >= 0).any():
        return program, no_heads
    size = np.array([_elements(call) for call in program.calls], np.int64)
    most = machine.psum.bank_bytes // FLOAT_BYTES
    moved = np.array([_merged_transfers(call, machine) for call in program.calls], np.int64)
    call = program.columns().call
    loops = _with_small(_loops(marks, most, reach), size[call], moved[call], most)
    if not len(loops.times):
        return program, no_heads
    begun, ended = (
        np.bincount(marks[flags, 0], minlength=len(program) + 1) for flags in _ends(marks)
    )
    maker = _Distribution(program, machine, (size, moved), np.cumsum(begun - ended)[:-1], most)
    for group in _groups(loops):
        maker.distribute(group)
    return maker.made()


def _groups(loops: Loops) -> Iterator[Loops]:
    """Yield loops in groups of at most BLOCK_ROWS instructions (or one loop), inner loops first.
    Loops of a group have the same depth, and equally many iterations and instructions."""
    kinds = np.column_stack((-loops.depth, loops.times, loops.width))
    order = np.lexsort(kinds.T[::-1])
    differs = (kinds[order[1:]] != kinds[order[:-1]]).any(axis=1)
    for group in np.split(order, np.flatnonzero(differs) + 1):
        most = max(1, BLOCK_ROWS // int(loops.times[group[0]] * loops.width[group[0]]))
        for k in range(0, len(group), most):
            yield Loops(*(column[group[k : k + most]] for column in loops))


def _ends(marks: Array) -> tuple[Array, Array]:
    """Return two flags for each entry of `Data.iterations`, as two arrays: whether the entry begins
    an iteration, and whether it ends one."""
    begins = marks[:, 1] >= 0
    return begins, ~begins


def _elements(call: Call) -> int:
    """Return the elements per partition of the largest operand of a call. Return UNFIT for a call
    that may not be merged."""
    views = call.views(*call.reads, *call.writes)
    plain = call.engine in (engine.vector, engine.scalar, engine.gpsimd, engine.unknown)
    if not plain or call.dynamic or not call.writes or not all(view.on_chip for view in views):
        return UNFIT
    return max(view.free_size for view in views)


def _merged_transfers(call: Call, machine: Machine) -> int:
    """Return how many loads or stores like `call` are merged into one transfer; 1 for other
    calls."""
    if call.engine is not engine.dma or call.dynamic or not machine.dma.merged_bytes:
        return 1
    views = call.views(*call.reads, *call.writes)
    if len(views) != 2 or sum(view.on_chip for view in views) != 1 or call.transposes:
        return 1
    return max(1, machine.dma.merged_bytes // call.written_bytes)


def _loops(marks: Array, most: int, reach: int) -> Loops:
    """Return the executions of loops with 2 to `most` iterations of at most `reach` instructions
    each.

    `marks`: the entries of `Data.iterations`"""
    row, number = marks[:, 0], marks[:, 1]
    begins = number >= 0
    loop_number, depth = np.where(begins, number, ~number), np.cumsum(np.where(begins, 1, -1))
    order = np.argsort(loop_number, kind="stable")
    _, at, times = np.unique(loop_number[order], return_index=True, return_counts=True)
    count, rows = times // 2, row[order]
    first, last = rows[at], rows[at + times - 1]
    width = last - rows[at + times - 2]
    follows = np.ones(len(rows), np.bool_)  # whether a mark is where equally wide iterations put it
    turn = np.arange(len(rows)) - np.repeat(at, times)
    expected = np.repeat(last, times) - (np.repeat(count, times) - (turn + 1) // 2) * np.repeat(
        width, times
    )
    follows[turn > 0] = (rows == expected)[turn > 0]
    kept = np.logical_and.reduceat(follows, at) & (times % 2 == 0) & (count > 1)
    kept &= (width > 0) & (width <= reach) & (count <= most)
    loops = Loops(depth[order][at], count, width, first, last)
    return Loops(*(column[kept] for column in loops))


def _with_small(loops: Loops, size: Array, moved: Array, most: int) -> Loops:
    """Return the loops with something to merge: transfers, or an instruction that is small enough
    for all iterations.

    `size`: the elements per partition of each instruction of the program
    `moved`: how many transfers like this instruction become one
    `most`: the largest number of elements per partition of a merged instruction"""
    if not len(loops.times):
        return loops
    ends = np.column_stack((loops.end - loops.width, loops.end)).reshape(-1)
    least = np.minimum.reduceat(np.append(size, 0), ends)[::2]
    transfers = np.maximum.reduceat(np.append(moved, 0), ends)[::2]
    return Loops(*(column[(least * loops.times <= most) | (transfers > 1)] for column in loops))


class _Distribution:
    """The new order of a program's instructions, made loop by loop, inner loops first.

    `order`: the order of the instructions
    `head`: for each instruction, the first of the instructions with which it is merged; -1 for
        none"""

    def __init__(
        self, program: Program, machine: Machine, sizes: tuple[Array, Array], around: Array,
        most: int,
    ) -> None:  # fmt: skip
        self.program, self.machine, self.around, self.most = program, machine, around, most
        self.size, self.moved = sizes
        self.columns, self.boxes = program.columns(), program.boxes()
        inputs = np.array([call.inputs for call in program.calls], np.int64)
        self.reads = inputs[self.columns.call]
        self.order, self.head = np.arange(len(program)), np.full(len(program), -1, np.int64)
        self.writer = np.full(len(self.boxes.table), -1, np.int64)
        # The key has the depth, the number of iterations, the calls of an iteration, its lines, and
        # which of the calls are the same in all iterations. It does not contain the addresses of
        # the operands: a plan does not depend on them, and a separate check of each loop finds out
        # whether its iterations share bytes.
        self.plans: dict[bytes, LoopPlan | None] = {}

    def made(self) -> tuple[Program, Array]:
        """Return the reordered program. Also return, for each of its instructions, the first of the
        instructions with which it is merged; -1 for none."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        head = self.head[self.order]
        heads = np.where(head >= 0, place[head], -1).astype(np.int32)
        program = self.program.permuted(self.order) if (heads >= 0).any() else self.program
        return program, heads

    def distribute(self, loops: Loops) -> None:
        """Reorder loops if some of their instructions can be merged. The loops have the same depth,
        and equally many iterations and instructions; the first iteration may have more
        instructions."""
        depth, count, width = (int(column[0]) for column in loops[:3])
        more = loops.end - loops.begin - count * width
        for k in np.flatnonzero(more > 0).tolist():
            self._zeros_before(int(loops.begin[k]), int(more[k]), width)
        places = (loops.end - count * width)[more >= 0, None] + np.arange(count * width)
        rows = self.order[places].reshape(-1, count, width)
        lines = self.columns.line[rows]
        equal = (lines == lines[:, :1]).all(axis=(1, 2))
        places, rows, calls = places[equal], rows[equal], self.columns.call[rows[equal]]
        alike = (calls == calls[:, :1]).all(axis=1)  # False for a product that begins a sum in PSUM
        kinds = np.column_stack((calls[:, 0], lines[equal, 0], alike))
        first, kind = distinct(kinds)
        for number, loop in enumerate(first.tolist()):
            key = np.append(kinds[loop], (depth, count)).tobytes()
            if key not in self.plans:
                self.plans[key] = self._plan(rows[loop], depth, alike[loop])
            plan = self.plans[key]
            if plan is not None:
                same = kind == number
                self._reorder(places[same], rows[same].reshape(-1, count * width), plan)

    def _reorder(self, places: Array, rows: Array, plan: LoopPlan) -> None:
        """Reorder the instructions of loops that share a plan, except loops whose iterations depend
        on each other.

            `rows`: rows[n] are the instructions of loop n
            `places`: places[n] are the positions of these instructions in `order`"""
        accesses = Accesses(self.columns.start, self.columns.operands, self.reads, *self.boxes.near)
        free = independent.over(rows.size)(rows, plan.segment, accesses, self.writer)
        rows = rows[free]
        merged = np.flatnonzero(plan.heads != np.arange(len(plan.heads)))
        members, heads = rows[:, merged], rows[:, plan.heads[merged]]
        alone = self.head[members] < 0  # inner loops may have merged the others
        self.head[members[alone]] = heads[alone]
        self.order[places[free]] = rows[:, plan.order]

    def _zeros_before(self, begin: int, more: int, width: int) -> None:
        """Move instructions that read nothing from the first iteration to before the loop, if there
        are exactly `more`: they fill a tile with zeros.

        `begin`: the position in `order` at which the loop begins
        `more`: how many instructions the first iteration has in addition to `width` instructions"""
        first = self.order[begin : begin + more + width]
        reads = self.reads[first] > 0
        if (~reads).sum() == more:
            first[:] = first[np.argsort(reads, kind="stable")]

    def _plan(self, rows: Array, depth: int, alike: Array) -> LoopPlan | None:
        """Return the way to reorder a loop, or None if the loop stays unchanged.

        `rows`: the instructions of the loop, shape (iterations, instructions of an iteration)
        `alike`: alike[j] is True if instruction j makes the same call in all iterations"""
        first, count = rows[0], len(rows)
        call = self.columns.call[first]
        small = self.size[call] * count <= self.most
        joined = np.where(small, count, np.minimum(self.moved[call], count))
        alone = (joined < 2) | (self.around[first] != depth) | ~alike
        alone[~alone] = [not self._can_merge(rows[:, j]) for j in np.flatnonzero(~alone).tolist()]
        joined[alone] = 1
        after = np.append(True, alone[:-1])
        segment = np.cumsum(~alone | ~after)
        together = min(self._together(rows, segment), joined.max()) if not alone.all() else 0
        if together < 2:
            return None
        # `together` iterations are processed at a time: segment 0 of all of them, then segment 1
        turn, number = np.arange(count)[:, None], np.arange(rows.size).reshape(rows.shape)
        heads = number[turn - turn % together % joined, np.arange(len(first))]
        block, part = turn // together + 0 * segment, segment + 0 * turn
        order = np.lexsort((part.reshape(-1), block.reshape(-1)))
        return LoopPlan(order, heads.reshape(-1), np.where(joined > 1, -1, segment))

    def _operands(self, rows: Array) -> Array:
        """Return the boxes of the operands of instructions, shape (instructions, operands). All of
        these instructions must have equally many operands."""
        start = self.columns.start
        count = int(start[rows[0] + 1] - start[rows[0]])
        boxes: Array = self.columns.operands[start[rows][:, None] + np.arange(count)]
        return boxes

    def _can_merge(self, rows: Array) -> bool:
        """Return whether the corresponding instructions of all iterations can be merged.

        An operand has the same bytes in all instructions, or different bytes in each instruction.
        Results have different bytes. Operands in PSUM have the same, because separate tiles are in
        different banks."""
        boxes, areas = self._operands(rows), self.boxes.areas
        same: Array = np.all(boxes == boxes[0], axis=0)
        apart: Array = np.all(np.diff(np.sort(boxes, axis=0), axis=0) > 0, axis=0)
        inputs = self.reads[rows[0]]
        kinds = areas.kind[areas.of_box[boxes[0]]].tolist()
        in_psum = [areas.kinds[k].region is PSUM for k in kinds]
        varies_in_psum: Array = np.logical_and(apart, in_psum)
        return bool(
            np.logical_or(same, apart).all() and apart[inputs:].all() and not varies_in_psum.any()
        )

    def _together(self, rows: Array, segment: Array) -> int:
        """Return how many iterations can be processed together, so that their tiles fit in SBUF and
        PSUM.

        A tile takes space in each iteration if several segments use it, and the next iteration does
        not."""
        areas, used = self.boxes.areas, [self._operands(row[None])[0] for row in rows[0]]
        tile = areas.of_box[np.concatenate(used)]
        where = np.repeat(segment, [len(each) for each in used])
        second = np.concatenate([self._operands(row[None])[0] for row in rows[1]])
        shared = np.isin(tile, areas.of_box[second])
        banks = bytes_needed = 0
        for t in np.unique(tile[~shared]):
            segments, kind = where[tile == t], areas.kinds[int(areas.kind[t])]
            if segments.min() < segments.max() and kind.region is PSUM:
                banks += -(-kind.row_bytes // self.machine.psum.bank_bytes)
            elif segments.min() < segments.max() and kind.region is SBUF:
                bytes_needed += kind.row_bytes
        room = self.machine.sbuf.usable_bytes // max(bytes_needed, 1)
        return min(len(rows), room, self.machine.psum.banks // banks if banks else room)
