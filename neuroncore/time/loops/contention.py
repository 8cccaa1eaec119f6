"""Contention that makes instructions take longer than their cost, for `loops.timeline`: a cold PE,
an SBUF port that two engines share, and busy DMA engines."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import borrowing
from neuroncore.time.loops.work import CoreCosts, Queues, Times, Work

Array = npt.NDArray[Any]
RECENT = 128  # products, the last ones, of which it is known when the PE worked on them
WARMTH = 5  # numbers that say how warm a PE is


class Units(NamedTuple):
    """Since when each queue is free, all before is complete (DMA), and what has last gone the way
    to SBUF that Vector and GpSimd share; of each core since when its DMA engines are free, when its
    PE worked last, and how warm that is (`warmed`)."""

    free: Array
    complete: Array
    sharing: Array
    engines: Array
    began: Array
    ended: Array
    warmth: Array


def idle_units(work: Work, queues: Queues) -> Units:
    """The state before anything has begun."""
    count = len(queues.limits)
    cores = count // work.previous.shape[1]
    units = Units(
        free=np.zeros(count),
        complete=np.zeros(count),
        sharing=np.full(count, -1, np.int32),
        engines=np.zeros((cores, 1 + work.lane.max(initial=0))),
        began=np.zeros(cores * RECENT),
        ended=np.zeros(cores * RECENT),
        warmth=np.zeros(cores * WARMTH),
    )
    units.warmth[4::WARMTH] = -np.inf
    return units


@borrowing
def warmed(
    begin: float, busy: Any, filled: Any, core: CoreCosts, number: int, units: Units
) -> float:
    """The time that the PE of a core takes for work of `busy` at full clock.

    It is warm when it has worked for the warm-up time with more than half of its rows `filled`.
    Other work uses that up by the cooling share of its time; it lasts at most for the cooling time.
    The PE is cold again when nothing is left, or after a warm-up time of which it worked less than
    half. It worked last in the entries warmth[0] to warmth[1] of `began` and
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
def shared(i: Any, beside: Any, time: float, busy: Array, times: Times) -> float:
    """The extra time of instruction i, which begins at `time`, and of the one `beside` it (-1:
    none), because they share a port of SBUF. Both get busier by that."""
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
def completed(i: Any, q: int, units: Units, work: Work, queues: Queues, times: Times) -> None:
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
