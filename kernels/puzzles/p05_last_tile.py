"""Puzzle 5: the last tile.

In this puzzle, x may have any number of rows. The last tile has fewer rows than the others, and
slices must stay inside the tensor: an index past the end is an error, not a shorter slice.

Write max(x, 0) to out.

    neuroncore puzzles check p05_last_tile.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """max(x, 0), for x of any number of rows."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for top in range(0, rows, 128):
        # solution
        bottom = min(top + 128, rows)
        tile = nl.ndarray((bottom - top, columns), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[top:bottom])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
        nisa.dma_copy(dst=out[top:bottom], src=tile)
        # end
    return out


def inputs(rng, shape=(300, 512)):
    return [rng.standard_normal(shape, np.float32)]


def reference(x):
    return np.maximum(x, 0)
