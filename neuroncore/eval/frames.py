"""The frames that processes of `eval` send to each other: the length of the content in 8 bytes, and
then the content. Only processes that never run a candidate send pickles."""

from __future__ import annotations

import os
import struct

from neuroncore.eval.answers import write

LENGTH = struct.Struct("<Q")


def send(file: int, content: bytes) -> None:
    """Write a frame."""
    write(file, LENGTH.pack(len(content)) + content)


def receive(file: int) -> bytes:
    """Read a frame. Raises EOFError if the other side has closed the pipe."""
    (length,) = LENGTH.unpack(_read(file, LENGTH.size))
    return _read(file, length)


def _read(file: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(file, min(count, 1 << 20))
        if not part:
            raise EOFError("the process has ended")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
