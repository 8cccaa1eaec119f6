"""Puzzle 10: accumulate in PSUM.

The array of multipliers has 128 rows, so one product sums over at most 128 values of K. For a
larger K, several products write to the same tile in PSUM. The first one overwrites the tile, and
the next ones add to it. No other instruction is needed.

Write a_t.T @ b to a tile `result` in SBUF. K is a multiple of 128. Load 128 rows of both matrices
at a time.

    neuroncore puzzles check p10_accumulate.py
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(a_t, b):
    """a_t.T @ b, for a_t [K, 128] and b [K, 512]."""
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), nl.float32, buffer=nl.shared_hbm)
    # solution
    total = nl.ndarray((rows, columns), nl.float32, buffer=nl.psum)
    for k in range(0, depth, 128):
        left = nl.ndarray((128, rows), a_t.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, columns), b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a_t[k : k + 128])
        nisa.dma_copy(dst=right, src=b[k : k + 128])
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
    result = nl.ndarray((rows, columns), nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    # end
    nisa.dma_copy(dst=out, src=result)
    return out


def inputs(rng, shape=(1024, 128, 512)):
    k, m, n = shape
    return [rng.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in ((k, m), (k, n))]


def reference(a_t, b):
    return (a_t.astype(np.float64).T @ b.astype(np.float64)).astype(np.float32)
