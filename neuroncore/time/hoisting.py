"""Repeated work in loops that the older API's compiler can leave out.

The compiler moves work out of a loop if all iterations do the same work (LICM in its logs). If an
iteration does the same work twice, the compiler leaves out the second time (ValueNumbering). Work
whose operands depend on the innermost loop stays in that loop, even if an outer loop repeats it.

Published kernels for mamba show this. In kda-for-trainium's mamba_v3, the inner loop is over
channels and the outer loop over states. The kernel takes as long as if each state had separate
products. In the SDK's mamba and in mamba_v2, the inner loop is over states, and all states share
their products."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.record.program import Program

Array = npt.NDArray[Any]


class LoopLevel(NamedTuple):
    """The loops at one depth of nesting. Each field has one entry per instruction of the
    program.

    `run`: the execution of the loop that contains the instruction; -1 outside of loops of this
        depth
    `turn`: the iteration, counted over the whole program; -1 outside of loops
    `alike`: False if an adjacent iteration has a different result at this place. Only iterations of
        one run with equally many instructions are compared."""

    run: Array
    turn: Array
    alike: Array


def hoisted(program: Program, earlier: Array) -> Array:
    """Return a copy of `earlier` with -1 for the instructions that the compiler can't leave out.

    `earlier`: earlier[i] is an earlier instruction with the result of instruction i; -1 for none"""
    marks = program.data.marks()
    rows = np.flatnonzero(earlier >= 0)
    if not len(marks) or not len(rows):
        return earlier
    source_row = np.arange(len(earlier)) if program.origin is None else program.origin
    result = np.empty_like(source_row)
    result[source_row] = source_row[_first(earlier)]
    kept, open_ = np.ones(len(rows), np.bool_), np.ones(len(rows), np.bool_)
    rows_in_source, other = source_row[rows], source_row[earlier[rows]]
    for level in reversed(_levels(marks, result)):
        inside = open_ & (level.run[rows_in_source] >= 0)
        together = level.run[rows_in_source] == level.run[other]
        open_ &= ~(inside & together & (level.turn[rows_in_source] == level.turn[other]))
        kept &= ~(inside & open_) | level.alike[rows_in_source]
        open_ &= ~(inside & together)
    hoistable = earlier.copy()
    hoistable[rows[~kept]] = -1
    return hoistable


def _first(known: Array) -> Array:
    """Return, for each instruction, the first one with the same result.

    `known`: known[i] is some earlier instruction with the result of i; -1 for none"""
    first = np.where(known >= 0, known, np.arange(len(known)))
    while (earlier := first[first]).tobytes() != first.tobytes():
        first = earlier
    return first


def _levels(marks: Array, result: Array) -> list[LoopLevel]:
    """Return the loops of the program by depth of nesting, outermost first.

    `marks`: the entries of `Data.iterations`
    `result`: for each instruction, the first one with the same result"""
    begins = marks[:, 1] >= 0
    depth = np.cumsum(np.where(begins, 1, -1))
    return [
        _level(marks[begins & (depth == d)], marks[~begins & (depth == d - 1)], result)
        for d in range(1, int(depth.max()) + 1)
    ]


def _level(begins: Array, ends: Array, result: Array) -> LoopLevel:
    """Return the loops at one depth of nesting.

    `begins`, `ends`: the entries of `Data.iterations` where iterations begin or end
    `result`: for each instruction, the first one with the same result"""
    count = len(result)
    run, turn = np.full((2, count), -1, np.int64)
    alike = np.ones(count, np.bool_)
    first, width = begins[:, 0], ends[:, 0] - begins[:, 0]
    inside = np.repeat(first - np.cumsum(width) + width, width) + np.arange(width.sum())
    run[inside], turn[inside] = (
        np.repeat(begins[:, 1], width),
        np.repeat(np.arange(len(first)), width),
    )
    # compare each iteration with the next one of the same run, if they have equally many
    # instructions
    near = np.flatnonzero((begins[1:, 1] == begins[:-1, 1]) & (width[1:] == width[:-1]))
    size = width[near]
    before = np.repeat(first[near] - np.cumsum(size) + size, size) + np.arange(size.sum())
    after = before + np.repeat(first[near + 1] - first[near], size)
    differs = result[before] != result[after]
    for rows in (before, after):
        alike[rows[differs]] = False
    return LoopLevel(run, turn, alike)
