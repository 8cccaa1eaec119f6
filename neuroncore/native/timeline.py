"""When each instruction runs: `neuroncore.schedule`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import borrowing, compiled

Array = npt.NDArray[Any]
RECENT = 128  # products among which the use of the PE is counted
WARMTH = 5  # numbers that say how warm a PE is
OWN_QUEUE = -2  # what an instruction waited for that could have begun before its queue was free
UNKNOWN = -1.0


class Work(NamedTuple):
    """The instructions of all cores. i waits for the writers needs[first[i]:first[i + 1]] and for
    instructions previous[i, q] of each queue q of its core, unless -1."""

    queue: Array
    first: Array
    needs: Array
    previous: Array
    partner: Array  # in a ring, what other cores have to have done for i to end; -1 for nothing
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
    """What each queue may begin next. Places are those of `Queues.order`: all before reached[q]
    were in its reach, which goes to allowed[q], and those before admitted[q] that read something
    are let in; held[q] of them it has not begun.

    What is let in waits for an end that is not known yet, in the chain of waiting[p], the first
    place that waits for instruction p, and `following`; or it is one of known[q] places, which are
    in the order of the queue: place[q, k] is ready at ready[q, k], when why[q, k] has ended. The
    one at choice[q] can begin soonest, unless queue q is stale.
    """

    allowed: Array
    reached: Array
    admitted: Array
    held: Array
    waiting: Array
    following: Array
    known: Array
    place: Array
    ready: Array
    why: Array
    choice: Array
    soonest: Array
    stale: Array


class Units(NamedTuple):
    """Since when each queue is free, all before is complete (DMA), and what has last gone the way
    to SBUF that Vector and GpSimd share; of each core since when its DMA engines are free, when its
    PE worked last, and how warm that is (`_warmed`)."""

    free: Array
    complete: Array
    sharing: Array
    engines: Array
    began: Array
    ended: Array
    warmth: Array


def timeline(work: Work, queues: Queues, core: Core, times: Times) -> None:
    """Fill in `times`, on cores of work.previous.shape[1] queues each.

    Of all queues, the one that can begin first does. A transfer then occupies DMA engines
    lane[i, 0] to lane[i, 1] of its core for lane_ns[i] each, first come first served; in a queue in
    order it is not complete before those ahead of it: all engines count every transfer on one
    semaphore (DMAO). Where cores meet, i ends when all of its ring of partners have done theirs.
    Instructions of the PE get busier while it is cold. Those of Vector and GpSimd that `shares`
    flags have one way to SBUF: each takes twice as long while the other one works.
    """
    run = _run.over(len(work.queue))
    run(_windows(work, queues), _units(work, queues), work, queues, core, times)


def _windows(work: Work, queues: Queues) -> Windows:
    count, most = len(queues.limits), int(queues.limits.max())
    begin = queues.start[:-1].astype(np.int64)
    return Windows(
        allowed=begin + queues.limits[:, 1],
        reached=begin.copy(),
        admitted=begin,
        held=np.zeros(count, np.int32),
        waiting=np.full(len(work.queue), -1),
        following=np.empty(len(work.queue), np.int64),
        known=np.zeros(count, np.int64),
        place=np.zeros((count, most), np.int32),
        ready=np.zeros((count, most)),
        why=np.zeros((count, most), np.int32),
        choice=np.zeros(count, np.int64),
        soonest=np.zeros(count),
        stale=np.ones(count, np.bool_),
    )


def _units(work: Work, queues: Queues) -> Units:
    count = len(queues.limits)
    cores = count // work.previous.shape[1]
    units = Units(
        free=np.zeros(count),
        complete=np.zeros(count),
        sharing=np.full(count, -1, np.int32),
        engines=np.zeros((cores, 64)),
        began=np.zeros(cores * RECENT),
        ended=np.zeros(cores * RECENT),
        warmth=np.zeros(cores * WARMTH),
    )
    units.warmth[4::WARMTH] = -np.inf
    return units


@compiled
def _run(
    windows: Windows, units: Units, work: Work, queues: Queues, core: Core, times: Times
) -> None:
    for _ in range(work.queue.shape[0]):
        q = _choose(windows, units, work, queues, core, times.end)
        if q < 0:
            raise RuntimeError("the instructions wait for each other in a circle")
        i = _begin(q, windows, units, work, queues, core, times)
        _complete(i, q, units, work, queues, times)
        _finish(i, windows, work, queues, core, times)


@borrowing
def _choose(
    windows: Windows, units: Units, work: Work, queues: Queues, core: Core, end: Array
) -> int:
    """The queue that can begin something first; -1 if none can."""
    best, best_time = -1, np.inf
    for q in range(windows.known.shape[0]):
        if windows.stale[q]:
            _let_in(q, windows, work, queues, core, end)
            _look(q, windows, units.free[q])
        if windows.soonest[q] < best_time:
            best, best_time = q, windows.soonest[q]
    return best


@borrowing
def _let_in(q: int, windows: Windows, work: Work, queues: Queues, core: Core, end: Array) -> None:
    """Let into the window of queue q what has come in its reach."""
    reached, admitted, held = windows.reached[q], windows.admitted[q], windows.held[q]
    within = min(windows.allowed[q], queues.start[q + 1])
    while reached < within or (admitted < reached and held < queues.limits[q, 0]):
        if reached < within:
            place, wanted = reached, True
            reached += 1
        else:
            place, wanted = admitted, False
            admitted += 1
        if work.fresh[queues.order[place]] == wanted:
            _settle(place, windows, work, queues, core, end)
            held += not wanted
    windows.reached[q], windows.admitted[q], windows.held[q] = reached, admitted, held


@borrowing
def _settle(
    place: Any, windows: Windows, work: Work, queues: Queues, core: Core, end: Array
) -> None:
    """Put what is at a place among what is known of its queue, or let it wait for what isn't."""
    i = queues.order[place]
    q = work.queue[i]
    time, cause = _ready(i, work, core, end)
    if time < 0.0:
        windows.following[place] = windows.waiting[cause]
        windows.waiting[cause] = place
        return
    k = windows.known[q]
    windows.known[q] += 1
    windows.stale[q] = True
    while k > 0 and windows.place[q, k - 1] > place:
        _move(q, k - 1, k, windows)
        k -= 1
    windows.place[q, k], windows.ready[q, k], windows.why[q, k] = place, time, cause


