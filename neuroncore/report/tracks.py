"""Counters over time: the times of changes, in whole nanoseconds, and the new values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.time.schedule import Timeline

Array = npt.NDArray[np.number]
Track = tuple[npt.NDArray[np.int64], Array]


def whole(ns: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return whole nanoseconds. Differences below a picosecond are rounding errors of sums in a
    different order, and are ignored."""
    return np.rint(np.round(ns, 3)).astype(np.int64)


def usage(timeline: Timeline, region: MemoryRegion) -> Track:
    """Return bytes per partition of the tiles that the system places."""
    program, columns = timeline.program, timeline.columns
    areas = program.boxes().areas
    bytes_of = [
        kind.row_bytes if kind.region is region and not kind.placed else 0 for kind in areas.kinds
    ]
    size = np.array(bytes_of, np.int64)[areas.kind]
    area = areas.of_box[columns.operands]
    users = np.repeat(np.arange(len(timeline.queue)), np.diff(columns.start))
    first, last = np.full(len(size), np.inf), np.full(len(size), -np.inf)
    np.minimum.at(first, area, timeline.begin[users])
    np.maximum.at(last, area, timeline.end[users])
    used = np.isfinite(first) & (size > 0)
    return _sum(first[used], last[used], size[used])


def pending(timeline: Timeline) -> Track:
    """Return the number of transfers in flight: from their issue until their data are visible."""
    moves = timeline.moves
    begin, end = timeline.begin[moves], timeline.end[moves]
    return _sum(begin, end, np.ones(len(begin), np.int64))


def throughput(timeline: Timeline) -> Track:
    """Return the throughput of transfers in GB/s. The DMA engines of a transfer work at the end of
    its interval (`Timeline.transfer_ns`)."""
    program, columns = timeline.program, timeline.columns
    moved = [call.written_bytes for call in program.calls]
    size, done = np.array(moved, np.float64)[columns.call], timeline.done
    some = timeline.moves & (timeline.transfer_ns > 0)
    last = whole(done[some])
    first = np.minimum(whole((done - timeline.transfer_ns)[some]), last - 1)
    return _sum(first, last, size[some] / (last - first))


def _sum(first: Array, last: Array, size: Array) -> Track:
    """Return the sum of the sizes that are present at each time, rounded to a thousandth to remove
    rounding errors at the ends."""
    time = whole(np.concatenate([first, last]).astype(np.float64))
    order = np.argsort(time, kind="stable")
    time, total = time[order], np.cumsum(np.concatenate([size, -size])[order])
    total = np.maximum(np.round(total, 3), 0)
    settled = np.diff(time, append=np.iinfo(np.int64).max) > 0
    time, total = time[settled], total[settled]
    changes = np.diff(total, prepend=0) != 0
    return time[changes], total[changes]
