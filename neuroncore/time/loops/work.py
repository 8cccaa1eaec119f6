"""The tables that the loops of the schedule read and write: instructions, queues, costs of a core,
times, and transfers that the compiler adds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Work(NamedTuple):
    """The instructions of all cores. i waits for the writers needs[first[i]:first[i + 1]] and for
    instructions previous[i, q] of each queue q of its core, unless -1."""

    queue: Array
    first: Array
    needs: Array
    previous: Array
    partner: Array  # in a ring, what other cores have to have done for i to end; -1 for nothing
    busy: Array  # how long it keeps its queue; longer while the PE is slow or a way is shared
    early: Array  # the part of that for which it needs no data
    latency: Array  # after which its result is there
    lane: Array  # the first and last DMA engine of a transfer, or -1
    lane_ns: Array  # what it takes of each
    rows: Array  # that move through the PE
    fills_half: Array  # products with no more than half of its rows
    fresh: Array  # what reads nothing
    shares: Array  # what goes the way to SBUF that Vector and GpSimd have in common


class Queues(NamedTuple):
    """The instructions of queue q are order[start[q]:start[q + 1]]. The one of the first limits[q,
    0] that can begin first begins. Instructions that are fresh may begin among the first limits[q,
    1], and don't count."""

    order: Array
    start: Array
    limits: Array


class CoreCosts(NamedTuple):
    """The queues of a core that belong to the Tensor, Vector and GpSimd engines, and the costs of
    its machine that depend on when an event happens."""

    tensor: int
    vector: int
    gpsimd: int
    semaphore_ns: float
    clock_window_ns: float
    clock_rows: float
    clock_phase: float
    half_filled_ns: float
    cold_clock_share: float


FIXED = CoreCosts._fields[3:]  # of `neuroncore.machine.Fixed`, as floats


class Times(NamedTuple):
    """The times in nanoseconds at which each instruction begins, at which its work is done, and at
    which its result is available (-1 before it is known); and the instruction that it waited for
    (-1 for none, or OWN_QUEUE)."""

    begin: Array
    done: Array
    end: Array
    cause: Array


SAVED, RELOADED, REREAD = range(3)


class Moves(NamedTuple):
    """Transfers that the compiler adds, in their order: the `kind` of each (SAVED, RELOADED or
    REREAD), the instruction that it comes before, the piece of the record that it moves
    (`Boxes.pieces`), and its bytes. Counters, the schedule and lists all describe these transfers.
    """

    kind: Array
    before: Array
    piece: Array
    nbytes: Array

    def bytes_of(self, kind: int) -> int:
        return int(self.nbytes[self.kind == kind].sum())


NO_MOVES = Moves(*np.zeros((4, 0), np.int64))
