"""What the older API's compiler leaves out of a program: what is there already, and copies that
the instruction which made their source writes in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.enums import engine
from neuroncore.instruction import Call
from neuroncore.native import MIX
from neuroncore.program import Columns

Array = npt.NDArray[Any]
CONVERTING = (engine.vector, engine.scalar, engine.gpsimd)


def made_before(
    calls: list[Call], columns: Columns, version: Array, gone: Array, reach: int
) -> Array:
    """The instruction before each that did the same with the same data and whose result is still
    there, of loads not more than `reach` before; -1 where there is none.

    version[k] is who wrote operand k last, gone[i] who first overwrites any of what i wrote.
    """
    before = np.full(len(columns.call), -1, np.int32)
    reads = np.array([len(call.reads) if _is_made_once(call) else 0 for call in calls], np.int32)
    most = np.array([reach if call.engine is engine.dma else len(before) for call in calls])
    for count in np.unique(reads[reads > 0]):
        found = np.flatnonzero(reads[columns.call] == count)
        key = columns.call[found].astype(np.uint64)
        for values in (columns.operands, version):
            for k in range(count):
                key = (key * MIX) ^ values[columns.start[found] + k].astype(np.uint64)
        by_key = np.argsort(key, kind="stable")
        one, following = found[by_key[:-1]], found[by_key[1:]]
        again = (key[by_key[:-1]] == key[by_key[1:]]) & (gone[one] >= following)
        again &= following - one <= most[columns.call[one]]
        before[following[again]] = one[again]
    return before


def _is_made_once(call: Call) -> bool:
    once = call.instruction.made_once
    return once is not None and not call.dynamic and once(call)


def written_by_source(
    calls: list[Call], columns: Columns, version: Array, areas: Array, first: Array, needs: Array
) -> Array:
    """The copies that the instruction which made their source may write in their place: it made it
    for them alone, and nothing that came between used what they overwrite.

    Published attention is as fast with such a copy, of float32 to bfloat16, as without (autocomp's
    fifth search, its steps 3 and 2). version[k] is who wrote operand k last, areas[b] the tensor
    that box b is a part of; instruction i waits for needs[first[i]:first[i + 1]].
    """
    may = np.array([_may_be_written_by_source(call) for call in calls], np.bool_)
    copies: Array = np.flatnonzero(may[columns.call])
    copies = copies[version[columns.start[copies]] >= 0]
    if not len(copies):
        return copies
    makers = version[columns.start[copies]]
    bounds = np.column_stack((first[copies], first[copies + 1])).ravel()
    latest = np.maximum.reduceat(np.append(needs, -1), bounds)[::2]
    fits = (latest == makers) & _made(calls, columns, makers, columns.start[copies])
    copies, makers = copies[fits], makers[fits]
    readers = _readers(calls, columns, version, areas, makers, columns.start[copies])
    written: Array = copies[readers == 1]
    return written


def _may_be_written_by_source(call: Call) -> bool:
    """Whether it copies its only operand in a way that leaves no trace of the one in between."""
    direct = call.instruction.written_by_source
    return direct is not None and not call.dynamic and len(call.reads) == 1 and direct(call)


def _made(calls: list[Call], columns: Columns, makers: Array, slots: Array) -> Array:
    """Whether each maker wrote exactly what the operand is, on an engine that converts."""
    able = np.array([call.engine in CONVERTING for call in calls], np.bool_)
    writes = np.array([len(call.writes) for call in calls], np.int32)[columns.call[makers]]
    found = np.zeros(len(makers), np.bool_)
    for k in range(1, writes.max(initial=0) + 1):
        wrote = columns.operands[columns.start[makers + 1] - k]
        found |= (writes >= k) & (wrote == columns.operands[slots])
    return found & able[columns.call[makers]]


def _readers(
    calls: list[Call], columns: Columns, version: Array, areas: Array, makers: Array, slots: Array
) -> Array:
    """How many operands are read of what each maker wrote to the tensor of each operand."""
    reads = np.array([len(call.reads) + len(call.indices) for call in calls], np.int32)
    made = np.zeros(len(columns.call) + 1, np.bool_)  # the last one for version -1
    made[makers] = True
    users = np.flatnonzero(made[version])
    whose = np.searchsorted(columns.start, users, side="right") - 1
    users = users[users - columns.start[whose] < reads[columns.call[whose]]]
    most = areas.max(initial=0) + 1
    used, asked = (version[k] * most + areas[columns.operands[k]] for k in (users, slots))
    each, count = np.unique(used, return_counts=True)
    found: Array = count[np.searchsorted(each, asked)]
    return found
