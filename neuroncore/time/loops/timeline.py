"""The times at which instructions run, for `neuroncore.time.schedule`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.jit import borrowing, compiled
from neuroncore.time.loops.contention import (
    CLOCK,
    Units,
    clocked,
    completed,
    idle_units,
    limit_transfers,
    shared,
)
from neuroncore.time.loops.work import OWN_QUEUE, CoreCosts, Queues, Times, Work

Array = npt.NDArray[Any]
UNKNOWN = -1.0


class ReorderWindows(NamedTuple):
    """The instructions that each queue may begin next. A place is a position in `Queues.order`.

    An instruction is admitted when its queue can reach it:

    `allowed`: queue q can reach the instructions up to place allowed[q]
    `reached`: instructions that read nothing (`Work.fresh`) have been admitted before place
        reached[q]
    `admitted`: instructions that read something have been admitted before place admitted[q]
    `held`: how many of these instructions have not begun

    An admitted instruction may wait for an end time that is not known yet. Its place is then in a
    chain:

    `waiting`: waiting[p] is the first place that waits for instruction p
    `following`: following[place] is the next place in the chain
    `asked`: the end times of the first asked[i] instructions for which instruction i waits are
        known

    When all these end times are known, the instruction becomes an entry of its queue:

    `low`, `high`: queue q has the entries low[q] to high[q] - 1, in the order of the queue
    `place`: place[q, k] is the place of entry k
    `ready`, `why`: ready[q, k] is the time at which entry k is ready, and why[q, k] the dependency
        that ends last
    `choice`, `soonest`: choice[q] is the entry that can begin soonest, at the time soonest[q]
    `stale`: stale[q] is True if choice[q] and soonest[q] are out of date

    If there are several cores, a binary tree finds the queue that can begin soonest. The time of a
    search then grows with the logarithm of the number of cores:

    `first`: first[n] is the queue that can begin soonest among the cores below node n; -1 for none.
        Node 1 is the root. Node n has the children 2 * n and 2 * n + 1. Core c is the leaf
        first.shape[0] // 2 + c.
    `changed`: the cores that have stale queues. changed[0] is their number, and the cores follow.
        A single core is always listed.
    `listed`: listed[c] is True if core c is in `changed`"""

    allowed: Array
    reached: Array
    admitted: Array
    held: Array
    waiting: Array
    following: Array
    asked: Array
    low: Array
    high: Array
    place: Array
    ready: Array
    why: Array
    choice: Array
    soonest: Array
    stale: Array
    first: Array
    changed: Array
    listed: Array


def timeline(work: Work, queues: Queues, core: CoreCosts, times: Times) -> None:
    """Fill in `times`. Each core has work.previous.shape[1] queues.

    In each step, one queue begins its next instruction: the queue that can begin first. Transfer i
    then occupies the DMA engines lane[i, 0] to lane[i, 1] of its core for lane_ns[i] each. An
    engine serves transfers in the order of arrival. In a queue that keeps its order, a transfer
    completes after all transfers ahead of it, because all engines count every transfer on one
    semaphore (source DMAO of isa/machines/trn2.toml). A queue with a limit of transfers issues
    nothing while that many of its transfers are incomplete.

    An instruction with partners on other cores ends when all of them have done their work.
    Instructions of the PE take longer while its clock is slow (`contention.clocked`). Instructions
    of Vector and GpSimd for which `shares` is set use the same port of SBUF: each takes twice as
    long while the other works."""
    run = _run.over(len(work.queue))
    run(_windows(work, queues), idle_units(work, queues), work, queues, core, times)


def _windows(work: Work, queues: Queues) -> ReorderWindows:
    count, room = len(queues.limits), 2 * int(queues.limits[:, :2].max())
    begin, cores = queues.start[:-1].astype(np.int64), count // work.previous.shape[1]
    return ReorderWindows(
        allowed=begin + queues.limits[:, 1],
        reached=begin.copy(),
        admitted=begin,
        held=np.zeros(count, np.int32),
        waiting=buffers.filled((len(work.queue),), -1, np.int32),
        following=np.empty(len(work.queue), np.int32),
        asked=np.zeros(len(work.queue), np.int32),
        low=np.zeros(count, np.int64),
        high=np.zeros(count, np.int64),
        place=np.zeros((count, room), np.int32),
        ready=np.zeros((count, room)),
        why=np.zeros((count, room), np.int32),
        choice=np.zeros(count, np.int64),
        soonest=np.zeros(count),
        stale=np.ones(count, np.bool_),
        first=buffers.filled((2 << (cores - 1).bit_length(),), -1, np.int32),
        changed=np.append(np.int32(cores), np.arange(cores, dtype=np.int32)),
        listed=np.ones(cores, np.bool_),
    )


@compiled
def _run(
    windows: ReorderWindows, units: Units, work: Work, queues: Queues, core: CoreCosts, times: Times
) -> None:
    for _ in range(work.queue.shape[0]):
        q = _choose(windows, units, work, queues, core, times.end)
        if q < 0:
            raise RuntimeError("the instructions wait for each other in a cycle")
        i = _begin(q, windows, units, work, queues, core, times)
        completed(i, q, units, work, queues, times)
        _finish(i, windows, work, queues, core, times)
        limit_transfers(i, q, units, work, queues, times.end)


@borrowing
def _choose(
    windows: ReorderWindows, units: Units, work: Work, queues: Queues, core: CoreCosts, end: Array
) -> int:
    """Return the first of the queues that can begin an instruction soonest; -1 if none can."""
    each, first, best = work.previous.shape[1], windows.first, -1
    for n in range(1, windows.changed[0] + 1):
        number, best, best_time = windows.changed[n], -1, np.inf
        for q in range(number * each, (number + 1) * each):
            if windows.stale[q]:
                _let_in(q, windows, work, queues, core, end)
                _look(q, windows, units.free[q])
            if windows.soonest[q] < best_time:
                best, best_time = q, windows.soonest[q]
        node = first.shape[0] // 2 + number
        if node > 1:  # one of several cores
            first[node], windows.listed[number] = best, False
            _climb(node, first, windows.soonest)
    if first.shape[0] > 2:
        best, windows.changed[0] = first[1], 0
    return int(best)


@borrowing
def _climb(node: Any, first: Array, soonest: Array) -> None:
    """Update the nodes above a node of the tree `first`."""
    while node > 1:
        node //= 2
        left, right = first[2 * node], first[2 * node + 1]
        later = left < 0 or (right >= 0 and soonest[right] < soonest[left])
        first[node] = right if later else left


@borrowing
def _outdate(q: Any, windows: ReorderWindows, each: Any) -> None:
    """Note that queue q has changed. Each core has `each` queues."""
    windows.stale[q] = True
    if windows.first.shape[0] > 2 and not windows.listed[q // each]:
        windows.listed[q // each] = True
        windows.changed[0] += 1
        windows.changed[windows.changed[0]] = q // each


@borrowing
def _let_in(
    q: int, windows: ReorderWindows, work: Work, queues: Queues, core: CoreCosts, end: Array
) -> None:
    """Admit the instructions that queue q can now reach."""
    reached, admitted, held = windows.reached[q], windows.admitted[q], windows.held[q]
    within = min(windows.allowed[q], queues.start[q + 1])
    while reached < within or (admitted < reached and held < queues.limits[q, 0]):
        if reached < within:
            place, wanted = reached, True
            reached += 1
        else:
            place, wanted = admitted, False
            admitted += 1
        if work.fresh[work.kind[queues.order[place]]] == wanted:
            _settle(place, windows, work, queues, core, end)
            held += not wanted
    windows.reached[q], windows.admitted[q], windows.held[q] = reached, admitted, held


@borrowing
def _settle(
    place: Any, windows: ReorderWindows, work: Work, queues: Queues, core: CoreCosts, end: Array
) -> None:
    """Add the admitted instruction at `place` to its queue. If it waits for an unknown end time,
    add `place` to the chain of places that wait for this time."""
    i = queues.order[place]
    q = work.queue[i]
    begin = work.first[i] + windows.asked[i]
    while True:
        time, cause = _ready(i, begin, work, core, end)
        if time < 0.0 or begin == work.first[i]:
            break
        begin = work.first[i]
    if time < 0.0:
        windows.asked[i], producer = cause - work.first[i], work.needs[cause]
        windows.following[place] = windows.waiting[producer]
        windows.waiting[producer] = place
        return
    if windows.high[q] == windows.place.shape[1]:
        _to_the_front(q, windows)
    k, low = windows.high[q], windows.low[q]
    windows.high[q] += 1
    _outdate(q, windows, work.previous.shape[1])
    while k > low and windows.place[q, k - 1] > place:
        _move(q, k - 1, k, windows)
        k -= 1
    windows.place[q, k], windows.ready[q, k], windows.why[q, k] = place, time, cause


@borrowing
def _to_the_front(q: Any, windows: ReorderWindows) -> None:
    low, high = windows.low[q], windows.high[q]
    for k in range(low, high):
        _move(q, k, k - low, windows)
    windows.low[q], windows.high[q] = 0, high - low


@borrowing
def _move(q: Any, source: Any, target: Any, windows: ReorderWindows) -> None:
    windows.place[q, target] = windows.place[q, source]
    windows.ready[q, target] = windows.ready[q, source]
    windows.why[q, target] = windows.why[q, source]


@borrowing
def _look(q: int, windows: ReorderWindows, free: Any) -> None:
    """Find the entry of queue q that can begin soonest."""
    soonest = np.inf
    for k in range(windows.low[q], windows.high[q]):
        time = max(windows.ready[q, k], free)
        if time < soonest:
            windows.choice[q], soonest = k, time
        if time <= free:
            break  # later entries can't begin sooner
    windows.stale[q], windows.soonest[q] = False, soonest


@borrowing
def _ready(i: Any, begin: Any, work: Work, core: CoreCosts, end: Array) -> Any:
    """Return the time at which instruction i is ready, and the dependency that is available last;
    -1 if there is none. Return UNKNOWN and k if the end of instruction work.needs[k] is unknown.
    The search starts at k = `begin`. On the PE, instructions wait for instructions of the same
    queue only if those have partners."""
    q = work.queue[i]
    chained = q % work.previous.shape[1] == core.tensor
    time, waited = 0.0, -1
    for k in range(begin, work.first[i + 1]):
        p = work.needs[k]
        if end[p] < 0.0:
            return UNKNOWN, k
        same_queue = work.queue[p] == q
        if same_queue and chained and work.partner[p] < 0:
            continue
        available = end[p] + (0.0 if same_queue else core.semaphore_ns)
        if available > time:
            time, waited = available, p
    return time, waited


@borrowing
def _begin(
    q: int,
    windows: ReorderWindows,
    units: Units,
    work: Work,
    queues: Queues,
    core: CoreCosts,
    times: Times,
) -> Any:
    """Begin the instruction of queue q that can begin soonest, and return it. It takes longer on a
    slow clock of the PE, or if its SBUF port is in use."""
    k, time = windows.choice[q], windows.soonest[q]
    i = queues.order[windows.place[q, k]]
    times.begin[i] = time
    free = windows.ready[q, k] >= units.free[q]
    times.cause[i] = windows.why[q, k] if free else OWN_QUEUE
    kind = work.kind[i]
    _take_out(q, k, work.fresh[kind], windows)
    _outdate(q, windows, work.previous.shape[1])
    if work.early[kind] > 0.0:  # this part of its work was done while it waited for its data
        work.busy[i] -= min(work.early[kind], time - units.free[q])
    number, unit = divmod(q, work.previous.shape[1])
    if unit == core.tensor and core.clock_window_ns > 0.0 and work.busy[i] > 0.0:
        work.busy[i] = clocked(i, time, work, core, units.clock[number * CLOCK :])
    if work.shares[kind]:
        rival = q - unit + (core.gpsimd if unit == core.vector else core.vector)
        longer = shared(i, units.sharing[rival], time, work.busy, times)
        if longer > 0.0:
            units.free[rival] += longer
            _outdate(rival, windows, work.previous.shape[1])
            _look_again(number, time, windows, work, queues, core, times.end)
        units.sharing[q] = i
    units.free[q] = time + work.busy[i]
    return i


@borrowing
def _take_out(q: int, k: int, fresh: Any, windows: ReorderWindows) -> None:
    """Remove the entry that queue q has begun. The shorter side moves to fill the gap."""
    low, high = windows.low[q], windows.high[q]
    if k - low < high - k:
        for entry in range(k, low, -1):
            _move(q, entry - 1, entry, windows)
        windows.low[q] += 1
    else:
        for entry in range(k, high - 1):
            _move(q, entry + 1, entry, windows)
        windows.high[q] -= 1
    if windows.low[q] == windows.high[q]:
        windows.low[q] = windows.high[q] = 0
    windows.allowed[q] += 1
    windows.held[q] -= not fresh


@borrowing
def _look_again(
    number: Any,
    time: float,
    windows: ReorderWindows,
    work: Work,
    queues: Queues,
    core: CoreCosts,
    end: Array,
) -> None:
    """Compute a core's ready times after `time` again, because an end time may have changed."""
    each = work.previous.shape[1]
    for q in range(number * each, (number + 1) * each):
        for k in range(windows.low[q], windows.high[q]):
            if windows.ready[q, k] > time:
                i = queues.order[windows.place[q, k]]
                windows.ready[q, k], windows.why[q, k] = _ready(i, work.first[i], work, core, end)
                _outdate(q, windows, each)


