"""The instructions that use each byte of a record, and its last writer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.lazy import Lazy
from neuroncore.base.source import Place
from neuroncore.base.structs import dataclass
from neuroncore.clause.instruction import Call
from neuroncore.record.boxes import Areas
from neuroncore.record.program import Columns, Program

Array = npt.NDArray[Any]

if TYPE_CHECKING:
    from neuroncore.time.loops import dependencies as dataflow
else:
    dataflow = Lazy("neuroncore.time.loops.dependencies")


@dataclass(frozen=True, eq=False)
class Uses:
    """The operands of a program, in columns as long as `box`: instruction `user[k]` reads or writes
    operand k."""

    program: Program

    @cached_property
    def columns(self) -> Columns:
        return self.program.columns()

    @property
    def box(self) -> Array:
        """The box of each operand, a row of `Program.box_table`."""
        return self.columns.operands

    @cached_property
    def window(self) -> Array:
        """The number of each operand's window, which is on one tensor."""
        return self.program.operand_windows()

    @cached_property
    def user(self) -> Array:
        widths = np.diff(self.columns.start)
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def place(self) -> Array:
        """The position of each operand in its instruction: reads, indices, and then writes."""
        places: Array = np.arange(len(self.box)) - self.columns.start[self.user]
        return places

    @cached_property
    def writes(self) -> Array:
        """True for each operand that is written."""
        reads = np.array([c.inputs for c in self.program.calls], np.int64)
        flags: Array = self.place >= reads[self.columns.call[self.user]]
        return flags

    @property
    def areas(self) -> Areas:
        return self.program.boxes().areas

    @cached_property
    def area(self) -> Array:
        """The number of each operand's area, in the order of first use."""
        numbers: Array = self.areas.of_box[self.box]
        return numbers

    @cached_property
    def reaching(self) -> Array:
        """The instruction that last wrote any byte of each operand, -1 for none: before the read of
        an operand that is read, before the write of one that is written."""
        count = len(self.columns.call)
        near = self.program.boxes().near
        reads = np.bincount(self.user[~self.writes], minlength=count).astype(np.int32)
        accesses = dataflow.Accesses(self.columns.start, self.box, reads, *near)
        nobody = np.zeros(count, np.int32)
        return dataflow.dependencies(nobody, 1, accesses, nobody - 1, defines=True).reaching

    def call(self, instruction: int) -> Call:
        return self.program.calls[int(self.columns.call[instruction])]

    def line(self, instruction: int) -> Place:
        """Return the line of the kernel that issued an instruction."""
        return self.program.place(int(self.columns.line[instruction]))
