"""Traces of loop iterations that Python executes. `templates` makes other iterations from them.

A trace consists of events and guards. Events are instructions, new tiles, and the begins and ends
of inner loops and iterations. Guards are numbers on which decisions of the frontend depend."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import ref

from neuroncore.base.enums import MemoryRegion
from neuroncore.core.core import Core
from neuroncore.frontend.limits import DynamicSlice
from neuroncore.memory.access import Dims
from neuroncore.memory.geometry import Geometry, Layout
from neuroncore.memory.parts import Affine
from neuroncore.memory.storage import Born, Storage
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format

MOST = 1_500  # events per iteration; in a longer iteration it is enough to repeat the inner loops
FAR = sys.maxsize // 4  # a bound that no index reaches

Guard = tuple[int, int, int]  # a number, and the bounds between which decisions are the same


class TracedTile(NamedTuple):
    """A tile among the arguments of an instruction."""

    name: str
    storage: Callable[[], Storage | None]  # a weak reference
    number: int  # the id of the storage
    geometry: Geometry
    offset: int


class TracedStep(NamedTuple):
    """An instruction of the iteration.

    `operands`, `others`: its arguments by name, tiles and others
    `accumulates`: whether writes add to the contents of their destination"""

    name: str
    operands: tuple[TracedTile, ...]
    others: tuple[tuple[str, Any], ...]
    accumulates: bool
    # whether a product adds to the contents of its destination; None for other instructions
    continues: bool | None
    site: Born
    row: bytes  # the record of the instruction


class StorageKind(NamedTuple):
    """The common properties of all storages that are made by one allocation in a loop."""

    layout: Layout
    held: Format
    name: str
    born: Born


def kind_of(storage: Storage) -> StorageKind:
    return StorageKind(storage.layout, storage.held, storage.name, storage.born)


class NewTile(NamedTuple):
    """A new tile. `filled`: the number that fills it, or None. `number`: the id of the storage."""

    region: MemoryRegion
    shape: Dims
    dtype: Format
    name: str
    filled: float | None
    site: Born
    kind: StorageKind
    number: int


class NewBlock(NamedTuple):
    """A new tile of a tensor with block axes. `number` is the id of the storage."""

    tensor: Any
    block: tuple[int, ...]
    depth: int | None  # of the loop whose iteration ends the tile; 0 for the outermost loop
    site: Born
    kind: StorageKind
    number: int


class Begin(NamedTuple):
    """The start of an inner loop, and the values of its variable."""

    values: range
    parallel: bool


class IterationStart(NamedTuple):
    """The start of an iteration of an inner loop."""

    value: int


END, END_LOOP, FAULT = "end of an iteration", "end of a loop", "something that can't be repeated"


class Trace:
    """Collects the events and guards of iterations that one core executes."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.events: list[Any] = []
        self.guards: list[Guard] = []
        self.continues: bool | None = None  # `continues` of the next TracedStep

    @property
    def is_full(self) -> bool:
        return len(self.events) >= MOST

    def add(self, event: Any) -> None:
        if not self.is_full:
            self.events.append(event)

    def fault(self) -> None:
        """Note that the iteration can't be repeated."""
        self.add(FAULT)

    # --- loops -----------------------------------------------------------------------------------

    def begin_loop(self, loop: Any) -> None:
        self.add(Begin(loop.values, loop.parallel))

    def begin_iteration(self, value: int) -> None:
        self.add(IterationStart(value))

    def end_iteration(self) -> None:
        self.add(END)

    def end_loop(self) -> None:
        self.add(END_LOOP)

    @property
    def written(self) -> int:
        """The number of bytes of all instructions in the record so far."""
        return 0 if self.core.program is None else self.core.program.rows.size

    def rows_from(self, begun: int) -> bytes:
        """Return the bytes of the record's instructions from byte `begun` to the end."""
        program = self.core.program
        return b"" if program is None else bytes(program.rows.since(begun))

    # --- tiles and instructions ------------------------------------------------------------------

    def tile(self, storage: Storage, filled: float | None = None) -> None:
        """Note the allocation of a tile. `filled` is the number with which its elements are filled,
        or None."""
        if storage.layout.placed or not storage.on_chip:
            self.fault()
            return
        fields = storage.region, storage.shape, storage.dtype, storage.name, filled
        self.add(NewTile(*fields, self.core.birthplace(), kind_of(storage), storage.id))

    def block(
        self, tensor: Any, block: tuple[int, ...], depth: int | None, storage: Storage
    ) -> None:
        """Note the allocation of a block's tile.

        `block`: the indices of the axes before the partition axis
        `depth`: the running loop whose present iteration releases the tile at its end; None if the
            tile outlives all iterations"""
        if storage.layout.placed:
            self.fault()
        site = self.core.birthplace()
        self.add(NewBlock(tensor, block, depth, site, kind_of(storage), storage.id))

    def step(self, name: str, arguments: Mapping[str, Any], accumulates: bool, begun: int) -> None:
        """Note an instruction that has been issued. Its record begins at byte `begun`."""
        operands, others = [], []
        for key, value in arguments.items():
            if isinstance(value, Tile):
                if value.dynamic or value.fault is not None or value.storage.layout.placed:
                    self.fault()
                    return
                storage = value.storage
                operands.append(
                    TracedTile(key, ref(storage), storage.id, value.geometry, value.offset)
                )
            elif isinstance(value, list):
                self.fault()
                return
            else:
                others.append((key, value))
        continues, self.continues = self.continues, None
        site = self.core.birthplace()
        row = self.rows_from(begun)
        fields = tuple(operands), tuple(others), accumulates, continues, site, row
        self.add(TracedStep(name, *fields))

    # --- decisions -------------------------------------------------------------------------------

    def guard(self, number: int, low: int, high: int) -> None:
        """Note a number on which decisions depend: they are the same from `low` to `high`. Outside
        of this range, they are known only for `number`."""
        if not low <= number <= high:
            low = high = number
        if not self.is_full:
            self.guards.append((int(number), int(low), int(high)))

    def iteration(self, value: int, values: range) -> None:
        """Note whether an iteration is the first of its loop, on which decisions depend.

        `value`, `values`: the loop variable, and all its values"""
        begin, step = values.start, values.step
        if value == begin:
            self.guard(value, begin, begin)
        else:
            self.guard(value, *((begin + 1, FAR) if step > 0 else (-FAR, begin - 1)))

    def part(self, shape: Dims, keys: Iterable[Any]) -> None:
        """Note the guards of a subscript of a tile of shape `shape`. A guard is the range of a
        number in the keys."""
        per_axis = [*keys]
        if any(k is ... for k in per_axis):
            at = next(axis for axis, k in enumerate(per_axis) if k is ...)
            per_axis[at : at + 1] = [slice(None)] * (len(shape) - len(per_axis) + 1)
        for size, k in zip(shape, per_axis, strict=False):
            if isinstance(k, slice):
                self._slice(k, size)
            elif isinstance(k, Affine):
                self.guard(k.start, -k.form.low, size - 1 - k.form.high)
            elif isinstance(k, DynamicSlice) and type(k.size) is int and isinstance(k.start, int):
                self.guard(k.start, 0, size - k.size)
                self.guard(k.size, 0, -1)
            elif isinstance(k, int) and type(k) is not bool:
                self.guard(k, 0, size - 1)
            else:
                self.fault()

    def _slice(self, k: slice, size: int) -> None:
        """Note the guards of a slice along an axis of this size."""
        bounds = [number for number in (k.start, k.stop, k.step) if number is not None]
        if not all(isinstance(number, int) for number in bounds):
            self.fault()
        elif k.start is None or k.stop is None or k.step is not None:
            for number in bounds:
                self.guard(number, 0, -1)
        elif bounds:
            self.guard(k.start, 0, size)
            self.guard(k.stop, 0, size)
            self.guard(k.stop - k.start, 0, -1)

    def mask(self, mask: Any) -> None:
        """Note the guards of a mask: for each number, the range with the same chosen elements."""
        if mask is None or isinstance(mask, list):
            return
        if not hasattr(mask, "terms"):  # the result of comparing numbers is a bool
            self.fault()
            return
        for index, how in mask.terms:
            low, high = index.extent()
            if how == ">=" and low >= 0:
                self.guard(index.start, -index.form.low, FAR)
            elif how == ">=" and high < 0:
                self.guard(index.start, -FAR, -index.form.high - 1)
            else:
                self.guard(index.start, 0, -1)

    def distinct(self, slot: Tile, value: Tile, blocks: Mapping[int, Any]) -> None:
        """Note that an assignment copies `value` to `slot`, two different tiles. If they might be
        equal in other iterations, the iteration can't be repeated."""
        target, source = slot.storage, value.storage
        if target is source or (target.id in blocks and source.id in blocks):
            self.fault()
