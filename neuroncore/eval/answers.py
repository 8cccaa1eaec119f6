"""The answers of processes that ran a candidate: bytes that are never unpickled.

An answer has these parts, in this order:

1. Three bytes for the isolation that the operating system granted. They are written before the
   candidate's code runs.
2. The kind of the answer: "R" for records or "E" for an error.
3. The number of parts, and the length of each part.
4. The parts. For "R", each part is a packed record. For "E", the only part is JSON."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from neuroncore.eval.refusals import Refused

RECORDS, ERROR = b"R", b"E"
MOST_PARTS = 256
ISOLATION = struct.Struct("<BBB")  # namespaces, version of Landlock, seccomp
COUNT = struct.Struct("<I")
SIZE = struct.Struct("<Q")
MOST_LINE = 1 << 31


class Isolation(NamedTuple):
    """The isolation that the operating system granted.

    `namespaces`, `seccomp`: 1 if the process has them, otherwise 0
    `landlock`: the version of Landlock; 0 without Landlock"""

    namespaces: int = 0
    landlock: int = 0
    seccomp: int = 0


def write(file: int, content: bytes) -> None:
    """Write all bytes to a file descriptor."""
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def encoded(kind: bytes, parts: Sequence[bytes]) -> bytes:
    """Return all bytes of an answer except the isolation: the kind ("R" or "E"), the number of
    parts, their lengths, and the parts."""
    sizes = b"".join(SIZE.pack(len(part)) for part in parts)
    return kind + COUNT.pack(len(parts)) + sizes + b"".join(parts)


def isolation(content: bytes) -> Isolation:
    """Return the isolation that an answer states at its beginning. An answer that is too short has
    no isolation."""
    if len(content) < ISOLATION.size:
        return Isolation()
    return Isolation(*ISOLATION.unpack_from(content))


def records(content: bytes) -> list[bytes]:
    """Return the packed records in an answer. Raise Refused if the answer is an error of the
    candidate, or if the bytes are not an answer."""
    body = content[ISOLATION.size :]
    if not body:
        raise Refused("NO_RECORD", "the candidate ended before its kernel returned")
    kind, parts = body[:1], _parts(body[1:])
    if kind == RECORDS:
        return parts
    if kind != ERROR or len(parts) != 1:
        raise Refused("BAD_ANSWER", "the candidate's process did not write records")
    raise _error(parts[0])


def _parts(content: bytes) -> list[bytes]:
    if len(content) < COUNT.size:
        raise Refused("BAD_ANSWER", "the answer ends within its header")
    (count,) = COUNT.unpack_from(content)
    at = COUNT.size + SIZE.size * count
    if count > MOST_PARTS or len(content) < at:
        raise Refused(
            "BAD_ANSWER",
            f"the answer is too short for {count} parts, or has more than {MOST_PARTS} parts",
        )
    sizes = [SIZE.unpack_from(content, COUNT.size + SIZE.size * n)[0] for n in range(count)]
    if sum(sizes) != len(content) - at:
        raise Refused("BAD_ANSWER", "the length of the answer is not the sum of its parts")
    parts = []
    for size in sizes:
        parts.append(content[at : at + size])
        at += size
    return parts


def _error(part: bytes) -> Refused:
    """Return the refusal for an error that a candidate's process reports. The bytes `part` come
    from the candidate, and are used only as text."""
    try:
        document = json.loads(part)
        code, message = str(document["code"])[:40], str(document["message"])
        line, hint = document.get("line"), str(document.get("hint") or "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Refused("BAD_ANSWER", "the candidate's process wrote an error that can't be read")
    known = type(line) is int and 0 < line < MOST_LINE
    return Refused(code, message, line if known else None, hint)


def error(document: dict[str, Any]) -> bytes:
    """Return the bytes of an error's answer, except the isolation. `document` is the JSON of the
    error."""
    return encoded(ERROR, [json.dumps(document).encode()])
