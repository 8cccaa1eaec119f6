"""The loops of the schedule: who depends on whom, and when each instruction runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import compiled, inlined

Array = npt.NDArray[Any]
RECENT = 128  # products among which the use of the PE is counted
READERS = 32  # of a box, that an instruction which overwrites it waits for one by one


@compiled
def overlap_counts(order: Array, start: Array, end: Array, box: Array, counts: Array) -> None:
    """How many boxes of the same area each box overlaps, itself included.

    `order` sorts boxes by area and first row; `start[a]:end[a]` is the area's part of it. A box is
    [row, row_end, byte, byte_end].
    """
    for a in range(start.shape[0]):
        for i in range(start[a], end[a]):
            p = order[i]
            counts[p] += 1
            for j in range(i + 1, end[a]):
                q = order[j]
                if box[q, 0] >= box[p, 1]:
                    break
                if box[q, 2] < box[p, 3] and box[p, 2] < box[q, 3]:
                    counts[p] += 1
                    counts[q] += 1


@compiled
def overlap_pairs(
    order: Array, start: Array, end: Array, box: Array, place: Array, neighbours: Array
) -> None:
    """The boxes themselves: those of box p go to `neighbours` from place[p] on, and place[p] moves
    behind them."""
    for a in range(start.shape[0]):
        for i in range(start[a], end[a]):
            p = order[i]
            neighbours[place[p]] = p
            place[p] += 1
            for j in range(i + 1, end[a]):
                q = order[j]
                if box[q, 0] >= box[p, 1]:
                    break
                if box[q, 2] < box[p, 3] and box[p, 2] < box[q, 3]:
                    neighbours[place[p]] = q
                    place[p] += 1
                    neighbours[place[q]] = p
                    place[q] += 1


@compiled
def dependencies(
    queue: Array, start: Array, operands: Array, reads: Array, near: Array, near_start: Array,
    weights: Array, previous: Array, reload: Array, version: Array, gone: Array,
) -> Any:  # fmt: skip
    """What each instruction waits for: needs[first[i]:first[i + 1]], the last writers of all that
    it reads or overwrites and up to READERS of those that read what it overwrites, the last ones of
    each box, and previous[i, q], the last such of queue q, or -1. Returns first and needs.

    The first `reads[i]` operands of i are read. weights[i] is which of them is a stationary tile,
    or -1; reload[i] tells whether it differs from the one that is in the array already. version[k]
    is who wrote operand k last, if there is room for it; gone[i] becomes the first to overwrite any
    of what i wrote.
    """
    count, boxes, queues = queue.shape[0], near_start.shape[0] - 1, previous.shape[1]
    writer = np.full(boxes, -1, np.int32)
    reader = np.full((boxes, queues), -1, np.int32)
    latest = np.full(boxes, -1, np.int64)  # operand that read a box since it was written whole
    earlier = np.full(operands.shape[0], -1, np.int64)  # and the one that did before an operand
    reading = np.zeros(operands.shape[0], np.int32)  # whose operand it is
    noted = np.full(count, -1, np.int32)  # the last instruction that is known to wait for each
    loaded, loaded_by = -1, -1
    first, needs, found = np.zeros(count + 1, np.int64), np.zeros(4 * count + 64, np.int32), 0
    for i in range(count):
        first_write = start[i] + reads[i]
        for k in range(start[i], start[i + 1]):
            own = operands[k]
            written_by = -1
            for n in range(near_start[own], near_start[own + 1]):
                b = near[n]
                w = writer[b]
                written_by = max(written_by, w)
                if found + READERS >= needs.shape[0]:
                    needs = np.concatenate((needs, np.zeros(found, np.int32)))
                if w >= 0 and noted[w] != i:
                    noted[w], needs[found] = i, w
                    found += 1
                if k >= first_write:
                    if w >= 0:
                        gone[w] = min(gone[w], i)
                    for q in range(queues):
                        previous[i, q] = max(previous[i, q], reader[b, q])
                    e = latest[b]
                    for _ in range(READERS):
                        if e < 0:
                            break
                        r = reading[e]
                        if noted[r] != i:
                            noted[r], needs[found] = i, r
                            found += 1
                        e = earlier[e]
            if version.shape[0]:
                version[k] = written_by
            if k - start[i] == weights[i]:
                reload[i] = own != loaded or written_by != loaded_by
                loaded, loaded_by = own, written_by
        for k in range(start[i], start[i + 1]):
            own = operands[k]
            if k >= first_write:
                writer[own], latest[own] = i, -1
            else:
                reader[own, queue[i]] = i
                earlier[k], reading[k], latest[own] = latest[own], i, k
        first[i + 1] = found
    return first, needs[:found].copy()


@compiled
def first_uses(
    start: Array, operands: Array, reads: Array, near: Array, near_start: Array, staying: Array
) -> Array:
    """The first instruction to read or overwrite what each one wrote; its own place if there is
    none, if it is `staying`, or if what it reads is overwritten, for then that waits for it."""
    count, boxes = reads.shape[0], near_start.shape[0] - 1
    writer = np.full(boxes, -1, np.int32)
    latest = np.full(boxes, -1, np.int64)  # operand that read a box since any of it was written
    earlier = np.full(operands.shape[0], -1, np.int64)  # and the one that did before an operand
    reading = np.zeros(operands.shape[0], np.int32)  # whose operand it is
    used = np.arange(count)
    for i in range(count):
        first_write = start[i] + reads[i]
        for k in range(start[i], start[i + 1]):
            for n in range(near_start[operands[k]], near_start[operands[k] + 1]):
                w = writer[near[n]]
                if w >= 0 and used[w] == w and not staying[w]:
                    used[w] = i
                if k >= first_write:
                    e = latest[near[n]]
                    latest[near[n]] = -1
                    while e >= 0:
                        used[reading[e]], staying[reading[e]] = reading[e], True
                        e = earlier[e]
        for k in range(start[i], start[i + 1]):
            if k >= first_write:
                writer[operands[k]] = i
            else:
                earlier[k], reading[k], latest[operands[k]] = latest[operands[k]], i, k
    return used


@compiled
def reuse_of_space(
    born: Array, birth: Array, deaths: Array, last_user: Array, size: Array, waits: Array,
    capacity: int, users: Array, used_tile: Array, previous: Array,
) -> int:  # fmt: skip
    """Make instructions wait for the space that their tiles take over; the peak of live bytes.

    `born` lists a memory's tiles in the order of their first use, which is at instruction
    birth[t]; `deaths` in the order of their last. last_user[t, q] is the last instruction of
    queue q to use tile t. Space that has been free the longest is taken first; only tiles that
    waits[t] flags take it while more is alive than fits. What a tile lacks it gets of what is
    spilled, which has it back when the tile dies. Instruction users[k] uses used_tile[k]: all users
    wait, for a compiler may begin any of them first.
    """
    tiles, queues = born.shape[0], last_user.shape[1]
    unused = capacity
    left = size.copy()  # bytes of each tile's space that nobody has taken over yet
    died, taken = 0, 0  # how many of `deaths` have died, and been taken over whole
    used, peak = 0, 0
    space = np.full((tiles, queues), -1, np.int32)  # whose last users each tile waits for
    for b in range(tiles):
        t = born[b]
        i = birth[t]
        while died < tiles and last_user[deaths[died]].max() < i:
            used -= size[deaths[died]]
            died += 1
        used += size[t]
        peak = max(peak, used)
        need = size[t]
        fresh = min(unused, need)
        unused -= fresh
        need -= fresh
        while need > 0 and taken < died and (waits[t] or used <= capacity):
            d = deaths[taken]
            take = min(left[d], need)
            if take > 0:
                for q in range(queues):
                    space[t, q] = max(space[t, q], last_user[d, q])
            left[d] -= take
            need -= take
            if left[d] == 0:
                taken += 1
        left[t] -= need
    for k in range(users.shape[0]):
        i = users[k]
        for q in range(queues):
            previous[i, q] = max(previous[i, q], space[used_tile[k], q])
    return int(peak)


@compiled
def balanced(
    call: Array, first: Array, last: Array, queue: Array, busy: Array, horizon: float, row: Array
) -> None:
    """row[i] = which of the rows first[c] to last[c] of a table, c = call[i], serves instruction i:
    the one whose queue has the least work given to it so far. A queue that is behind the others of
    a choice by more than `horizon` counts as being that much behind: work can't be moved further.
    """
    given = np.zeros(queue.max() + 1)
    for i in range(call.shape[0]):
        begin, end = first[call[i]], last[call[i]]
        best = begin
        if end > begin + 1:
            most = 0.0
            for r in range(begin, end):
                most = max(most, given[queue[r]])
            for r in range(begin, end):
                q = queue[r]
                given[q] = max(given[q], most - horizon)
                if given[q] + busy[r] < given[queue[best]] + busy[best]:
                    best = r
        row[i] = best
        given[queue[best]] += busy[best]


@inlined
def _wait(
    i: int, q: int, chained: bool, queue: Array, needs: Array, first: Array, previous: Array,
    partner: Array, end: Array, sync_ns: float,
) -> Any:  # fmt: skip
    """When all that instruction i of queue q waits for is there, and what was last; -1 and
    something whose end isn't known yet, if there is such. In a `chained` queue results needn't be
    there for the next."""
    time, waited = 0.0, -1
    for k in range(first[i], first[i + 1] + previous.shape[1]):
        p = needs[k] if k < first[i + 1] else previous[i, k - first[i + 1]]
        if p < 0:
            continue
        if end[p] < 0.0:
            return -1.0, p
        own = queue[p] == q
        if own and chained and partner[p] < 0:
            continue
        there = end[p] + (0.0 if own else sync_ns)
        if there > time:
            time, waited = there, p
    return time, waited


@inlined
def _warmed(
    begin: float, busy: Any, filled: Any, warmup: float, cooling: float, cooled: float,
    cold: float, recent: Array, state: Array,
) -> float:  # fmt: skip
    """How long the PE takes for work of `busy` at full clock.

    It is warm when it has worked for `warmup` with more than half of its rows `filled`. Other work
    uses that up, `cooled` of its own time, and what there can be of it lasts for `cooling`. It is
    cold again when nothing is left, or after `warmup` of which it worked less than half. `recent`
    keeps when it worked last, state[0] to state[1] of the entries; state[2] is how long it has
    worked with filled rows, less what is used up, state[3] whether it is warm, and state[4] when
    it was cold.
    """
    size, used = recent.shape[0], 0.0
    while state[0] < state[1] and recent[int(state[0]) % size, 1] <= begin - warmup:
        state[0] += 1
    for k in range(int(state[0]), int(state[1])):
        used += recent[k % size, 1] - max(recent[k % size, 0], begin - warmup)
    idle = used < 0.5 * warmup and state[4] <= begin - warmup
    if idle or (state[3] > 0.0 and state[2] <= 0.0):
        state[2], state[3], state[4] = 0.0, 0.0, begin
    left = warmup - state[2]
    taken: float = busy
    if state[3] == 0.0:
        taken = busy / cold
        if filled and taken > left:  # it becomes warm on the way
            taken = busy + left * (1 - cold)
    if filled:
        state[2] = min(state[2] + taken, cooled * cooling)
    else:
        state[2] = max(0.0, state[2] - cooled * taken)
    if state[2] >= warmup:
        state[3] = 1.0
    newest = int(state[1])
    recent[newest % size, 0], recent[newest % size, 1] = begin, begin + taken
    state[1] += 1
    state[0] = max(state[0], state[1] - size)
    return taken


@inlined
def _shared(
    i: int, beside: int, time: float, begin: Array, busy: Array, done: Array, end: Array
) -> float:
    """How much longer instruction i, which begins at `time`, and the one `beside` it take for
    sharing their way to SBUF; -1 is none. Both are as much busier then."""
    if beside < 0:
        return 0.0
    longer = min(busy[i], begin[beside] + busy[beside] - time)
    if longer <= 0.0:
        return 0.0
    busy[i] += longer
    busy[beside] += longer
    done[beside] += longer
    end[beside] += longer
    return float(longer)


@compiled
def timeline(
    queue: Array, order: Array, queue_start: Array, first: Array, needs: Array, previous: Array,
    partner: Array, busy: Array, latency: Array, lane: Array, lane_ns: Array, sync_ns: float,
    pe: int, filled: Array, warmup: float, cooling: float, cooled: float, cold: float,
    vector: int, gpsimd: int, shares: Array, limits: Array, fresh: Array, begin: Array,
    done: Array, end: Array, cause: Array,
) -> None:  # fmt: skip
    """When each instruction begins, has done its work, and when its result is there, in
    nanoseconds, on cores of previous.shape[1] queues each.

    Among the first limits[q, 0] instructions that queue q has not begun yet, and among all queues,
    the one that can begin first does; a window of 1 keeps a queue in order. What is `fresh` does
    not count, and begins as soon as it can among the first limits[q, 1]. A transfer (lane[i, 0] >=
    0) then occupies DMA engines lane[i, 0] to lane[i, 1] of its core for lane_ns[i] each, first
    come first served; in a queue in order it is not complete before those ahead of it: all engines
    count every transfer on one semaphore (DMAO). Where cores meet, i ends when partner[i] has done
    its part as well. cause[i] is the instruction that i waited for, -1 for none, -2 for its own
    queue. Instructions of the PE get busier while it is cold. Those of queues `vector` and `gpsimd`
    that `shares` flags have one way to SBUF: each takes twice as long while the other one works.

    What a queue would begin next is looked for again when it has begun something, or when it is
    woken: the end of something is known that an instruction in its window waits for. watched[i] has
    a bit for each queue that i wakes.
    """
    window, reach = limits[:, 0], limits[:, 1]
    queues, widest = queue_start.shape[0] - 1, reach.max()
    own_queues = previous.shape[1]
    cores = queues // own_queues
    waiting = np.zeros((queues, widest), np.int32)  # the instructions in each window, in order
    ready = np.full((queues, widest), -1.0)  # of each; -1 not known yet
    why = np.full((queues, widest), -1, np.int32)  # or what must begin before it is known
    watched = np.zeros(queue.shape[0], np.uint32)  # up to four cores
    stale, woken = np.ones(queues, np.bool_), np.zeros(queues, np.bool_)
    place, soonest = np.zeros(queues, np.int64), np.zeros(queues)
    count, head = np.zeros(queues, np.int64), queue_start[:-1].copy()
    free, engines, complete = np.zeros(queues), np.zeros((cores, 64)), np.zeros(queues)
    recent, state = np.zeros((cores, RECENT, 2)), np.zeros((cores, 5))
    state[:, 4] = -np.inf
    sharing = np.full(queues, -1, np.int32)  # the last of each queue to go that way
    for q in range(queues):
        while count[q] < reach[q] and head[q] < queue_start[q + 1]:
            waiting[q, count[q]] = order[head[q]]
            count[q] += 1
            head[q] += 1
    for _ in range(queue.shape[0]):
        best, best_time = -1, np.inf
        for q in range(queues):
            if stale[q]:
                stale[q], soonest[q], counted = False, np.inf, 0
                limited, awake = window[q] < reach[q], woken[q]
                for s in range(count[q]):
                    if limited:
                        counted += not fresh[waiting[q, s]]
                        if counted > window[q] and not fresh[waiting[q, s]]:
                            continue
                    if ready[q, s] < 0.0:
                        w = why[q, s]
                        if w >= 0 and not (awake and end[w] >= 0.0):
                            continue
                        ready[q, s], why[q, s] = _wait(
                            waiting[q, s], q, q % own_queues == pe, queue, needs, first, previous,
                            partner, end, sync_ns,
                        )  # fmt: skip
                        if ready[q, s] < 0.0:
                            watched[why[q, s]] |= 1 << q
                            continue
                    time = max(ready[q, s], free[q])
                    if time < soonest[q]:
                        place[q], soonest[q] = s, time
                    if time <= free[q]:
                        break  # those behind it can't begin sooner
                else:
                    woken[q] = False  # all have been looked at
            if soonest[q] < best_time:
                best, best_time = q, soonest[q]
        if best < 0:
            raise RuntimeError("the instructions wait for each other in a circle")
        slot = place[best]
        i = waiting[best, slot]
        begin[i] = best_time
        cause[i] = why[best, slot] if ready[best, slot] >= free[best] else -2
        core, unit = divmod(best, own_queues)
        if unit == pe and warmup > 0.0:
            busy[i] = _warmed(
                best_time, busy[i], filled[i], warmup, cooling, cooled, cold, recent[core],
                state[core],
            )  # fmt: skip
        if shares[i]:
            rival = best - unit + (gpsimd if unit == vector else vector)
            longer = _shared(i, sharing[rival], best_time, begin, busy, done, end)
            if longer > 0.0:
                free[rival] += longer
                stale[rival] = True
                for q in range(queues):
                    for s in range(count[q]):
                        if ready[q, s] > best_time:  # perhaps by the end that has changed
                            ready[q, s], why[q, s], stale[q] = -1.0, -1, True
            sharing[best] = i
        finish = free[best] = best_time + busy[i]
        if lane[i, 0] >= 0:
            moved = complete[best] if window[best] == 1 else 0.0
            for e in range(lane[i, 0], lane[i, 1] + 1):
                engines[core, e] = max(engines[core, e], finish) + lane_ns[i]
                moved = max(moved, engines[core, e])
            finish = complete[best] = moved
        done[i] = finish
        other = partner[i]
        wakes = watched[i]
        if other < 0:
            end[i] = finish + latency[i]
        elif begin[other] >= 0.0:
            met = max(finish, done[other]) + sync_ns
            end[i], end[other] = met + latency[i], met + latency[other]
            wakes |= watched[other]
        stale[best] = True
        for q in range(queues):
            if wakes >> q & 1:
                stale[q] = woken[q] = True
        count[best] -= 1
        for s in range(slot, count[best]):
            waiting[best, s] = waiting[best, s + 1]
            ready[best, s], why[best, s] = ready[best, s + 1], why[best, s + 1]
        if head[best] < queue_start[best + 1]:
            s = count[best]
            waiting[best, s], ready[best, s], why[best, s] = order[head[best]], -1.0, -1
            count[best] += 1
            head[best] += 1
