"""Several cores that run one kernel together. Each has a separate program; the cores of a rank
share HBM.

The programs take turns. A program runs until it meets others (at a barrier, an exchange of data or
a collective) and they are not there yet, or until it ends; then the next in line goes on. So a run
is the same every time, whatever the operating system does with the threads that hold the programs.
"""

from __future__ import annotations

import contextvars
import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

from neuroncore.base import source
from neuroncore.base.errors import DeadlockError, KernelError, ShapeError, TargetError
from neuroncore.core.core import Brought, CarryOut, Core, Point, nothing, on
from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import Format

CORES = (0, 1)


@dataclass(frozen=True)
class Parcel:
    """Data that one core sends to another."""

    to: int
    codes: Array
    dtype: Format


def cores_together(machine: Machine) -> int:
    """Return the number of cores on which the programs of a launch run at the same time and can
    synchronize: the cores of a logical core (nki/get-started/about/lnc.rst)."""
    return len(CORES) if machine.has("logical_core") else 1


def meet(core: Core, point: str, bring: Any = None) -> dict[int, Any]:
    """The data that each core of the rank brings to a named point, once all are there, by the
    core's number in the rank. Raises TargetError if they are not the two cores of a logical
    core."""
    if core.peers is None or core.world.cores != len(CORES):
        raise TargetError(
            f"{point} needs two cores that can synchronize, but the kernel runs on "
            + ("more" if prod(core.grid) > len(CORES) else "one"),
            expected="a launch grid of 2: kernel[2](...)",
            got=f"grid {core.grid or 1}",
            because="only the cores of a logical core (LNC2) can synchronize",
        )
    own = frozenset(core.world.cores_of(core.rank))
    brought = core.peers.meet(core.number, Point(point, own), bring)
    return {core.world.core(number): one for number, one in brought.items()}


def exchange(core: Core, point: str, src: Tile, to: int, sender: int, dst: Tile) -> Array:
    """Codes for `dst` that core `sender` brings to a named point, while `src` goes to core `to`.

    Raises KernelError if the sender has another addressee, ShapeError if it sends another tile.
    """
    received: Parcel = meet(core, point, Parcel(to, src.codes().copy(), src.dtype))[sender]
    rank, codes = core.world.core(core.number), received.codes
    if received.to != rank:
        raise KernelError(
            f"{point}: core {rank} expects data from core {sender}, which sends to core "
            f"{received.to}",
            argument="recv_from_rank",
        )
    sent = f"{codes.shape} {received.dtype}"
    if (received.dtype, len(codes), codes.size) != (dst.dtype, dst.shape[0], dst.size):
        raise ShapeError(
            f"{point}: core {sender} sends {sent}, core {rank} expects {dst.shape} {dst.dtype}",
            argument="dst",
            expected=sent,
            got=str(dst),
        )
    return codes.reshape(dst.shape)


T = TypeVar("T")
FEW = 2  # cores whose threads have stacks of the usual size
IN_A_LINE, LISTED = 3, 8  # parts of a deadlock message in one line, and lines of many parts
STACK = 4 << 20  # bytes of a thread's stack, of many: what loops are compiled on needs most of it


@dataclass(eq=False)
class _Meeting:
    """The cores at a meeting point so far, with their data."""

    cores: frozenset[int]
    brought: dict[int, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.brought) == len(self.cores)


@dataclass(frozen=True)
class _Wait:
    """The point that a program is waiting for, and its place in the source."""

    point: str
    meeting: _Meeting
    place: source.Place | None


class _Stopped(BaseException):
    """Unwinds a program because another one failed."""


