"""A program that also records the call stack of each instruction."""

from __future__ import annotations

from array import array
from types import CodeType
from typing import NamedTuple

from neuroncore.base import source
from neuroncore.base.source import Place
from neuroncore.record.program import Program


class Frame(NamedTuple):
    """A function on the kernel's call stack: its current place, and its integer variables by
    name."""

    place: Place
    variables: tuple[tuple[str, int], ...]


class Witness(Program):
    """A program that also records call stacks: stacks[stack[i]] of instruction i, innermost frame
    first.

    This takes some microseconds per instruction, and up to a kilobyte per distinct stack."""

    def __init__(self, limit: int | None = None) -> None:
        super().__init__(limit)
        self.stacks: list[tuple[Frame, ...]] = []
        self.stack = array("i")
        self._stack_numbers: dict[tuple[Frame, ...], int] = {}

    def line_of_row(self, code: CodeType, instruction: int) -> int:
        frames = tuple(
            Frame(source.place(code, at), tuple(variables.items()))
            for code, at, variables in source.visits()
        )
        number = self._stack_numbers.get(frames)
        if number is None:
            number = self._stack_numbers[frames] = len(self.stacks)
            self.stacks.append(frames)
        self.stack.append(number)
        return super().line_of_row(code, instruction)
