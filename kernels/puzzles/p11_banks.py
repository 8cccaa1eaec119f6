"""Puzzle 11: banks of PSUM.

PSUM has 8 banks. A bank has 2 KiB per partition, which is 512 float32 columns. One product writes
to one bank, so a wider result takes one product for each bank. The stationary operand can be the
same in all of them.

Write a_t.T @ b to out, for any multiple of 512 columns. The tiles `left` and `right` are loaded.

    neuroncore puzzles check p11_banks.py
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(a_t, b):
    """a_t.T @ b, for a_t [128, 128] and b [128, columns]; columns <= 4096."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(a_t.shape, a_t.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a_t)
    nisa.dma_copy(dst=right, src=b)
    # solution
    for n in range(0, columns, 512):
        product = nl.ndarray((rows, 512), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=left, moving=right[:, n : n + 512])
        result = nl.ndarray((rows, 512), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=product)
        nisa.dma_copy(dst=out[:, n : n + 512], src=result)
    # end
    return out


def inputs(rng, shape=(128, 2048)):
    k, n = shape
    return [
        rng.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in ((k, 128), (k, n))
    ]


def reference(a_t, b):
    return (a_t.astype(np.float64).T @ b.astype(np.float64)).astype(np.float32)
