"""Programs of a record with the iterations of parallel loops in other orders.

Iterations of the older API's affine_range may run in any order: it is for loops without a
loop-carried dependency, where sums don't count as one (SDK 2.26, nki.language.affine_range). Whole
iterations are permuted here. Accesses that they may share, such as sums and tiles that are filled
at their first use, keep the kernel's order: only the part of an iteration before such a use is
moved, since another order of a sum may round differently, which is allowed. Overlapping iterations
are not tried: two that share no bytes give the same bits in any overlap, and two that do are
reported when they are swapped. Within an iteration no bits depend on the order, since instructions
that share bytes, an engine or its registers keep their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.structs import dataclass
from neuroncore.checks.iterations import conflicts
from neuroncore.checks.uses import Uses
from neuroncore.record.program import Program

Array = npt.NDArray[Any]
Rows = list[int]
MEETING, REGISTERS = -1, -2  # resources other than storages that iterations share


@dataclass(frozen=True)
class _Loop:
    """One run of a parallel loop: the rows and the loops in each iteration."""

    number: int
    iterations: list[list[int | _Loop]] = field(default_factory=list)


Items = list[int | _Loop]


@dataclass(frozen=True, eq=False)
class Permutations:
    """A program, and the orders that its parallel loops allow."""

    program: Program

    def rows(self, seed: int) -> Array:
        """Return the rows of the program in another order: for seed 0 with the iterations of every
        loop reversed, for other seeds at random."""
        rng = np.random.default_rng(seed) if seed else None
        return np.array(self._ordered(self._items, rng), np.int64)

    def moved(self, rows: Array) -> Array:
        """Return a flag for each iteration of all runs of loops with more than one: whether its
        position in the loop differs."""
        at, flags = _places(rows), [np.empty(0, np.bool_)]
        for loop in _loops(self._items):
            firsts = [row for items in loop.iterations for row in islice(_rows(items), 1)]
            if len(firsts) > 1:
                flags.append(np.argsort(at[firsts]) != np.arange(len(firsts)))
        return np.concatenate(flags)

    def swapped(self, rows: Array) -> tuple[int, int] | None:
        """Return the first two instructions in different iterations that use the same bytes, of
        which one writes, and whose order is reversed; None if there are none."""
        at = _places(rows)
        pairs = [(one, other) for one, other in self._conflicts if at[one] > at[other]]
        return min(pairs, key=lambda pair: (pair[1], pair[0]), default=None)

    # --- loops -----------------------------------------------------------------------------------

    @cached_property
    def _items(self) -> Items:
        """The rows and loops of the program. A program with registers has rows only, since
        registers decide which rows exist."""
        marks = np.array(self.program.data.iterations, np.int64).reshape(-1, 3).tolist()
        top: Items = []
        around, last = [top], 0
        for row, number, _ in () if self.program.data.registers else marks:
            around[-1].extend(range(last, row))
            last = row
            if number >= 0:
                around.append(_begun(around[-1], number))
            else:
                around.pop()
        around[-1].extend(range(last, len(self.program)))
        return top

    def _ordered(self, items: Items, rng: np.random.Generator | None) -> Rows:
        parts = (self._of_loop(one, rng) if isinstance(one, _Loop) else [one] for one in items)
        return [*chain.from_iterable(parts)]

    def _of_loop(self, loop: _Loop, rng: np.random.Generator | None) -> Rows:
        each = [self._ordered(items, rng) for items in loop.iterations]
        shared = self._shared(each)
        ends = [self._until(rows, shared) for rows in each]
        heads = [rows[:end] for rows, end in zip(each, ends, strict=True)]
        tails = [rows[end:] for rows, end in zip(each, ends, strict=True)]
        if any(tails) and not self._placed.isdisjoint(chain.from_iterable(each)):
            return [*chain.from_iterable(each)]  # iterations alternate in the use of the same bytes
        count = len(each)
        order = range(count)[::-1] if rng is None else rng.permutation(count).tolist()
        return [*chain.from_iterable(heads[k] for k in order), *chain.from_iterable(tails)]

    # --- what iterations share -------------------------------------------------------------------

    def _shared(self, each: Sequence[Rows]) -> set[int]:
        """Return the resources that several iterations of a loop may share."""
        counts: Counter[int] = Counter()
        for rows in each:
            counts.update({one for row in rows for one in self._sharing.get(row, ())})
        return {one for one, count in counts.items() if count > 1}

    def _until(self, rows: Rows, shared: set[int]) -> int:
        """Return how many rows of an iteration come before its first use of a shared resource."""
        uses = (k for k, row in enumerate(rows) if shared & self._sharing.get(row, set()))
        return next(uses, len(rows))

    @cached_property
    def _sharing(self) -> dict[int, set[int]]:
        """The resources that iterations may share, for each row that uses some: storages, and the
        accumulator registers if an instruction continues with their contents."""
        used: dict[int, set[int]] = {}
        storage = self._storage
        for k in np.flatnonzero(np.isin(storage, list(self.program.data.carried))).tolist():
            used.setdefault(int(self._uses.user[k]), set()).add(int(storage[k]))
        calls, of_row = self.program.calls, self.program.columns().call
        adds = any(call.adds_to_registers for call in calls)
        for number, call in enumerate(calls):
            more = {MEETING} if call.instruction.meets is not None else set()
            more |= {REGISTERS} if adds and call.instruction.traits.accumulates else set()
            for row in np.flatnonzero(of_row == number).tolist() if more else ():
                used.setdefault(row, set()).update(more)
        return used

    @cached_property
    def _placed(self) -> frozenset[int]:
        """The rows that use tensors at addresses that the kernel specifies."""
        numbers = np.unique(self._storage).tolist()
        placed = [one for one in numbers if self.program.area(one).placed]
        return frozenset(self._uses.user[np.isin(self._storage, placed)].tolist())

    @cached_property
    def _conflicts(self) -> list[tuple[int, int]]:
        return [*conflicts(self._uses)]

    @cached_property
    def _uses(self) -> Uses:
        return Uses(self.program)

    @cached_property
    def _storage(self) -> Array:
        """The storage of each operand."""
        storages: Array = self.program.windows().storage[self._uses.window]
        return storages


def _begun(around: Items, number: int) -> Items:
    """Begin an iteration of the loop `number`, which is the last item of `around` or a new one;
    return its items."""
    loop = around[-1] if around else None
    if not (isinstance(loop, _Loop) and loop.number == number):
        loop = _Loop(number)
        around.append(loop)
    loop.iterations.append([])
    return loop.iterations[-1]


def _loops(items: Items) -> Iterator[_Loop]:
    for one in items:
        if isinstance(one, _Loop):
            yield one
            for inner in one.iterations:
                yield from _loops(inner)


def _rows(items: Items) -> Iterator[int]:
    for one in items:
        if isinstance(one, _Loop):
            yield from chain.from_iterable(map(_rows, one.iterations))
        else:
            yield one


def _places(rows: Array) -> Array:
    """Return the position of each row."""
    at = np.empty(len(rows), np.int64)
    at[rows] = np.arange(len(rows))
    return at
