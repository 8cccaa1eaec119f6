"""Sums in PSUM that go on after they were read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from neuroncore.clause.instruction import Call
from neuroncore.diagnostics.uses import Array, Uses
from neuroncore.findings import Finding


def findings(uses: Uses) -> Iterator[Finding]:
    """A finding for each line whose products, which don't say whether they add, are added to a sum
    that has been read: the group of the sum before was thought to have ended."""
    told: set[int] = set()
    lines = uses.columns.line
    for adds, read in _after_reads(uses):
        if lines[adds] in told:
            continue
        told.add(int(lines[adds]))
        yield Finding(
            "SUM_GOES_ON",
            f"dst has a sum that {uses.call(read).name} of {uses.line(read).short} has read, and "
            "this product is added to it: only the first write to a tile begins a sum",
            uses.line(adds),
        )


def _after_reads(uses: Uses) -> Iterator[tuple[int, int]]:
    """Products that leave it open whether they add, each with the instruction that has read what is
    in its place and not written it since."""
    leaves_open = np.array([_leaves_open(call) for call in uses.program.calls], np.bool_)
    if not leaves_open.any():
        return
    # a window is on one tensor: another one at the same address begins a sum of its own
    order = np.lexsort((uses.place, uses.user, uses.window))
    window, user, writes = uses.window[order], uses.user[order], uses.writes[order]
    product = leaves_open[uses.columns.call[user]] & writes
    after: Array = np.flatnonzero(product[1:] & ~writes[:-1] & (window[1:] == window[:-1]))
    began = _written_before(window, writes)
    for k in sorted(after[began[after]].tolist(), key=lambda k: int(user[k + 1])):
        if user[k] != user[k + 1]:
            yield int(user[k + 1]), int(user[k])


def _written_before(window: Array, writes: Array) -> Array:
    """Whether a window, of those in their order, has been written by an earlier use of it."""
    count = np.cumsum(writes)
    first = np.flatnonzero(np.diff(window, prepend=-1))
    before = np.repeat(count[first] - writes[first], np.diff(np.append(first, len(window))))
    found: Array = count > before
    return found


def _leaves_open(call: Call) -> bool:
    """Whether a product adds to what is there only if something is."""
    return call.instruction.traits.multiplies and call.arguments.get("accumulate", False) is None
