"""Reads the instructions of a recorded program one by one.

Registers are computed again from the values that instructions load. All other values are the
recorded values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from neuroncore.base.errors import UsageError
from neuroncore.clause.instruction import Call
from neuroncore.memory.geometry import Geometry
from neuroncore.memory.register import COMPUTE, OPERATIONS, wrapped
from neuroncore.record.columns import owners
from neuroncore.record.inputs import Data, Leaf, RegisterId, values_of
from neuroncore.record.program import Program


class Registers:
    """The values of a program's registers, by number. A register is a constant, is loaded, or is
    computed from earlier registers. `loaded` maps instructions to the values that they have
    loaded."""

    def __init__(self, data: Data) -> None:
        self._made = data.registers
        self._values: list[int] = []
        self.loaded: dict[int, int] = {}

    def value(self, number: int) -> int:
        """Return the value of a register. Raise UsageError if it depends on a load that is not
        executed yet."""
        values, table = self._values, self._made
        while len(values) <= number:
            at = 3 * len(values)
            operation, left, right = OPERATIONS[table[at]], table[at + 1], table[at + 2]
            if operation == "constant":
                values.append(left)  # may have more than 32 bits: `register // 2**31`
            elif operation == "load":
                if left not in self.loaded:
                    raise UsageError(
                        f"the record uses a register that instruction {left} has not loaded yet"
                    )
                values.append(self.loaded[left])
            else:
                values.append(wrapped(int(COMPUTE[operation](values[left], values[right]))))
        return values[number]

    def load(self, row: int, value: int) -> None:
        """Record that the instruction `row` has loaded a value."""
        self.loaded[row] = wrapped(value)

    def back_to(self, row: int) -> None:
        """Forget the values that this and later instructions have loaded."""
        self.loaded = {at: value for at, value in self.loaded.items() if at < row}
        self._values.clear()


class Move(NamedTuple):
    """How an index i (at most `limit`) moves a window by i * `step` elements.

    `kind`: 0 moves the whole window, 1 each row, 2 each element
    `by_register`: 1 if the index is a register, 0 if it is a tile"""

    kind: int
    step: int
    limit: int
    by_register: int


class Window(NamedTuple):
    """Some elements of a tensor.

    `tensor`: the number of its storage
    `offset`: the position of the first element without `moves`, in elements
    `moves`: the parts of the position that indices add at run time"""

    tensor: int
    geometry: Geometry
    offset: int
    moves: tuple[Move, ...] = ()


class Recorded(NamedTuple):
    """One recorded instruction.

    `call`: the distinct instruction, without data
    `line`: the number of the source line
    `windows`, `values`: the windows of operands and the open arguments, by name
    `indices`: the windows of index tiles
    `offsets`: the registers on which positions of windows depend"""

    call: Call
    line: int
    windows: Mapping[str, Window]
    indices: Sequence[Window]
    values: Mapping[str, Any]
    offsets: Sequence[RegisterId]


class Instructions:
    """The instructions of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._rows, self._begins = program.raw()
        self._windows, self._keys = program.windows(), [*program.data.values]
        self._places = np.array(program.data.places, np.int64).reshape(-1, 2).tolist()
        self._moves: dict[int, list[Move]] = {}
        for number, *move in np.array(program.data.moves, np.int64).reshape(-1, 5).tolist():
            self._moves.setdefault(number, []).append(Move(*move))
        self._window = lru_cache(1 << 12)(self._made)
        self._values = lru_cache(1 << 12)(self._read)
        # the last instruction that was read, and its number
        self._last: tuple[int, Recorded] | None = None

    def __len__(self) -> int:
        return len(self.program)

    def __getitem__(self, number: int) -> Recorded:
        if self._last is None or self._last[0] != number:
            self._last = number, self._row(number)
        return self._last[1]

    def _row(self, number: int) -> Recorded:
        index, line, *rest = self._rows[self._begins[number] : self._begins[number + 1]].tolist()
        call = self.program.calls[index]
        values = self._values(rest[-1]) if call.has_values else ()
        named = dict(zip(call.instruction.values, values, strict=False))
        first, last = len(call.reads), call.inputs + len(call.writes)
        names = (*call.reads, *call.writes)
        numbers = (*rest[:first], *rest[call.inputs : last])
        windows = {name: self._window(at) for name, at in zip(names, numbers, strict=True)}
        indices = [self._window(at) for at in rest[first : call.inputs]]
        return Recorded(call, line, windows, indices, named, values[len(named) :])

    def of_leaf(self, leaf: Leaf) -> Window:
        """Return the Window of a tensor that the kernel returns."""
        return Window(leaf.storage, self.program.geometries[leaf.geometry], leaf.offset)

    def _made(self, number: int) -> Window:
        columns, geometries = self._windows, self.program.geometries
        tensor, moving = int(columns.storage[number]), int(columns.moving[number])
        if moving < 0:
            geometry = geometries[columns.geometry[number]]
            return Window(tensor, geometry, int(columns.offset[number]))
        row, offset = self._places[moving]
        return Window(tensor, geometries[row], offset, tuple(self._moves[moving]))

    def _read(self, number: int) -> list[Any]:
        """Return entry `number` of `Data.values` as a list, with RegisterIds."""
        return values_of(self._keys[number])


def last_uses(program: Program) -> dict[int, int]:
    """Return the last instruction that uses each storage, by number of the storage."""
    columns = program.columns()
    rows = owners(columns.start)
    tensors = program.windows().storage[program.operand_windows()]
    return dict(zip(tensors.tolist(), rows.tolist(), strict=True))
