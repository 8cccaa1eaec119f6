"""What the older API's compiler makes of loads, and of tiles that don't fit into SBUF.

It loads bytes once that a kernel loads repeatedly, as long as the tile can stay; and what a kernel
transposes repeatedly, it transposes once, whether the result can stay or not. A tile that has to
make room for another is saved to HBM and reloaded when it is needed. Counters of published
profiles show all this; which tile makes room they don't say. Here it is the one that has not been
used for the longest time, in the order of the program, and tiles are gone after their last use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.enums import MemoryRegion
from neuroncore.instruction import Call
from neuroncore.lazy import Lazy
from neuroncore.program import Program

Array = npt.NDArray[Any]
SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
native: Any = Lazy("neuroncore.native.spills")


@dataclass(frozen=True)
class Traffic:
    """`kept[i]` says that instruction i is not left out for repeating another; bytes of tiles that
    are saved to HBM and reloaded, and of loaded ones that are read again where they came from."""

    kept: npt.NDArray[np.bool_]
    reread_bytes: int
    spill_save_bytes: int
    spill_reload_bytes: int


@dataclass(frozen=True)
class Pieces:
    """Parts of storages that no access shares with the rest: what can be moved alone. A tensor in
    HBM is one.

    Of each box the piece that it is in, whether it is all of it, and where it is in there, a row of
    integers; of each piece whether it is on chip, whether it is `movable`, in SBUF where the
    compiler put it, and its bytes, in each partition and in all.
    """

    of_box: Array
    whole: Array
    place: Array
    on_chip: Array
    movable: Array
    width: Array
    nbytes: Array


def traffic(program: Program, capacity: int) -> Traffic:
    """Replay a program in an SBUF that has `capacity` bytes per partition for its tiles."""
    columns, calls, pieces = program.columns(), program.calls, _pieces(program)
    inputs = np.array([len(call.reads) + len(call.indices) for call in calls], np.int32)
    turns = np.array([_turns(call) for call in calls], np.bool_)
    piece, whole = pieces.of_box[columns.operands], pieces.whole[columns.operands]
    rows = columns.start, inputs[columns.call], piece
    same_as, load = native.repetitions(
        *rows, columns.operands, columns.call, turns, pieces.place, pieces.on_chip
    )
    tiles = load >= 0, pieces.movable, pieces.width, pieces.nbytes, capacity
    *_, dropped = native.replay(*rows, whole, same_as, *tiles)
    loaded = np.flatnonzero(load >= 0)
    line = columns.line[load[loaded]]
    again = loaded[np.isin(line, line[dropped[loaded] > 0])]
    same_as[again] = again
    saved, reloaded, dropped = native.replay(*rows, whole, same_as, *tiles)
    reread = int(dropped @ pieces.nbytes)
    return Traffic(native.kept(*rows, same_as), reread, saved, reloaded)


def _pieces(program: Program) -> Pieces:
    boxes = program.box_table()
    areas, kinds, kind = program.area_kinds()
    kind_of = np.zeros(areas.max(initial=0) + 1, np.int64)
    kind_of[areas] = kind
    in_order = np.lexsort((boxes[:, 3], boxes[:, 0]))
    area, row, row_end, byte, byte_end, _ = np.ascontiguousarray(boxes[in_order].T)
    kind = kind_of[area]
    on_chip = np.array([k.region in (SBUF, PSUM) for k in kinds], np.bool_)[kind]
    movable = np.array([k.region is SBUF and not k.placed for k in kinds], np.bool_)[kind]
    begins = np.diff(area, prepend=-1) > 0
    begins[1:] |= on_chip[1:] & (byte[1:] >= _reached(area, byte_end)[:-1])
    first = np.flatnonzero(begins)
    extent = np.column_stack([
        np.minimum.reduceat(row, first), np.maximum.reduceat(row_end, first),
        byte[first], np.maximum.reduceat(byte_end, first),
    ])  # fmt: skip
    of_box = np.empty(len(boxes), np.int64)
    of_box[in_order] = np.cumsum(begins) - 1
    own, around = boxes[:, 1:5], extent[of_box]
    place = np.where(
        on_chip[first][of_box, None], own - around[:, [0, 0, 2, 2]], np.arange(len(boxes))[:, None]
    )
    width = extent[:, 3] - extent[:, 2]
    return Pieces(
        of_box, (boxes[:, 5] > 0) & (own == around).all(axis=1), place, on_chip[first],
        movable[first], width, width * (extent[:, 1] - extent[:, 0]),
    )  # fmt: skip


def _reached(area: Array, end: Array) -> Array:
    """The greatest end so far in the same area; areas come one after the other."""
    above = np.cumsum(np.diff(area, prepend=-1) > 0) * (end.max(initial=0) + 1)
    return np.maximum.accumulate(end + above) - above


def _turns(call: Call) -> bool:
    """A transpose by the Tensor engine, or a copy of its result."""
    return call.name in ("nc_transpose", "tensor_copy") or bool(call.arguments.get("is_transpose"))
