"""The instructions of a program whose order a schedule must keep: instructions that use the same
bytes (by the positions of the plain reading), and instructions after a decision about a
register."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.programs.views import Array
from neuroncore.memory.register import OPERATIONS
from neuroncore.plain.memory import Operand, PlainTensor
from neuroncore.record.instructions import Instructions, Recorded
from neuroncore.record.program import Program
from neuroncore.time.timeline import Timeline


class Use(NamedTuple):
    """An operand of instruction `row` of a core. `place` is its position among the operands.
    `memory` identifies its memory, and `at` has the positions of its bytes there, in the order of
    its elements. `first` and `last` are the lowest and the highest of these positions."""

    row: int
    place: int
    writes: bool
    memory: int
    at: Array
    first: int
    last: int

    def shares(self, others: Sequence[Use]) -> Iterator[Use]:
        """Yield the uses among `others` that belong to earlier instructions and share bytes with
        this use, if at least one of the two uses writes."""
        others = [
            one for one in others
            if one.row < self.row and (one.writes or self.writes)
            and one.first <= self.last and self.first <= one.last
        ]  # fmt: skip
        if not others:
            return
        mark = np.zeros(self.last - self.first + 3, np.bool_)  # with one more flag at each end
        mark[self.at - self.first + 1] = True
        for one in others:
            if mark[np.clip(one.at - self.first + 1, 0, len(mark) - 1)].any():
                yield one


class Uses:
    """The operands of the instructions of each core, grouped by memory."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], list[Use]] = {}  # by core and instruction
        self.values: dict[tuple[int, int], str] = {}  # by core and instruction: its numbers as text
        self._of: dict[tuple[int, int], list[Use]] = {}
        self._memories: list[Array] = []  # kept alive, because their ids are used

    def note(
        self,
        core: int,
        number: int,
        row: Recorded,
        given: Mapping[str, Any],
        indices: Sequence[Operand],
    ) -> None:
        """Add the operands of an instruction that the plain reading has executed."""
        call = row.call
        read = [*map(given.get, call.reads), *indices]
        self.values[core, number] = repr(row.values)
        for place, operand in enumerate((*read, *map(given.get, call.writes))):
            if isinstance(operand, Operand):
                self._note(core, number, place, place >= len(read), operand)

    def _note(self, core: int, number: int, place: int, writes: bool, operand: Operand) -> None:
        tensor: PlainTensor = operand.tensor
        there = operand.positions if operand.there is None else operand.positions[operand.there]
        if not there.size:
            return
        at = (tensor.places(there).reshape(-1, 1) + np.arange(operand.form.size)).reshape(-1)
        self._memories.append(tensor.data)
        memory = id(tensor.data)
        use = Use(number, place, writes, memory, at, int(at.min()), int(at.max()))
        self._of.setdefault((core, memory), []).append(use)
        self.rows.setdefault((core, number), []).append(use)

    def shared(self, core: int) -> list[tuple[Use, Use]]:
        """Return the pairs of uses by two instructions of a core that share bytes, if at least one
        of the two writes. The earlier use comes first."""
        return [
            (use, later)
            for (own, _), uses in self._of.items()
            for n, later in enumerate(uses if own == core else ())
            for use in later.shares(uses[:n])
        ]


def pairs(shared: Sequence[tuple[Use, Use]]) -> Array:
    """Return the instructions of pairs of uses, [pairs, 2], sorted and without repetitions."""
    found = {(use.row, later.row) for use, later in shared}
    return np.array(sorted(found), np.int64).reshape(-1, 2)


def unseen(program: Program, shared: Sequence[tuple[Use, Use]]) -> Iterator[tuple[int, int]]:
    """Yield the two instructions of each pair of uses that, according to the boxes of the record,
    do not share bytes."""
    columns, (near, start) = program.columns(), program.boxes().near
    for use, later in shared:
        one, other = (columns.operands[columns.start[u.row] + u.place] for u in (use, later))
        if other not in near[start[one] : start[one + 1]]:
            yield use.row, later.row


def decisions(program: Program) -> Array:
    """Return pairs of instructions, [pairs, 2], of which the second depends on the first. The first
    loads a register. The second comes after a branch that depends on this register, or has an
    operand whose position depends on it."""
    made = np.array(program.data.registers, np.int64).reshape(-1, 3).tolist()

    def loads(register: int) -> Iterator[int]:
        number, *operands = made[register]
        if OPERATIONS[number] == "load":
            yield operands[0]
        elif OPERATIONS[number] != "constant":
            for operand in operands:
                yield from loads(operand)

    branches = np.array(program.data.branches, np.int64).reshape(-1, 4).tolist()
    pairs = {
        (load, later)
        for row, register, *_ in branches
        for load in loads(register)
        for later in range(row, len(program))
    }
    rows = Instructions(program) if len(program.data.places) else ()
    for number in range(len(rows)):
        offsets = (register for one in rows[number].offsets for register in loads(one.number))
        pairs |= {(load, number) for load in offsets}
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def asked(lines: Sequence[str], rows: Mapping[int, int]) -> set[tuple[int, int]]:
    """Return pairs of instructions of which the second must wait for the first, because the kernel
    asks for it by `depends_on`. `lines` is the source of the kernel, and `rows` has the instruction
    of each line."""
    made = {text.split()[0]: line for line, text in enumerate(lines, 1) if text.strip()}
    return {
        (rows[made[name]], rows[line])
        for line, text in enumerate(lines, 1)
        for name in re.findall(r"depends_on\((\w+)\)", text)
    }


def broken(pairs: Array, timeline: Timeline) -> Array:
    """Return the pairs whose second instruction begins too early: before the first one is done, or
    if both are in one queue, before the first one begins."""
    first, later = pairs.T
    same = timeline.queue[first] == timeline.queue[later]
    ready = np.where(same, timeline.begin[first], timeline.done[first])
    return pairs[timeline.begin[later] < ready - 1e-6]
