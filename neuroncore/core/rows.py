"""Rows of a tensor: all rows of a tile, or rows that an index chooses while a DMA runs.

A row consists of all elements at one position of axis 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from neuroncore.base.errors import OutOfBoundsError, ShapeError
from neuroncore.clause.arithmetic import shaped
from neuroncore.core.core import Core
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import uint32

Numbers = Callable[[str, Tile, Tile, Machine], Array]


@dataclass(slots=True, eq=False)
class RowBlock:
    """The rows that an operand of a DMA reads or writes.

    `numbers`: the rows that an index chooses, as positions on axis 0; None without an index
    `inside`: flags of `numbers` that exist; None if all exist"""

    core: Core
    name: str
    tile: Tile
    numbers: Array | None = None
    inside: Array | None = None

    @property
    def chosen(self) -> Array | None:
        """Flags of the elements in rows that exist, in the shape of the tile; None if all exist."""
        if self.inside is None:
            return None
        column = self.inside.reshape(-1, *[1] * (len(self.tile.shape) - 1))
        return np.broadcast_to(column, self.tile.shape)

    def codes(self, out: Array | None = None) -> Array:
        """Return the codes of the elements: the memory of the tile, or a copy of the rows that an
        index chooses, in `out` if given. Row 0 replaces a row that does not exist."""
        if self.numbers is None:
            return self.tile.codes()
        table, rows = _every_row(self.tile), self.numbers
        if table.storage.gaps is not None:
            self.core.check_written(self.name, table, self._existing(rows))
        if self.inside is not None:
            rows = np.where(self.inside, rows, 0)
        codes: Array = table.codes().take(rows, 0, out, "clip")
        return codes

    def _existing(self, each: Array) -> Array:
        """Return the items of `each` (one per row) for rows that exist."""
        existing: Array = each if self.inside is None else each[self.inside]
        return existing

    def values(self) -> Array:
        """Return the rows as float32."""
        if self.numbers is None:
            return self.tile.values()
        return codec.decode(self.tile.held, self.codes())

    def write(self, codes: Array, chosen: Array | None = None) -> None:
        """Write codes to the rows that exist, and only to elements that `chosen` flags. If a row is
        chosen twice, it gets the codes of the later partition."""
        if self.numbers is None:
            put(self.tile, codes, chosen)
            return
        shape, existing = self.tile.shape, self._existing
        chosen_existing = None if chosen is None else existing(shaped(chosen, shape))
        codes = existing(shaped(codes, shape))
        _scatter(_every_row(self.tile), existing(self.numbers), codes, chosen_existing)

    def in_turn(self, unique: bool) -> Iterator[RowBlock]:
        """Yield RowBlocks to write one after the other. None of them contains a row twice.

        If rows are `unique`, there is only one."""
        if unique or self.numbers is None:
            yield self
            return
        inside = np.ones(len(self.numbers), np.bool_) if self.inside is None else self.inside
        same = self.numbers[:, np.newaxis] == self.numbers
        turns = np.tril(same & inside, -1).sum(axis=1)
        for turn in range(turns[inside].max(initial=0) + 1):
            yield replace(self, inside=inside & (turns == turn))

    def repeated(self) -> Array:
        """Return the numbers of the rows that a scatter writes more than once."""
        assert self.numbers is not None
        numbers, counts = np.unique(self._existing(self.numbers), return_counts=True)
        return numbers[counts > 1]


def put(tile: Tile, codes: Array, chosen: Array | None = None) -> None:
    """Write codes to a tile, in the order of its elements. With `chosen`, write only to the
    elements that `chosen` flags."""
    into, codes = tile.codes(), shaped(codes, tile.shape)
    if chosen is None:
        codec.copy(codes, into)
    else:
        chosen = shaped(chosen, tile.shape)
        into[chosen] = codes[chosen]
    if tile.storage.gaps is not None:
        tile.mark_written(chosen)


def _every_row(tile: Tile) -> Tile:
    """Return a tile with all rows of axis 0 that an index can choose."""
    (dynamic,) = tile.dynamic
    shape = (dynamic.limit + 1, *tile.shape[1:])
    return tile.window(shape, (dynamic.step, *tile.strides[1:]), tile.offset, dynamic=())


def _scatter(table: Tile, rows: Array, codes: Array, chosen: Array | None) -> None:
    if chosen is None:
        table.codes()[rows] = codes
    else:
        for row, values, kept in zip(rows, codes, chosen, strict=True):
            table.codes()[row, ...][kept] = values[kept]
    if table.storage.gaps is not None:
        written = np.zeros(table.shape, np.bool_)
        np.logical_or.at(written, rows, True if chosen is None else chosen)
        table.mark_written(written)


# --- which rows -----------------------------------------------------------------------------------


def one_for_each(name: str, tile: Tile, index: Tile, machine: Machine) -> Array:
    """Return the row number for each partition of the tile. Raises ShapeError unless the index has
    the shape [n, 1] and enough partitions."""
    if index.free_size != 1 or index.shape[0] < tile.shape[0]:
        raise ShapeError(
            f"the index of {name} has the shape {index.shape}",
            argument=name,
            expected=f"the shape ({tile.shape[0]}, 1)",
            got=str(index),
            because="each partition takes a single row number",
        )
    return index.codes().reshape(-1)[: tile.shape[0]]


def down_columns(name: str, tile: Tile, index: Tile, machine: Machine) -> Array:
    """Return one row number for each row of the tile, read column by column from the index.

    Raises ShapeError unless the index is uint32 [partitions, columns] and has enough numbers. The
    number of partitions must be a multiple of `limits.transposed_rows`. An index with several
    columns must use all partitions."""
    rows, whole = tile.shape[0], machine.limits.partitions
    group = machine.limits.transposed_rows
    partitions, columns = index.shape[0], index.free_size
    full = partitions == whole or columns == 1
    fits = full and len(index.shape) == 2 and partitions % group == 0
    if index.dtype is not uint32 or not fits or partitions * columns < rows:
        raise ShapeError(
            f"the index {index} can't pick the rows of {name}",
            argument=name,
            expected=f"a uint32 index with at least {rows:,} numbers: one column with a multiple "
            f"of {group} partitions, or several columns with {whole:,} partitions",
            got=f"{index.shape} {index.dtype}",
        )
    return index.codes().T.reshape(-1)[:rows]


def asked(
    core: Core, name: str, tile: Tile, skip: bool, numbers: Numbers = one_for_each
) -> RowBlock:
    """Return the rows of an operand, which `numbers(name, tile, index, machine)` finds.

    Raises OutOfBoundsError for rows that don't exist. With `skip`, `RowBlock.inside` flags them
    instead."""
    if not tile.dynamic:
        return RowBlock(core, name, tile)
    (dynamic,) = tile.dynamic
    assert isinstance(dynamic.index, Tile)
    rows = numbers(name, tile, dynamic.index, core.machine).astype(np.int64)
    if rows.min() >= 0 and rows.max() <= dynamic.limit:
        return RowBlock(core, name, tile, rows)
    inside = (rows >= 0) & (rows <= dynamic.limit)
    if skip:
        return RowBlock(core, name, tile, rows, inside)
    worst = int(np.argmin(inside))
    raise OutOfBoundsError(
        f"the index of {name} selects row {rows[worst]} for partition {worst}",
        argument=name,
        expected=f"use rows 0 to {dynamic.limit}",
        got=str(rows[worst]),
        because="the device checks the addresses of gathers and scatters, and stops if one is out "
        "of bounds",
        hint="clamp the indices, or pass oob_mode=nisa.oob_mode.skip",
        also=f"index {rows[worst] * dynamic.step} is out of bounds for axis 0 with size "
        f"{prod(tile.storage.shape)}",
    )
