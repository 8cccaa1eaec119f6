"""The edits that may help a launch, the most promising first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from neuroncore.time.changes import Change
from neuroncore.time.edits.buffers import SpaceWait, second_buffer
from neuroncore.time.edits.edit import Edit
from neuroncore.time.edits.halves import in_halves
from neuroncore.time.edits.placement import (
    elsewhere,
    fewer_barriers,
    narrower_operands,
    summed_in_psum,
)
from neuroncore.time.edits.transfers import fewer_transfers, loaded_once
from neuroncore.time.lines import Line
from neuroncore.time.schedule import Timeline

LEAST = 0.01  # share of the total time; lines with less on the critical path are not edited
# The most edits of each kind: edited lines, second buffers, and splits into halves.
LINES, BUFFERS, SPLITS = 8, 3, 2


def candidates(
    base: Change, timeline: Timeline, lines: Sequence[Line], waits: Sequence[SpaceWait]
) -> Iterator[Edit]:
    """Yield second buffers for the `reused` buffers in `waits`, and edits of lines.

    `lines`: the lines of the critical path, the longest first. Lines below the share LEAST are not
        edited.

    An edit saves at most the line's time on the path, unless it reorders instructions."""
    buffers = dict.fromkeys(wait.buffer for wait in waits if wait.reused)
    for buffer in islice(buffers, BUFFERS):
        doubled = second_buffer(base, buffer)
        if doubled is not None:
            yield doubled
    room = timeline.machine.sbuf.usable_bytes - timeline.peak_sbuf
    total = timeline.total_ns
    longest = [line for line in lines if line.ns >= LEAST * total][:LINES]
    for line in longest:
        yield from fewer_transfers(base, line)
        edits = (
            loaded_once(base, line, room),
            narrower_operands(base, line),
            summed_in_psum(base, line),
            fewer_barriers(base, line),
        )
        yield from (edit for edit in edits if edit is not None)
        yield from elsewhere(base, line)
    yield from islice(in_halves(base, longest), SPLITS)
