"""The bytes of HBM that several threads of a launch use, and their uses by segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import prod
from typing import NamedTuple

import numpy as np

from neuroncore.base.enums import ON_CHIP
from neuroncore.base.structs import dataclass
from neuroncore.checks.happens_before import HappensBefore, Thread
from neuroncore.checks.uses import Array, Uses
from neuroncore.machine.world import World
from neuroncore.memory import access
from neuroncore.record.columns import ANYWHERE
from neuroncore.record.overlap import Form, Patterns, neighbors

MOST_RUNS = 1 << 18  # of adjacent bytes in one access; an access with more isn't compared


class Access(NamedTuple):
    """The first read, or the first write, of a box in a segment of a thread."""

    thread: int
    segment: int
    writes: bool
    row: int


class SharedSpot(NamedTuple):
    """The location of a box: its storage, its pattern in bytes, and the start of the pattern."""

    storage: int
    form: Form
    start: int


@dataclass(eq=False)
class Shared:
    """Boxes of all threads with their uses, numbered core by core. A row of `box` is a half-open
    range of rows and one of bytes; `pattern` is a row of `patterns`, or -1."""

    area: list[Array] = field(default_factory=list)
    box: list[Array] = field(default_factory=list)
    pattern: list[Array] = field(default_factory=list)
    start: list[Array] = field(default_factory=list)
    form: list[Array] = field(default_factory=list)
    forms: dict[Form, int] = field(default_factory=dict)
    spots: list[SharedSpot] = field(default_factory=list)
    accesses: list[list[Access]] = field(default_factory=list)

    def near(self) -> tuple[Array, Array]:
        """The pairs of boxes that overlap, each pair once, also each box with itself."""
        _, area = np.unique(np.concatenate(self.area), return_inverse=True)
        patterns = Patterns(np.concatenate(self.start), np.concatenate(self.form), list(self.forms))
        places = np.concatenate(self.box), np.concatenate(self.pattern)
        near, start = neighbors(area, *places, patterns)
        owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
        once = owner <= near
        return owner[once], near[once]

    def share(self, one: int, other: int) -> bool:
        """Return whether two boxes have bytes in common; False for boxes with too many runs to
        compare."""
        a, b = self.spots[one], self.spots[other]
        if a == b:
            return True
        if max(_count(a), _count(b)) > MOST_RUNS:
            return False
        (starts, length), (others, reach) = _runs(a), _runs(b)
        place = np.searchsorted(others, starts + length)  # the first that begins after each
        before = others[np.maximum(place, 1) - 1]
        return bool(((place > 0) & (before + reach > starts)).any())

    def enter(self, uses: Uses, kept: Array) -> Array:
        """Add the boxes of a core that are `kept`. Return the new number of each of its boxes, -1
        for a box that isn't kept."""
        boxes = uses.program.boxes()
        number = np.full(len(boxes.table), -1, np.int64)
        number[kept] = np.arange(len(kept)) + len(self.accesses)
        first = sum(map(len, self.start))
        patterns = boxes.pattern[kept]
        self.area.append(boxes.table[kept, 0])
        self.box.append(boxes.table[kept, 1:5])
        self.pattern.append(np.where(patterns >= 0, patterns + first, -1))
        known = [self.forms.setdefault(form, len(self.forms)) for form in boxes.patterns.forms]
        self.start.append(boxes.patterns.start)
        self.form.append(np.array(known, np.int64)[boxes.patterns.form])
        self.spots += _spots(uses, kept)
        self.accesses += [[] for _ in kept]
        return number


def shared(
    uses: Sequence[Uses], among: Sequence[Thread], order: HappensBefore, world: World
) -> Shared:
    """Return the boxes of HBM that several threads use and one of them writes. Accesses through an
    index may be anywhere, and are left out."""
    boxes, wanted = Shared(), _used_by_several(uses, among)
    for core, one in enumerate(uses):
        windows = one.program.windows()
        first = _first_windows(one)
        known = windows.offset[first] != ANYWHERE
        kept = np.flatnonzero(np.isin(one.program.box_table()[:, 0], wanted) & known)
        number = boxes.enter(one, kept)
        for thread, thread_of_core in enumerate(among):
            if thread_of_core.core == core:
                done = _does(one, world.core(core)) & _within(one.user, thread_of_core)
                _note(one, thread, done, number, order, boxes.accesses)
    return boxes


