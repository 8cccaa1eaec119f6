"""Tensor indirection: operands whose elements an index in SBUF picks along the free axes.

A group of consecutive partitions shares its offsets. They are stored in a snake through the rows
that the index has for the group: offset i is in row i % G and column i // G, G by the machine and
the engine (`clause.picking.index_group`).

While an instruction runs, such an operand is a temporary tile: its inputs are gathered before, and
its results scattered afterwards. The meaning of the instruction does not notice. If several
elements go to one place, the last stays there (unpublished).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuroncore.base.errors import (
    KernelError,
    OutOfBoundsError,
    ViewError,
)
from neuroncore.clause.operand import Operand
from neuroncore.memory import access
from neuroncore.memory.access import Gaps
from neuroncore.memory.geometry import unplaced
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Tile

Check = Callable[[str, Tile, Array], None]  # told of an operand which elements are read


class Picked(Tile):
    """The elements that an index picks, in a temporary tile while an instruction runs.

    They come from places [P, num_elem] along the free axis of `source`, which are the same in each
    `group` of partitions. `never` flags those that were never written.
    """

    __slots__ = ("group", "never", "places", "source")

    source: Tile
    places: Array
    group: int
    never: Array | None

    def missing(self) -> Array | None:
        return self.never


def places(name: str, tile: Tile, size: int, check: Check) -> Array:
    """Return where along the free axis each element is, [P, num_elem]; `size` partitions share
    offsets.

    Raises OutOfBoundsError if that is outside the tensor.
    """
    assert tile.picks is not None
    index, limit = tile.picks.index, tile.picks.limit
    assert isinstance(index, Tile)
    partitions, count = tile.shape
    first, i = np.arange(0, partitions, size)[:, np.newaxis], np.arange(count)
    rows, columns = first + i % size, i // size
    used = np.zeros(index.shape, np.bool_)
    used[rows, columns] = True
    check(f"the index of {name}", index, used)
    offsets = index.codes()[rows, columns].astype(np.int64)
    beyond = np.argwhere((offsets < 0) | (offsets > limit))
    if len(beyond):
        g, place = beyond[0]
        last = min(first[g, 0] + size, partitions) - 1
        raise OutOfBoundsError(
            f"offset {place} of {name} for partitions {first[g, 0]} to {last} is "
            f"{offsets[g, place]}",
            argument=name,
            expected=f"0 to {limit}",
            got=f"{offsets[g, place]} in [{rows[g, place]}, {columns[place]}] of its index",
            because=f"a partition of {name} has {limit + 1} elements",
        )
    everywhere: Array = offsets[np.arange(partitions) // size]
    return everywhere


def pick(name: str, tile: Tile, chosen: Array, size: int, operand: Operand, check: Check) -> Picked:
    """Gather the elements at `chosen` places, the same for `size` partitions."""
    source = tile.picked_from
    if operand.reads and not operand.partial:
        used = np.zeros(source.shape, np.bool_)
        np.put_along_axis(used, chosen, True, 1)
        check(name, source, used)
    old = source.storage
    place = source.start_partition, source.byte
    lies = unplaced(tile.region, tile.shape, tile.dtype, source.held, place)
    storage = Storage(old.id, lies, source.held, old.name)
    storage.born, storage.launch = old.born, old.launch
    codes = np.ascontiguousarray(np.take_along_axis(source.codes(), chosen, 1))
    storage.data = codes.reshape(-1).view(np.uint8)
    made = Picked.of(storage)
    made.source, made.places, made.group, made.never = source, chosen, size, None
    if operand.partial or operand.writes:
        _copy_history(made, fresh=operand.writes and operand.partial)
    return made


def _copy_history(tile: Picked, fresh: bool) -> None:
    """Flags of the elements that have been written; `fresh` clears them, to see which will be."""

    def at_places(flags: Array | None) -> Array | None:
        return None if flags is None else np.take_along_axis(flags, tile.places, 1)

    source, storage = tile.source, tile.storage
    tile.never = at_places(source.missing())
    unwritten = at_places(source.unwritten())
    if fresh or unwritten is not None:
        storage.gaps = Gaps(storage.nbytes)
    if not fresh and unwritten is not None:
        tile.mark_written(~unwritten)


def scatter(tile: Picked, partial: bool) -> None:
    """Write out what the instruction has left in the tile: all of it, or what it has marked."""
    source, skipped = tile.source, tile.unwritten() if partial else None
    numbers = np.arange(tile.free_size, dtype=np.int32)
    if skipped is None:  # the partitions of a group agree
        last = _last(tile.places[:: tile.group], numbers, source.free_size)
        last = np.repeat(last, tile.group, axis=0)[: len(tile.places)]
    else:
        last = _last(tile.places, np.where(skipped, np.int32(-1), numbers), source.free_size)
    written = last >= 0
    source.codes()[written] = np.take_along_axis(tile.codes(), last, 1)[written]
    source.mark_written(written)


def _last(chosen: Array, numbers: Array, size: int) -> Array:
    """Return which is the last of the numbered elements that go to each of `size` places; -1 if
    none."""
    last = np.full((len(chosen), size), -1, np.int32)
    rows = np.arange(len(chosen))[:, np.newaxis]
    np.maximum.at(last, (rows, chosen), np.broadcast_to(numbers, chosen.shape))
    return last


def same_index(name: str, tile: Tile, other_name: str, other: Tile) -> KernelError | None:
    """Return an error unless the same index picks from both."""

    def spot(index: Any) -> tuple[Any, ...]:
        steps = access.long_axes(index.shape, index.strides)
        return index.storage.id, index.offset, index.shape, steps, index.dtype

    if tile.picks and other.picks and spot(tile.picks.index) == spot(other.picks.index):
        return None
    return ViewError(
        f"{name} and {other_name} are picked by different indices",
        argument=name,
        expected=f"the index of {other_name}",
        because="numbers and their scales form one tensor in two parts",
    )
