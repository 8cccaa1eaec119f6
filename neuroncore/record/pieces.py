"""Parts of storages that no access shares with the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.structs import dataclass
from neuroncore.record.loops import boxes as native

if TYPE_CHECKING:  # it imports this module
    from neuroncore.record.boxes import Areas

Array = npt.NDArray[Any]
SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum


@dataclass(frozen=True)
class Pieces:
    """Parts of storages that no access shares with the rest: what can be moved alone. A tensor in
    HBM is one.

    Of each of the record's boxes the piece that it is in, and whether it is all of it; of each
    piece its ends in rows and bytes, whether it is on chip, whether it is `movable`, in SBUF where
    the compiler put it, and its bytes, in each partition and in all.
    """

    of_box: Array
    whole: Array
    extents: Array
    on_chip: Array
    movable: Array
    width: Array
    nbytes: Array


def pieces(boxes: Array, areas: Areas) -> Pieces:
    """Those of a table of boxes, in these areas."""
    on_chip = areas.each_box((k.region in (SBUF, PSUM) for k in areas.kinds), np.bool_)
    movable = areas.each_box((k.region is SBUF and not k.placed for k in areas.kinds), np.bool_)
    in_order = np.lexsort((boxes[:, 3], boxes[:, 0]))  # by the first byte, area by area
    of_box, whole, first, extents = native.pieces.over(len(boxes))(boxes, in_order, on_chip)
    row, row_end, byte, byte_end = extents.T
    return Pieces(
        of_box=of_box,
        whole=whole,
        extents=extents,
        on_chip=on_chip[first],
        movable=movable[first],
        width=byte_end - byte,
        nbytes=(byte_end - byte) * (row_end - row),
    )
