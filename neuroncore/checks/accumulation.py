"""Sums in PSUM that go on after they were read, and those that nobody has read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from neuroncore.base.findings import Finding
from neuroncore.base.structs import dataclass
from neuroncore.checks.uses import Array, Uses
from neuroncore.clause.instruction import Call


def findings(uses: Uses) -> Iterator[Finding]:
    """A finding for each line whose products, which don't say whether they add, are added to a sum
    that has been read: the group of the sum before was thought to have ended. And one for each
    line whose products begin a sum where there is one that nobody has read."""
    if not any(call.instruction.traits.multiplies for call in uses.program.calls):
        return
    in_turn = _InTurn.of(uses)
    told: set[int] = set()
    lines = uses.columns.line
    for adds, read in in_turn.after_reads():
        if lines[adds] not in told:
            told.add(int(lines[adds]))
            yield Finding(
                "SUM_GOES_ON",
                f"dst has a sum that {uses.call(read).name} of {uses.line(read).short} has read, "
                "and this product is added to it: only the first write to a tile begins a sum",
                uses.line(adds),
            )
    for begins, lost in in_turn.over_unread():
        if ~lines[begins] not in told:
            told.add(~int(lines[begins]))
            yield Finding(
                "SUM_NOT_READ",
                f"dst has a sum of {uses.line(lost).short} that nothing has read, and this product "
                "takes its place",
                uses.line(begins),
            )


@dataclass(frozen=True, eq=False)
class _InTurn:
    """The uses of each window, one after the other. A window is on one tensor: another one at the
    same address begins a sum of its own."""

    uses: Uses
    window: Array
    user: Array
    writes: Array

    @classmethod
    def of(cls, uses: Uses) -> _InTurn:
        order = np.lexsort((uses.place, uses.user, uses.window))
        return cls(uses, uses.window[order], uses.user[order], uses.writes[order])

    def after_reads(self) -> Iterator[tuple[int, int]]:
        """Products that leave it open whether they add, each with the instruction that has read
        what is in its place and not written it since."""
        after = self._follow(self._products(None), ~self.writes)
        began = _written_before(self.window, self.writes)
        for k in sorted(after[began[after]].tolist(), key=lambda k: int(self.user[k + 1])):
            yield int(self.user[k + 1]), int(self.user[k])

    def over_unread(self) -> Iterator[tuple[int, int]]:
        """Products that begin a sum, each with the product that was the last to write there, and
        that nothing reads."""
        every = self._products(None) | self._products(True) | self._products(False)
        found = self._follow(self._products(False), every)
        read = self.uses.reaching[~self.uses.writes]
        for k in found[~np.isin(self.user[found], read)].tolist():
            yield int(self.user[k + 1]), int(self.user[k])

    def _products(self, adds: bool | None) -> Array:
        """Which uses are written by products of which so much is said about whether they add."""
        said = np.array([_says(call, adds) for call in self.uses.program.calls], np.bool_)
        found: Array = said[self.uses.columns.call[self.user]] & self.writes
        return found

    def _follow(self, these: Array, those: Array) -> Array:
        """Before which of these uses there is, of the same window, one of those, by another
        instruction."""
        same = (self.window[1:] == self.window[:-1]) & (self.user[1:] != self.user[:-1])
        found: Array = np.flatnonzero(these[1:] & those[:-1] & same)
        return found


def _written_before(window: Array, writes: Array) -> Array:
    """Whether a window, of those in their order, has been written by an earlier use of it."""
    count = np.cumsum(writes)
    first = np.flatnonzero(np.diff(window, prepend=-1))
    before = np.repeat(count[first] - writes[first], np.diff(np.append(first, len(window))))
    found: Array = count > before
    return found


def _says(call: Call, adds: bool | None) -> bool:
    """Whether a call is a product that so much is said about."""
    traits = call.instruction.traits
    is_said = traits.multiplies and traits.adds in call.arguments
    return is_said and call.arguments[traits.adds] is adds
