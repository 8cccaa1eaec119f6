"""Frames, in which the processes of `eval` send data to each other. A frame is the length of the
content in 8 bytes, and then the content. The content is a pickle only if its sender never runs a
candidate."""

from __future__ import annotations

import os
import struct

from neuroncore.eval.answers import write

LENGTH = struct.Struct("<Q")


def send(file: int, content: bytes) -> None:
    """Write `content` as a frame to the file descriptor `file`."""
    write(file, LENGTH.pack(len(content)) + content)


def receive(file: int) -> bytes:
    """Read a frame and return its content. Raise EOFError if the other process has closed the
    pipe."""
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
