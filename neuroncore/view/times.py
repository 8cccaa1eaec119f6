"""The times of instructions as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.timeline import before_in_queue
from neuroncore.view.columns import Packed, packed, signed

Array = npt.NDArray[Any]
CRITICAL, IN_TURN, TRANSFER, ELSEWHERE = 1, 2, 4, 8  # flags of an instruction


class PageTimes:
    """The times of the instructions of a timeline, in ticks."""

    def __init__(self, timeline: Timeline, tick_ns: float) -> None:
        self.timeline = timeline
        first = timeline.done - timeline.transfer_ns  # its DMA engines
        self.begin, self.until, self.end, self.move, self.moved = (
            # differences below a thousandth are rounding errors of sums in a different order
            np.rint(np.round(when / tick_ns, 3)).astype(np.int64)
            for when in (
                timeline.begin, timeline.begin + timeline.busy, timeline.end, first, timeline.done
            )
        )  # fmt: skip

    def columns(self, shown: range) -> dict[str, Packed]:
        """Return columns of instructions. `begin` is relative to the begin of the previous
        instruction in its queue, in program order; `busy`, `taken` and `move` to `begin`, `moving`
        to `move`; `cause` counts back from the instruction, 0 if there is none on the page."""
        timeline, part = self.timeline, slice(shown.start, shown.stop)
        begin, queue = self.begin[part], timeline.queue[part]
        since = np.empty_like(begin)
        for q in range(len(QUEUES)):
            own = np.flatnonzero(queue == q)
            since[own] = np.diff(begin[own], prepend=0)
        in_turn = before_in_queue(timeline.queue, timeline.begin)
        cause = np.where(timeline.cause == -2, in_turn, timeline.cause)[part]
        there = (cause >= shown.start) & (cause < shown.stop)
        back = np.where(there, signed(np.array(shown) - cause), 0)
        flags = np.where(timeline.cause == -2, IN_TURN, 0) + np.where(timeline.moves, TRANSFER, 0)
        flags[timeline.critical_path] += CRITICAL
        moves = timeline.moves[part] & (timeline.engines_used[part] > 0)
        return {
            "call": packed(timeline.columns.call[part]),
            "site": packed(timeline.columns.line[part]),
            "queue": packed(queue),
            "begin": packed(since),
            "busy": packed(self.until[part] - begin),
            "taken": packed(signed(self.end[part] - begin)),
            "cause": packed(back),
            "move": packed(np.where(moves, signed(self.move[part] - begin), 0)),
            "moving": packed(np.where(moves, (self.moved - self.move)[part], 0)),
            "engine": packed(np.where(moves, timeline.lane[part, 0], 0)),
            "engines": packed(np.where(moves, timeline.engines_used[part], 0)),
            "flags": packed(flags[part] + np.where((cause >= 0) & ~there, ELSEWHERE, 0)),
        }
