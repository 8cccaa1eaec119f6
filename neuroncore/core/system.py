"""Several cores that run one kernel together. Each core has a separate program; the cores of a rank
share HBM.

Only one program runs at a time. It runs until it ends, or until it must wait for others at a
barrier, an exchange of data or a collective. Then the next program in line continues. So all runs
of a launch execute the programs in the same order, however the operating system schedules the
threads.

A point is a named place at which certain cores wait for each other. A synchronization is one wait
at a point: it is complete when all cores of the point have arrived. Each core sends a value to the
other cores."""

from __future__ import annotations

import contextvars
import random
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

from neuroncore.base import source
from neuroncore.base.errors import DeadlockError, KernelError, ShapeError, TargetError, UsageError
from neuroncore.core.core import CarryOut, Core, Point, SentValues, nothing, on
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
    """Return how many cores of a launch can synchronize: the cores of a logical core
    (nki/get-started/about/lnc.rst)."""
    return len(CORES) if machine.has("logical_core") else 1


def meet(
    core: Core, point: str, value: Any = None, cores: tuple[int, ...] = CORES
) -> dict[int, Any]:
    """Send `value` to these cores of the rank, and wait until all of them have come to this point.
    Return the value that each core has sent.

    Raises TargetError if the rank does not have two cores. With the cores (0,), it must have one
    core, which does not wait."""
    if len(cores) == core.world.cores == 1:
        return {0: value}
    if core.peers is None or core.world.cores != len(CORES):
        raise TargetError(
            f"{point} needs two cores that can synchronize, but "
            + (
                f"the launch grid has {prod(core.grid)} programs"
                if prod(core.grid) > len(CORES)
                else "the kernel runs on one core"
            ),
            expected="a launch grid of 2: kernel[2](...)",
            got=f"a launch grid of {core.grid or 1}",
            because="only the cores of a logical core (LNC2) can synchronize",
        )
    if len(cores) == 1:
        raise TargetError(
            f"{point} is for one core, but the rank has two",
            argument="cores",
            expected=f"cores={CORES}",
        )
    rank_cores = frozenset(core.world.cores_of(core.rank))
    values = core.peers.meet(core.number, Point(point, rank_cores), value)
    return {core.world.core(number): value for number, value in values.items()}


def exchange(core: Core, point: str, src: Tile, to: int, sender: int, dst: Tile) -> Array:
    """Exchange data between the cores of a rank, which are numbered from 0.

    Send `src` to core `to`, and return the codes from core `sender` in the shape of `dst`. Raises
    KernelError if that core sends to another core. Raises ShapeError if its data does not fit
    `dst`."""
    received: Parcel = meet(core, point, Parcel(to, src.codes().copy(), src.dtype))[sender]
    rank, codes = core.world.core(core.number), received.codes
    if received.to != rank:
        raise KernelError(
            f"{point}: core {rank} expects data from core {sender}, but core {sender} sends to "
            f"core {received.to}",
            argument="recv_from_rank",
            hint="if a core has send_to_rank=R, core R must have its number as recv_from_rank",
        )
    sent = f"{codes.shape} {received.dtype}"
    if (received.dtype, len(codes), codes.size) != (dst.dtype, dst.shape[0], dst.size):
        raise ShapeError(
            f"{point}: core {sender} sends {sent}, but core {rank} expects {dst.shape} {dst.dtype}",
            argument="dst",
            expected=sent,
            got=str(dst),
        )
    return codes.reshape(dst.shape)


T = TypeVar("T")
FEW = 2  # up to this number of cores, their threads have stacks of the usual size
IN_A_LINE = 3  # the largest number of parts of a deadlock message that are in one line
LISTED = 8  # the largest number of parts of a deadlock message that have a line each
# bytes of each thread's stack if there are many threads. Most of the stack is needed to compile
# loops on the thread
STACK = 4 << 20


@dataclass(eq=False)
class _Sync:
    """The cores that meet, and the value that each arrived core has sent."""

    cores: frozenset[int]
    values: dict[int, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.values) == len(self.cores)


@dataclass(frozen=True)
class _Wait:
    """A waiting program: the point where it waits, the synchronization there, and the place in its
    source."""

    point: str
    sync: _Sync
    place: source.Place | None


class _Stopped(BaseException):
    """Unwinds a program after another program failed."""


