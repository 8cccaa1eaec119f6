"""Reorders a program whose tiles are processed in halves. Used by `neuroncore.time.edits.halves`. A
box is a rectangle of bytes in a memory (`record.boxes`)."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from neuroncore.base.jit import compiled
from neuroncore.time.loops.dependencies import Accesses

Array = npt.NDArray[Any]


@compiled
def put_off(
    accesses: Accesses, half: Array, line: Array, last: Array, turn: Array, order: Array
) -> None:
    """Set `order` to an order of the instructions in which second halves come as late as possible.
    The second halves keep their order.

    `half`: half[i] is 1 for a second half, and -2 for an instruction that waits for other cores
    `last`: last[0, b] and last[1, b] are the second halves that last used and last wrote box b; -1
        at first
    `turn`: turn[l] is the number of the iteration in which line l was last seen; -1 at first

    A second half comes before three things: the next iteration of its loop, a wait for other cores,
    and a dependent instruction. An instruction is dependent if it writes what the second half uses,
    or uses what the second half writes. A new iteration begins with a first half of a line that the
    current iteration has already had."""
    start, operands, reads, near, near_start = accesses
    count, done, now, k = half.shape[0], 0, 0, 0
    for i in range(count + 1):
        if i < count and half[i] == 1:
            for o in range(start[i], start[i + 1]):
                last[0, operands[o]] = i
                if o >= start[i] + reads[i]:
                    last[1, operands[o]] = i
            continue
        needed = -1
        if i == count or half[i] == -2 or (half[i] == 0 and turn[line[i]] == now):
            needed, now = count, now + 1
        else:
            for o in range(start[i], start[i + 1]):
                row = 0 if o >= start[i] + reads[i] else 1
                box = operands[o]
                for n in range(near_start[box], near_start[box + 1]):
                    needed = max(needed, last[row, near[n]])
        while done < i and done <= needed:
            if half[done] == 1:
                order[k] = done
                k += 1
            done += 1
        if i < count:
            turn[line[i]] = now
            order[k] = i
            k += 1
