"""Loads that the older API's compiler leaves out, and tiles that don't fit into SBUF.

If a kernel loads the same bytes repeatedly, the compiler loads them once, as long as the tile can
stay. The same holds for a tile that several instructions make, such as a memset and a masked load.
If a tile does not fit, another tile is saved to HBM, and is reloaded when it is needed. A tile is
not saved only to avoid making it again: if a tile that one line of source makes from HBM can't
stay, each iteration makes the tile of that line again.
Counters of published profiles show these rules, but not which tile is saved. The model saves the
least recently used tile in program order, and drops each tile after its last use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.record.program import Program
from neuroncore.time.loops import spills
from neuroncore.time.loops.work import NO_MOVES, RELOADED, Moves

Array = npt.NDArray[Any]


def loads_and_spills(program: Program, reads: Array, capacity: int) -> tuple[Array, Moves]:
    """Replay a program in an SBUF with `capacity` bytes per partition. Return two results.

    1. For each instruction, the earlier one that replaces it with the same work; -1 if it stays.
    2. The transfers of tiles that are saved to HBM, reloaded, or loaded again from their source.

    `reads`: instruction i reads the first reads[i] of its operands"""
    columns, pieces, moves = program.columns(), program.boxes().pieces, NO_MOVES
    piece, whole = (column.take(columns.operands) for column in (pieces.of_box, pieces.whole))
    accesses = spills.Accesses(columns.start, reads, piece, whole)
    contents = spills.Contents(columns.call, columns.operands, program.box_table(), pieces.extents)
    repetitions = spills.repetitions.over(len(program))
    with np.errstate(over="ignore"):  # hashes wrap around in plain Python as in compiled loops
        same_as, maker, loaded = repetitions(accesses, contents, pieces.on_chip)
    if pieces.width[pieces.movable].sum() > capacity:  # some tiles have to be saved
        tiles = spills.Tiles(loaded, pieces.movable, pieces.width, pieces.nbytes)
        kind, before, moved = spills.replay(accesses, same_as, tiles, capacity).T
        from_hbm = np.flatnonzero(maker >= 0)
        line = columns.line[maker[from_hbm]]
        removed = np.isin(from_hbm, moved[kind != RELOADED])
        again = from_hbm[np.isin(line, line[removed])]
        if (same_as[again] != again).any():
            same_as[again] = again
            kind, before, moved = spills.replay(accesses, same_as, tiles, capacity).T
        moves = Moves(kind, before, moved, pieces.nbytes[moved])
    return spills.repeated.over(len(program))(accesses, same_as), moves
