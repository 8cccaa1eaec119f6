"""The critical path: what each instruction on the path does (work, issue, move, wait), and what the
instruction waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from neuroncore.base.lazy import Lazy
from neuroncore.time.loops.work import OWN_QUEUE
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.syncs import together
from neuroncore.time.timeline import before_in_queue

if TYPE_CHECKING:  # loaded when a run needs them
    from neuroncore.time import flow, reported
else:
    reported = Lazy("neuroncore.time.reported")
    flow = Lazy("neuroncore.time.flow")

Array = npt.NDArray[Any]
# The reason why an instruction waited: none, its turn in its queue, data, space that other
# instructions use, an order that the kernel requires, or another core.
START, TURN, DATA, SPACE, ORDER, OTHER_CORES = range(6)
ON_PATH = "start", "turn", "data", "space", "order", "meeting"


class StepTimes(NamedTuple):
    """The instructions of a critical path, with four parts of their times in nanoseconds
    (`CriticalSteps`)."""

    instruction: Array
    working: Array
    issuing: Array
    moving: Array
    waiting: Array


class CriticalSteps(NamedTuple):
    """The critical path of a timeline, one step per instruction, in order. A step lasts until the
    next step begins. Four fields split its nanoseconds:

    `working`: while the instruction occupies its engine
    `issuing`: while a transfer occupies its queue
    `moving`: while DMA engines move the bytes of this transfer or of earlier ones
    `waiting`: until the result is available

    Two fields state reasons, which are the constants START to OTHER_CORES:

    `held`: why the instruction had to wait for the previous step
    `holds`: why the next step had to wait for this step"""

    instruction: Array
    working: Array
    issuing: Array
    moving: Array
    waiting: Array
    held: Array
    holds: Array

    @property
    def ns(self) -> Array:
        """Return the whole time of each step."""
        total: Array = self.working + self.issuing + self.moving + self.waiting
        return total


def steps(timeline: Timeline) -> CriticalSteps:
    """Return the critical path of one core. It includes the waits for other cores at
    synchronizations."""
    path_steps = _known.get(timeline)
    if path_steps is None:
        indices = timeline.critical_path
        path_steps = _known[timeline] = _of_core(timeline, indices) if len(indices) else _none()
    return path_steps


def step_times(timeline: Timeline) -> StepTimes:
    """Return the times of the critical path of one core, without the causes of waits."""
    path = timeline.critical_path
    until = np.concatenate((timeline.begin[path[1:]], timeline.end[path[-1:]]))
    return _timed(timeline, path, until)


def _of_core(timeline: Timeline, path: Array) -> CriticalSteps:
    until = np.append(timeline.begin[path[1:]], timeline.end[path[-1]])
    held = _held(timeline, path, np.arange(len(path)) > 0)
    held[0] = START
    times = _timed(timeline, path, until)
    return CriticalSteps(*times, held, np.append(held[1:], START))


_known: WeakKeyDictionary[Timeline, CriticalSteps] = WeakKeyDictionary()


def across(timelines: Sequence[Timeline]) -> list[tuple[Timeline, CriticalSteps]]:
    """Return the critical path through all cores of a world: the timeline of each core on the path,
    with its steps. At a synchronization, the path comes from the core that arrived last."""
    place = {
        (number, i): sync
        for sync in together([timeline.program for timeline in timelines], timelines[0].world)
        for number, i in sync.items()
    }
    last = max(range(len(timelines)), key=lambda n: timelines[n].end.max(initial=0.0))
    if not len(timelines[last].end):
        return []
    number, i, path = last, int(np.argmax(timelines[last].end)), []
    previous: dict[int, Array] = {}
    while i >= 0:
        sync = place.get((number, i), {number: i})
        number = max(sync, key=lambda n: float(timelines[n].done[sync[n]]))
        i, timeline = sync[number], timelines[number]
        path.append((number, i))
        cause = int(timeline.cause[i])
        if cause == OWN_QUEUE:
            if number not in previous:
                previous[number] = before_in_queue(timeline.queue, timeline.begin)
            cause = int(previous[number][i])
        i = cause
    return _steps(timelines, path[::-1])


def _none() -> CriticalSteps:
    return CriticalSteps(*(np.zeros(0, kind) for kind in (np.int64, *[np.float64] * 4, int, int)))


def _steps(
    timelines: Sequence[Timeline], path: Sequence[tuple[int, int]]
) -> list[tuple[Timeline, CriticalSteps]]:
    """Return the timeline of each core on a path, with the steps on this core.

    `path`: pairs of a core's number and an instruction of that core"""
    if not path:
        return []
    core, at = np.array(path, np.int64).T
    begin = np.array([timelines[c].begin[i] for c, i in path])
    until = np.append(begin[1:], timelines[core[-1]].end[at[-1]])
    held = np.full(len(at), OTHER_CORES)
    by_core = []
    for number in np.unique(core).tolist():
        on_core = core == number
        together = on_core & np.append(False, on_core[:-1])
        held[on_core] = _held(timelines[number], at[on_core], together[on_core])
    held[0] = START
    holds = np.append(held[1:], START)
    for number in np.unique(core).tolist():
        on_core = core == number
        times = _timed(timelines[number], at[on_core], until[on_core])
        by_core.append((timelines[number], CriticalSteps(*times, held[on_core], holds[on_core])))
    return by_core


