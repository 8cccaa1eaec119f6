"""What the older API's compiler makes of loads, and of tiles that don't fit into SBUF.

It loads bytes once that a kernel loads repeatedly, as long as the tile can stay. A tile that has to
make room for another is saved to HBM and reloaded when it is needed. Counters of published
profiles show all this; which tile makes room they don't say. Here it is the one that has not been
used for the longest time, in the order of the program, and tiles are gone after their last use.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.native.lazy import Lazy
from neuroncore.native.structs import dataclass
from neuroncore.record.program import Program

if TYPE_CHECKING:  # numba is imported when it is needed
    from neuroncore.native.spills import Accesses

Array = npt.NDArray[Any]
spills: Any = Lazy("neuroncore.native.spills")


class Moves(NamedTuple):
    """Transfers that the compiler adds, in their order: the `kind` of each (SAVED, RELOADED or
    REREAD, `neuroncore.native.spills`), the instruction that it comes before, the piece of the
    record that it moves (`Boxes.pieces`), and its bytes."""

    kind: Array
    before: Array
    piece: Array
    nbytes: Array


NO_MOVES = Moves(*(np.zeros(0, np.int64) for _ in Moves._fields))


@dataclass(frozen=True)
class Traffic:
    """`same_as[i]` is the instruction that instruction i is left out for repeating, or -1. `moves`
    are tiles saved to HBM and reloaded, and loaded ones that are read again where they came from:
    all that counters, the schedule and lists say of spills is of these."""

    same_as: Array
    moves: Moves = NO_MOVES

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Whether each instruction is no repetition."""
        kept: npt.NDArray[np.bool_] = self.same_as < 0
        return kept

    @cached_property
    def spill_save_bytes(self) -> int:
        return self._bytes(spills.SAVED)

    @cached_property
    def spill_reload_bytes(self) -> int:
        return self._bytes(spills.RELOADED)

    @cached_property
    def reread_bytes(self) -> int:
        return self._bytes(spills.REREAD)

    def _bytes(self, kind: int) -> int:
        return int(self.moves.nbytes[self.moves.kind == kind].sum())


def traffic(program: Program, capacity: int) -> Traffic:
    """Replay a program in an SBUF that has `capacity` bytes per partition for its tiles."""
    columns, calls, pieces = program.columns(), program.calls, program.boxes().pieces
    inputs = np.array([call.inputs for call in calls], np.int32)
    piece, whole = (of.take(columns.operands) for of in (pieces.of_box, pieces.whole))
    accesses = spills.Accesses(columns.start, inputs.take(columns.call), piece, whole)
    contents = spills.Contents(columns.call, columns.operands, program.box_table(), pieces.extents)
    repetitions = spills.repetitions.over(len(program))
    with np.errstate(over="ignore"):  # hashes wrap around in plain Python as in compiled loops
        same_as, load = repetitions(accesses, contents, pieces.on_chip)
    if pieces.width[pieces.movable].sum() <= capacity:  # nothing has to make room
        return Traffic(_repeated(accesses, same_as))
    tiles = spills.Tiles(load >= 0, pieces.movable, pieces.width, pieces.nbytes)
    kind, before, moved = spills.replay(accesses, same_as, tiles, capacity).T
    loaded = np.flatnonzero(load >= 0)
    line = columns.line[load[loaded]]
    reread = np.isin(loaded, moved[kind == spills.REREAD])
    again = loaded[np.isin(line, line[reread])]
    if (same_as[again] != again).any():
        same_as[again] = again
        kind, before, moved = spills.replay(accesses, same_as, tiles, capacity).T
    moves = Moves(kind, before, moved, pieces.nbytes[moved])
    return Traffic(_repeated(accesses, same_as), moves)


def _repeated(accesses: Accesses, same_as: Array) -> Array:
    """The instruction that has made what each one would make again, -1 for those that are left."""
    start, reads, piece, _ = accesses
    found = np.full(len(reads), -1, np.int32)
    if (same_as == np.arange(len(same_as))).all():
        return found
    left_out = np.flatnonzero(~spills.kept.over(len(reads))(accesses, same_as))
    writes = np.arange(start[-1]) >= np.repeat(start[:-1] + reads, np.diff(start))
    makers = np.full(len(same_as), -1, np.int32)
    makers[piece[writes]] = np.repeat(np.arange(len(reads)), np.diff(start))[writes]  # the last
    found[left_out] = makers[same_as[piece[start[left_out] + reads[left_out]]]]
    return found
