"""The result of a schedule: when each instruction ran, and what it waited for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.machine import Machine
from neuroncore.machine.world import ALONE, World
from neuroncore.record.program import Columns, Order, Program
from neuroncore.time.compiled import Compiled
from neuroncore.time.loops.timeline import chain
from neuroncore.time.queues import LOADS, QUEUES, is_transfer

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times of all instructions in nanoseconds.

    `begin`: when instruction i begins
    `busy`: how long instruction i occupies its queue
    `done`: when instruction i has done its work, or a DMA transfer has moved its bytes
    `end`: when the result of instruction i can be read
    `cause`: the instruction that instruction i waited for; -1 for none, OWN_QUEUE for the previous
        instruction of the same queue"""

    compiled: Compiled
    machine: Machine
    queue: Array
    begin: Array
    busy: Array
    done: Array
    end: Array
    cause: Array
    kind: Array  # the kind of each instruction
    lane_ns_of_kind: Array  # how long a transfer of each kind occupies each of its DMA engines
    lane_of_kind: Array  # the first and the last DMA engine of each kind, -1 for none
    peak_sbuf: int  # the most bytes per partition that tiles take at one time
    peak_psum: int
    launch: tuple[Program, ...]  # the programs of all cores of the launch
    core: int  # the index in `launch` of this timeline's core
    spill_ns: float = 0.0  # the time of spilled tiles, in which nothing else runs
    world: World = ALONE  # the cores of the launch, rank by rank

    @property
    def program(self) -> Program:
        return self.compiled.program

    @property
    def order(self) -> Order:
        return self.compiled.order

    @property
    def columns(self) -> Columns:
        return self.program.columns()

    @cached_property
    def moves(self) -> Array:
        """Return a flag for each instruction: whether it is a DMA transfer, in a DMA ring or in the
        queue of an engine."""
        flags = [is_transfer(c, q) for c in self.program.calls for q in range(len(QUEUES))]
        moves: Array = np.array(flags, np.bool_)[self.columns.call * len(QUEUES) + self.queue]
        return moves

    @cached_property
    def counts(self) -> list[int]:
        """The number of instructions of each queue."""
        counts: list[int] = np.bincount(self.queue, minlength=len(QUEUES)).tolist()
        return counts

    @cached_property
    def transfer_ns(self) -> Array:
        """The nanoseconds for which each DMA transfer occupies each DMA engine that it uses; 0 for
        other instructions."""
        return self.lane_ns_of_kind.take(self.kind)

    @cached_property
    def lane(self) -> Array:
        """The first and the last DMA engine of each instruction; -1 for none."""
        return self.lane_of_kind.take(self.kind, axis=0)

    @cached_property
    def engines_used(self) -> Array:
        """Return how many DMA engines each instruction uses."""
        used: Array = self.lane[:, 1] - self.lane[:, 0] + (self.lane[:, 0] >= 0)
        return used

    @cached_property
    def total_ns(self) -> float:
        span = float(self.end.max() - self.begin.min()) if len(self.end) else 0.0
        return span + self.spill_ns

    @cached_property
    def busy_share(self) -> dict[str, float]:
        """The share of the total time in which each compute engine works, by name. "DMA" is the
        share of all DMA engines together."""
        total = self.total_ns or 1.0
        shares = {
            name: float(self.busy[self.queue == q].sum()) / total if self.counts[q] else 0.0
            for q, name in enumerate(QUEUES[:LOADS])
        }
        moved = float((self.transfer_ns * self.engines_used).sum())
        shares["DMA"] = moved / (total * self.machine.dma.engines)
        return shares

    @cached_property
    def critical_path(self) -> Array:
        """The indices of the instructions on the critical path, in order. Each waited for the one
        before. The result of the last is available last."""
        path = np.empty(len(self.end), np.int64)
        if not len(path):
            return path
        before = before_in_queue(self.queue, self.begin)
        last = int(self.end.argmax())
        return path[-chain.over(len(path))(last, self.cause, before, path) :]


def before_in_queue(queue: Array, begin: Array) -> Array:
    """Return, for each instruction, the instruction of its queue that began directly before it; -1
    for the first instruction of a queue."""
    before, order = np.full(len(queue), -1, np.int32), np.lexsort((begin, queue))
    in_turn = queue[order[1:]] == queue[order[:-1]]
    before[order[1:][in_turn]] = order[:-1][in_turn]
    return before