class System:
    """The cores of one launch, numbered from 0, of the ranks of a world. `turns` is the seed of the
    order in which they take turns, 0 for that of their numbers."""

    def __init__(self, cores: Sequence[Core], world: World, turns: int = 0) -> None:
        self.cores, self.world = cores, world
        self._line = list(range(len(cores)))  # the numbers in the order of turns
        if turns:
            random.Random(turns).shuffle(self._line)
        self._at = {number: at for at, number in enumerate(self._line)}
        self._able = bytearray(b"\1" * len(cores))  # in the order of turns, who can go on
        self._turn = [threading.Semaphore(0) for _ in cores]
        self._waits: dict[int, _Wait] = {}
        self._ended: set[int] = set()
        self._open: dict[Point, _Meeting] = {}
        self._failure: BaseException | None = None
        self._at_meeting = False  # what is raised there is no one rank's

    def run(self, program: Callable[[Core], T]) -> list[T]:
        """Run a program on every core to its end, and return the result of each. Raises the first
        error of any core, and DeadlockError if they wait for each other forever."""
        results: dict[int, T] = {}
        threads = []
        for number, core in enumerate(self.cores):
            core.peers = self
            context = contextvars.copy_context()
            body = (self._body, number, core, program, results)
            threads.append(threading.Thread(target=context.run, args=body, daemon=True))
        with _stacks(len(threads)):
            for thread in threads:
                thread.start()
        self._turn[self._line[0]].release()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return [results[number] for number in range(len(self.cores))]

    def _body(
        self, number: int, core: Core, program: Callable[[Core], T], results: dict[int, T]
    ) -> None:
        self._turn[number].acquire()
        try:
            if self._failure is None:
                with on(core):
                    results[number] = program(core)
        except _Stopped:
            pass
        except BaseException as error:
            if self.world.ranks > 1 and not self._at_meeting:
                error.add_note(f"on {self.world.named(number)} of {self.world.ranks} ranks")
            self._failure = self._failure or error
        self._ended.add(number)
        self._able[self._at[number]] = 0
        self._hand_over(number)

    def meet(self, number: int, point: Point, bring: Any, then: CarryOut = nothing) -> Brought:
        """The data of each of the point's cores, as `Peers` states."""
        meeting = self._open.setdefault(point, _Meeting(point.cores))
        meeting.brought[number] = bring
        if meeting.complete:
            del self._open[point]
            self._at_meeting = True
            then(meeting.brought)
            self._at_meeting = False
            for member in point.cores:
                self._able[self._at[member]] = 1
            return meeting.brought
        frame = source.user_frame()
        place = source.place(frame.f_code, frame.f_lasti) if frame else None
        self._waits[number] = _Wait(point.name, meeting, place)
        self._able[self._at[number]] = 0
        self._hand_over(number)
        self._turn[number].acquire()
        if self._failure is not None:
            raise _Stopped
        del self._waits[number]
        return meeting.brought

    def _hand_over(self, number: int) -> None:
        """Let the next program that can continue run. If none can, all are deadlocked."""
        if len(self._ended) == len(self.cores):
            return
        if self._failure is None:
            after = self._able.find(1, self._at[number] + 1)
            at = after if after >= 0 else self._able.find(1)
            if at >= 0:
                self._turn[self._line[at]].release()
                return
            self._failure = self._deadlock()
        left = next(n for n in self._line if n not in self._ended)
        self._turn[left].release()  # it stops, and hands over to the next

    def _deadlock(self) -> DeadlockError:
        """Return the error for cores that all wait; it points at the first one."""
        first: dict[_Meeting, tuple[int, _Wait]] = {}
        for number, wait in sorted(self._waits.items()):
            first.setdefault(wait.meeting, (number, wait))
        parts = [part for _, wait in first.values() for part in self._absences(wait)]
        error = DeadlockError(
            f"the cores wait for each other: {_listed(parts)}",
            because="the device would hang here until it is reset",
            hint="every core must reach the same barriers, exchanges and collectives, in the same "
            "order",
        )
        error.place, error.stack = self._waits[min(self._waits)].place, []
        return error

    def _absences(self, wait: _Wait) -> list[str]:
        """Return the cores that wait at a meeting, the missing ones, and what the missing ones do,
        grouped."""
        there = wait.meeting.brought
        waiting = f"{self._do(there, 'waits', 'wait')} for"
        doing: dict[str, list[int]] = {}
        for other in sorted(wait.meeting.cores - there.keys()):
            doing.setdefault(self._elsewhere(other, wait), []).append(other)
        return [
            f"{waiting} {self.world.all_named(others)} at {wait.point} ({wait.place}), but "
            + (
                f"{self._do(others, 'waits', 'wait')} at {where}"
                if where
                else self._do(others, "has ended", "have ended")
            )
            for where, others in doing.items()
        ]

    def _do(self, numbers: Collection[int], one: str, several: str) -> str:
        """The cores with a verb in the matching form."""
        verb = several if self.world.several(numbers) else one
        return f"{self.world.all_named(numbers)} {verb}"

    def _elsewhere(self, number: int, than: _Wait) -> str:
        """Return the point at which a program waits, with its cores if other programs wait at a
        point of the same name; an empty text for a program that has ended."""
        if number in self._ended:
            return ""
        wait = self._waits[number]
        if self.world.ranks == 1:
            return wait.point
        of = f" of {self.world.all_named(wait.meeting.cores)}" if wait.point == than.point else ""
        return f"{wait.point}{of} ({wait.place})"


def _listed(parts: Sequence[str]) -> str:
    """Return a few parts in one line; for many parts, a line for each of the first ones and the
    number of the others."""
    if len(parts) <= IN_A_LINE:
        return "; ".join(parts)
    left = len(parts) - LISTED
    return "\n  ".join(["", *parts[:LISTED], *([f"and {left} more"] if left > 0 else [])])


@contextmanager
def _stacks(count: int) -> Iterator[None]:
    """Give threads that are started inside small stacks if there are many."""
    if count <= FEW:
        yield
        return
    before = threading.stack_size(STACK)
    try:
        yield
    finally:
        threading.stack_size(before)
