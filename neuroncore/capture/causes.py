"""Causes of waits, from the times of semaphores, and the path that ends last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.capture.encoding import DecodedInstruction

Array = npt.NDArray[Any]

# An engine that waited for a semaphore begins at most this long after the semaphore changed: 24 to
# 60 ns in published traces, for instructions whose engine had been free for long.
SOON_NS = 150.0
SLACK_NS = 5.0  # between an instruction's end and the record of its change of a semaphore


class Wait(NamedTuple):
    """The time at which a condition became true, and the event that made it true (-1 if
    unknown)."""

    ns: float
    by: int


@dataclass(frozen=True, eq=False)
class Causes:
    """The cause of each wait. An event is an instruction of the kernel, given by its row, or a move
    (DMA transfer): move m has the number len(instructions) + m. cause[e] is the last event that
    event e waited for (-1 for none), and waited_ns[e] is how long e waited after it could otherwise
    have begun. `path` is the chain of events that ends last, in order."""

    cause: Array
    waited_ns: Array
    path: Sequence[int]


class _History:
    """The values of one semaphore over time, in intervals in which they do not decrease."""

    def __init__(self, updates: Array) -> None:
        self.ns: list[float] = updates["ns"].tolist()
        self.value: list[int] = updates["value"].tolist()
        self.by: list[int] = updates["by"].tolist()
        falls = np.diff(updates["value"], prepend=0) < 0
        begins = np.maximum.accumulate(np.where(falls, np.arange(len(updates)), 0))
        self.begins: list[int] = begins.tolist()

    def reached(self, value: int, before: float) -> tuple[float, int] | None:
        """Return when the semaphore, before a time, last rose to at least this value, and what
        incremented it: the number of an engine, or -1 for a DMA."""
        last = bisect_right(self.ns, before) - 1
        if last < 0:
            return None
        first = bisect_left(self.value, value, self.begins[last], last + 1)
        return (self.ns[first], self.by[first]) if first <= last else None


class _Sources:
    """The instructions and transfers that increment each semaphore, by their ends."""

    def __init__(
        self, rows: Array, kinds: Sequence[DecodedInstruction], kernel: Array, moves: Array
    ) -> None:
        found: dict[tuple[int, int], list[tuple[float, int]]] = {}
        for row, engine, kind, end in zip(
            kernel.tolist(),
            rows["engine"][kernel].tolist(),
            rows["kind"][kernel].tolist(),
            rows["end_ns"][kernel].tolist(),
            strict=True,
        ):
            for update in kinds[kind].updates:
                found.setdefault((engine, update.number), []).append((end, row))
        for number, (end, semaphore) in enumerate(
            zip(moves["end_ns"].tolist(), moves["semaphore"].tolist(), strict=True)
        ):
            found.setdefault((-1, semaphore), []).append((end, len(rows) + number))
        self._found = {key: sorted(each) for key, each in found.items()}

    def of(self, by: int, semaphore: int, ns: float) -> int:
        """Return the event of source `by` (an engine, or -1 for DMA) that changed a semaphore at a
        time: the event that ended last before it, or -1."""
        own = self._found.get((by, semaphore), ())
        at = bisect_right(own, (ns + SLACK_NS, 1 << 60))
        return own[at - 1][1] if at else -1


def causes(
    rows: Array, kinds: Sequence[DecodedInstruction], kernel: Array, moves: Array, updates: Array
) -> Causes:
    """Return the causes of the waits of the instructions in the rows `kernel`."""
    histories = {
        number: _History(updates[updates["semaphore"] == number])
        for number in np.unique(updates["semaphore"]).tolist()
    }
    sources = _Sources(rows, kinds, kernel, moves)
    cause = np.full(len(rows) + len(moves), -1, np.int64)
    waited = np.zeros(len(cause))
    cause[len(rows) :] = moves["trigger"]
    before: dict[int, tuple[int, float, float]] = {}  # by engine: row, begin and end
    first = float(rows["begin_ns"][kernel].min()) if len(kernel) else 0.0
    engines, which = rows["engine"].tolist(), rows["kind"].tolist()
    begins, ends = rows["begin_ns"].tolist(), rows["end_ns"].tolist()
    for row in kernel.tolist():
        begin, engine = begins[row], engines[row]
        last, begun, ended = before.get(engine, (-1, first, first))
        wait = _latest(kinds[which[row]], begin, histories, sources)
        if wait is not None and wait.ns >= begun and begin - wait.ns <= max(SOON_NS, begin - ended):
            cause[row], waited[row] = wait.by, wait.ns - max(min(ended, wait.ns), begun)
        else:
            cause[row] = last
        before[engine] = row, begin, ends[row]
    return Causes(cause, waited, _path(rows, kernel, moves, cause))


def _latest(
    kind: DecodedInstruction, begin: float, histories: dict[int, _History], sources: _Sources
) -> Wait | None:
    """Return the condition of an instruction that became true last."""
    found = None
    for wait in kind.waits:
        history = histories.get(wait.number)
        if not wait.kind.startswith("S") or history is None:
            continue
        reached = history.reached(wait.value, begin + SLACK_NS)
        if reached is not None and (found is None or reached[0] > found.ns):
            found = Wait(reached[0], sources.of(reached[1], wait.number, reached[0]))
    return found


def _path(rows: Array, kernel: Array, moves: Array, cause: Array) -> list[int]:
    if not len(kernel):
        return []
    end = np.concatenate([rows["end_ns"], moves["end_ns"]])
    events = np.concatenate([kernel, len(rows) + np.arange(len(moves))])
    at = int(events[np.argmax(end[events])])
    path, seen = [at], {at}
    while (at := int(cause[at])) >= 0 and at not in seen:
        path.append(at)
        seen.add(at)
    return path[::-1]
