"""When the instructions of a timeline happened, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.schedule import QUEUES, Timeline
from neuroncore.schedule.timeline import before_in_queue
from neuroncore.view.columns import Packed, packed, signed

Array = npt.NDArray[Any]
CRITICAL, IN_TURN, TRANSFER = 1, 2, 4  # flags of an instruction


class Times:
    """When the instructions of a timeline happened, in ticks."""

    def __init__(self, timeline: Timeline, tick_ns: float) -> None:
        self.timeline = timeline
        self.begin, self.until, self.end = (
            np.rint(when / tick_ns).astype(np.int64)
            for when in (timeline.begin, timeline.begin + timeline.busy, timeline.end)
        )

    def columns(self) -> dict[str, Packed]:
        """`begin` is counted from that of the instruction before it in its queue, in order of the
        program; `busy` and `taken` from `begin`; `cause` back from the instruction."""
        timeline, begin = self.timeline, self.begin
        since = np.empty_like(begin)
        for q in range(len(QUEUES)):
            own = np.flatnonzero(timeline.queue == q)
            since[own] = np.diff(begin[own], prepend=0)
        in_turn = before_in_queue(timeline.queue, timeline.begin)
        cause = np.where(timeline.cause == -2, in_turn, timeline.cause)
        back = np.where(cause >= 0, signed(np.arange(len(cause)) - cause), 0)
        flags = np.where(timeline.cause == -2, IN_TURN, 0) + np.where(timeline.moves, TRANSFER, 0)
        flags[timeline.critical_path] += CRITICAL
        return {
            "call": packed(timeline.columns.call),
            "site": packed(timeline.columns.line),
            "queue": packed(timeline.queue),
            "begin": packed(since),
            "busy": packed(self.until - begin),
            "taken": packed(signed(self.end - begin)),
            "cause": packed(back),
            "flags": packed(flags),
        }