@borrowing
def _finish(
    i: Any, windows: ReorderWindows, work: Work, queues: Queues, core: CoreCosts, times: Times
) -> None:
    """Set the time at which the result of instruction i is available, and wake the instructions
    that wait to know it. Do nothing before all partners of i have begun."""
    sync, other = times.done[i], work.partner[i]
    while other >= 0 and other != i:
        if times.begin[other] < 0.0:
            return
        sync, other = max(sync, times.done[other]), work.partner[other]
    if other >= 0:
        sync += core.semaphore_ns
    times.end[i] = sync + work.latency[work.kind[i]]
    other = work.partner[i]
    while other >= 0 and other != i:
        times.end[other] = sync + work.latency[work.kind[other]]
        other = work.partner[other]
    while True:  # for the partners in the ring, and then for i
        other = work.partner[other] if other >= 0 else i
        _wake(other, windows, work, queues, core, times.end)
        if other == i:
            break


@borrowing
def _wake(
    producer: Any, windows: ReorderWindows, work: Work, queues: Queues, core: CoreCosts, end: Array
) -> None:
    """Look again at the instructions that waited to know when `producer` ends."""
    place = windows.waiting[producer]
    while place >= 0:
        following = windows.following[place]
        _settle(place, windows, work, queues, core, end)
        place = following


@compiled
def chain(last: int, cause: Array, before: Array, path: Array) -> int:
    """Write the chain of causes of instruction `last` to the end of `path`, in order of time.
    Return its length.

    `cause`: cause[i] is the instruction that i waited for; -1 for none, OWN_QUEUE for before[i]
    `before`: before[i] is the instruction before i in its queue; -1 for none"""
    count, i = 0, last
    while i >= 0:
        count += 1
        path[path.shape[0] - count] = i
        i = cause[i] if cause[i] != OWN_QUEUE else before[i]
    return count
