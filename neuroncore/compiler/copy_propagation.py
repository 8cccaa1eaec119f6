"""Copies that the instruction which made their source writes in their place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.clause import agreement
from neuroncore.clause.instruction import Call, out_of_reach
from neuroncore.clause.operand import SBUF, Operand
from neuroncore.enums import engine
from neuroncore.memory.geometry import View
from neuroncore.record.program import Columns

if TYPE_CHECKING:  # numba is imported when it is needed
    from neuroncore.native.dependencies import Accesses, Flow

Array = npt.NDArray[Any]


class Definitions(NamedTuple):
    """Who writes and reads what in a program, with the tensor areas[b] that box b is a part of."""

    calls: list[Call]
    columns: Columns
    areas: Array
    accesses: Accesses
    flow: Flow


def propagated_copies(
    definitions: Definitions, first: Array, needs: Array, before: Array
) -> tuple[Array, Array]:
    """The copies that the instruction which made their source may write in their place, and those
    instructions: each made it for the copy alone, nothing that came between uses what the copy
    overwrites, and it is not overwritten in part.

    Published attention is as fast with such a copy, of float32 to bfloat16, as without (autocomp's
    fifth search, its steps 3 and 2). before[i] is the instruction that has done the same as i or
    -1; i waits for needs[first[i]:first[i + 1]].
    """
    calls, columns, _, _, flow = definitions
    may = np.array([_may_propagate(call) for call in calls], np.bool_)
    copies: Array = np.flatnonzero(may[columns.call])
    copies = copies[flow.reaching[columns.start[copies]] >= 0]
    if not len(copies):
        return copies, copies
    makers = flow.reaching[columns.start[copies]]
    shared = np.zeros(len(columns.call), np.bool_)
    shared[before[before >= 0]] = shared[before >= 0] = True
    bounds = np.column_stack((first[copies], first[copies + 1])).ravel()
    latest = np.maximum.reduceat(np.append(needs, -1), bounds)[::2]
    fits = (latest == makers) & ~shared[makers] & _stays_whole(columns, flow.killer, makers)
    fits &= _may_write(calls, columns, makers, copies)
    copies, makers = copies[fits], makers[fits]
    alone = _readers(definitions, makers, columns.start[copies]) == 1
    return copies[alone], makers[alone]


def _may_propagate(call: Call) -> bool:
    """Whether it copies its only operand in a way that leaves no trace of the one in between."""
    direct = call.instruction.older_compiler.into_source
    return direct is not None and not call.dynamic and len(call.reads) == 1 and direct(call)


def _stays_whole(columns: Columns, killer: Array, makers: Array) -> Array:
    """Whether what each made is there until the same instruction, of the next iteration, makes it
    again."""
    count = len(columns.call)
    there = killer[makers] == count
    following = np.where(there, makers, killer[makers])
    last, next_last = (columns.start[i + 1] - 1 for i in (makers, following))
    same = columns.operands[last] == columns.operands[next_last]
    found: Array = there | (same & (columns.call[makers] == columns.call[following]))
    return found


def _may_write(calls: list[Call], columns: Columns, makers: Array, copies: Array) -> Array:
    """Whether each maker wrote exactly what is copied, and may write what the copy does."""
    each: Array = np.array([len(call.writes) for call in calls], np.int32)
    writes = each[columns.call[makers]]
    found = np.zeros(len(makers), np.bool_)
    for k in range(1, writes.max(initial=0) + 1):
        wrote = columns.operands[columns.start[makers + 1] - k]
        hits = np.flatnonzero((writes >= k) & (wrote == columns.operands[columns.start[copies]]))
        pairs = np.column_stack((columns.call[makers[hits]], columns.call[copies[hits]]))
        kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
        legal = [_is_legal(calls[maker], k, calls[copy]) for maker, copy in kinds]
        found[hits] = np.array(legal, np.bool_)[kind.reshape(-1)]
    return found


def _is_legal(maker: Call, k: int, copy: Call) -> bool:
    """Whether a call's last operand but k - 1 may be that of a copy instead."""
    name = maker.writes[-k]
    made, declared = maker.view(name), _operand(maker, name)
    if maker.engine is engine.dma or maker.dynamic or declared.partial:
        return False
    if made.region is not SBUF or made.dtype is not copy.view(copy.reads[0]).dtype:
        return False
    return takes(maker, name, copy.view(copy.writes[0]))


def takes(call: Call, name: str, view: View) -> bool:
    """Whether a call may have another view as one of its operands, on the same engine."""
    instead = replace(call, arguments={**call.arguments, name: view})
    if out_of_reach(instead, instead.engine):
        return False
    refusals = agreement.violations(instead, call.machine)
    return not any(_operand(call, name).violations(name, view, call.machine)) and not any(refusals)


def _operand(call: Call, name: str) -> Operand:
    declared = next(p.operand for p in call.instruction.operands if p.name == name)
    assert declared is not None
    return declared


def _readers(definitions: Definitions, makers: Array, slots: Array) -> Array:
    """How many operands are read of what each maker wrote to the tensor of each operand."""
    calls, columns, areas, _, flow = definitions
    reads = np.array([call.inputs for call in calls], np.int32)
    made = np.zeros(len(columns.call) + 1, np.bool_)  # the last one for what nobody wrote, -1
    made[makers] = True
    users = np.flatnonzero(made[flow.reaching])
    whose = np.searchsorted(columns.start, users, side="right") - 1
    users = users[users - columns.start[whose] < reads[columns.call[whose]]]
    most = areas.max(initial=0) + 1
    used, asked = (flow.reaching[k] * most + areas[columns.operands[k]] for k in (users, slots))
    each, count = np.unique(used, return_counts=True)
    found: Array = count[np.searchsorted(each, asked)]
    return found
