"""What the device's compiler makes of a program: which instructions are left, on which engines, and
what SBUF can't hold. The schedule, counters and reports read this, so that they can't disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.clause.instruction import Call
from neuroncore.compiler.copy_propagation import Definitions, propagated_copies
from neuroncore.compiler.costs import CallTable
from neuroncore.compiler.policy import Policy, policy_of
from neuroncore.compiler.psum_copies import Bypass, bypass, merged
from neuroncore.compiler.queues import QUEUES
from neuroncore.compiler.residency import Traffic, traffic
from neuroncore.machine import Machine
from neuroncore.native import buffers
from neuroncore.native.lazy import Lazy
from neuroncore.native.structs import dataclass
from neuroncore.record.program import Columns, Order, Program

if TYPE_CHECKING:  # numba is imported when it is needed
    from neuroncore.native.dependencies import Accesses, Flow

Array = npt.NDArray[Any]
dataflow: Any = Lazy("neuroncore.native.dependencies")


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program as a machine gets it. Instruction i is row[i] of the table of calls, and waits for
    needs[first[i]:first[i + 1]] for want of data.

    same_as[i] is the instruction whose result i would load or make again, maker[i] the one that
    writes what i would copy, bypass.source[i] the product from which it is read instead; all are -1
    for what is issued. heads[i] is the copy out of PSUM that i is one with, or -1. `accesses` are
    of what is left.
    """

    program: Program
    order: Order
    columns: Columns
    table: CallTable
    row: Array
    accesses: Accesses
    flow: Flow
    first: Array
    needs: Array
    same_as: Array
    maker: Array
    bypass: Bypass
    heads: Array
    traffic: Traffic
    policy: Policy

    @cached_property
    def issued(self) -> npt.NDArray[np.bool_]:
        """Whether each instruction is left."""
        left: npt.NDArray[np.bool_] = (
            (self.same_as < 0) & (self.maker < 0) & (self.bypass.source < 0)
        )
        return left

    @cached_property
    def own_queue(self) -> Array:
        """What takes each instruction, if it is issued."""
        taken: Array = self.table.queue.take(self.row)
        return taken

    @cached_property
    def queue(self) -> Array:
        """What takes each instruction; where one is left out, what has made its result."""
        copies = np.flatnonzero(self.maker >= 0)
        if not len(copies):
            return self.own_queue
        found = self.own_queue.copy()
        found[copies] = self.own_queue[self.maker[copies]]
        return found


def compiled(program: Program, machine: Machine, order: Order | None = None) -> Compiled:
    """`order` is the program's own if not given."""
    columns, order = program.columns(), order or program.order
    policy, nobody = policy_of(program, order), np.full(len(program), -1, np.int32)
    table = CallTable(program.calls, machine, policy)
    heads = merged(program, columns, machine.psum.bank_bytes) if policy.rewrites else nobody
    row = table.rows_for(columns.call, policy, heads)
    accesses = dataflow.Accesses(
        columns.start, columns.operands, table.reads[row], *program.boxes().near
    )
    flow = _no_flow(accesses, policy)
    queue = table.queue[row]
    first, needs = dataflow.dependencies(queue, accesses, table.weights[row], flow)
    same_as, maker, moved = nobody, nobody.copy(), Traffic(nobody)
    passed = Bypass(nobody, columns.operands, nobody[:0])
    if policy.rewrites:
        moved = traffic(program, machine.sbuf.usable_bytes)
        if machine.has("psum_read_in_place"):
            passed = bypass(program.calls, columns, accesses, flow)
        if len(passed.users):  # found by definitions, and changes who waits for whom
            columns = replace(columns, operands=passed.operands)
            accesses, flow = accesses._replace(operands=passed.operands), _no_flow(accesses, policy)
            first, needs = dataflow.dependencies(queue, accesses, table.weights[row], flow)
        sums = dataflow.recomputed(columns.call, accesses, _compared(program.calls), flow)
        same_as = np.where(moved.kept, sums, moved.same_as)
        definitions = Definitions(program.calls, columns, program.box_table()[:, 0], accesses, flow)
        copies, makers = propagated_copies(definitions, first, needs, same_as)
        maker[copies] = makers
    return Compiled(
        program=program,
        order=order,
        columns=program.columns(),
        table=table,
        row=row,
        accesses=accesses,
        flow=flow,
        first=first,
        needs=needs,
        same_as=same_as,
        maker=maker,
        bypass=passed,
        heads=heads,
        traffic=moved,
        policy=policy,
    )


def _compared(calls: Sequence[Call]) -> Array:
    """How many operands a call has to share with one before it to have its result; 0 if it is made
    again anyhow. The SDK's mamba on trn1 and kda-for-trainium's on trn2 make a sum of the same
    tiles once: the Vector engine is too busy for more."""
    once = (call.instruction.older_compiler.once and not call.dynamic for call in calls)
    pairs = zip(calls, once, strict=True)
    return np.array([len(call.reads) if is_once else 0 for call, is_once in pairs], np.int32)


def _no_flow(accesses: Accesses, policy: Policy) -> Flow:
    """Room for the flow of data: of definitions only where the policy asks for them."""
    count = len(accesses.reads)
    flow: Flow = dataflow.Flow(
        previous=buffers.filled((count, len(QUEUES)), -1, np.int32),
        reload=np.zeros(count, np.bool_),
        reaching=np.zeros(len(accesses.operands) if policy.rewrites else 0, np.int32),
        killer=np.full(count, count, np.int32),
    )
    return flow
