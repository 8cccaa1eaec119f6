"""Puzzle 3: the free axis.

The columns of a tile are its free axis. An instruction takes about 60 cycles, and one more cycle
for each column. A copy by DMA takes about 2 us, and the time for its bytes. Wide tiles are
therefore better than narrow ones. But with a single tile, loads, computation and stores can't
overlap.

Write x * x to out. Choose the number of columns per tile.

    neuroncore puzzles check p03_free_axis.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """x * x, for x [128, columns]; columns is a multiple of 4096."""
    columns = x.shape[1]
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    # solution
    width = 2048
    for left in range(0, columns, width):
        tile = nl.ndarray((128, width), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, left : left + width])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[:, left : left + width], src=tile)
    # end
    return out


def inputs(rng, shape=(128, 8192)):
    return [rng.standard_normal(shape, np.float32)]


def reference(x):
    return x * x
