"""Checks that the instructions that a compiler keeps read the same data as in the kernel, after the
compiler has reordered instructions and left out others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.programs.hazards import Use, Uses
from bench.programs.views import Array
from neuroncore.time.compiled import ACCUMULATED, BYPASSED, FORWARDED, REPEATED, Compiled

COPIES = FORWARDED, BYPASSED  # fates of copies whose readers read the source


class _Memory:
    """All bytes of a core's memories. Each byte has a number for its value: equal instructions with
    equal inputs write equal numbers, and each byte has a separate number at the beginning."""

    def __init__(self, uses: Sequence[Use]) -> None:
        ends: dict[int, int] = {}
        for one in uses:
            ends[one.memory] = max(ends.get(one.memory, 0), one.last + 1)
        firsts = np.cumsum([0, *ends.values()])
        self._first = dict(zip(ends, firsts.tolist(), strict=False))
        self.numbers = np.arange(firsts[-1])

    def at(self, use: Use) -> Array:
        """Return the indices in `numbers` of the bytes of an operand."""
        return self._first[use.memory] + use.at


def wrong_use(compiled: Compiled, uses: Uses) -> str:
    """Return a text about the first instruction of a compiled program that reads other data than in
    the kernel, or that is replaced by an instruction with another result; "" if there is none."""
    origin = compiled.program.origin
    order = np.arange(len(compiled.fate)) if origin is None else origin
    if origin is None and not compiled.fate.any():
        return ""
    operands = [uses.rows.get((0, row), []) for row in range(len(order))]
    fate = np.zeros_like(compiled.fate)
    fate[order] = compiled.fate
    read, results = _as_written(compiled, uses, operands, fate)
    before = {row: numbers.tobytes() for row, numbers in enumerate(results)}
    made = {numbers: row for row, numbers in reversed(before.items())}
    for row in np.flatnonzero(compiled.fate == REPEATED).tolist():
        last = order[compiled.instead[row]]  # the result may also be from an earlier instruction
        if made[before[order[row]]] > last:
            return f"{order[row]} does not have the result of {last} or an earlier instruction"
    return _as_compiled(order.tolist(), operands, fate, read, results)


def _as_written(
    compiled: Compiled, uses: Uses, operands: Sequence[Sequence[Use]], fate: Array
) -> tuple[list[Array], list[Array]]:
    """Execute the kernel on numbers of bytes (`_Memory`), in its order. Return, for each
    instruction, the numbers that it reads, and the numbers that it writes. A copy that the compiler
    leaves out writes the numbers of its source."""
    memory = _Memory([use for each in operands for use in each])
    numbers, count, known = memory.numbers, len(memory.numbers), dict[tuple[object, ...], int]()
    calls = compiled.written.columns().call.tolist()
    read, results = [], []
    for row, each in enumerate(operands):
        inside, out = _places(memory, each)
        given = numbers[inside]
        key = calls[row], uses.values[0, row], given.tobytes()
        first = known.setdefault(key, count)
        count += len(out) * (first == count)
        numbers[out] = given if fate[row] in COPIES else first + np.arange(len(out))
        read.append(given)
        results.append(numbers[out])
    return read, results


def _as_compiled(
    order: Sequence[int],
    operands: Sequence[Sequence[Use]],
    fate: Array,
    read: Sequence[Array],
    results: Sequence[Array],
) -> str:
    """Execute the compiled program on numbers of bytes, in the order `order`. Readers of a copy
    that is left out read its source. Return a text about the first instruction that reads other
    numbers than `read` has, or ""."""
    memory = _Memory([use for each in operands for use in each])
    numbers, source = memory.numbers, np.arange(len(memory.numbers))
    for row in order:
        inside, out = _places(memory, operands[row])
        if fate[row] in COPIES:
            source[out] = source[inside]
            continue
        if fate[row] != ACCUMULATED and (numbers[source[inside]] != read[row]).any():
            return f"{row} reads other data than in the kernel"
        numbers[out], source[out] = results[row], out
    return ""


def _places(memory: _Memory, operands: Sequence[Use]) -> tuple[Array, Array]:
    """Return the indices of the bytes that an instruction reads, and of those that it writes."""
    none = np.zeros(0, np.int64)
    each = [
        [memory.at(use) for use in operands if use.writes == writes] for writes in (False, True)
    ]
    inside, out = (np.concatenate([none, *one]) for one in each)
    return inside, out
