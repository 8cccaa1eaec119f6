"""Puzzle 9: K on the partitions.

`nc_matmul` sums over axis 0 of both operands, which has the length K. But in a @ b, the sum is over
axis 1 of a [M, K]. So transpose a first. `nc_matmul` reads its operands from SBUF.

Write a @ b to a tile `product` in PSUM. The tiles `left` [M, K] and `right` [K, N] are loaded.

    neuroncore puzzles check p09_matmul.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(a, b):
    """a @ b, for a [M, K] and b [K, N]; M, K <= 128, N <= 512."""
    out = nl.ndarray((a.shape[0], b.shape[1]), a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    # solution
    turned = nl.ndarray((a.shape[1], a.shape[0]), a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=left)
    left_t = nl.ndarray(turned.shape, a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=left_t, src=turned)
    product = nl.ndarray(out.shape, nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left_t, moving=right)
    # end
    result = nl.ndarray(out.shape, a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=product)
    nisa.dma_copy(dst=out, src=result)
    return out


def inputs(rng, shape=(128, 128, 512)):
    m, k, n = shape
    return [rng.standard_normal(s, np.float32) for s in ((m, k), (k, n))]


def reference(a, b):
    return (a.astype(np.float64) @ b).astype(np.float32)
