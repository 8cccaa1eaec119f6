"""When each instruction runs: `neuroncore.schedule`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import borrowing, compiled

Array = npt.NDArray[Any]
RECENT = 128  # products among which the use of the PE is counted
OWN_QUEUE = -2  # what an instruction waited for that could have begun before its queue was free
UNKNOWN = -1.0
ROOM = 4  # windows that a queue's places are wide


class Work(NamedTuple):
    """The instructions of all cores. i waits for the writers needs[first[i]:first[i + 1]] and for
    instructions previous[i, q] of each queue q of its core, unless -1."""

    queue: Array
    first: Array
    needs: Array
    previous: Array
    partner: Array  # what the other core has to have done for i to end; -1 for nothing
    busy: Array  # how long it keeps its queue; longer while the PE is cold or a way is shared
    latency: Array  # after which its result is there
    lane: Array  # the first and last DMA engine of a transfer, or -1
    lane_ns: Array  # what it takes of each
    filled: Array  # products with more than half of the PE's rows
    fresh: Array  # what reads nothing
    shares: Array  # what goes the way to SBUF that Vector and GpSimd have in common


class Queues(NamedTuple):
    """The instructions of queue q are order[start[q]:start[q + 1]]. The one that can begin first
    among limits[q, 0] does; those that are fresh do among limits[q, 1], and don't count."""

    order: Array
    start: Array
    limits: Array


class Core(NamedTuple):
    """Which of a core's queues are those of the Tensor, Vector and GpSimd engines, and the costs of
    its machine that depend on when something happens."""

    tensor: int
    vector: int
    gpsimd: int
    semaphore_ns: float
    warmup_ns: float
    cooling_ns: float
    cooling_share: float
    cold_clock_share: float


class Times(NamedTuple):
    """When each instruction begins, has done its work, and when its result is there, in
    nanoseconds, -1 before it is known; and what it waited for: -1 nothing, OWN_QUEUE."""

    begin: Array
    done: Array
    end: Array
    cause: Array


class Windows(NamedTuple):
    """What each queue may begin next: waiting[q, s] for s from low[q] to high[q], in the order of
    the queue, of which order[head[q]] is the next to come. It is ready[q, s], or what must begin
    before that is known is why[q, s]; the one at place[q] can begin soonest.

    A queue is looked at again when it is stale: it has begun something, or it is woken: the end of
    something is known that an instruction in its window waits for. watched[i] has a bit for each
    queue that i wakes.
    """

    waiting: Array
    ready: Array
    why: Array
    low: Array
    high: Array
    head: Array
    place: Array
    soonest: Array
    stale: Array
    woken: Array
    watched: Array


class Units(NamedTuple):
    """Since when each queue is free, all before is complete (DMA), and what has last gone the way
    to SBUF that Vector and GpSimd share; of each core since when its DMA engines are free, when its
    PE worked last, and how warm that is (`_warmed`)."""

    free: Array
    complete: Array
    sharing: Array
    engines: Array
    recent: Array
    warmth: Array


def timeline(work: Work, queues: Queues, core: Core, times: Times) -> None:
    """Fill in `times`, on cores of work.previous.shape[1] queues each.

    Of all queues, the one that can begin first does. A transfer then occupies DMA engines
    lane[i, 0] to lane[i, 1] of its core for lane_ns[i] each, first come first served; in a queue in
    order it is not complete before those ahead of it: all engines count every transfer on one
    semaphore (DMAO). Where cores meet, i ends when partner[i] has done its part as well.
    Instructions of the PE get busier while it is cold. Those of Vector and GpSimd that `shares`
    flags have one way to SBUF: each takes twice as long while the other one works.
    """
    run = _run.over(len(work.queue))
    run(_windows(work, queues), _units(work, queues), work, queues, core, times)


def _windows(work: Work, queues: Queues) -> Windows:
    reach, count = queues.limits[:, 1], len(queues.limits)
    held = np.minimum(np.diff(queues.start), reach)
    waiting = np.zeros((count, ROOM * reach.max()), np.int32)
    for q in range(count):
        waiting[q, : held[q]] = queues.order[queues.start[q] :][: held[q]]
    return Windows(
        waiting=waiting,
        ready=np.full(waiting.shape, UNKNOWN),
        why=np.full(waiting.shape, -1, np.int32),
        low=np.zeros(count, np.int64),
        high=held,
        head=queues.start[:-1] + held,
        place=np.zeros(count, np.int64),
        soonest=np.zeros(count),
        stale=np.ones(count, np.bool_),
        woken=np.zeros(count, np.bool_),
        watched=np.zeros(len(work.queue), np.uint32),  # up to four cores
    )


def _units(work: Work, queues: Queues) -> Units:
    count = len(queues.limits)
    cores = count // work.previous.shape[1]
    units = Units(
        free=np.zeros(count),
        complete=np.zeros(count),
        sharing=np.full(count, -1, np.int32),
        engines=np.zeros((cores, 64)),
        recent=np.zeros((cores, RECENT, 2)),
        warmth=np.zeros((cores, 5)),
    )
    units.warmth[:, 4] = -np.inf
    return units


