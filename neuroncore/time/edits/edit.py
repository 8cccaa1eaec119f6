"""An edit of a kernel: the change of a source line in words, and the launch that results from the
change. A call is an instruction with its shapes, formats and operators, but without its data. Many
instructions of a program may make the same call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.source import Place
from neuroncore.clause.instruction import Call
from neuroncore.record.program import Program
from neuroncore.time.changes import Change
from neuroncore.time.flow import MOST_USES, contents
from neuroncore.time.loops.dependencies import Accesses
from neuroncore.time.variation import Variation

Array = npt.NDArray[Any]


class Edited(NamedTuple):
    """A program after an edit.

    `variation`: effects that the program itself cannot show: other times, waits that disappear, and
        instructions that are merged
    `sbuf`, `psum`: the additional bytes per partition that the edit needs in each memory"""

    program: Program
    variation: Variation
    sbuf: int = 0
    psum: int = 0


class Contents(NamedTuple):
    """The successive contents of areas. An area is the memory of one tile or tensor, and its
    contents are numbered from 0.

    `uses`, `ends`: the operands uses[ends[a]:ends[a + 1]] use area a
    `number`: number[k] is the number of the contents that operand uses[k] accesses"""

    uses: Array
    ends: Array
    number: Array


@dataclass(frozen=True)
class Edit:
    """An edit of the source line `place`.

    `action`: the edit in words
    `change`: the launch after the edit
    `sbuf`, `psum`: the additional bytes per partition that the edit needs in each memory"""

    place: Place
    action: str
    change: Change
    sbuf: int
    psum: int

    def __str__(self) -> str:
        return f"{self.place.short}: {self.action}"


def edit(
    base: Change, place: Place, action: str, make: Callable[[Program], Edited | None]
) -> Edit | None:
    """Return the edit that applies `make` to the program of each core. Return None if no program
    changes."""
    edited = [make(program) for program in base.programs]
    changed = [each for each in edited if each is not None]
    if not changed:
        return None
    programs, variations = list(base.programs), list(base.variations)
    for n, each in enumerate(edited):
        if each is not None:
            programs[n], variations[n] = each.program, each.variation
    change = replace(base, what=place.short, how=action, programs=programs, variations=variations)
    return Edit(
        place,
        action,
        change,
        max(each.sbuf for each in changed),
        max(each.psum for each in changed),
    )


def rows_by_call(program: Program, place: Place) -> list[tuple[Call, Array]]:
    """Return the distinct calls of a source line. Each call comes with the indices of its
    instructions, in order."""
    here = np.flatnonzero(program.at(place))
    calls = program.columns().call[here]
    distinct = np.flatnonzero(np.bincount(calls))
    return [(program.calls[c], here[calls == c]) for c in distinct.tolist()]


def with_calls(program: Program, instead: Sequence[tuple[Array, Call]]) -> Program:
    """Return a program with other calls on the same operands.

    `instead`: pairs of instruction indices and the new call of these instructions"""
    rows = np.full(len(program), -1)
    for number, (indices, _) in enumerate(instead):
        rows[indices] = number
    return program.with_rows(rows, [call for _, call in instead])


def accesses_of(program: Program) -> Accesses:
    """Return the operands that the instructions of a program read and write, as the kernel issued
    them."""
    columns = program.columns()
    reads = np.array([call.inputs for call in program.calls], np.int32)[columns.call]
    return Accesses(columns.start, columns.operands, reads, *program.boxes().near)


def successive_contents(program: Program, accesses: Accesses, inside: Array) -> Contents:
    """Return the uses of each area, and the number of the contents at each use (`flow.contents`).
    Areas with more than MOST_USES uses are left out.

    `inside`: the indices of the operands to consider"""
    boxes = program.boxes()
    area = boxes.areas.of_box[accesses.operands[inside]]
    operands = inside[np.argsort(area, kind="stable")]
    _, which, counts = np.unique(area, return_inverse=True, return_counts=True)
    operands = operands[counts[np.sort(which)] <= MOST_USES]
    ends = np.append(0, np.cumsum(counts[counts <= MOST_USES]))
    return Contents(operands, ends, contents(accesses, boxes.table, operands, ends))
