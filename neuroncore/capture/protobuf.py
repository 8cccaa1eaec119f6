"""Messages of protocol buffers, decoded without their declarations (.proto files)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

FIELDS = 1_000_000  # most fields of one message; known traces and programs have thousands
VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5  # encodings of a field's value

Value = int | memoryview


class Malformed(ValueError):
    """The error for contents of a file that do not have the format of the file."""


class Message:
    """The fields of one message, by number. A field may occur several times."""

    def __init__(self, data: memoryview) -> None:
        """Raises Malformed if the bytes are not a message."""
        self._fields: dict[int, list[Value]] = {}
        for count, (number, value) in enumerate(_fields(data)):
            if count == FIELDS:
                raise Malformed(f"a message has more than {FIELDS:,} fields")
            self._fields.setdefault(number, []).append(value)

    def integer(self, number: int, default: int = 0) -> int:
        """Return the last value of an integer field. Raise Malformed if it holds bytes."""
        value = self._fields.get(number, [default])[-1]
        if not isinstance(value, int):
            raise Malformed(f"field {number} holds bytes where a number is expected")
        return value

    def has(self, number: int) -> bool:
        return number in self._fields

    def all_bytes(self, number: int) -> list[memoryview]:
        """Return the values of a field of bytes. Raise Malformed if a value is an integer."""
        values = [value for value in self._fields.get(number, []) if isinstance(value, memoryview)]
        if len(values) != len(self._fields.get(number, [])):
            raise Malformed(f"field {number} holds a number where bytes are expected")
        return values

    def text(self, number: int) -> str:
        """Return the last value of a text field, or "". Raise Malformed if it is not UTF-8."""
        values = self.all_bytes(number)
        if not values:
            return ""
        try:
            return str(values[-1], "utf-8")
        except UnicodeDecodeError:
            raise Malformed(f"field {number} is not text") from None

    def messages(self, number: int) -> list[Self]:
        """Return all messages in a field. Raise Malformed if a value of the field is not a
        message."""
        return [type(self)(value) for value in self.all_bytes(number)]

    def message(self, number: int) -> Self:
        """Return the last message in a field, or an empty message."""
        values = self.all_bytes(number)
        return type(self)(values[-1] if values else memoryview(b""))


def packed(data: memoryview) -> list[int]:
    """Return the integers of a packed field. Raise Malformed if the bytes end within an integer."""
    numbers, at = [], 0
    while at < len(data):
        number, at = _varint(data, at)
        numbers.append(number)
    return numbers


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value: Value
            value, at = _varint(data, at)
        else:
            size = {EIGHT_BYTES: 8, FOUR_BYTES: 4}.get(kind)
            if kind == LENGTH:
                size, at = _varint(data, at)
            if size is None or at + size > end:
                raise Malformed(f"field {number} does not fit its message")
            value, at = data[at : at + size], at + size
        yield number, value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return an integer of at most 64 bits, and the position after it."""
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise Malformed("a message ends within a number")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & (1 << 64) - 1, at
    raise Malformed("a number has more than 64 bits")