def _timed(timeline: Timeline, path: Array, until: Array) -> StepTimes:
    """Return the times of the steps of `path`, instructions of one core. Step k lasts until
    until[k], in nanoseconds."""
    begin, moves = timeline.begin[path], timeline.moves[path]
    busy = np.minimum(until - begin, timeline.busy[path])
    done = np.minimum(until, timeline.done[path]) - begin
    return StepTimes(
        instruction=path,
        working=np.where(moves, 0.0, done),
        issuing=np.where(moves, busy, 0.0),
        moving=np.where(moves, np.maximum(done - busy, 0.0), 0.0),
        waiting=until - begin - np.where(moves, np.maximum(done, busy), done),
    )


def _held(timeline: Timeline, path: Array, follows: Array) -> Array:
    """Return the reason why each instruction of `path` had to wait.

    `path`: the part of the critical path on one core
    `follows`: flags the instructions that come after another instruction of this core on the
        critical path. For all others, the reason is OTHER_CORES."""
    reasons = np.full(len(path), OTHER_CORES)
    before = np.append(-1, path[:-1])
    turn = timeline.cause[path] == OWN_QUEUE
    waits = np.flatnonzero(follows & ~turn)
    reader, writer = path[waits], before[waits]
    ordered = np.isin(_pairs(reader, writer, len(timeline.queue)), _asked(timeline))
    if "loop-drains" in timeline.program.assume:
        iteration = reported.iterations(timeline.program)
        ordered |= iteration[reader] != iteration[writer]
    data = _wait_for_data(timeline, reader, writer)
    reasons[waits] = np.where(data, DATA, np.where(ordered, ORDER, SPACE))
    reasons[follows & turn] = TURN
    return reasons


def _wait_for_data(timeline: Timeline, reader: Array, writer: Array) -> Array:
    """Return whether instruction reader[k] waits for data of instruction writer[k].

    The first of several merged instructions reads the inputs of all. The results of all exist when
    it ends."""
    accesses, heads = timeline.compiled.accesses, timeline.compiled.heads
    boxes = timeline.program.boxes().table
    data: Array = flow.read_of(accesses, boxes, reader, writer) | (heads[reader] == writer)
    others = np.flatnonzero(heads >= 0)
    others = others[np.argsort(heads[others], kind="stable")]
    first, last = (np.searchsorted(heads[others], reader, side) for side in ("left", "right"))
    count = last - first
    pair = np.repeat(np.arange(len(reader)), count)
    at = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    data[pair[flow.read_of(accesses, boxes, others[first[pair] + at], writer[pair])]] = True
    return data


