"""The costs and properties of calls that the schedule uses, as arrays. A call is an instruction
with its shapes, formats and operators, but without its data. Many instructions may make the same
call."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.clause.cost import Cost
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.time.loops import allocation as native
from neuroncore.time.loops.dependencies import Flow
from neuroncore.time.policy import Policy, expected_ns, variants
from neuroncore.time.queues import GPSIMD, LOADS, QUEUE_OF, QUEUES, SCALAR, STORES

Array = npt.NDArray[Any]
PART = 1 << 20


def spread(column: Array, row: Array) -> Array:
    """Return column[row]. If `row` is long, it is read in parts, because numpy converts all its
    numbers to 64 bits."""
    if len(row) <= PART:
        return column.take(row)
    result = np.empty(len(row), column.dtype)
    for begin in range(0, len(row), PART):
        part = slice(begin, begin + PART)
        result[part] = column.take(row[part])
    return result


class CallRow(NamedTuple):
    """A row of CallTable: the costs and properties of a call on one engine. Times are in
    nanoseconds.

    `busy`, `latency`: `busy_ns` and `latency_ns` of the `Cost`
    `set_up_ns`, `weights_ns`, `rows`, `fills_half`: the fields of the `Cost` with the same names
    `lane_ns`: how long a transfer occupies each of its DMA engines
    `first`, `last`: the first and the last of these DMA engines; -1 if the call is no transfer
    `queue`: an index of `QUEUES`; -1 for stores, whose queue depends on the policy
    `reads`: the number of operands that are read
    `weights`: the index of the stationary operand; -1 for none
    `picks_weights`: whether a tile of indices picks the elements of the stationary operand
    `shares`: whether the call uses the SBUF port that Vector and GpSimd share
    `stays`: whether this load stays in place when a compiler sorts loads by the first use of their
        data
    `meets`: whether the call waits for other cores"""

    busy: float
    latency: float
    set_up_ns: float
    weights_ns: float
    rows: float
    lane_ns: float
    first: int
    last: int
    queue: int
    reads: int
    weights: int
    picks_weights: bool
    fills_half: bool
    shares: bool
    stays: bool
    meets: bool


class CallTable:
    """The costs of each call: rows first[c]:last[c] for call c, one for each possible engine.

    `known`: the table of a program that begins with the same calls, perhaps for another machine.
        Its costs are reused if they depend only on figures that both machines have in common. The
        compiler must leave each call on its engine."""

    def __init__(
        self,
        distinct: list[Call],
        machine: Machine,
        policy: Policy,
        known: CallTable | None = None,
    ) -> None:
        self.calls = distinct
        groups = [variants(call, machine, policy) for call in distinct]
        calls = [call for group in groups for call in group]
        used = self.used = policy.on(machine)
        costs = self.costs = known.costs_of(calls, used) if known else [c.cost(used) for c in calls]
        # Transfers of HBM tensors that the kernel both writes and reads use row between[k] instead
        # of row k.
        self.between = np.arange(len(calls), dtype=np.int32)
        if policy.generates(machine):
            moves = np.flatnonzero([cost.transfer is not None for cost in costs])
            self.between[moves] = np.arange(len(calls), len(calls) + len(moves))
            calls += [calls[k] for k in moves.tolist()]
            generated = policy.with_strides(machine)
            costs += [calls[k].cost(generated) for k in moves.tolist()]
        widths = np.array([len(group) for group in groups], np.int32)
        self.last = widths.cumsum(dtype=np.int32)
        self.first = self.last - widths
        self.collectives = [c.collective for c in costs]
        names = sorted({c.table for c in costs if c.table})
        self.table = np.array([names.index(c.table) if c.table else -1 for c in costs], np.int32)
        self._fill(list(map(_row, calls, costs)), SCALAR if policy.generates(machine) else STORES)
        # how long the compiler expects each row to keep its engine busy
        self.expected = self.busy.copy()
        for first, group in zip(self.first.tolist(), groups, strict=True):
            if len(group) > 1:
                for row, call in enumerate(group, first):
                    expected = expected_ns(call, used)
                    if expected is not None:
                        self.expected[row] = expected

    def _fill(self, rows: list[CallRow], stores: int) -> None:
        columns: Any = CallRow._make(
            zip(*rows, strict=True) if rows else [()] * len(CallRow._fields)
        )
        self.busy, self.latency, self.set_up_ns, self.weights_ns, self.rows, self.lane_ns = (
            np.array(times, np.float64) for times in columns[:6]
        )
        self.lane = np.array([columns.first, columns.last], np.int32).T.copy()
        self.queue = np.array([stores if q < 0 else q for q in columns.queue], np.int32)
        self.reads = np.array(columns.reads, np.int32)
        self.weights = np.array(columns.weights, np.int8)
        # weights that an index picks are loaded again each time, because the index may have changed
        self.picks_weights, self.fills_half, self.shares, self.stays, self.meets = (
            np.array(flags, np.bool_) for flags in columns[-5:]
        )
        # the columns of a Work that have an entry for each kind, by name (`loops.work.KINDS`)
        self.kinds = {
            "early": np.zeros(len(rows)),
            "latency": self.latency,
            "lane": self.lane,
            "lane_ns": self.lane_ns,
            "rows": self.rows,
            "fills_half": self.fills_half,
            "fresh": self.reads == 0,
            "shares": self.shares,
        }

    def on(self, machine: Machine, policy: Policy) -> CallTable:
        """Return the table for another machine, or this table if no cost differs. The compiler must
        leave each call on its engine."""
        used = policy.on(machine)
        return CallTable(self.calls, machine, policy, self) if self._differing(used) else self

    def costs_of(self, calls: list[Call], machine: Machine) -> list[Cost]:
        """Return the costs of calls on a machine. Costs of this table are reused if `calls` begins
        with its calls, except costs that depend on figures in which the machines differ."""
        count, costs = len(self.calls), list(self.costs)
        if calls[:count] != self.calls:
            return [call.cost(machine) for call in calls]
        for k in self._differing(machine):
            costs[k] = calls[k].cost(machine)
        return costs + [call.cost(machine) for call in calls[count:]]

    def _differing(self, machine: Machine) -> list[int]:
        """Return the indices of the calls whose costs may be different on `machine`."""
        if machine is self.used:
            return []
        return [
            k
            for key, indices in self._by_figures.items()
            if self.used.figures_for(*key) != machine.figures_for(*key)
            for k in indices
        ]

    @cached_property
    def _by_figures(self) -> dict[tuple[str, bool], list[int]]:
        """The indices of the calls, grouped by the arguments of `Machine.figures_for`."""
        groups: dict[tuple[str, bool], list[int]] = {}
        for k, call in enumerate(self.calls):
            groups.setdefault((call.engine.name, call.instruction.may_move), []).append(k)
        return groups

    @property
    def are_open(self) -> bool:
        """Return whether the compiler chooses the engine of at least one call."""
        return bool((self.last - self.first > 1).any())

    def rows_for(
        self, heads: Array, runs: Array, flow: Flow, call: Array, semaphore_ns: float
    ) -> Array:
        """Return the row of this table for each instruction. The row decides the engine too.

        `heads`: heads[i] is the instruction with which i is merged, and whose row it gets; -1 for
            none
        `runs`: runs[i] is False if the compiler leaves out instruction i
        `call`: call[i] is the call of instruction i
        `semaphore_ns`: the time of a signal between engines"""
        count = len(call)
        row, free, done = np.zeros(count, np.int32), np.zeros(len(QUEUES)), np.zeros(count)
        instructions = native.Instructions(call, heads, runs, flow.first, flow.needs)
        choices = native.Choices(
            self.first, self.last, self.queue, self.expected, self.lane_ns, self.latency
        )
        native.assigned.over(count)(instructions, choices, semaphore_ns, free, done, row)
        return row


def _row(call: Call, cost: Cost) -> CallRow:
    """Return the row of a call with a cost. The rows of its first and latest cost are cached."""
    rows = call.results.get(__name__, ())
    for known, row in rows:
        if known is cost:
            return row  # type: ignore[no-any-return]
    computed = _computed_row(call, cost)
    call.results[__name__] = (cost, computed), *rows[-1:]
    return computed


def _computed_row(call: Call, cost: Cost) -> CallRow:
    transfer, weights, picks = cost.transfer, -1, False
    if cost.weights_ns:
        stationary = call.instruction.traits.weights
        weights = call.reads.index(stationary)
        picks = call.view(stationary).picked_by is not None
    queue = QUEUE_OF[call.engine] if transfer is None else LOADS
    if transfer is not None and (transfer.software or transfer.store):
        queue = GPSIMD if transfer.software else -1
    meets = call.instruction.meets is not None
    return CallRow(
        busy=cost.busy_ns,
        latency=cost.latency_ns,
        set_up_ns=cost.set_up_ns,
        weights_ns=cost.weights_ns,
        rows=cost.rows,
        lane_ns=transfer.ns if transfer else 0.0,
        first=transfer.first if transfer else -1,
        last=transfer.last if transfer else -1,
        queue=queue,
        reads=call.inputs,
        weights=weights,
        picks_weights=picks,
        fills_half=cost.fills_half,
        shares=cost.shares_sbuf and not meets,
        # such a load is not reordered: another core waits for it, or it reads a tile on chip,
        # whose space is reused
        stays=meets or any(view.on_chip for view in call.views(*call.reads)),
        meets=meets,
    )