@compiled
def _run(
    windows: Windows, units: Units, work: Work, queues: Queues, core: Core, times: Times
) -> None:
    for _ in range(work.queue.shape[0]):
        q = _choose(windows, units, work, queues, core, times)
        if q < 0:
            raise RuntimeError("the instructions wait for each other in a circle")
        i = _begin(q, windows, units, work, core, times)
        _complete(i, q, windows, units, work, queues, times)
        _finish(i, q, windows, work, core, times)
        _move_up(q, windows, queues)


@borrowing
def _choose(
    windows: Windows, units: Units, work: Work, queues: Queues, core: Core, times: Times
) -> int:
    """The queue that can begin something first; -1 if none can."""
    best, best_time = -1, np.inf
    for q in range(windows.low.shape[0]):
        if windows.stale[q]:
            _look(q, windows, units, work, queues, core, times)
        if windows.soonest[q] < best_time:
            best, best_time = q, windows.soonest[q]
    return best


@borrowing
def _look(
    q: int, windows: Windows, units: Units, work: Work, queues: Queues, core: Core, times: Times
) -> None:
    """Find what queue q can begin soonest."""
    waiting, ready, why = windows.waiting[q], windows.ready[q], windows.why[q]
    window, awake, free = queues.limits[q, 0], windows.woken[q], units.free[q]
    limited = window < queues.limits[q, 1]
    soonest, counted = np.inf, 0
    for s in range(windows.low[q], windows.high[q]):
        if limited:
            fresh = work.fresh[waiting[s]]
            counted += not fresh
            if counted > window and not fresh:
                continue
        if ready[s] < 0.0:
            w = why[s]
            if w >= 0 and not (awake and times.end[w] >= 0.0):
                continue
            ready[s], why[s] = _ready(waiting[s], q, work, core, times.end)
            if ready[s] < 0.0:
                windows.watched[why[s]] |= 1 << q
                continue
        time = max(ready[s], free)
        if time < soonest:
            windows.place[q], soonest = s, time
        if time <= free:
            break  # those behind it can't begin sooner
    else:
        windows.woken[q] = False  # all have been looked at
    windows.stale[q], windows.soonest[q] = False, soonest


@borrowing
def _ready(i: Any, q: int, work: Work, core: Core, end: Array) -> Any:
    """When all that instruction i of queue q waits for is there, and what was last; UNKNOWN and
    something whose end isn't known yet, if there is such. On the PE results needn't be there for
    the next."""
    queues, first = work.previous.shape[1], work.first
    chained = q % queues == core.tensor
    time, waited = 0.0, -1
    for k in range(first[i], first[i + 1] + queues):
        p = work.needs[k] if k < first[i + 1] else work.previous[i, k - first[i + 1]]
        if p < 0:
            continue
        if end[p] < 0.0:
            return UNKNOWN, p
        own = work.queue[p] == q
        if own and chained and work.partner[p] < 0:
            continue
        there = end[p] + (0.0 if own else core.semaphore_ns)
        if there > time:
            time, waited = there, p
    return time, waited


@borrowing
def _begin(q: int, windows: Windows, units: Units, work: Work, core: Core, times: Times) -> Any:
    """Begin what queue q can begin soonest, and say what that is: it takes longer on a cold PE, or
    when it goes a way to SBUF that another has taken."""
    slot, time = windows.place[q], windows.soonest[q]
    i = windows.waiting[q, slot]
    times.begin[i] = time
    free = windows.ready[q, slot] >= units.free[q]
    times.cause[i] = windows.why[q, slot] if free else OWN_QUEUE
    number, unit = divmod(q, work.previous.shape[1])
    if unit == core.tensor and core.warmup_ns > 0.0:
        recent, warmth = units.recent[number], units.warmth[number]
        work.busy[i] = _warmed(time, work.busy[i], work.filled[i], core, recent, warmth)
    if work.shares[i]:
        rival = q - unit + (core.gpsimd if unit == core.vector else core.vector)
        longer = _shared(i, units.sharing[rival], time, work.busy, times)
        if longer > 0.0:
            units.free[rival] += longer
            windows.stale[rival] = True
            _forget(time, windows)
        units.sharing[q] = i
    units.free[q] = time + work.busy[i]
    return i


