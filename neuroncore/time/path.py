"""The critical path: its lines, and whether they work, issue, move or wait."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline

Array = npt.NDArray[Any]


class CriticalSteps(NamedTuple):
    """The critical path of a timeline, instruction by instruction, in order: each as an index, and
    in nanoseconds until the next one begins what passes while it keeps its engine (`working`), or
    for a transfer its queue (`issuing`); while DMA engines move its bytes or others' before it;
    and while its result is on its way."""

    instruction: Array
    working: Array
    issuing: Array
    moving: Array
    waiting: Array

    @property
    def ns(self) -> Array:
        """All of each step."""
        total: Array = self.working + self.issuing + self.moving + self.waiting
        return total


def steps(timeline: Timeline) -> CriticalSteps:
    path = np.array(timeline.critical_path, np.int64)
    begin, moves = timeline.begin[path], timeline.moves[path]
    until = np.append(begin[1:], timeline.end[path[-1:]])
    busy = np.minimum(until - begin, timeline.busy[path])
    done = np.minimum(until, timeline.done[path]) - begin
    return CriticalSteps(
        instruction=path,
        working=np.where(moves, 0.0, done),
        issuing=np.where(moves, busy, 0.0),
        moving=np.where(moves, np.maximum(done - busy, 0.0), 0.0),
        waiting=until - begin - np.where(moves, np.maximum(done, busy), done),
    )


class Parts(NamedTuple):
    """How much of a critical path is what, in nanoseconds: work by queue; issue, moves and latency
    of transfers; latency of everything else; meetings with the other core of a launch, and with
    other ranks."""

    work: dict[str, float]
    issue: float
    moves: float
    transfer_latency: float
    latency: float
    other_core: float
    collectives: float

    @property
    def named(self) -> dict[str, float]:
        """Those that there are, as they are called in reports, the longest first."""
        rest = zip(NAMES, self[1:], strict=True)
        found = self.work | {name: ns for name, ns in rest if ns > 0}
        return dict(sorted(found.items(), key=lambda part: -part[1]))


NAMES = "DMA issue", "DMA moving", "DMA latency", "latency", "other core", "collectives"


def parts(timeline: Timeline, found: CriticalSteps, chosen: Array | None = None) -> Parts:
    """The sums over all steps, or over those that `chosen` flags."""
    kept = np.ones(len(found.instruction), np.bool_) if chosen is None else chosen
    own = found.instruction[kept]
    work = np.bincount(timeline.queue[own], found.working[kept], len(QUEUES))
    moves, waiting = timeline.moves[own], found.waiting[kept]
    met, ranks = _meetings(timeline)[:, timeline.columns.call[own]]
    return Parts(
        work={name: float(ns) for name, ns in zip(QUEUES, work, strict=True) if ns > 0},
        issue=float(found.issuing[kept].sum()),
        moves=float(found.moving[kept].sum()),
        transfer_latency=float(waiting[moves & ~met].sum()),
        latency=float(waiting[~moves & ~met].sum()),
        other_core=float(waiting[met & ~ranks].sum()),
        collectives=float(waiting[ranks].sum()),
    )


def _meetings(timeline: Timeline) -> Array:
    """For each call: whether it meets other cores, and whether some of them belong to other
    ranks."""
    found = np.zeros((2, len(timeline.program.calls)), np.bool_)
    for n, call in enumerate(timeline.program.calls):
        if call.instruction.meets is not None:
            members = call.instruction.meets(call, timeline.world, timeline.core)
            found[:, n] = True, len({timeline.world.rank(one) for one in members}) > 1
    return found
