"""Puzzle 1: copy a tile.

Arguments and results of a kernel are in HBM, the main memory. The engines read and write SBUF, a
memory on the chip. DMA moves data between them: `nisa.dma_copy(dst=..., src=...)`.

Load x into the tile, and store the tile to out.

    neuroncore puzzles check p01_copy.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """A copy of x [rows, columns]; rows <= 128."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    # solution
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    # end
    return out


def inputs(rng, shape=(128, 512)):
    return [rng.standard_normal(shape, np.float32)]


def reference(x):
    return x
