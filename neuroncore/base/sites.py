"""Values kept for places in code: a code object and a bytecode instruction in it."""

from __future__ import annotations

from types import CodeType
from typing import TypeVar

T = TypeVar("T")
ROOM = 1 << 16  # places; tuners make and drop kernels without end


class Sites(dict[int, T]):
    """Values by place. The key of a place is `id(code) + instruction`, one number, because a pair
    takes twice as long to hash.

    Two places never share a key. Since Python 3.11 a code object holds its bytecode itself, so the
    sum is an address inside the object. The object is kept with the value, so Python cannot give
    its memory to another. At `room` places all are dropped, values and code together.
    """

    def __init__(self, room: int = ROOM) -> None:
        super().__init__()
        self.room = room
        self._kept: dict[int, CodeType] = {}

    def keep(self, code: CodeType, instruction: int, value: T) -> T:
        """Keep the value of a place, and return it."""
        if len(self) >= self.room:
            self.clear()
            self._kept.clear()
        self._kept[id(code)] = code
        self[id(code) + instruction] = value
        return value

    def at(self, code: CodeType, instruction: int) -> T | None:
        """Return the value of a place, or None."""
        return self.get(id(code) + instruction)
