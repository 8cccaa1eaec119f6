"""What the older API's compiler makes of loads, and of tiles that don't fit into SBUF.

It loads bytes once that a kernel loads repeatedly, as long as the tile can stay. A tile that has to
make room for another is saved to HBM and reloaded when it is needed. Counters of published
profiles show all this; which tile makes room they don't say. Here it is the one that has not been
used for the longest time, in the order of the program, and tiles are gone after their last use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.native.lazy import Lazy
from neuroncore.record.program import Program

if TYPE_CHECKING:  # numba is imported when it is needed
    from neuroncore.native.spills import Accesses

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.spills")


@dataclass(frozen=True)
class Traffic:
    """`same_as[i]` is the instruction that instruction i is left out for repeating, or -1; bytes of
    tiles that are saved to HBM and reloaded, and of loaded ones that are read again where they came
    from."""

    same_as: Array
    reread_bytes: int = 0
    spill_save_bytes: int = 0
    spill_reload_bytes: int = 0

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Whether each instruction is no repetition."""
        kept: npt.NDArray[np.bool_] = self.same_as < 0
        return kept


def traffic(program: Program, capacity: int) -> Traffic:
    """Replay a program in an SBUF that has `capacity` bytes per partition for its tiles."""
    columns, calls, pieces = program.columns(), program.calls, program.boxes().pieces
    inputs = np.array([call.inputs for call in calls], np.int32)
    piece, whole = (of.take(columns.operands) for of in (pieces.of_box, pieces.whole))
    accesses = native.Accesses(columns.start, inputs.take(columns.call), piece, whole)
    contents = native.Contents(columns.call, columns.operands, program.box_table(), pieces.extents)
    repetitions = native.repetitions.over(len(program))
    with np.errstate(over="ignore"):  # hashes wrap around in plain Python as in compiled loops
        same_as, load = repetitions(accesses, contents, pieces.on_chip)
    if pieces.width[pieces.movable].sum() <= capacity:  # nothing has to make room
        return Traffic(_repeated(accesses, same_as))
    tiles = native.Tiles(load >= 0, pieces.movable, pieces.width, pieces.nbytes)
    saved, reloaded, dropped = native.replay(accesses, same_as, tiles, capacity)
    loaded = np.flatnonzero(load >= 0)
    line = columns.line[load[loaded]]
    again = loaded[np.isin(line, line[dropped[loaded] > 0])]
    if (same_as[again] != again).any():
        same_as[again] = again
        saved, reloaded, dropped = native.replay(accesses, same_as, tiles, capacity)
    reread = int(dropped @ pieces.nbytes)
    return Traffic(_repeated(accesses, same_as), reread, int(saved), int(reloaded))


def _repeated(accesses: Accesses, same_as: Array) -> Array:
    """The instruction that has made what each one would make again, -1 for those that are left."""
    start, reads, piece, _ = accesses
    found = np.full(len(reads), -1, np.int32)
    if (same_as == np.arange(len(same_as))).all():
        return found
    left_out = np.flatnonzero(~native.kept.over(len(reads))(accesses, same_as))
    writes = np.arange(start[-1]) >= np.repeat(start[:-1] + reads, np.diff(start))
    makers = np.full(len(same_as), -1, np.int32)
    makers[piece[writes]] = np.repeat(np.arange(len(reads)), np.diff(start))[writes]  # the last
    found[left_out] = makers[same_as[piece[start[left_out] + reads[left_out]]]]
    return found
