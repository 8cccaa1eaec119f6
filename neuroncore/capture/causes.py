"""Causes of waits, from the times of semaphores, and the critical path of a measured run.

An event is an instruction or a DMA transfer. A condition is a semaphore's value for which an
instruction waits. The path is found backwards, from the event that ends last to its cause, and so
on."""

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
    """The time in nanoseconds at which a condition became true, and the event that caused it.

    The event is -1 if unknown."""

    ns: float
    by: int


@dataclass(frozen=True, eq=False)
class Causes:
    """The cause of each event, and the path to the event that ends last.

    Events are numbered. If the core has n instructions, event e is the instruction in row e for e <
    n, and transfer e - n otherwise.

    `cause`: for each event, the event that let it begin, or -1 if unknown. The cause of a transfer
        is the instruction that starts it. The cause of an instruction is the event that made its
        last condition true, or the previous instruction of its engine if it did not wait.
    `waited_ns`: how long each instruction waited for its condition after its engine was free.
    `path`: the events of the path, in order of time."""

    cause: Array
    waited_ns: Array
    path: Sequence[int]


class _History:
    """The values of one semaphore over time, divided into intervals without a decrease."""

    def __init__(self, updates: Array) -> None:
        self.ns: list[float] = updates["ns"].tolist()
        self.value: list[int] = updates["value"].tolist()
        self.by: list[int] = updates["by"].tolist()
        falls = np.diff(updates["value"], prepend=0) < 0
        begins = np.maximum.accumulate(np.where(falls, np.arange(len(updates)), 0))
        self.begins: list[int] = begins.tolist()

    def reached(self, value: int, before: float) -> tuple[float, int] | None:
        """Return (time, engine) for the last rise of the semaphore to at least `value`.

        The rise is at the time `before` or earlier. The engine is the one that incremented the
        semaphore, or -1 for a DMA. Return None if the value at the time `before` is lower or
        unknown."""
        last = bisect_right(self.ns, before) - 1
        if last < 0:
            return None
        first = bisect_left(self.value, value, self.begins[last], last + 1)
        return (self.ns[first], self.by[first]) if first <= last else None


class _Sources:
    """The instructions and transfers that increment each semaphore.

    For each (engine, semaphore) there is a sorted list of (end in nanoseconds, event). The engine
    of transfers is -1."""

    def __init__(
        self, rows: Array, kinds: Sequence[DecodedInstruction], kernel: Array, moves: Array
    ) -> None:
        events: dict[tuple[int, int], list[tuple[float, int]]] = {}
        for row, engine, kind, end in zip(
            kernel.tolist(),
            rows["engine"][kernel].tolist(),
            rows["kind"][kernel].tolist(),
            rows["end_ns"][kernel].tolist(),
            strict=True,
        ):
            for update in kinds[kind].updates:
                events.setdefault((engine, update.number), []).append((end, row))
        for number, (end, semaphore) in enumerate(
            zip(moves["end_ns"].tolist(), moves["semaphore"].tolist(), strict=True)
        ):
            events.setdefault((-1, semaphore), []).append((end, len(rows) + number))
        self._events = {key: sorted(each) for key, each in events.items()}

    def of(self, by: int, semaphore: int, ns: float) -> int:
        """Return the event that changed a semaphore at the time `ns`, or -1 if there is none.

        The event is the last one that ended at most SLACK_NS after `ns`. `by` is the engine that
        changed the semaphore, or -1 for DMA."""
        events = self._events.get((by, semaphore), ())
        after = bisect_right(events, (ns + SLACK_NS, 1 << 60))
        return events[after - 1][1] if after else -1


def causes(
    rows: Array, kinds: Sequence[DecodedInstruction], kernel: Array, moves: Array, updates: Array
) -> Causes:
    """Return the cause of each event.

    `rows`: all instructions of a core.
    `kernel`: the indices in `rows` of the kernel's instructions.
    `moves`: the transfers.
    `updates`: the changes of semaphores."""
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
    """Return the condition of an instruction that became true last, at or before `begin`.

    `begin` is the time at which the instruction begins. Return None if the instruction waits for no
    semaphore, or if the times are unknown."""
    latest = None
    for wait in kind.waits:
        history = histories.get(wait.number)
        if not wait.kind.startswith("S") or history is None:
            continue
        reached = history.reached(wait.value, begin + SLACK_NS)
        if reached is not None and (latest is None or reached[0] > latest.ns):
            latest = Wait(reached[0], sources.of(reached[1], wait.number, reached[0]))
    return latest


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
