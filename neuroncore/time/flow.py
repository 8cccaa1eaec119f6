"""Dependencies between instructions: waits for data, waits for space (until the previous contents
of the memory have been read), and the successive contents of a tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.lazy import Lazy
from neuroncore.time.loops.dependencies import Accesses, reads_of

if TYPE_CHECKING:
    from neuroncore.time.loops import flow as loops
else:
    loops = Lazy("neuroncore.time.loops.flow")

Array = npt.NDArray[Any]
MOST_USES = 20_000  # edits do not consider tiles that are used more often


def flow_of_data(
    first: Array, needs: Array, accesses: Accesses, boxes: Array
) -> tuple[Array, Array]:
    """Return the dependencies that carry data, as new arrays `first` and `needs`.

    `first`, `needs`: all dependencies: instruction i depends on needs[first[i]:first[i + 1]]
    `boxes`: `Boxes.table` of the record

    An instruction depends on the writers of its inputs. It also depends on the earlier writer of
    its results, if nothing read them in between, because it may add to them."""
    waiting = np.repeat(np.arange(len(first) - 1, dtype=needs.dtype), np.diff(first))
    reads = read_of(accesses, boxes, waiting, needs)
    overwrites = read_of(accesses, boxes, needs, waiting) & ~reads
    latest = np.full(len(first) - 1, -1, needs.dtype)
    np.maximum.at(latest, waiting[overwrites], needs[overwrites])
    return kept_waits(first, needs, reads | (~overwrites & (needs > latest[waiting])))


def read_of(accesses: Accesses, boxes: Array, reader: Array, writer: Array) -> Array:
    """Return a flag for each k: whether instruction reader[k] reads bytes that instruction
    writer[k] writes.

    `boxes`: `Boxes.table` of the record"""
    # The loop is compiled once for each type of its arguments, so all callers use one type.
    # (Critical paths have 64-bit indices of instructions.)
    reader, writer = (rows.astype(np.int32, copy=False) for rows in (reader, writer))
    reads = np.zeros(len(reader), np.bool_)
    reads_of.over(len(reader))(accesses, boxes, reader, writer, reads)
    return reads


def kept_waits(first: Array, needs: Array, kept: Array) -> tuple[Array, Array]:
    """Return only the dependencies with a flag, as new arrays `first` and `needs`.

    `first`, `needs`: instruction i depends on the instructions needs[first[i]:first[i + 1]]
    `kept`: kept[k] is the flag of needs[k]"""
    count = np.zeros(len(kept) + 1, np.int32)  # 32 bits save memory if this array is long
    np.cumsum(kept, out=count[1:])
    return count[first].astype(first.dtype), needs[kept]


def contents(accesses: Accesses, boxes: Array, uses: Array, ends: Array) -> Array:
    """Return, for each use in `uses`, how often its tile was filled again by then. A write fills a
    tile again if nothing that was written earlier is read afterwards.

    `uses`, `ends`: tile a is used by the operands uses[ends[a]:ends[a + 1]], in program order
    `boxes`: `Boxes.table` of the record"""
    number = np.empty(len(uses), np.int64)
    areas = loops.AreaUses(uses, accesses.user[uses], ends)
    kept, wrote = np.zeros(len(uses) + len(ends), np.int64), np.zeros(len(uses), np.bool_)
    notes = loops.ContentNotes(np.full(len(boxes), -1), kept, wrote)
    loops.contents.over(len(uses))(accesses, boxes, areas, notes, number)
    return number