@borrowing
def _move(q: Any, source: Any, target: Any, windows: Windows) -> None:
    windows.place[q, target] = windows.place[q, source]
    windows.ready[q, target] = windows.ready[q, source]
    windows.why[q, target] = windows.why[q, source]


@borrowing
def _look(q: int, windows: Windows, free: Any) -> None:
    """Find what queue q can begin soonest."""
    soonest = np.inf
    for k in range(windows.known[q]):
        time = max(windows.ready[q, k], free)
        if time < soonest:
            windows.choice[q], soonest = k, time
        if time <= free:
            break  # those behind it can't begin sooner
    windows.stale[q], windows.soonest[q] = False, soonest


@borrowing
def _ready(i: Any, work: Work, core: Core, end: Array) -> Any:
    """When all that instruction i waits for is there, and what was last; UNKNOWN and something
    whose end isn't known yet, if there is such. On the PE results needn't be there for the next."""
    queues, first, q = work.previous.shape[1], work.first, work.queue[i]
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
def _begin(
    q: int, windows: Windows, units: Units, work: Work, queues: Queues, core: Core, times: Times
) -> Any:
    """Begin what queue q can begin soonest, and say what that is: it takes longer on a cold PE, or
    when it goes a way to SBUF that another has taken."""
    k, time = windows.choice[q], windows.soonest[q]
    i = queues.order[windows.place[q, k]]
    times.begin[i] = time
    free = windows.ready[q, k] >= units.free[q]
    times.cause[i] = windows.why[q, k] if free else OWN_QUEUE
    _take_out(q, k, work.fresh[i], windows)
    number, unit = divmod(q, work.previous.shape[1])
    if unit == core.tensor and core.warmup_ns > 0.0:
        work.busy[i] = _warmed(time, work.busy[i], work.filled[i], core, number, units)
    if work.shares[i]:
        rival = q - unit + (core.gpsimd if unit == core.vector else core.vector)
        longer = _shared(i, units.sharing[rival], time, work.busy, times)
        if longer > 0.0:
            units.free[rival] += longer
            windows.stale[rival] = True
            _look_again(time, windows, work, queues, core, times.end)
        units.sharing[q] = i
    units.free[q] = time + work.busy[i]
    return i


