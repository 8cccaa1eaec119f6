"""Values of registers, computed again from their loads."""

from __future__ import annotations

from neuroncore.base.errors import UsageError
from neuroncore.memory.register import COMPUTE, OPERATIONS, wrapped
from neuroncore.record.inputs import Data


class Registers:
    """The registers of one program, by their numbers in its record: each is made of those before
    it. `loaded` is what instructions have loaded, by their rows."""

    def __init__(self, data: Data) -> None:
        self._made = data.registers
        self._values: list[int] = []
        self.loaded: dict[int, int] = {}

    def value(self, number: int) -> int:
        """The value of a register. Raises UsageError if an instruction that is still to come would
        load it."""
        values, made = self._values, self._made
        while len(values) <= number:
            at = 3 * len(values)
            operation, left, right = OPERATIONS[made[at]], made[at + 1], made[at + 2]
            if operation == "constant":
                values.append(wrapped(left))
            elif operation == "load":
                if left not in self.loaded:
                    raise UsageError(f"the record uses a register that row {left} has yet to load")
                values.append(self.loaded[left])
            else:
                values.append(wrapped(int(COMPUTE[operation](values[left], values[right]))))
        return values[number]

    def load(self, row: int, value: int) -> None:
        """Note what an instruction has loaded."""
        self.loaded[row] = wrapped(value)

    def back_to(self, row: int) -> None:
        """Forget what was loaded from a row on."""
        self.loaded = {at: value for at, value in self.loaded.items() if at < row}
        self._values.clear()
