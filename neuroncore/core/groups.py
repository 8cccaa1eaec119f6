"""Groups of partitions, one for each processor of the GpSimd engine, as instructions read and
write them.

In a group of G partitions, element j is in partition j % G, column j / G: a snake.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.clause.arithmetic import put
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile


def size(core: Core) -> int:
    """Partitions of a group."""
    return core.machine.limits.gpsimd_core_partitions


def read_rows(core: Core, name: str, tile: Tile, chosen: Any) -> Any:
    """The codes of the chosen partitions, which are all that counts as read."""
    if tile.storage.gaps is not None:
        core.check_written(name, tile, np.flatnonzero(chosen))
    return tile.codes()[chosen].reshape(np.count_nonzero(chosen), -1)


def read(core: Core, name: str, tile: Tile, count: int) -> Any:
    """The codes [group, count] of the first elements of each, which are all that counts as read."""
    _check(core, name, tile, count)
    columns = -(-count // size(core))
    blocks = tile.codes()[:, :columns].reshape(-1, size(core), columns)
    return blocks.swapaxes(1, 2).reshape(len(blocks), -1)[:, :count]


def write(core: Core, tile: Tile, codes: Any) -> None:
    """Write each group's codes[group]; what is beyond stays as it is, and counts as written too:
    nki.isa.topk's own example passes its results on in whole."""
    number, count = codes.shape
    columns = -(-count // size(core))
    whole = columns * size(core)
    padded = np.zeros((number, whole), codes.dtype)
    padded[:, :count] = codes
    chosen = np.zeros(tile.shape, np.bool_)
    chosen[:, :columns] = _wound(np.arange(whole) < np.full((number, 1), count), columns)
    put(tile, chosen, _wound(padded, columns)[chosen[:, :columns]])
    if (missing := tile.missing()) is not None:
        tile.lay_leftovers(missing, core.options.zeros_as_leftovers)
        tile.mark_written()


def _check(core: Core, name: str, tile: Tile, count: int) -> None:
    """Whole columns have been written, and the head of the next one."""
    if tile.storage.gaps is None:
        return
    columns, rest = divmod(count, size(core))
    partitions = tile.shape[0]
    if columns:
        core.check_written(name, tile.window((partitions, columns), tile.strides, tile.offset))
    if rest:
        tail = tile.window((partitions, 1), tile.strides, tile.offset + columns * tile.strides[1])
        core.check_written(name, tail, np.flatnonzero(np.arange(partitions) % size(core) < rest))


def _wound(rows: Any, columns: int) -> Any:
    """Element [group, j] at [G group + j % G, j / G], for whole columns."""
    return rows.reshape(len(rows), columns, -1).swapaxes(1, 2).reshape(-1, columns)
