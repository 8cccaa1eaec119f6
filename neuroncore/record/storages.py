"""The storages that a record's instructions touch: what is kept of each, and of those alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.memory.geometry import Geometry, Layout
from neuroncore.record.columns import Array, Windows
from neuroncore.record.loops.boxes import distinct

birth = Struct("<qq").pack  # a storage, and the line of its allocation


class Area(NamedTuple):
    """The record's data on a storage, or on a whole memory that tensors were placed in."""

    region: MemoryRegion
    name: str
    partitions: int
    row_bytes: int
    placed: bool
    line: int  # of its birth; -1 unknown


class Storages(NamedTuple):
    """The storages of a record in the order of their first use: the number of each, which of
    `kinds` it is like, and of each window which of them it is on."""

    number: Array
    kind: Array
    of_window: Array
    kinds: Sequence[Area]

    def is_placed(self) -> Array:
        """True for each storage at an address, which shares an area with others."""
        placed: Array = np.array([kind.placed for kind in self.kinds], np.bool_)[self.kind]
        return placed

    def areas(self) -> Array:
        """The area that each is in, by the number of the first storage there."""
        placed = self.is_placed()
        kinds, first = np.unique(self.kind[placed], return_index=True)
        area = self.number.copy()
        area[placed] = area[placed][first][np.searchsorted(kinds, self.kind[placed])]
        return area


def storages(
    windows: Windows,
    geometries: Sequence[Geometry],
    births: bytes,
    names: Mapping[int, str],
    calls: Sequence[Call],
) -> Storages:
    """The storages of the windows of a run. `births` belong to those that the kernel allocated, in
    order, `names` to those with a name; the Calls know the machine."""
    first, of_window = distinct(windows.storage[:, np.newaxis])
    number = windows.storage[first]
    layouts: dict[Layout, int] = {}
    layout = [layouts.setdefault(lies.layout, len(layouts)) for lies in geometries]
    texts: dict[str, int] = {"": 0}
    named = [texts.setdefault(name, len(texts)) for name in names.values()]
    fields = np.empty((len(number), 3), np.int64)
    fields[:, 0] = np.array(layout, np.int64)[windows.geometry[first]]
    fields[:, 1] = _said(np.frombuffer(births, "<i8").reshape(-1, 2), number, -1)
    fields[:, 2] = _said(np.array([[*names], named], np.int64).T, number, 0)
    first, alike = distinct(fields)
    laid_out, called = list(layouts), list(texts)
    kinds: dict[Area, int] = {}  # tensors of a loop have equal ones
    which = [
        kinds.setdefault(_area(laid_out[layout], line, called[name], calls[0].machine), len(kinds))
        for layout, line, name in fields[first].tolist()
    ]
    return Storages(number, np.array(which, np.int64)[alike], of_window, list(kinds))


def restored(number: Array, kind: Array, kinds: Sequence[Area], windows: Windows) -> Storages:
    """The storages of a file. Raises ValueError if a window has none."""
    order = np.argsort(number, kind="stable")
    at = np.searchsorted(number[order], windows.storage)
    if (at == len(number)).any() or (number[order[at]] != windows.storage).any():
        raise ValueError("a window has no storage")
    return Storages(number, kind, order[at], kinds)


def _said(pairs: Array, wanted: Array, otherwise: int) -> Array:
    """The last value for each storage that is `wanted`, from pairs of a number and a value."""
    if not len(pairs):
        return np.full(len(wanted), otherwise)
    number, said = pairs.take(np.argsort(pairs[:, 0], kind="stable"), axis=0).T
    at = np.searchsorted(number, wanted, side="right") - 1
    found: Array = np.where(number[at] == wanted, said[at], otherwise)
    return found


def _area(layout: Layout, line: int, name: str, machine: Machine) -> Area:
    region = layout.region
    if not layout.placed:
        return Area(region, name, layout.partitions, layout.row_bytes, False, line)
    memory = machine.sbuf if region is MemoryRegion.sbuf else machine.psum
    return Area(region, region.value, memory.partitions, memory.partition_bytes, True, -1)
