"""Puzzle 7: a sum over partitions.

The Vector engine computes in each partition separately, so `tensor_reduce` can't add rows together.
The Tensor engine can: `nc_matmul` computes

    dst[m, n] = sum over k of stationary[k, m] * moving[k, n]

k is axis 0 of both operands, the partition axis. If all elements of `stationary` are 1, the product
is the sum over the partitions. The result is in PSUM, which DMA can't read: copy it to SBUF first.

Write the sum of each column to out.

    neuroncore puzzles check p07_column_sum.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """The sum of each column of x [rows, columns], as [1, columns]; rows <= 128, columns <= 512."""
    out = nl.ndarray((1, x.shape[1]), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    # solution
    ones = nl.ndarray((x.shape[0], 1), x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    total = nl.ndarray((1, x.shape[1]), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=ones, moving=tile)
    row = nl.ndarray((1, x.shape[1]), x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=row, src=total)
    nisa.dma_copy(dst=out, src=row)
    # end
    return out


def inputs(rng, shape=(128, 512)):
    return [rng.standard_normal(shape, np.float32)]


def reference(x):
    return x.sum(axis=0, keepdims=True)
