"""A compiled loop for `view.columns`: the rank of a box among the boxes that an operand used
last."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled

Array = npt.NDArray[Any]
KEPT = 8  # boxes of each operand of a call


def ranks(key: Array, box: Array, keys: int) -> Array:
    """Return a rank for each use of a box by an operand: 1 plus the number of other boxes that the
    operand has used since its last use of this box. The rank is 0 beyond KEPT boxes, and at the
    first use.

    `key`: key[k] is the operand of use k, below `keys`"""
    kept, rank = np.full((keys, KEPT), -1, np.int32), np.empty(len(key), np.uint8)
    _ranks.over(len(key))(key, box, kept, rank)
    return rank


@compiled
def _ranks(key: Array, box: Array, kept: Array, rank: Array) -> None:
    for k in range(key.shape[0]):
        row, current, r = key[k], box[k], 0
        while r < kept.shape[1] and kept[row, r] != current:
            r += 1
        if r < kept.shape[1]:
            rank[k] = r + 1
        else:
            rank[k] = 0
            r -= 1
        while r > 0:
            kept[row, r] = kept[row, r - 1]
            r -= 1
        kept[row, 0] = current
