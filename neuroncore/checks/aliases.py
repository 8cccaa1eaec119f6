"""Tensors at addresses that the kernel chooses, which overlap while both are in use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from neuroncore.base.findings import Finding
from neuroncore.checks.uses import Array, Uses

TRIED = 16  # reads per pair of lines


def findings(uses: Uses) -> Iterator[Finding]:
    """Return a finding for each line that overwrites the bytes of another tensor that is read
    afterwards. A tensor may be a view of another tensor's bytes: then the tensor that is read was
    not written itself, or the instruction that writes the other one reads all that it writes."""
    program = uses.program
    if not program.storages().is_placed().any():
        return
    storage = program.windows().storage[uses.window]
    tries: dict[tuple[int, int], int] = {}
    for k in _candidates(uses, storage).tolist():
        reader, writer = int(uses.user[k]), int(uses.reaching[k])
        pair = int(uses.columns.line[reader]), int(uses.columns.line[writer])
        tries[pair] = tried = tries.get(pair, 0) + 1
        if tried > TRIED:
            continue
        lost = _overwritten(uses, storage, k, writer)
        if lost is not None:
            tries[pair] = TRIED
            yield Finding(
                "OVERLAPPING_ADDRESSES",
                f"{uses.call(writer).name} overwrites what {uses.call(lost).name} of "
                f"{uses.line(lost).short} has put into another tensor at the same bytes, and "
                f"{uses.call(reader).name} of {uses.line(reader).short} reads as that",
                uses.line(writer),
            )


def _candidates(uses: Uses, storage: Array) -> Array:
    """Return operands that are read and whose bytes were last written through other tensors."""
    kinds, areas = uses.program.kinds, uses.areas
    placed = np.array([kind.placed for kind in kinds], np.bool_)[areas.kind][uses.area]
    read = np.flatnonzero(placed & ~uses.writes & (uses.reaching >= 0))
    written = np.flatnonzero(uses.writes)
    first, last = (np.searchsorted(uses.user[written], uses.reaching[read] + e) for e in (0, 1))
    only = last - first == 1  # with several results it is not known which
    read, write = read[only], written[first[only]]
    candidates: Array = read[storage[read] != storage[write]]
    return candidates


def _overwritten(uses: Uses, storage: Array, read: int, writer: int) -> int | None:
    """Return the instruction that wrote, through the tensor that is read, the bytes that `writer`
    overwrites without reading them; None if there is none."""
    start, end = uses.columns.start[writer : writer + 2]
    (target,) = (k for k in range(start, end) if uses.writes[k])
    sources = [k for k in range(start, end) if not uses.writes[k]]
    if any(_share(uses, k, target) and _is_within(uses, target, k) for k in sources):
        return None
    before = np.flatnonzero(uses.writes & (storage == storage[read]) & (uses.user < writer))
    for k in before[::-1].tolist():
        if _share(uses, k, target) and _share(uses, k, read):
            return int(uses.user[k])
    return None


def _is_within(uses: Uses, one: int, other: int) -> bool:
    """Return whether an operand is in the bounding box (rows and bytes) of another."""
    table = uses.program.box_table()
    (low, high, first, last), (least, most, begin, end) = table[
        uses.box[[one, other]], 1:5
    ].tolist()
    return bool(least <= low and high <= most and begin <= first and last <= end)


def _share(uses: Uses, one: int, other: int) -> bool:
    """Return whether two operands share bytes."""
    near, start = uses.program.boxes().near
    a, b = int(uses.box[one]), int(uses.box[other])
    return bool((near[start[a] : start[a + 1]] == b).any())