class System:
    """The cores of one launch, numbered from 0. `turns` is the seed of a random order of their
    programs; 0 means the order of the numbers."""

    def __init__(self, cores: Sequence[Core], world: World, turns: int = 0) -> None:
        self.cores, self.world = cores, world
        self._line = list(range(len(cores)))  # the numbers of the cores in the order of turns
        if turns:
            random.Random(turns).shuffle(self._line)
        self._at = {number: at for at, number in enumerate(self._line)}
        # in the order of turns: 1 for programs that can continue
        self._able = bytearray(b"\1" * len(cores))
        self._turn = [threading.Semaphore(0) for _ in cores]
        self._waits: dict[int, _Wait] = {}
        self._ended: set[int] = set()
        self._open: dict[Point, _Sync] = {}
        self._running = 0  # the number of the core whose program has the turn
        self._failure: BaseException | None = None
        self._at_sync = False  # an error at a synchronization belongs to no single rank

    def run(self, program: Callable[[Core], T]) -> list[T]:
        """Run a program on every core to its end, and return all results. Raises DeadlockError, or
        the first error of any core. Adds the kernel's line to a KeyboardInterrupt."""
        results: dict[int, T] = {}
        threads = []
        for number, core in enumerate(self.cores):
            core.peers = self
            context = contextvars.copy_context()
            body = (self._body, number, core, program, results)
            threads.append(threading.Thread(target=context.run, args=body, daemon=True))
        started = self._start(threads)
        first = next((number for number in self._line if number not in self._ended), None)
        if first is not None:
            self._let_run(first)
        try:
            for thread in threads[:started]:
                thread.join()
        except KeyboardInterrupt as stop:
            self._failure = stop  # each program ends when it next waits
            stop.add_note(self._reached(threads[self._running]))
            raise
        if self._failure is not None:
            raise self._failure
        return [results[number] for number in range(len(self.cores))]

    def _start(self, threads: Sequence[threading.Thread]) -> int:
        """Start the threads of all cores, and return how many were started. If some can't start, no
        program runs."""
        with _stacks(len(threads)):
            for number, thread in enumerate(threads):
                try:
                    thread.start()
                except RuntimeError as error:
                    self._failure = UsageError(
                        f"the operating system started only {number} of {len(threads)} threads, "
                        f"but neuroncore runs each core in a separate thread: {error}"
                    )
                    self._ended.update(range(number, len(threads)))
                    return number
        return len(threads)

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
            if self.world.ranks > 1 and not self._at_sync:
                error.add_note(f"on {self.world.named(number)} of {self.world.ranks} ranks")
            self._failure = self._failure or error
        self._ended.add(number)
        self._able[self._at[number]] = 0
        self._hand_over(number)

    def meet(self, number: int, point: Point, value: Any, then: CarryOut = nothing) -> SentValues:
        """Send a value, and wait for all cores of the point (`Peers.meet`)."""
        sync = self._open.setdefault(point, _Sync(point.cores))
        sync.values[number] = value
        if sync.complete:
            del self._open[point]
            self._at_sync = True
            then(sync.values)
            self._at_sync = False
            for member in point.cores:
                self._able[self._at[member]] = 1
            return sync.values
        frame = source.user_frame()
        place = source.place(frame.f_code, frame.f_lasti) if frame else None
        self._waits[number] = _Wait(point.name, sync, place)
        self._able[self._at[number]] = 0
        self._hand_over(number)
        self._turn[number].acquire()
        if self._failure is not None:
            raise _Stopped
        del self._waits[number]
        return sync.values

    def _hand_over(self, number: int) -> None:
        """Let the next program continue after core `number`. Without one, the launch has a
        deadlock.

        After a failure, let the remaining programs stop one after the other."""
        if len(self._ended) == len(self.cores):
            return
        if self._failure is None:
            after = self._able.find(1, self._at[number] + 1)
            at = after if after >= 0 else self._able.find(1)
            if at >= 0:
                self._let_run(self._line[at])
                return
            self._failure = self._deadlock()
        remaining = next(n for n in self._line if n not in self._ended)
        self._let_run(remaining)  # it stops, and lets the next one stop

    def _let_run(self, number: int) -> None:
        self._running = number
        self._turn[number].release()

    def _reached(self, thread: threading.Thread) -> str:
        """Return a text for the kernel's line in the running program. `thread` is its thread."""
        frame = source.user_above(sys._current_frames().get(thread.ident or 0))
        users = frame is not None and source.is_users(frame)  # else the thread waits for its turn
        where = f"at {source.place(frame.f_code, frame.f_lasti)}, " if frame and users else ""
        ranks = "" if self.world.ranks == 1 else f" of {self.world.ranks} ranks"
        return f"the kernel was {where}on {self.world.named(self._running)}{ranks}"

    def _deadlock(self) -> DeadlockError:
        """Return the error for a deadlock, at the place of the first waiting program."""
        first: dict[_Sync, tuple[int, _Wait]] = {}
        for number, wait in sorted(self._waits.items()):
            first.setdefault(wait.sync, (number, wait))
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
        """Return texts about the missing cores of a synchronization: where they wait instead, or
        that they ended."""
        there = wait.sync.values
        waiting = f"{self._do(there, 'waits', 'wait')} for"
        doing: dict[str, list[int]] = {}
        for other in sorted(wait.sync.cores - there.keys()):
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

    def _do(self, numbers: Collection[int], singular: str, plural: str) -> str:
        """Return the names of cores, followed by a verb: its `singular` or its `plural`."""
        verb = plural if self.world.several(numbers) else singular
        return f"{self.world.all_named(numbers)} {verb}"

    def _elsewhere(self, number: int, than: _Wait) -> str:
        """Return a text for the point at which core `number` waits; "" if its program has ended.

        The text names the point's cores if `than` waits at a point of the same name."""
        if number in self._ended:
            return ""
        wait = self._waits[number]
        if self.world.ranks == 1:
            return wait.point
        of = f" of {self.world.all_named(wait.sync.cores)}" if wait.point == than.point else ""
        return f"{wait.point}{of} ({wait.place})"


def _listed(parts: Sequence[str]) -> str:
    """Join a few texts in one line. For more, return a line for each of the first LISTED, and the
    number of the others."""
    if len(parts) <= IN_A_LINE:
        return "; ".join(parts)
    rest = len(parts) - LISTED
    return "\n  ".join(["", *parts[:LISTED], *([f"and {rest} more"] if rest > 0 else [])])


@contextmanager
def _stacks(count: int) -> Iterator[None]:
    """A context manager in which new threads have stacks of STACK bytes, if `count` threads are
    more than FEW."""
    if count <= FEW:
        yield
        return
    before = threading.stack_size(STACK)
    try:
        yield
    finally:
        threading.stack_size(before)
