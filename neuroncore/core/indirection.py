"""Tensor indirection: an index in SBUF chooses elements of an operand along the free axes.

Each group of G consecutive partitions has one list of offsets, which all its partitions use. The
list is stored in G rows of the index: offset i is in row i % G, column i // G. G depends on the
machine and the engine (`clause.legality.index_group`).

While an instruction runs, a temporary tile replaces such an operand. Before the instruction, the
elements of inputs are gathered into temporary tiles. After the instruction, the elements of results
are scattered from temporary tiles. So the function that defines the instruction needs no special
case. If several elements are scattered to the same place, the last one stays there (not
documented)."""

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

# called with the name of an operand, its tile and flags of the elements that are read
Check = Callable[[str, Tile, Array], None]


class Picked(Tile):
    """The elements that an index chooses, in a temporary tile.

    `places`: positions of the elements on the free axis of `source`, shape [P, num_elem]; equal in
        each group of `group` partitions
    `never`: flags of unwritten elements; None if there are none"""

    __slots__ = ("group", "index", "never", "places", "source")

    source: Tile
    index: Tile
    places: Array
    group: int
    never: Array | None

    def missing(self) -> Array | None:
        return self.never


def places(name: str, tile: Tile, size: int, check: Check) -> Array:
    """Return the positions that an index chooses on a tile's free axis, shape [P, num_elem].

    `size`: the number of partitions of a group, in which positions are equal
    `check`: reports offsets that were never written

    Raises OutOfBoundsError."""
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
            f"the index of {name} has the offset {offsets[g, place]} (offset {place} of partitions "
            f"{first[g, 0]} to {last})",
            argument=name,
            expected=f"use offsets from 0 to {limit}",
            got=f"index[{rows[g, place]}, {columns[place]}] is {offsets[g, place]}",
            because=f"a partition of {name} has {limit + 1:,} elements",
        )
    everywhere: Array = offsets[np.arange(partitions) // size]
    return everywhere


def pick(name: str, tile: Tile, chosen: Array, size: int, operand: Operand, check: Check) -> Picked:
    """Return a temporary tile with the elements at the positions `chosen`.

    `chosen`: shape [P, num_elem]; equal in each group of `size` partitions
    `check`: reports elements that are read and were never written"""
    source = tile.picked_from
    if operand.reads and not operand.partial:
        used = np.zeros(source.shape, np.bool_)
        np.put_along_axis(used, chosen, True, 1)
        check(name, source, used)
    old = source.storage
    place = source.start_partition, source.byte
    layout = unplaced(tile.region, tile.shape, tile.dtype, source.held, place)
    storage = Storage(old.id, layout, source.held, old.name)
    storage.born, storage.launch = old.born, old.launch
    codes = np.ascontiguousarray(np.take_along_axis(source.codes(), chosen, 1))
    storage.data = codes.reshape(-1).view(np.uint8)
    result = Picked.of(storage)
    assert tile.picks is not None and isinstance(tile.picks.index, Tile)
    result.source, result.index, result.places = source, tile.picks.index, chosen
    result.group, result.never = size, None
    if operand.partial or operand.writes:
        _copy_history(result, fresh=operand.writes and operand.partial)
    return result


def _copy_history(tile: Picked, fresh: bool) -> None:
    """Copy the flags of unwritten elements to a temporary tile.

    With `fresh`, mark all its elements as unwritten, to see later which ones are written."""

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
    """Write a temporary tile back to its source. With `partial`, write only the elements that the
    instruction has written."""
    source, skipped = tile.source, tile.unwritten() if partial else None
    numbers = np.arange(tile.free_size, dtype=np.int32)
    if skipped is None:  # the positions are the same in all partitions of a group
        last = _last(tile.places[:: tile.group], numbers, source.free_size)
        last = np.repeat(last, tile.group, axis=0)[: len(tile.places)]
    else:
        last = _last(tile.places, np.where(skipped, np.int32(-1), numbers), source.free_size)
    written = last >= 0
    source.codes()[written] = np.take_along_axis(tile.codes(), last, 1)[written]
    source.mark_written(written)


def _last(chosen: Array, numbers: Array, size: int) -> Array:
    """Return, for each row, the number of the last element at each position; -1 for none.

    `chosen`: the position of each element, shape [rows, n]
    `numbers`: the number of each element; -1 if it is left out
    `size`: the number of positions"""
    last = np.full((len(chosen), size), -1, np.int32)
    rows = np.arange(len(chosen))[:, np.newaxis]
    np.maximum.at(last, (rows, chosen), np.broadcast_to(numbers, chosen.shape))
    return last


def same_index(name: str, tile: Tile, other_name: str, other: Tile) -> KernelError | None:
    """Return an error unless one index chooses the elements of both tiles."""

    def spot(index: Any) -> tuple[Any, ...]:
        steps = access.long_axes(index.shape, index.strides)
        return index.storage.id, index.offset, index.shape, steps, index.dtype

    if tile.picks and other.picks and spot(tile.picks.index) == spot(other.picks.index):
        return None
    return ViewError(
        f"{name} and {other_name} are indirect views with different indices",
        argument=name,
        expected=f"use the same index as {other_name}",
        because="numbers and their scales are two parts of one tensor",
    )
