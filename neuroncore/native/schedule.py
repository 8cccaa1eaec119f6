"""The loops of the schedule: who depends on whom, and when each instruction runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import compiled

Array = npt.NDArray[Any]


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
    weights: Array, previous: Array, reload: Array,
) -> None:  # fmt: skip
    """previous[i, q] = the last instruction of queue q that instruction i must wait for, or -1.

    A read waits for the last write of what it overlaps; a write also for the last reads. Queues
    run in order, so the last of each is enough. The first `reads[i]` operands of i are read.
    weights[i] is which of them is a stationary tile, or -1; reload[i] tells whether it differs
    from the one that is in the array already.
    """
    boxes, queues = near_start.shape[0] - 1, previous.shape[1]
    writer = np.full(boxes, -1, np.int32)
    reader = np.full((boxes, queues), -1, np.int32)
    loaded, loaded_by = -1, -1
    for i in range(queue.shape[0]):
        first_write = start[i] + reads[i]
        for k in range(start[i], start[i + 1]):
            own = operands[k]
            written_by = -1
            for n in range(near_start[own], near_start[own + 1]):
                b = near[n]
                w = writer[b]
                written_by = max(written_by, w)
                if w >= 0 and w > previous[i, queue[w]]:
                    previous[i, queue[w]] = w
                if k >= first_write:
                    for q in range(queues):
                        previous[i, q] = max(previous[i, q], reader[b, q])
            if k - start[i] == weights[i]:
                reload[i] = own != loaded or written_by != loaded_by
                loaded, loaded_by = own, written_by
        for k in range(start[i], start[i + 1]):
            own = operands[k]
            if k >= first_write:
                writer[own] = i
            else:
                reader[own, queue[i]] = i


@compiled
def reuse_of_space(
    queue: Array, born: Array, birth: Array, deaths: Array, last_user: Array, size: Array,
    capacity: int, previous: Array, live: Array,
) -> int:  # fmt: skip
    """Make instructions wait for the space that their tiles take over; the peak of live bytes.

    `born` lists a memory's tiles in the order of their first use, which is at instruction
    birth[t]; `deaths` in the order of their last. last_user[t, q] is the last instruction of
    queue q to use tile t. Space that has been free the longest is taken first. live[i] becomes
    the bytes in use at instruction i, where it changes.
    """
    tiles, queues = born.shape[0], last_user.shape[1]
    unused = capacity
    left = size.copy()  # bytes of each dead tile's space that are not taken over yet
    died, taken = 0, 0  # how many of `deaths` have died, and been taken over whole
    used, peak = 0, 0
    for b in range(tiles):
        t = born[b]
        i = birth[t]
        while died < tiles and last_user[deaths[died]].max() < i:
            used -= size[deaths[died]]
            died += 1
        used += size[t]
        peak = max(peak, used)
        live[i] = used
        need = size[t]
        fresh = min(unused, need)
        unused -= fresh
        need -= fresh
        while need > 0 and taken < died:
            d = deaths[taken]
            for q in range(queues):
                previous[i, q] = max(previous[i, q], last_user[d, q])
            take = min(left[d], need)
            left[d] -= take
            need -= take
            if left[d] == 0:
                taken += 1
    return int(peak)


@compiled
def timeline(
    queue: Array, order: Array, queue_start: Array, previous: Array, busy: Array, latency: Array,
    lane: Array, lane_ns: Array, sync_ns: float, pe: int, begin: Array, end: Array, cause: Array,
) -> None:  # fmt: skip
    """When each instruction begins and when its result is there, in nanoseconds.

    Every queue takes its instructions in order; among the heads of all queues the one that can
    begin first does. A transfer (lane[i, 0] >= 0) then occupies DMA engines lane[i, 0] to
    lane[i, 1] for lane_ns[i] each, first come first served, and is not complete before those ahead
    of it in its ring: all engines count every transfer on one semaphore (DMAO). cause[i] is the
    instruction that i waited for, -1 for none, -2 for its own queue.
    """
    queues = queue_start.shape[0] - 1
    head = queue_start[:-1].copy()
    free = np.zeros(queues)
    ready = np.full(queues, -1.0)  # of each head; -1 not known yet
    why = np.full(queues, -1, np.int32)
    engines, complete = np.zeros(64), np.zeros(queues)
    for _ in range(queue.shape[0]):
        best, best_time = -1, np.inf
        for q in range(queues):
            if head[q] == queue_start[q + 1]:
                continue
            if ready[q] < 0.0:
                i = order[head[q]]
                time, waited = 0.0, -1
                for r in range(queues):
                    p = previous[i, r]
                    if p < 0 or (r == q and q == pe):
                        continue
                    if end[p] < 0.0:
                        time = -1.0
                        break
                    there = end[p] + (sync_ns if r != q else 0.0)
                    if there > time:
                        time, waited = there, p
                ready[q], why[q] = time, waited
            if ready[q] >= 0.0:
                time = max(ready[q], free[q])
                if time < best_time:
                    best, best_time = q, time
        i = order[head[best]]
        begin[i] = best_time
        cause[i] = why[best] if ready[best] >= free[best] else -2
        finish = best_time + busy[i]
        free[best] = finish
        if lane[i, 0] >= 0:
            moved = complete[best]
            for e in range(lane[i, 0], lane[i, 1] + 1):
                engines[e] = max(engines[e], finish) + lane_ns[i]
                moved = max(moved, engines[e])
            finish = complete[best] = moved
        end[i] = finish + latency[i]
        head[best] += 1
        ready[best] = -1.0
