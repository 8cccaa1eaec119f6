"""The successive contents of tiles, and waits for their space. A box is a rectangle of bytes in a
memory (`record.boxes`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import borrowing, compiled
from neuroncore.time.loops.dependencies import Accesses, share_bytes

Array = npt.NDArray[Any]


class AreaUses(NamedTuple):
    """The uses of areas. An area is the memory of one tile or tensor.

    `uses`, `ends`: area a is used by the operands uses[ends[a]:ends[a + 1]]
    `user`: user[k] is the instruction of operand uses[k]"""

    uses: Array
    user: Array
    ends: Array


class ContentNotes(NamedTuple):
    """Notes for `contents` about the instructions that use an area, numbered from 0.

    `last`: last[b] is the last instruction that wrote box b; -1 for none
    `kept`: its running sum is the number of earlier values that are still read at an instruction or
        later
    `wrote`: flags the instructions that write"""

    last: Array
    kept: Array
    wrote: Array


@compiled
def contents(
    accesses: Accesses, boxes: Array, areas: AreaUses, notes: ContentNotes, number: Array
) -> None:
    """Set number[k] to the number of the contents that an area has at uses[k]."""
    start, operands, reads = accesses.start, accesses.operands, accesses.reads
    uses, user, ends = areas.uses, areas.user, areas.ends
    last, kept, wrote = notes.last, notes.kept, notes.wrote
    for a in range(ends.shape[0] - 1):
        begin, row = ends[a], -1
        for k in range(begin, ends[a + 1]):
            i, box = user[k], operands[uses[k]]
            if k == begin or user[k - 1] != i:
                row += 1
            number[k] = row
            if uses[k] >= start[i] + reads[i]:
                last[box] = row
                wrote[begin + row] = True
                continue
            oldest = _oldest(box, accesses, boxes, last)
            if oldest < row:
                kept[begin + a + oldest + 1] += 1
                kept[begin + a + row + 1] -= 1
        held, count, now = 0, 0, -1
        for k in range(begin, ends[a + 1]):
            if number[k] != now:
                now = number[k]
                held += kept[begin + a + now]
                if wrote[begin + now] and held == 0:
                    count += 1
            number[k] = max(count - 1, 0)


@borrowing
def _oldest(box: Any, accesses: Accesses, boxes: Array, last: Array) -> int:
    """Return the first instruction that wrote the current contents of a box; -1 for none. A write
    of the whole box replaces earlier contents."""
    near, start = accesses.near, accesses.near_start
    latest: Any = -1
    first: Any = np.iinfo(np.int64).max
    by = -1
    for n in range(start[box], start[box + 1]):
        b = near[n]
        if last[b] < 0:
            continue
        first = min(first, last[b])
        if last[b] > latest or (last[b] == latest and b > by):
            latest, by = last[b], b
    if by < 0:
        return -1
    whole = boxes[by, 5] > 0 and boxes[by, 1] <= boxes[box, 1] and boxes[box, 2] <= boxes[by, 2]
    whole = whole and boxes[by, 3] <= boxes[box, 3] and boxes[box, 4] <= boxes[by, 4]
    return int(latest if whole else first)


@compiled
def waiting_operands(
    accesses: Accesses,
    boxes: Array,
    on_chip: Array,
    waiting: Array,
    before: Array,
    operand: Array,
    reused: Array,
) -> None:
    """For each instruction in `waiting`, find the result for whose space it waits.

    `operand`: operand[k] is set to the first result on chip that shares bytes with instruction
        before[k]; otherwise to the last result, or -1
    `reused`: reused[k] is set to True if a result shares bytes"""
    start, operands, reads = accesses.start, accesses.operands, accesses.reads
    for k in range(waiting.shape[0]):
        i, j = waiting[k], before[k]
        for result in range(start[i] + reads[i], start[i + 1]):
            if reused[k]:
                break
            operand[k] = result
            for used in range(start[j], start[j + 1]):
                box = operands[result]
                if on_chip[box] and share_bytes(box, operands[used], accesses, boxes):
                    reused[k] = True
