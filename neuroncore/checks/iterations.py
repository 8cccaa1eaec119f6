"""Iterations of a parallel loop that read bytes that other iterations of it write."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from neuroncore.base.findings import Finding
from neuroncore.base.structs import dataclass
from neuroncore.checks.uses import Array, Uses

NOWHERE = -1  # in no loop


@dataclass(frozen=True, eq=False)
class Nesting:
    """The parallel loops around each row of a record. Span k begins with row `begins[k]`; the loops
    around it, outermost first, are in row k of `loops`, and the values of their variables in row k
    of `values`."""

    begins: Array
    loops: Array
    values: Array

    @classmethod
    def of(cls, marks: Array) -> Nesting:
        """Make it from the rows of `Data.iterations`, three numbers each."""
        within: dict[int, int] = {}  # loops in progress, with their variables
        spans = [dict(within)]
        for loop, value in marks[:, 1:].tolist():
            if loop >= 0:
                within[loop] = value
            else:
                del within[~loop]
            spans.append(dict(within))
        shape = len(spans), max(map(len, spans))
        loops, values = np.full(shape, NOWHERE, np.int64), np.zeros(shape, np.int64)
        for span, around in enumerate(spans):
            loops[span, : len(around)] = list(around)
            values[span, : len(around)] = list(around.values())
        return cls(np.append(0, marks[:, 0]), loops, values)

    def differ(self, one: Array, other: Array) -> Array:
        """Return, for pairs of rows and by depth, the loops in which they are in different
        iterations."""
        a, b = (np.searchsorted(self.begins, rows, "right") - 1 for rows in (one, other))
        same_loop = (self.loops[a] == self.loops[b]) & (self.loops[a] != NOWHERE)
        different: Array = same_loop & (self.values[a] != self.values[b])
        return different

    def share(self, one: Array, other: Array) -> Array:
        """Return, for pairs of rows, whether both are in the same run of a loop."""
        a, b = (np.searchsorted(self.begins, rows, "right") - 1 for rows in (one, other))
        inside = (self.loops[a] == self.loops[b]) & (self.loops[a] != NOWHERE)
        shared: Array = inside.any(axis=1)
        return shared

    def value(self, row: int, depth: int) -> int:
        """Return the value of the variable of a loop around a row."""
        return int(self.values[np.searchsorted(self.begins, row, "right") - 1, depth])


def findings(uses: Uses) -> Iterator[Finding]:
    """Return a finding for each pair of lines of which one reads, in an iteration of a parallel
    loop, bytes that the other wrote last in another iteration, or overwrites later."""
    nesting, reported = _nesting(uses), set()
    if nesting is None:
        return
    for operand, writer, depth in _carried(uses, nesting):
        reader = int(uses.user[operand])
        lines = uses.line(writer), uses.line(reader)
        if lines in reported or not _is_one_tensor(uses, operand, writer):
            continue
        reported.add(lines)
        does = "has written" if writer < reader else "overwrites"
        yield Finding(
            "LOOP_CARRIED_READ",
            f"iteration {nesting.value(reader, depth)} of an affine_range reads what iteration "
            f"{nesting.value(writer, depth)} {does} at {lines[0].short}",
            lines[1],
        )


def conflicts(uses: Uses) -> Iterator[tuple[int, int]]:
    """Return pairs of instructions in different iterations of a parallel loop that use the same
    bytes of a tensor, and of which one writes, in the order of the kernel."""
    nesting = _nesting(uses)
    if nesting is None:
        return
    for operand, writer, _ in (*_carried(uses, nesting), *_written_twice(uses, nesting)):
        if _is_one_tensor(uses, operand, writer):
            user = int(uses.user[operand])
            yield min(user, writer), max(user, writer)


def _nesting(uses: Uses) -> Nesting | None:
    """Return the parallel loops of a program; None if it has none."""
    marks = np.array(uses.program.data.iterations, np.int64).reshape(-1, 3)
    return Nesting.of(marks) if len(marks) else None


def _written_twice(uses: Uses, nesting: Nesting) -> Iterator[tuple[int, int, int]]:
    """Return operands that are written where another iteration has written before."""
    written: Array = np.flatnonzero(uses.writes & (uses.reaching >= 0))
    before = uses.reaching[written]
    differ = nesting.differ(uses.user[written], before)
    for k in np.flatnonzero(differ.any(axis=1)).tolist():
        yield int(written[k]), int(before[k]), int(differ[k].argmax())


def _carried(uses: Uses, nesting: Nesting) -> Iterator[tuple[int, int, int]]:
    """Return operands that are read in another iteration than they are written in, each with the
    instruction that wrote there last before the read, or last of all, and the depth of the loop.
    Operands that the loop may share and operands that move by indices are left out."""
    windows = uses.program.windows()
    shared = np.isin(windows.storage, list(uses.program.data.carried)) | (windows.moving >= 0)
    read: Array = np.flatnonzero(~uses.writes & ~shared[uses.window])
    written = uses.reaching[read]
    differ = nesting.differ(uses.user[read], written) & (written >= 0)[:, np.newaxis]
    for k in np.flatnonzero(differ.any(axis=1)).tolist():
        yield int(read[k]), int(written[k]), int(differ[k].argmax())
    yield from _overwritten(uses, nesting, read)


def _overwritten(uses: Uses, nesting: Nesting, read: Array) -> Iterator[tuple[int, int, int]]:
    """Return the operands in `read` that are written later, and not earlier by the same
    iteration."""
    near, start = uses.program.boxes().near
    last = np.full(len(start) - 1, -1, np.int64)  # the last writer of a box
    np.maximum.at(last, uses.box[uses.writes], uses.user[uses.writes])
    of_box = np.repeat(np.arange(len(last)), np.diff(start))
    latest = np.full(len(last), -1, np.int64)  # the last writer of any byte of a box
    np.maximum.at(latest, of_box, last[near])
    reader, writer, before = uses.user[read], latest[uses.box[read]], uses.reaching[read]
    same_iteration = (
        (before >= 0) & nesting.share(reader, before) & ~nesting.differ(reader, before).any(axis=1)
    )
    differ = nesting.differ(reader, writer) & ((writer > reader) & ~same_iteration)[:, np.newaxis]
    for k in np.flatnonzero(differ.any(axis=1)).tolist():
        yield int(read[k]), int(writer[k]), int(differ[k].argmax())


def _is_one_tensor(uses: Uses, operand: int, writer: int) -> bool:
    """Return whether an instruction writes the operand's tensor at a fixed place, and does not
    update it in place. Another tensor may be at its address."""
    windows, start = uses.program.windows(), uses.columns.start
    window, reader = uses.window[operand], uses.user[operand]
    updated = slice(start[reader], start[reader + 1])
    if (uses.writes[updated] & (uses.window[updated] == window)).any():
        return False
    written = slice(start[writer], start[writer + 1])
    others = uses.window[written][uses.writes[written]]
    fixed = windows.moving[others] < 0
    return bool((fixed & (windows.storage[others] == windows.storage[window])).any())