def _asked(timeline: Timeline) -> Array:
    """Return pairs of instructions, encoded by `_pairs`. The first instruction waits for the second
    because the kernel demands it, or a rule of its compiler (`Compiled.held`)."""
    program, count = timeline.program, len(timeline.queue)
    edges, decided = program.edges(), program.decided()
    later = np.flatnonzero(decided >= 0)
    loaded = decided[later].astype(np.int64)
    waits = edges, np.column_stack((later, loaded)), timeline.compiled.held
    return np.concatenate([_pairs(pairs[:, 0], pairs[:, 1], count) for pairs in waits])


def _pairs(first: Array, second: Array, count: int) -> Array:
    """Return one integer for each pair (first[k], second[k]) of indices below `count`."""
    keys: Array = first.astype(np.int64) * count + second
    return keys


class PathParts(NamedTuple):
    """The parts of a critical path in nanoseconds:

    * the work of each queue, by the name of the queue;
    * the issue, the moves and the latency of transfers;
    * the latency of all other instructions;
    * waits for space;
    * waits for the other core of the rank;
    * collectives, with the waits for other ranks."""

    work: dict[str, float]
    issue: float
    moves: float
    transfer_latency: float
    latency: float
    space: float
    other_core: float
    collectives: float

    @property
    def named(self) -> dict[str, float]:
        """Return the parts that are not 0, by their names in reports, the longest first."""
        rest = zip(NAMES, self[1:], strict=True)
        named = self.work | {name: ns for name, ns in rest if ns > 0}
        return dict(sorted(named.items(), key=lambda part: -part[1]))

    def __add__(self, other: object) -> PathParts:
        """Return the sums of the parts of two critical paths."""
        assert isinstance(other, PathParts)
        names = {*self.work, *other.work}
        work = {name: self.work.get(name, 0.0) + other.work.get(name, 0.0) for name in names}
        return PathParts(work, *(a + b for a, b in zip(self[1:], other[1:], strict=True)))


NAMES = (
    *("DMA issue", "DMA moving", "DMA latency", "latency", "space"),
    *("other core", "collectives"),
)


def parts(timeline: Timeline, path_steps: CriticalSteps) -> PathParts:
    """Return the parts of a critical path: the sums over all of its steps."""
    (path_parts,) = parts_of_groups(
        timeline, path_steps, np.zeros(len(path_steps.instruction), np.int64), 1
    )
    return path_parts


def parts_of_groups(
    timeline: Timeline, path_steps: CriticalSteps, group: Array, count: int
) -> list[PathParts]:
    """Return the PathParts of each of `count` groups of steps: the sums over the steps of the
    group.

    `group`: step k belongs to group[k]"""
    rows, waiting = path_steps.instruction, path_steps.waiting
    moves, space = timeline.moves[rows], path_steps.holds == SPACE
    met, ranks = _syncs(timeline)[:, timeline.columns.call[rows]]
    alone = ~met & ~space
    kinds = (moves & alone, ~moves & alone, ~met & space, met & ~ranks, ranks)
    waits = [np.where(kind, waiting, 0.0) for kind in kinds]
    sums_of_parts = [
        np.bincount(group, column, count)
        for column in (path_steps.issuing, path_steps.moving, *waits)
    ]
    key = group * len(QUEUES) + timeline.queue[rows]
    work = np.bincount(key, path_steps.working, count * len(QUEUES)).reshape(count, len(QUEUES))
    return [
        PathParts(
            {name: ns for name, ns in zip(QUEUES, works, strict=True) if ns > 0},
            *(float(column[k]) for column in sums_of_parts),
        )
        for k, works in enumerate(work.tolist())
    ]


def _syncs(timeline: Timeline) -> Array:
    """Return two flags for each call: whether it meets other cores, and whether it meets other
    ranks."""
    flags = np.zeros((2, len(timeline.program.calls)), np.bool_)
    for n, call in enumerate(timeline.program.calls):
        if call.instruction.meets is not None:
            members = call.instruction.meets(call, timeline.world, timeline.core)
            flags[:, n] = True, len({timeline.world.rank(number) for number in members}) > 1
    return flags
