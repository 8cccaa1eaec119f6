"""Sums in PSUM that continue after they were read, and sums that were never read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from neuroncore.base.findings import Finding
from neuroncore.base.structs import dataclass
from neuroncore.checks.uses import Array, Uses
from neuroncore.clause.instruction import Call


def findings(uses: Uses) -> Iterator[Finding]:
    """Return a finding for each line whose products add to a sum that has been read and do not
    state that they accumulate: the author may think that the previous group has ended. Also return
    one for each line whose products begin a sum over one that was never read."""
    if not any(call.instruction.traits.multiplies for call in uses.program.calls):
        return
    in_turn = _InTurn.of(uses)
    reported: set[int] = set()
    lines = uses.columns.line
    for adds, read in in_turn.after_reads():
        if lines[adds] not in reported:
            reported.add(int(lines[adds]))
            yield Finding(
                "SUM_GOES_ON",
                f"dst has a sum that {uses.call(read).name} of {uses.line(read).short} has read, "
                "and this product is added to it: only the first write to a tile begins a sum",
                uses.line(adds),
            )
    for begins, lost in in_turn.over_unread():
        if ~lines[begins] not in reported:
            reported.add(~int(lines[begins]))
            yield Finding(
                "SUM_NOT_READ",
                f"dst has a sum of {uses.line(lost).short} that was never read, and this product "
                "replaces it",
                uses.line(begins),
            )


@dataclass(frozen=True, eq=False)
class _InTurn:
    """The uses of each window, in order. A window is on one tensor: another tensor at the same
    address begins a separate sum."""

    uses: Uses
    window: Array
    user: Array
    writes: Array

    @classmethod
    def of(cls, uses: Uses) -> _InTurn:
        order = np.lexsort((uses.place, uses.user, uses.window))
        return cls(uses, uses.window[order], uses.user[order], uses.writes[order])

    def after_reads(self) -> Iterator[tuple[int, int]]:
        """Return products that do not state whether they accumulate, each with the instruction that
        read the sum there after its last write."""
        after = self._follow(self._products(None), ~self.writes)
        began = _written_before(self.window, self.writes)
        for k in sorted(after[began[after]].tolist(), key=lambda k: int(self.user[k + 1])):
            yield int(self.user[k + 1]), int(self.user[k])

    def over_unread(self) -> Iterator[tuple[int, int]]:
        """Return products that begin a sum, each with the last product that wrote there, if nothing
        reads its sum."""
        every = self._products(None) | self._products(True) | self._products(False)
        following = self._follow(self._products(False), every)
        read = self.uses.reaching[~self.uses.writes]
        for k in following[~np.isin(self.user[following], read)].tolist():
            yield int(self.user[k + 1]), int(self.user[k])

    def _products(self, adds: bool | None) -> Array:
        """Return the uses that products write whose `accumulate` argument is `adds`."""
        stated = np.array([_says(call, adds) for call in self.uses.program.calls], np.bool_)
        products: Array = stated[self.uses.columns.call[self.user]] & self.writes
        return products

    def _follow(self, these: Array, those: Array) -> Array:
        """Return which of `these` uses follow a use in `those`, of the same window and by another
        instruction."""
        same = (self.window[1:] == self.window[:-1]) & (self.user[1:] != self.user[:-1])
        following: Array = np.flatnonzero(these[1:] & those[:-1] & same)
        return following


def _written_before(window: Array, writes: Array) -> Array:
    """Return, for each use, whether an earlier use of the same window wrote it."""
    count = np.cumsum(writes)
    first = np.flatnonzero(np.diff(window, prepend=-1))
    before = np.repeat(count[first] - writes[first], np.diff(np.append(first, len(window))))
    earlier: Array = count > before
    return earlier


def _says(call: Call, adds: bool | None) -> bool:
    """Return whether a call is a product whose `accumulate` argument is `adds`."""
    traits = call.instruction.traits
    is_said = traits.multiplies and traits.adds in call.arguments
    return is_said and call.arguments[traits.adds] is adds