@borrowing
def _take_out(q: int, k: int, fresh: Any, windows: Windows) -> None:
    """Take what queue q has begun out of its window."""
    windows.known[q] -= 1
    for after in range(k, windows.known[q]):
        _move(q, after + 1, after, windows)
    windows.allowed[q] += 1
    windows.held[q] -= not fresh
    windows.stale[q] = True


@borrowing
def _warmed(begin: float, busy: Any, filled: Any, core: Core, number: int, units: Units) -> float:
    """How long the PE of a core takes for work of `busy` at full clock.

    It is warm when it has worked for the warm-up time with more than half of its rows `filled`.
    Other work uses that up, the cooling share of its own time, and what there can be of it lasts
    for the cooling time. It is cold again when nothing is left, or after the warm-up time of which
    it worked less than half. It worked last in the entries warmth[0] to warmth[1] of `began` and
    `ended`; warmth[2] is how long it has worked with filled rows, less what is used up, warmth[3]
    whether it is warm, and warmth[4] when it was cold.
    """
    own, used, since = number * RECENT, 0.0, begin - core.warmup_ns
    began, ended = units.began[own : own + RECENT], units.ended[own : own + RECENT]
    warmth = units.warmth[number * WARMTH : number * WARMTH + WARMTH]
    while warmth[0] < warmth[1] and ended[int(warmth[0]) % RECENT] <= since:
        warmth[0] += 1
    for k in range(int(warmth[0]), int(warmth[1])):
        used += ended[k % RECENT] - max(began[k % RECENT], since)
        if used >= 0.5 * core.warmup_ns:
            break
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
    began[newest % RECENT], ended[newest % RECENT] = begin, begin + taken
    warmth[1] += 1
    warmth[0] = max(warmth[0], warmth[1] - RECENT)
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
def _look_again(
    time: float, windows: Windows, work: Work, queues: Queues, core: Core, end: Array
) -> None:
    """See when all is ready that is so after a time: perhaps by an end that has changed."""
    for q in range(windows.known.shape[0]):
        for k in range(windows.known[q]):
            if windows.ready[q, k] > time:
                i = queues.order[windows.place[q, k]]
                windows.ready[q, k], windows.why[q, k] = _ready(i, work, core, end)
                windows.stale[q] = True


@borrowing
def _complete(i: Any, q: int, units: Units, work: Work, queues: Queues, times: Times) -> None:
    """When instruction i, which queue q has begun, has done its work, or moved its bytes."""
    times.done[i] = units.free[q]
    if work.lane[i, 0] < 0:
        return
    number, engines = q // work.previous.shape[1], units.engines
    moved = units.complete[q] if queues.limits[q, 0] == 1 else 0.0
    for e in range(work.lane[i, 0], work.lane[i, 1] + 1):
        engines[number, e] = max(engines[number, e], times.done[i]) + work.lane_ns[i]
        moved = max(moved, engines[number, e])
    times.done[i] = units.complete[q] = moved


@borrowing
def _finish(i: Any, windows: Windows, work: Work, queues: Queues, core: Core, times: Times) -> None:
    """When the result of i is there, if that is known, and look again at what waited to know it."""
    met, other = times.done[i], work.partner[i]
    while other >= 0 and other != i:
        if times.begin[other] < 0.0:
            return
        met, other = max(met, times.done[other]), work.partner[other]
    if other >= 0:
        met += core.semaphore_ns
    times.end[i] = met + work.latency[i]
    other = work.partner[i]
    while other >= 0 and other != i:
        times.end[other] = met + work.latency[other]
        other = work.partner[other]
    other = work.partner[i]
    while other >= 0 and other != i:
        _tell(other, windows, work, queues, core, times.end)
        other = work.partner[other]
    _tell(i, windows, work, queues, core, times.end)


@borrowing
def _tell(
    producer: Any, windows: Windows, work: Work, queues: Queues, core: Core, end: Array
) -> None:
    """Look again at what waited to know when an instruction ends."""
    place = windows.waiting[producer]
    while place >= 0:
        following = windows.following[place]
        _settle(place, windows, work, queues, core, end)
        place = following