def _used_by_several(uses: Sequence[Uses], among: Sequence[Thread]) -> Array:
    """Return the storages in HBM that several threads use and one of them writes."""
    used, written = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for thread in among:
        one = uses[thread.core]
        far = np.array([kind.region not in ON_CHIP for kind in one.program.kinds], np.bool_)
        accessed = far[one.areas.kind][one.area] & _within(one.user, thread)
        storages = one.program.box_table()[one.box, 0]
        used.append(np.unique(storages[accessed]))
        written.append(storages[accessed & one.writes])
    numbers, count = np.unique(np.concatenate(used), return_counts=True)
    return np.intersect1d(numbers[count > 1], np.concatenate(written))


def _within(rows: Array, thread: Thread) -> Array:
    inside: Array = (rows >= thread.first) & (rows < thread.last)
    return inside


def _first_windows(uses: Uses) -> Array:
    """Return the first window of each box."""
    of_window = uses.program.boxes().of_window
    first = np.zeros(len(uses.program.box_table()), np.int64)
    first[of_window[::-1]] = np.arange(len(of_window))[::-1]
    return first


def _spots(uses: Uses, kept: Array) -> list[SharedSpot]:
    windows, geometries = uses.program.windows(), uses.program.geometries
    spots = []
    for window in _first_windows(uses)[kept].tolist():
        lies = geometries[windows.geometry[window]]
        form = Form(lies.shape, lies.bytes_apart, lies.dtype.itemsize)
        start = int(windows.offset[window]) * lies.dtype.itemsize
        spots.append(SharedSpot(int(windows.storage[window]), form, start))
    return spots


def _axes(spot: SharedSpot) -> tuple[list[tuple[int, int]], int]:
    """Return (size, step) of the axes between runs of adjacent bytes, and the length of a run."""
    length = spot.form.item
    axes = access.long_axes(spot.form.shape, spot.form.steps)
    while axes and axes[-1][1] == length:
        length *= axes.pop()[0]
    return axes, length


def _count(spot: SharedSpot) -> int:
    """Return the number of runs."""
    return prod(size for size, _ in _axes(spot)[0])


def _runs(spot: SharedSpot) -> tuple[Array, int]:
    """Return the starts of runs of adjacent bytes, in order, and their length."""
    axes, length = _axes(spot)
    begins = np.array([spot.start], np.int64)
    for size, step in axes:
        begins = (begins[:, None] + np.arange(size) * step).reshape(-1)
    return np.sort(begins), length


def _does(uses: Uses, core: int) -> Array:
    """Return which uses are accesses of this core itself to HBM: a barrier only waits and uses
    nothing, and a collective of several cores counts once, for the first core."""
    does = []
    for instruction in (call.instruction for call in uses.program.calls):
        together = instruction.meets is not None and instruction.traits.exchanges
        does.append(instruction.traits.computes and not (together and core > 0))
    flags: Array = np.array(does, np.bool_)[uses.columns.call[uses.user]]
    return flags


def _note(
    uses: Uses, number: int, does: Array, of_box: Array, order: HappensBefore,
    accesses: list[list[Access]],
) -> None:  # fmt: skip
    """Add the uses in `does` of boxes that have a number, once for each segment of the thread."""
    used = np.flatnonzero((of_box[uses.box] >= 0) & does)
    rows, writes = uses.user[used], uses.writes[used]
    table = np.column_stack([of_box[uses.box[used]], order.segment(number, rows), writes])
    _, first = np.unique(table, axis=0, return_index=True)
    for k in np.sort(first).tolist():
        box, segment, wrote = table[k].tolist()
        accesses[box].append(Access(number, segment, bool(wrote), int(rows[k])))