@borrowing
def _warmed(
    begin: float, busy: Any, filled: Any, core: Core, recent: Array, warmth: Array
) -> float:
    """How long the PE takes for work of `busy` at full clock.

    It is warm when it has worked for the warm-up time with more than half of its rows `filled`.
    Other work uses that up, the cooling share of its own time, and what there can be of it lasts
    for the cooling time. It is cold again when nothing is left, or after the warm-up time of which
    it worked less than half. `recent` keeps when it worked last, warmth[0] to warmth[1] of the
    entries; warmth[2] is how long it has worked with filled rows, less what is used up, warmth[3]
    whether it is warm, and warmth[4] when it was cold.
    """
    size, used, since = recent.shape[0], 0.0, begin - core.warmup_ns
    while warmth[0] < warmth[1] and recent[int(warmth[0]) % size, 1] <= since:
        warmth[0] += 1
    for k in range(int(warmth[0]), int(warmth[1])):
        used += recent[k % size, 1] - max(recent[k % size, 0], since)
    idle = used < 0.5 * core.warmup_ns and warmth[4] <= since
    if idle or (warmth[3] > 0.0 and warmth[2] <= 0.0):
        warmth[2], warmth[3], warmth[4] = 0.0, 0.0, begin
    left = core.warmup_ns - warmth[2]
    taken: float = busy
    if warmth[3] == 0.0:
        taken = busy / core.cold_clock_share
        if filled and taken > left:  # it becomes warm on the way
            taken = busy + left * (1 - core.cold_clock_share)
    if filled:
        warmth[2] = min(warmth[2] + taken, core.cooling_share * core.cooling_ns)
    else:
        warmth[2] = max(0.0, warmth[2] - core.cooling_share * taken)
    if warmth[2] >= core.warmup_ns:
        warmth[3] = 1.0
    newest = int(warmth[1])
    recent[newest % size, 0], recent[newest % size, 1] = begin, begin + taken
    warmth[1] += 1
    warmth[0] = max(warmth[0], warmth[1] - size)
    return taken


@borrowing
def _shared(i: Any, beside: Any, time: float, busy: Array, times: Times) -> float:
    """How much longer instruction i, which begins at `time`, and the one `beside` it take for
    sharing their way to SBUF; -1 is none. Both are as much busier then."""
    if beside < 0:
        return 0.0
    longer = min(busy[i], times.begin[beside] + busy[beside] - time)
    if longer <= 0.0:
        return 0.0
    busy[i] += longer
    busy[beside] += longer
    times.done[beside] += longer
    times.end[beside] += longer
    return float(longer)


@borrowing
def _forget(time: float, windows: Windows) -> None:
    """Look again at all that is ready after a time: perhaps by an end that has changed."""
    for q in range(windows.low.shape[0]):
        for s in range(windows.low[q], windows.high[q]):
            if windows.ready[q, s] > time:
                windows.ready[q, s], windows.why[q, s], windows.stale[q] = UNKNOWN, -1, True


@borrowing
def _complete(
    i: Any, q: int, windows: Windows, units: Units, work: Work, queues: Queues, times: Times
) -> None:
    """When instruction i, which queue q has begun, has done its work, or moved its bytes."""
    times.done[i] = units.free[q]
    if work.lane[i, 0] < 0:
        return
    engines = units.engines[q // work.previous.shape[1]]
    moved = units.complete[q] if queues.limits[q, 0] == 1 else 0.0
    for e in range(work.lane[i, 0], work.lane[i, 1] + 1):
        engines[e] = max(engines[e], times.done[i]) + work.lane_ns[i]
        moved = max(moved, engines[e])
    times.done[i] = units.complete[q] = moved


@borrowing
def _finish(i: Any, q: int, windows: Windows, work: Work, core: Core, times: Times) -> None:
    """When the result of i is there, if that is known, and wake the queues that waited for it."""
    other = work.partner[i]
    wakes = windows.watched[i]
    if other < 0:
        times.end[i] = times.done[i] + work.latency[i]
    elif times.begin[other] >= 0.0:
        met = max(times.done[i], times.done[other]) + core.semaphore_ns
        times.end[i], times.end[other] = met + work.latency[i], met + work.latency[other]
        wakes |= windows.watched[other]
    windows.stale[q] = True
    for k in range(windows.low.shape[0]):
        if wakes >> k & 1:
            windows.stale[k] = windows.woken[k] = True


@borrowing
def _move_up(q: int, windows: Windows, queues: Queues) -> None:
    """Take what queue q has begun out of its window, and let the next one in."""
    for s in range(windows.place[q], windows.low[q], -1):
        _copy(q, s - 1, s, windows)
    windows.low[q] += 1
    if windows.head[q] == queues.start[q + 1]:
        return
    if windows.high[q] == windows.waiting.shape[1]:
        held = windows.high[q] - windows.low[q]
        for s in range(held):
            _copy(q, windows.low[q] + s, s, windows)
        windows.low[q], windows.high[q] = 0, held
    s = windows.high[q]
    windows.waiting[q, s] = queues.order[windows.head[q]]
    windows.ready[q, s], windows.why[q, s] = UNKNOWN, -1
    windows.high[q] += 1
    windows.head[q] += 1


@borrowing
def _copy(q: int, source: int, target: int, windows: Windows) -> None:
    windows.waiting[q, target] = windows.waiting[q, source]
    windows.ready[q, target] = windows.ready[q, source]
    windows.why[q, target] = windows.why[q, source]
