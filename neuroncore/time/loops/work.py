"""The tables that the loops of the schedule read and write: instructions, queues, costs of a core,
times, and transfers that the compiler adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled

Array = npt.NDArray[Any]


class Work(NamedTuple):
    """The instructions of all cores, with times in nanoseconds. Instruction i waits for:

    * needs[first[i]:first[i + 1]],
    * previous[i, q] for each queue q of its core (-1: none). `waits_together` moves them to
      `needs`.

    The arrays after `kind` have one entry for each kind of instructions (`KINDS`), because few
    instructions differ in their costs. Instruction i is of kind kind[i]."""

    queue: Array
    first: Array
    needs: Array
    previous: Array
    # the next instruction of the same synchronization, in a ring over cores; -1 for none. It is
    # found when the works of all cores are joined.
    partner: Array
    busy: Array  # how long it occupies its queue; timing adds a slow PE and contention
    kind: Array
    early: Array  # the part of `busy` for which it needs no data
    latency: Array  # from the end of its work until its result is available
    lane: Array  # the first and last DMA engine of a transfer, or -1
    lane_ns: Array  # how long a transfer occupies each of these DMA engines
    rows: Array  # the rows that move through the PE
    fills_half: Array  # whether it is a product that uses at most half of the PE's rows
    fresh: Array  # whether it reads nothing
    shares: Array  # whether it uses the SBUF port that Vector and GpSimd share

    @property
    def moves(self) -> Array:
        """Return a flag for each instruction: whether it occupies DMA engines."""
        flags: Array = (self.lane[:, 0] >= 0).take(self.kind)
        return flags


KINDS = "early", "latency", "lane", "lane_ns", "rows", "fills_half", "fresh", "shares"


def own_kinds(columns: Mapping[str, Array], instructions: Array) -> dict[str, Array]:
    """Return new columns `kind` and `KINDS` of a Work, by name. Each of `instructions` gets a
    separate kind, so that its costs can be changed."""
    kind = columns["kind"].copy()
    count = len(columns["early"])
    used = np.append(np.arange(count, dtype=kind.dtype), kind[instructions])
    kind[instructions] = np.arange(count, len(used), dtype=kind.dtype)
    return {"kind": kind, **{name: columns[name].take(used, axis=0) for name in KINDS}}


def idle(work: Work, instructions: Array) -> Work:
    """Return the work in which `instructions` take no time and move no bytes."""
    work = work._replace(busy=work.busy.copy(), **own_kinds(work._asdict(), instructions))
    kinds = work.kind[instructions]
    work.busy[instructions] = 0.0
    work.early[kinds] = work.latency[kinds] = work.lane_ns[kinds] = 0.0
    work.lane[kinds] = -1
    return work


@compiled
def waits_together(work: Work, first: Array, needs: Array) -> None:
    """Write all waits of instruction i to needs[first[i]:first[i + 1]], also those in
    `Work.previous`."""
    end = 0
    for i in range(work.previous.shape[0]):
        first[i] = end
        for k in range(work.first[i], work.first[i + 1]):
            needs[end] = work.needs[k]
            end += 1
        for q in range(work.previous.shape[1]):
            if work.previous[i, q] >= 0:
                needs[end] = work.previous[i, q]
                end += 1
    first[work.previous.shape[0]] = end


class Queues(NamedTuple):
    """The queues, and how far each may reorder its instructions.

    `order`, `start`: queue q has the instructions order[start[q]:start[q + 1]]
    `limits`: three limits for each queue q

    * Queue q begins the instruction that can begin first, among its next limits[q, 0] instructions.
      Instructions that read nothing are not counted here.
    * Instructions that read nothing may begin from among the next limits[q, 1] instructions.
    * At most limits[q, 2] transfers of the queue are incomplete at one time; 0 means any number."""

    order: Array
    start: Array
    limits: Array


class CoreCosts(NamedTuple):
    """The queues of a core's Tensor, Vector and GpSimd engines, and its machine's costs that depend
    on the time of an event (fields of `neuroncore.machine.Fixed`)."""

    tensor: int
    vector: int
    gpsimd: int
    semaphore_ns: float
    clock_window_ns: float
    clock_rows: float
    clock_phase: float
    half_filled_ns: float
    cold_clock_share: float


FIXED = CoreCosts._fields[3:]  # fields of `neuroncore.machine.Fixed`, as floats


OWN_QUEUE = -2  # the cause of an instruction that only waited for its queue


class Times(NamedTuple):
    """The times of each instruction in nanoseconds; -1 while unknown.

    `begin`: when the instruction begins
    `done`: when its work is done
    `end`: when its result is available
    `cause`: the instruction that it waited for; -1 for none, or OWN_QUEUE for the instruction
        before it in its queue"""

    begin: Array
    done: Array
    end: Array
    cause: Array


SAVED, RELOADED, REREAD = range(3)


class Moves(NamedTuple):
    """The transfers that the compiler adds, in order. For each transfer:

    * its kind (SAVED, RELOADED or REREAD),
    * the instruction before which it runs,
    * the piece of the record that it moves (`Boxes.pieces`),
    * its bytes."""

    kind: Array
    before: Array
    piece: Array
    nbytes: Array

    def bytes_of(self, kind: int) -> int:
        return int(self.nbytes[self.kind == kind].sum())


NO_MOVES = Moves(*np.zeros((4, 0), np.int64))
