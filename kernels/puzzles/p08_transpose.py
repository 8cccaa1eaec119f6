"""Puzzle 8: transpose.

A transpose moves data between partitions. The Tensor engine does it with `nc_transpose`: a tile of
at most 128 x 128 in SBUF becomes its transpose in PSUM.

Write x.T to out.

    neuroncore puzzles check p08_transpose.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """x.T, for x [rows, columns] with at most 128 of each."""
    rows, columns = x.shape
    out = nl.ndarray((columns, rows), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    # solution
    turned = nl.ndarray((columns, rows), x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    result = nl.ndarray((columns, rows), x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=turned)
    nisa.dma_copy(dst=out, src=result)
    # end
    return out


def inputs(rng, shape=(128, 96)):
    return [rng.standard_normal(shape, np.float32)]


def reference(x):
    return x.T
