"""The costs and properties of each distinct call that the schedule uses, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.time.loops import allocation as native
from neuroncore.time.policy import Policy, variants
from neuroncore.time.queues import GPSIMD, LOADS, QUEUE_OF, QUEUES, SCALAR, STORES

Array = npt.NDArray[Any]


class CallTable:
    """The costs of each distinct call on each engine that may run it, a row each; the rows of call
    c are first[c] to last[c]."""

    def __init__(self, distinct: list[Call], machine: Machine, policy: Policy) -> None:
        self.calls = distinct
        several = [variants(call, policy) for call in distinct]
        calls = [call for choices in several for call in choices]
        used = policy.on(machine)
        costs = self.costs = [call.cost(used) for call in calls]
        # The row of a call on tensors in HBM that the kernel both writes and reads.
        self.between = np.arange(len(calls))
        if policy.generates(machine):
            moves = np.flatnonzero([cost.transfer is not None for cost in costs])
            self.between[moves] = np.arange(len(calls), len(calls) + len(moves))
            calls += [calls[k] for k in moves.tolist()]
            costs += [calls[k].cost(machine) for k in moves.tolist()]
        count = len(calls)
        times = [(c.busy_ns, c.latency_ns, c.set_up_ns, c.weights_ns, c.rows) for c in costs]
        columns = np.array(times, np.float64).reshape(count, 5).T.copy()
        self.busy, self.latency, self.set_up_ns, self.weights_ns, self.rows = columns
        widths = [len(choices) for choices in several]
        self.last = np.cumsum(widths, dtype=np.int64)
        self.first = self.last - np.array(widths, np.int64)
        self.queue = np.zeros(count, np.int32)
        self.reads = np.array([c.inputs for c in calls], np.int32)
        self.weights = np.full(count, -1, np.int32)
        self.fills_half = np.array([c.fills_half for c in costs], np.bool_)
        self.picks_weights = np.zeros(count, np.bool_)  # by an index, which may have changed
        # What keeps its place among loads: the other core waits for it, or it reads a tile, whose
        # space somebody takes over.
        self.stays = np.array([_stays(c) for c in calls], np.bool_)
        self.collectives = [c.collective for c in costs]
        self.meets = np.array([c.instruction.meets is not None for c in calls], np.bool_)
        self.shares = np.array([c.shares_sbuf for c in costs], np.bool_) & ~self.meets
        self.lane = np.full((count, 2), -1, np.int32)
        self.lane_ns = np.zeros(count, np.float64)
        stores = SCALAR if policy.generates(machine) else STORES
        names = sorted({c.table for c in costs if c.table})
        self.table = np.array([names.index(c.table) if c.table else -1 for c in costs], np.int32)
        for i, (call, cost) in enumerate(zip(calls, costs, strict=True)):
            if cost.transfer is not None:
                ring = stores if cost.transfer.store else LOADS
                self.queue[i] = GPSIMD if cost.transfer.software else ring
                self.lane[i] = cost.transfer.first, cost.transfer.last
                self.lane_ns[i] = cost.transfer.ns
            else:
                self.queue[i] = QUEUE_OF[call.engine]
            if cost.weights_ns:
                weights = call.instruction.traits.weights
                self.weights[i] = call.reads.index(weights)
                self.picks_weights[i] = call.view(weights).picked_by is not None

    def on(self, machine: Machine, policy: Policy) -> CallTable:
        """Return the table of the same calls on another machine: this one if no cost differs. Its
        compiler must leave each call its engine."""
        used = policy.on(machine)
        same = all(c.cost(used) is cost for c, cost in zip(self.calls, self.costs, strict=True))
        return self if same else CallTable(self.calls, machine, policy)

    def rows_for(self, call: Array, policy: Policy, heads: Array, made: Array) -> Array:
        """Return the row of each instruction; an instruction that is merged with another has the
        row of heads[i]. Instructions that are not `made` occupy no engine."""
        row, given = np.zeros(len(call), np.intp), np.zeros(len(QUEUES))
        choices = native.Choices(self.first, self.last, self.queue, self.busy)
        work = native.Instructions(call, heads, made)
        native.balanced.over(len(call))(work, choices, policy.horizon_ns, given, row)
        return row


def _stays(call: Call) -> bool:
    return call.instruction.meets is not None or any(
        view.on_chip for view in call.views(*call.reads)
    )
