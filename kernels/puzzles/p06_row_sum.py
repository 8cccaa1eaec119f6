"""Puzzle 6: the sum of a row.

`tensor_reduce` combines the elements of each row into one number. It reduces axis 1, the free axis:
the elements of a row are all in the same partition.

Write the sum of each row to out.

    neuroncore puzzles check p06_row_sum.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """The sum of each row of x [rows, columns], as [rows, 1]; rows <= 128."""
    out = nl.ndarray((x.shape[0], 1), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    # solution
    total = nl.ndarray((x.shape[0], 1), x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.dma_copy(dst=out, src=total)
    # end
    return out


def inputs(rng, shape=(128, 512)):
    return [rng.standard_normal(shape, np.float32)]


def reference(x):
    return x.sum(axis=1, keepdims=True)
