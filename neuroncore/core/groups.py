"""Groups of 16 partitions, one for each processor of the GpSimd engine, as instructions read and
write them.

Element j of a group is in its partition j % 16, column j / 16: a snake.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.clause.arithmetic import put
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile

SIZE = 16  # partitions


def read_rows(core: Core, name: str, tile: Tile, chosen: Any) -> Any:
    """The codes of the chosen partitions, which are all that counts as read."""
    if tile.storage.gaps is not None:
        core.check_written(name, tile, np.flatnonzero(chosen))
    return tile.codes()[chosen].reshape(np.count_nonzero(chosen), -1)


def read(core: Core, name: str, tile: Tile, count: int) -> Any:
    """The codes [group, count] of the first elements of each, which are all that counts as read."""
    _check(core, name, tile, count)
    columns = -(-count // SIZE)
    blocks = tile.codes()[:, :columns].reshape(-1, SIZE, columns)
    return blocks.swapaxes(1, 2).reshape(len(blocks), -1)[:, :count]


def write(tile: Tile, codes: Any) -> None:
    """Write each group's codes[group]; what is beyond stays as it is."""
    number, count = codes.shape
    columns = -(-count // SIZE)
    padded = np.zeros((number, columns * SIZE), codes.dtype)
    padded[:, :count] = codes
    chosen = np.zeros(tile.shape, np.bool_)
    chosen[:, :columns] = _wound(np.arange(columns * SIZE) < np.full((number, 1), count))
    put(tile, chosen, _wound(padded)[chosen[:, :columns]])


def _check(core: Core, name: str, tile: Tile, count: int) -> None:
    """Whole columns have been written, and the head of the next one."""
    if tile.storage.gaps is None:
        return
    columns, rest = divmod(count, SIZE)
    partitions = tile.shape[0]
    if columns:
        core.check_written(name, tile.window((partitions, columns), tile.strides, tile.offset))
    if rest:
        tail = tile.window((partitions, 1), tile.strides, tile.offset + columns * tile.strides[1])
        core.check_written(name, tail, np.flatnonzero(np.arange(partitions) % SIZE < rest))


def _wound(rows: Any) -> Any:
    """Element [group, j] at [16 group + j % 16, j / 16], for whole columns."""
    columns = rows.shape[1] // SIZE
    return rows.reshape(-1, columns, SIZE).swapaxes(1, 2).reshape(-1, columns)
