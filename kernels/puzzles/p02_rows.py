"""Puzzle 2: more than 128 rows.

SBUF has 128 partitions, and each row of a tile is in one partition. So a tile has at most 128 rows.
A tensor with more rows needs a loop over tiles.

Write 2 * x to out. The number of rows is a multiple of 128.

    neuroncore puzzles check p02_rows.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """2 * x, for x [rows, columns]."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    # solution
    for top in range(0, rows, 128):
        tile = nl.ndarray((128, columns), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[top : top + 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[top : top + 128], src=tile)
    # end
    return out


def inputs(rng, shape=(512, 512)):
    return [rng.standard_normal(shape, np.float32)]


def reference(x):
    return 2 * x
