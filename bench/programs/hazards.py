"""The instructions of a program that use the same bytes, by the plain reading's positions, or that
come after a decision about a register, and whether a schedule keeps their order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.programs.views import Array
from neuroncore.memory.register import OPERATIONS
from neuroncore.plain.memory import Operand, PlainTensor
from neuroncore.record.program import Program
from neuroncore.record.rows import Row, Rows
from neuroncore.time.timeline import Timeline


class Use(NamedTuple):
    """An instruction of a core, and the bytes of an operand in a memory, of which one is the first
    and one the last."""

    row: int
    writes: bool
    at: Array
    first: int
    last: int

    def shares(self, others: Sequence[Use]) -> Iterator[Use]:
        """Earlier uses by other instructions of bytes of this one, of which one writes."""
        others = [
            one for one in others
            if one.row < self.row and (one.writes or self.writes)
            and one.first <= self.last and self.first <= one.last
        ]  # fmt: skip
        if not others:
            return
        mark = np.zeros(self.last - self.first + 3, np.bool_)  # with one beyond each end
        mark[self.at - self.first + 1] = True
        for one in others:
            if mark[np.clip(one.at - self.first + 1, 0, len(mark) - 1)].any():
                yield one


class Uses:
    """The operands of the instructions of each core, by the memory that they are in."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, int], list[Use]] = {}
        self._memories: list[Array] = []  # whose ids are used

    def note(self, core: int, number: int, row: Row, given: Mapping[str, Any]) -> None:
        """Note the operands of an instruction that the plain reading has executed."""
        for name in (*row.call.reads, *row.call.writes):
            operand = given.get(name)
            if isinstance(operand, Operand):
                tensor: PlainTensor = operand.tensor
                at = tensor.places(operand.positions).reshape(-1, 1) + np.arange(operand.form.size)
                self._memories.append(tensor.data)
                use = Use(number, name in row.call.writes, at, int(at.min()), int(at.max()))
                self._of.setdefault((core, id(tensor.data)), []).append(use)

    def pairs(self, core: int) -> Array:
        """Instructions of a core that use the same bytes, of which one writes, in their order."""
        found = set()
        for (own, _), uses in self._of.items():
            for n, later in enumerate(uses if own == core else ()):
                found |= {(use.row, later.row) for use in later.shares(uses[:n])}
        return np.array(sorted(found), np.int64).reshape(-1, 2)


def decisions(program: Program) -> Array:
    """Each load of a register by which the kernel decides, and each instruction after that; and
    each load on which the place of an operand depends, and the instruction that has it."""
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
    rows = Rows(program) if len(program.data.places) else ()
    for number in range(len(rows)):
        offsets = (register for one in rows[number].offsets for register in loads(one.number))
        pairs |= {(load, number) for load in offsets}
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def asked(lines: Sequence[str], rows: Mapping[int, int]) -> set[tuple[int, int]]:
    """Pairs of instructions, of which the second one waits for the first one because a kernel with
    these lines asks for that. `rows` has the instructions of its lines."""
    made = {text.split()[0]: line for line, text in enumerate(lines, 1) if text.strip()}
    return {
        (rows[made[name]], rows[line])
        for line, text in enumerate(lines, 1)
        for name in re.findall(r"depends_on\((\w+)\)", text)
    }


def broken(pairs: Array, timeline: Timeline) -> Array:
    """The pairs of which the later one begins too early: before the other one is done, or on the
    same engine before it begins."""
    first, later = pairs.T
    same = timeline.queue[first] == timeline.queue[later]
    ready = np.where(same, timeline.begin[first], timeline.done[first])
    return pairs[timeline.begin[later] < ready - 1e-6]
