"""Kinds of device files. They are recognized by their first bytes before the file is read."""

from __future__ import annotations

import zlib
from pathlib import Path

VERSIONS = range(4, 7)  # of published traces; field 3 of the header is 10001 in all of them
START = 128  # where the header of a trace begins
ARCHIVE = 1024  # where the archive of a compiled program begins
NAME = 0x0A  # the first byte of a trace's header: the tag of the program's name
GZIP = b"\x1f\x8b"
JSON = b"{["  # first bytes of JSON
SAVED, HEAD = b'"neuroncore.', 64  # a saved run, decompressed, has SAVED in its first HEAD bytes


def is_capture(path: Path) -> bool:
    """Return whether a file is a capture, judging by its first bytes and its suffix.

    A capture begins like a device trace, or has the suffix of a trace or of a compiled program, or
    is JSON with the suffix .json. A run that neuroncore saved is not a capture."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(ARCHIVE + len(GZIP))
    except OSError:
        return False
    ours = start.startswith(GZIP)  # a saved run's profile
    named = path.suffix in (".ntff", ".neff") and not ours
    return is_trace(start) or named or (path.suffix == ".json" and is_json(start))


def is_trace(start: bytes) -> bool:
    return len(start) > START and start[0] in VERSIONS and start[START] == NAME


def is_json(start: bytes) -> bool:
    return bool(start.lstrip()) and start.lstrip()[0] in JSON


def saved_run(path: Path, content: bytes) -> str:
    """Return the message for a saved run of neuroncore with the vendor's suffix; "" for other
    files."""
    try:
        head = zlib.decompressobj(wbits=31).decompress(content[:ARCHIVE], HEAD)
    except zlib.error:
        return ""
    if SAVED not in head:
        return ""
    option = "-s" if path.suffix == ".ntff" else "-n"
    return (
        f"{path} is a run that neuroncore saved, not a file of a device: "
        f"`neuroncore profile view {option} {path}` prints it"
    )
