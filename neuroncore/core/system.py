"""Several cores that run one kernel together: each has its own program, all share HBM.

The programs take turns. A program runs until it meets the others (at a barrier or an exchange of
data) and they are not there yet, or until it ends; then the next in line goes on. So a run is the
same every time, whatever the operating system does with the threads that hold the programs.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from neuroncore import source
from neuroncore.core.core import Core, on
from neuroncore.errors import DeadlockError

T = TypeVar("T")


@dataclass(eq=False)
class _Meeting:
    """Who has come to a meeting point so far, with what."""

    cores: frozenset[int]
    brought: dict[int, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.brought.keys() == self.cores


@dataclass(frozen=True)
class _Wait:
    """What a program is waiting for, and where in its source."""

    point: str
    meeting: _Meeting
    place: source.Place | None


class _Stopped(BaseException):
    """Unwinds a program because another one failed."""


class System:
    """The cores of one launch, numbered from 0."""

    def __init__(self, cores: Sequence[Core]) -> None:
        self.cores = cores
        self._turn = [threading.Semaphore(0) for _ in cores]
        self._waits: dict[int, _Wait] = {}
        self._ended: set[int] = set()
        self._open: dict[str, _Meeting] = {}
        self._failure: BaseException | None = None

    def run(self, program: Callable[[Core], T]) -> list[T]:
        """Run a program on every core, to the end; what each returned.

        Raises the first error of any of them, DeadlockError if they wait for each other for ever.
        """
        results: dict[int, T] = {}
        threads = []
        for rank, core in enumerate(self.cores):
            core.peers = self
            context = contextvars.copy_context()
            body = (self._body, rank, core, program, results)
            threads.append(threading.Thread(target=context.run, args=body, daemon=True))
        for thread in threads:
            thread.start()
        self._turn[0].release()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return [results[rank] for rank in range(len(self.cores))]

    def _body(
        self, rank: int, core: Core, program: Callable[[Core], T], results: dict[int, T]
    ) -> None:
        self._turn[rank].acquire()
        try:
            if self._failure is None:
                with on(core):
                    results[rank] = program(core)
        except _Stopped:
            pass
        except BaseException as error:
            self._failure = self._failure or error
        self._ended.add(rank)
        self._hand_over(rank)

    def meet(
        self, rank: int, point: str, cores: Sequence[int], bring: Any = None
    ) -> dict[int, Any]:
        """Wait at a named point until every one of `cores` is there; what each brought."""
        meeting = self._open.setdefault(point, _Meeting(frozenset(cores)))
        meeting.brought[rank] = bring
        if meeting.complete:
            del self._open[point]
            return meeting.brought
        frame = source.user_frame()
        place = source.place(frame.f_code, frame.f_lasti) if frame else None
        self._waits[rank] = _Wait(point, meeting, place)
        self._hand_over(rank)
        self._turn[rank].acquire()
        if self._failure is not None:
            raise _Stopped
        del self._waits[rank]
        return meeting.brought

    def _hand_over(self, rank: int) -> None:
        """Let the next program that can go on do so; if none can, none ever will."""
        order = [(rank + step) % len(self.cores) for step in range(1, len(self.cores) + 1)]
        left = [other for other in order if other not in self._ended]
        if not left:
            return
        if self._failure is None:
            for other in left:
                if other not in self._waits or self._waits[other].meeting.complete:
                    self._turn[other].release()
                    return
            self._failure = self._deadlock()
        self._turn[left[0]].release()  # it stops, and hands over to the next

    def _deadlock(self) -> DeadlockError:
        """The error for cores of which none can go on; it points at the first that waits."""
        parts = []
        for rank, wait in sorted(self._waits.items()):
            absent = sorted(wait.meeting.cores - wait.meeting.brought.keys())
            for other in absent:
                ended = other in self._ended
                doing = "has ended" if ended else f"waits at {self._waits[other].point}"
                parts.append(
                    f"core {rank} waits for core {other} at {wait.point} ({wait.place}), "
                    f"but core {other} {doing}"
                )
        error = DeadlockError(
            f"the cores wait for each other: {'; '.join(parts)}",
            because="the device would hang here until it is reset",
            hint="every core must reach the same barriers and exchanges, in the same order",
        )
        error.place, error.stack = self._waits[min(self._waits)].place, []
        return error
