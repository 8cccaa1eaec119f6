"""Bytes of HBM that two cores of a rank, or two programs of a grid, use without synchronization.

A thread is one program of the launch grid on its core. A synchronization is an instruction, such as
a barrier or a collective, in which several threads wait for each other. Any set of threads may take
part in a synchronization. Synchronizations divide the instructions of a thread into segments: a
synchronization is the last instruction of its segment. For the threads that take part, all
instructions before the synchronization happen before all instructions after it. Vector clocks
represent this order.

A box is the set of bytes of an access. The bytes are in a storage, which is the memory of one
tensor. A box has bounds. If the access has strides, the box also has a pattern, which describes the
exact bytes within the bounds. A use is an operand that an instruction reads or writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from neuroncore.base.enums import ON_CHIP
from neuroncore.base.findings import Finding
from neuroncore.base.source import Place
from neuroncore.checks.uses import Array, Uses
from neuroncore.clause.instruction import Call
from neuroncore.machine.world import World
from neuroncore.memory import access
from neuroncore.record.boxes import Form, Patterns, neighbors
from neuroncore.record.columns import ANYWHERE, owners
from neuroncore.record.program import Program
from neuroncore.time.syncs import together

Sync = Mapping[int, int]  # the instruction of each thread that takes part, by its number


@dataclass(frozen=True)
class Thread:
    """One program of the launch grid: its `number`, and its instructions on a core from `first` to
    before `last`."""

    core: int
    number: int  # in the grid
    first: int
    last: int


def threads(programs: Sequence[Program]) -> list[Thread]:
    """Return the threads of a launch, core by core, in the order in which each core ran them."""
    listed = []
    for core, program in enumerate(programs):
        begun = np.array(program.data.programs, np.int64).reshape(-1, 2).tolist() or [[0, core]]
        for (first, number), (last, _) in pairwise([*begun, [len(program), -1]]):
            listed.append(Thread(core, number, first, last))
    return listed


def syncs(programs: Sequence[Program], among: Sequence[Thread], world: World) -> list[Sync]:
    """Return the synchronizations of the cores of all ranks, each after the earlier
    synchronizations of its cores.

    A collective that moves data is two synchronizations: its start and its end. There are no
    synchronizations if a core runs several programs of the grid."""
    if len(programs) != len(among):
        return []
    listed: list[Sync] = []
    for at in _in_order(together(programs, world)):
        number, row = next(iter(at.items()))
        if _moves(programs[number], row):
            listed.append({n: row - 1 for n, row in at.items()})
        listed.append(at)
    return listed


def _in_order(met: Sequence[Sync]) -> list[Sync]:
    """Sort synchronizations so that each comes after all earlier synchronizations of its cores."""
    of_core: dict[int, list[tuple[int, int]]] = {}
    for number, sync in enumerate(met):
        for core, row in sync.items():
            of_core.setdefault(core, []).append((row, number))
    before = TopologicalSorter[int]({number: () for number in range(len(met))})
    for rows in of_core.values():
        for (_, first), (_, second) in pairwise(sorted(rows)):
            before.add(second, first)
    return [met[number] for number in before.static_order()]


def _moves(program: Program, row: int) -> bool:
    call: Call = program.calls[program.columns().call[row]]
    return call.instruction.traits.exchanges


class HappensBefore:
    """The order that synchronizations impose on the instructions of several threads."""

    def __init__(self, count: int, met: Sequence[Sync]) -> None:
        """Order the instructions of `count` threads by their synchronizations. Each synchronization
        must come after all earlier synchronizations of its threads."""
        # the last instruction of each segment
        self._ends: list[list[int]] = [[] for _ in range(count)]
        self._behind = [[np.zeros(count, np.int32)] for _ in range(count)]
        for sync in met:
            clock = np.zeros(count, np.int32)
            for thread, row in sync.items():
                self._ends[thread].append(row)
                np.maximum(clock, self._behind[thread][-1], out=clock)
                clock[thread] = max(clock[thread], len(self._ends[thread]))
            for thread in sync:
                self._behind[thread].append(clock)

    def segment(self, thread: int, rows: Array) -> Array:
        """Return the segment of each instruction in `rows`. A synchronization ends a segment."""
        numbers: Array = np.searchsorted(self._ends[thread], rows)
        return numbers

    def are_concurrent(
        self, first: int, first_segment: int, second: int, second_segment: int
    ) -> bool:
        """Return whether `first_segment` of thread `first` and `second_segment` of thread `second`
        may run at the same time."""
        behind_other = self._behind[second][second_segment][first] <= first_segment
        return bool(behind_other and self._behind[first][first_segment][second] <= second_segment)


# what a report says if an access through an index was left out
INDEXED = (
    "accesses through an index to data that cores share are not compared, because their place is "
    "known only at run time"
)
MOST_RUNS = 1 << 18  # accesses with more runs of adjacent bytes are not compared


class Access(NamedTuple):
    """The first read or the first write of a box's bytes by one thread between two
    synchronizations."""

    thread: int
    segment: int
    writes: bool
    row: int


class ExactBytes(NamedTuple):
    """The exact bytes of a box.

    `storage`: the storage of the box
    `form`: the sizes of the axes, and their steps in bytes
    `start`: the byte at which the box starts"""

    storage: int
    form: Form
    start: int


@dataclass(eq=False)
class SharedBoxes:
    """The boxes that threads access. `exact_bytes` and `accesses` have an element for each box,
    core by core. Other fields have an array for each core:

    `area`: the storage of each box
    `box`: the bounds of each box: [row, row_end, byte, byte_end]
    `pattern`: the pattern of each box; -1 if the box fills its bounds
    `start`: the first byte of each pattern
    `form`: the index in `forms` of each pattern's form (`ExactBytes`)
    `indexed`: whether an access through an index was left out"""

    area: list[Array] = field(default_factory=list)
    box: list[Array] = field(default_factory=list)
    pattern: list[Array] = field(default_factory=list)
    start: list[Array] = field(default_factory=list)
    form: list[Array] = field(default_factory=list)
    forms: dict[Form, int] = field(default_factory=dict)
    exact_bytes: list[ExactBytes] = field(default_factory=list)
    accesses: list[list[Access]] = field(default_factory=list)
    indexed: bool = False

    def near(self) -> tuple[Array, Array]:
        """Return the pairs of boxes that overlap, as two arrays. Each box also forms a pair with
        itself."""
        _, area = np.unique(np.concatenate(self.area), return_inverse=True)
        patterns = Patterns(np.concatenate(self.start), np.concatenate(self.form), list(self.forms))
        places = np.concatenate(self.box), np.concatenate(self.pattern)
        near, start = neighbors(area, *places, patterns)
        owner = owners(start)
        once = owner <= near
        return owner[once], near[once]

    def share(self, first: int, second: int) -> bool:
        """Return whether two boxes share bytes; False without a comparison if a box has more than
        MOST_RUNS runs of adjacent bytes."""
        a, b = self.exact_bytes[first], self.exact_bytes[second]
        if a == b:
            return True
        if max(_count(a), _count(b)) > MOST_RUNS:
            return False
        (starts, length), (other_starts, other_length) = _runs(a), _runs(b)
        place = np.searchsorted(other_starts, starts + length)  # the first that begins after each
        before = other_starts[np.maximum(place, 1) - 1]
        return bool(((place > 0) & (before + other_length > starts)).any())

    def enter(self, uses: Uses, kept: Array) -> Array:
        """Add boxes of a core. Return the new number of the box in each row of the core's
        `Program.box_table`; -1 for a box that is not added.

        `kept`: the rows to add"""
        boxes = uses.program.boxes()
        number = np.full(len(boxes.table), -1, np.int64)
        number[kept] = np.arange(len(kept)) + len(self.accesses)
        first = sum(map(len, self.start))
        patterns = boxes.pattern[kept]
        self.area.append(boxes.table[kept, 0])
        self.box.append(boxes.table[kept, 1:5])
        self.pattern.append(np.where(patterns >= 0, patterns + first, -1))
        numbers = [self.forms.setdefault(form, len(self.forms)) for form in boxes.patterns.forms]
        self.start.append(boxes.patterns.start)
        self.form.append(np.array(numbers, np.int64)[boxes.patterns.form])
        self.exact_bytes += _exact_bytes(uses, kept)
        self.accesses += [[] for _ in kept]
        return number


def shared(
    uses: Sequence[Uses], among: Sequence[Thread], order: HappensBefore, world: World
) -> SharedBoxes:
    """Return the boxes of HBM that several threads use and one of them writes. Accesses through an
    index are left out: they may touch any byte."""
    boxes, wanted = SharedBoxes(), _used_by_several(uses, among)
    for core, uses_of_core in enumerate(uses):
        windows = uses_of_core.program.windows()
        first = _first_windows(uses_of_core)
        is_fixed = windows.offset[first] != ANYWHERE
        is_shared = np.isin(uses_of_core.program.box_table()[:, 0], wanted)
        boxes.indexed |= bool((is_shared & ~is_fixed).any())
        number = boxes.enter(uses_of_core, np.flatnonzero(is_shared & is_fixed))
        for thread, thread_of_core in enumerate(among):
            if thread_of_core.core == core:
                accesses_memory = _does(uses_of_core, world.core(core)) & _within(
                    uses_of_core.user, thread_of_core
                )
                _note(uses_of_core, thread, accesses_memory, number, order, boxes.accesses)
    return boxes


def _used_by_several(uses: Sequence[Uses], among: Sequence[Thread]) -> Array:
    """Return the storages in HBM that several threads use and one of them writes."""
    used, written = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for thread in among:
        uses_of_core = uses[thread.core]
        far = np.array(
            [kind.region not in ON_CHIP for kind in uses_of_core.program.kinds], np.bool_
        )
        accessed = far[uses_of_core.areas.kind][uses_of_core.area] & _within(
            uses_of_core.user, thread
        )
        storages = uses_of_core.program.box_table()[uses_of_core.box, 0]
        used.append(np.unique(storages[accessed]))
        written.append(storages[accessed & uses_of_core.writes])
    numbers, count = np.unique(np.concatenate(used), return_counts=True)
    return np.intersect1d(numbers[count > 1], np.concatenate(written))


def _within(rows: Array, thread: Thread) -> Array:
    inside: Array = (rows >= thread.first) & (rows < thread.last)
    return inside


def _first_windows(uses: Uses) -> Array:
    """Return the first window (view of a tensor) on each box."""
    of_window = uses.program.boxes().of_window
    first = np.zeros(len(uses.program.box_table()), np.int64)
    first[of_window[::-1]] = np.arange(len(of_window))[::-1]
    return first


def _exact_bytes(uses: Uses, kept: Array) -> list[ExactBytes]:
    windows, geometries = uses.program.windows(), uses.program.geometries
    exact_bytes = []
    for window in _first_windows(uses)[kept].tolist():
        geometry = geometries[windows.geometry[window]]
        form = Form(geometry.shape, geometry.bytes_apart, geometry.dtype.itemsize)
        start = int(windows.offset[window]) * geometry.dtype.itemsize
        exact_bytes.append(ExactBytes(int(windows.storage[window]), form, start))
    return exact_bytes


def _axes(exact: ExactBytes) -> tuple[list[tuple[int, int]], int]:
    """Divide the bytes of a box into runs of adjacent bytes. Return (size, step in bytes) for each
    axis of runs, and the bytes of a run."""
    length = exact.form.item
    axes = access.long_axes(exact.form.shape, exact.form.steps)
    while axes and axes[-1][1] == length:
        length *= axes.pop()[0]
    return axes, length


def _count(exact: ExactBytes) -> int:
    """Return the number of runs of adjacent bytes of a box."""
    return prod(size for size, _ in _axes(exact)[0])


def _runs(exact: ExactBytes) -> tuple[Array, int]:
    """Return the first bytes of the runs of adjacent bytes, sorted, and the bytes of a run."""
    axes, length = _axes(exact)
    begins = np.array([exact.start], np.int64)
    for size, step in axes:
        begins = (begins[:, None] + np.arange(size) * step).reshape(-1)
    return np.sort(begins), length


def _does(uses: Uses, core: int) -> Array:
    """Return which uses access memory from core `core` of its rank. A barrier accesses none. A
    collective of several cores counts once, on core 0."""
    does = [
        call.instruction.traits.computes and not (core > 0 and call.participation.once)
        for call in uses.program.calls
    ]
    flags: Array = np.array(does, np.bool_)[uses.columns.call[uses.user]]
    return flags


def _note(
    uses: Uses, number: int, does: Array, of_box: Array, order: HappensBefore,
    accesses: list[list[Access]],
) -> None:  # fmt: skip
    """Add the first read and the first write of each box and segment to `accesses`.

    `uses`: of thread `number`; only those with a flag in `does` are added
    `of_box`: the number in `accesses` of each box of the core; -1 for boxes that are left out"""
    used = np.flatnonzero((of_box[uses.box] >= 0) & does)
    rows, writes = uses.user[used], uses.writes[used]
    table = np.column_stack([of_box[uses.box[used]], order.segment(number, rows), writes])
    _, first = np.unique(table, axis=0, return_index=True)
    for k in np.sort(first).tolist():
        box, segment, wrote = table[k].tolist()
        accesses[box].append(Access(number, segment, bool(wrote), int(rows[k])))


MOST_REPORTED = 20  # the most pairs of lines that are reported
MASKED = 62  # the number of bits in a set of threads; thread n has the bit n % MASKED


class Race(NamedTuple):
    """Two accesses to the same bytes in an undefined order, the second a write, with their
    boxes."""

    first: Access
    second: Access
    first_box: int
    box: int


@dataclass(frozen=True, eq=False)
class LaunchAccesses:
    """The threads of a launch, the bytes that they share, and the order of their instructions."""

    world: World
    threads: Sequence[Thread]
    uses: Sequence[Uses]
    order: HappensBefore
    shared: SharedBoxes

    def line(self, access: Access) -> Place:
        return self.uses[self.threads[access.thread].core].line(access.row)

    def who(self, access: Access) -> str:
        thread = self.threads[access.thread]
        alone = sum(other.core == thread.core for other in self.threads) == 1
        return self.world.named(thread.core) if alone else f"program {thread.number}"

    @cached_property
    def writers(self) -> dict[ExactBytes, list[Access]]:
        """The writes of all threads to the bytes of each box."""
        by_bytes: dict[ExactBytes, list[Access]] = {}
        for exact, accesses in zip(self.shared.exact_bytes, self.shared.accesses, strict=True):
            by_bytes.setdefault(exact, []).extend(access for access in accesses if access.writes)
        return by_bytes


def launch_of(uses: Sequence[Uses], world: World) -> LaunchAccesses:
    """Return the threads of all cores, with the bytes that they share. `uses`: one element for each
    core."""
    programs = [uses_of_core.program for uses_of_core in uses]
    among = threads(programs)
    alone = len(among) == world.ranks  # each rank is one thread, and shares no HBM
    order = HappensBefore(len(among), () if alone else syncs(programs, among, world))
    return LaunchAccesses(
        world, among, uses, order, SharedBoxes() if alone else shared(uses, among, order, world)
    )


def findings(uses: Sequence[Uses], world: World) -> list[Finding]:
    """Return at most MOST_REPORTED findings. Each is about two lines that use the same bytes of HBM
    in an undefined order. At least one of the lines writes.

    `uses`: an element for each core"""
    launch = launch_of(uses, world)
    reported: dict[frozenset[Place], Finding] = {}
    for race in races(launch):
        lines = frozenset((launch.line(race.first), launch.line(race.second)))
        if lines not in reported:
            reported[lines] = _race_finding(race, launch)
        if len(reported) == MOST_REPORTED:
            break
    return list(reported.values())


def races(launch: LaunchAccesses) -> Iterator[Race]:
    """Yield the races of a launch: two accesses by different threads to the same bytes, at least
    one a write, in an undefined order."""
    if len(launch.threads) < 2:
        return
    accesses = launch.shared.accesses
    if not accesses:
        return
    first, second = launch.shared.near()
    threads, writes = _threads(accesses), np.array([any(a.writes for a in b) for b in accesses])
    apart = threads[first] | threads[second]
    suspect = ((apart & (apart - 1)) != 0) & (writes[first] | writes[second])
    for a, b in zip(first[suspect].tolist(), second[suspect].tolist(), strict=True):
        yield from _between(a, b, launch)


def _threads(accesses: list[list[Access]]) -> Array:
    """Return an integer for each box: bit n % MASKED is 1 if thread n uses it."""
    bits = [
        sum(1 << n for n in {a.thread % MASKED for a in accesses_of_box})
        for accesses_of_box in accesses
    ]
    return np.array(bits, np.int64)


def _between(first_box: int, second_box: int, launch: LaunchAccesses) -> Iterator[Race]:
    """Yield the races between accesses to `first_box` and to `second_box`."""
    accesses, order = launch.shared.accesses, launch.order
    for a in accesses[first_box]:
        for b in accesses[second_box]:
            if a.thread == b.thread or not (a.writes or b.writes):
                continue
            if not order.are_concurrent(a.thread, a.segment, b.thread, b.segment):
                continue
            if not launch.shared.share(first_box, second_box):
                return
            if b.writes and (not a.writes or b.thread >= a.thread):
                yield Race(a, b, first_box, second_box)
            else:
                yield Race(b, a, second_box, first_box)


def _race_finding(race: Race, launch: LaunchAccesses) -> Finding:
    first, second = race.first, race.second
    place, line = launch.line(second), launch.line(first)
    message = (
        f"{launch.who(second)} writes bytes of HBM that {launch.who(first)} "
        f"{'writes' if first.writes else 'reads'} at {line.short}, and nothing synchronizes the "
        "two accesses"
    )
    if not _do_the_same(race, launch):
        return Finding("RACE", message, place)
    message_of_both = (
        f"{message}; both run the same line of source, so the result is right if both write the "
    )
    return Finding("RACE", f"{message_of_both}same values", place, severity="note")


def _do_the_same(race: Race, launch: LaunchAccesses) -> bool:
    """Return whether both threads of a race may write the same values:

    * Both accesses are writes to the same bytes from the same line.
    * The first access reads bytes that its own thread has written, at the line at which the other
      thread writes them."""
    first, second = race.first, race.second
    if first.writes:
        same = launch.shared.exact_bytes[race.first_box] == launch.shared.exact_bytes[race.box]
        return same and launch.line(first) == launch.line(second)
    written = launch.writers[launch.shared.exact_bytes[race.box]]
    earlier = (w for w in written if w.thread == first.thread and w.row <= first.row)
    return any(launch.line(write) == launch.line(second) for write in earlier)
