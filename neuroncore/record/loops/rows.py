"""The rows of a record, taken apart: `neuroncore.record.columns`."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from neuroncore.native.jit import compiled

Array = npt.NDArray[Any]
LOWER = (1 << 32) - 1


@compiled
def apart(
    words: Array,
    tiles: Array,
    has_values: Array,
    call: Array,
    line: Array,
    start: Array,
    windows: Array,
    values: Array,
) -> None:
    """A row is a word with ~ its Call above its line, three for each window, and one for values if
    there are any; `tiles` and `has_values` are of Calls."""
    at, operand = 0, 0
    for i in range(call.shape[0]):
        call[i], line[i] = ~(words[at] >> 32), words[at] & LOWER
        at += 1
        for _ in range(tiles[call[i]]):
            windows[operand, 0] = words[at]
            windows[operand, 1] = words[at + 1]
            windows[operand, 2] = words[at + 2]
            at, operand = at + 3, operand + 1
        start[i + 1] = operand
        values[i] = -1
        if has_values[call[i]]:
            values[i] = words[at]
            at += 1
