"""Contention between instructions of `loops.timeline`, which then take longer than their cost.
There are three kinds: a slow clock of the PE (the array of the Tensor engine), an SBUF port that
two engines share, and busy DMA engines."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.jit import borrowing
from neuroncore.time.loops.work import CoreCosts, Queues, Times, Work

Array = npt.NDArray[Any]
CLOCK = 5  # the state of a PE's clock consists of this many numbers


class Units(NamedTuple):
    """The state of the queues and of the cores.

    For each queue:

    `free`: when the queue is free
    `complete`: when its last transfer is complete
    `issued`: how many transfers it has begun
    `flying`: when the latest of these transfers end
    `sharing`: its last instruction on the SBUF port that Vector and GpSimd share

    For each core:

    `engines`: when its DMA engines are free
    `clocked`: the state of its PE's clock"""

    free: Array
    complete: Array
    issued: Array
    flying: Array
    sharing: Array
    engines: Array
    clock: Array


def idle_units(work: Work, queues: Queues) -> Units:
    """Return the state before any instruction has begun."""
    count = len(queues.limits)
    cores = count // work.previous.shape[1]
    return Units(
        free=np.zeros(count),
        complete=np.zeros(count),
        issued=np.zeros(count, np.int64),
        flying=np.zeros((count, max(1, queues.limits[:, 2].max(initial=0)))),
        sharing=buffers.filled((count,), -1, np.int32),
        engines=np.zeros((cores, 1 + work.lane.max(initial=0))),
        clock=np.array([-1.0, 0.0, 0.0, 0.0, -np.inf] * cores),
    )


@borrowing
def clocked(i: Any, begin: float, work: Work, core: CoreCosts, clock: Array) -> float:
    """Return the time that the PE takes for instruction i if it begins at `begin`.

    Time is divided into windows of `clock_window_ns`. The PE has its full clock in a window if at
    least `clock_rows` rows moved in the window immediately before. Otherwise, and in the first
    window, its clock is the share `cold_clock_share` of the full clock. The first work begins when
    the share `clock_phase` of a window has passed.

    A row of work that uses at most half of the array counts as half a row. Such rows count only at
    full clock, and only if the work begins at most `half_filled_ns` after the last work on more
    than half of the array began.

    `clock` consists of five numbers:

    * the window in which the PE worked last (-1 for none),
    * the rows that moved in this window,
    * whether this window has the full clock,
    * when window 0 began,
    * when work on more than half of the array last began."""
    length, kind = core.clock_window_ns, work.kind[i]
    half = work.fills_half[kind]
    if clock[0] < 0.0:
        clock[0], clock[3] = 0.0, begin - core.clock_phase * length
    if not half:
        clock[4] = begin
    late = begin - clock[4] > core.half_filled_ns
    rows, busy = work.rows[kind] * (1.0 - 0.5 * half), float(work.busy[i])
    now, remaining, window = begin, busy, np.floor((begin - clock[3]) / length)
    while True:
        if window > clock[0]:
            clock[2] = window == clock[0] + 1.0 and clock[1] >= core.clock_rows
            clock[0], clock[1] = window, 0.0
        pace = 1.0 if clock[2] > 0.0 else core.cold_clock_share
        until = clock[3] + (window + 1.0) * length
        done = min(remaining, max(0.0, until - now) * pace)
        if not half or (clock[2] > 0.0 and not late):
            clock[1] += rows * done / busy
        remaining -= done
        if remaining <= 0.0:
            return float(now + done / pace - begin)
        now, window = until, window + 1.0


@borrowing
def shared(i: Any, other: Any, time: float, busy: Array, times: Times) -> float:
    """Return how many nanoseconds longer instruction i takes because another uses its SBUF port.
    Delay the other too.

    `other`: the instruction that uses the port; -1 for none
    `time`: when instruction i begins"""
    if other < 0:
        return 0.0
    longer = min(busy[i], times.begin[other] + busy[other] - time)
    if longer <= 0.0:
        return 0.0
    busy[i] += longer
    busy[other] += longer
    times.done[other] += longer
    times.end[other] += longer
    return float(longer)


@borrowing
def completed(i: Any, q: int, units: Units, work: Work, queues: Queues, times: Times) -> None:
    """Set times.done[i]: when instruction i of queue q completes its work or its transfer."""
    times.done[i], kind = units.free[q], work.kind[i]
    if work.lane[kind, 0] < 0:
        return
    number, engines = q // work.previous.shape[1], units.engines
    moved = units.complete[q] if queues.limits[q, 0] == 1 else 0.0
    for e in range(work.lane[kind, 0], work.lane[kind, 1] + 1):
        engines[number, e] = max(engines[number, e], times.done[i]) + work.lane_ns[kind]
        moved = max(moved, engines[number, e])
    times.done[i] = units.complete[q] = moved


@borrowing
def limit_transfers(i: Any, q: int, units: Units, work: Work, queues: Queues, end: Array) -> None:
    """Limit the transfers of queue q, which has begun instruction i. At most queues.limits[q, 2] of
    them are incomplete at one time (0: no limit)."""
    most = queues.limits[q, 2]
    if most > 0 and work.lane[work.kind[i], 0] >= 0:
        units.flying[q, units.issued[q] % most] = end[i]
        units.issued[q] += 1
        units.free[q] = max(units.free[q], units.flying[q, units.issued[q] % most])
