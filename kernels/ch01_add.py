"""1. Addition: the life of a tile.

A NeuronCore computes only on data in its own memory. Tensors arrive in HBM, the device's main
memory; the engines read SBUF, a scratchpad of 128 rows that are called partitions. Every kernel
therefore has three parts: load a tile by DMA, compute, store the result by DMA.

A tile has at most 128 partitions, because there are 128 lanes. Here it also has at most 4096
columns, so that several tiles fit into SBUF, and loads, additions and stores of different tiles
overlap. The program does not have to say so: each engine works through its own queue, and an
instruction waits only for the data that it reads.

    neuroncore run kernels/ch01_add.py::add --trace add.json
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

WIDTH = 4096  # columns of a tile


@nki.jit
def add(a, b):
    """a + b; both are [rows, columns] and have the same dtype."""
    rows, columns = a.shape
    height = nl.tile_size.pmax  # 128 on every machine so far
    total = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for top in range(0, rows, height):
        for left in range(0, columns, WIDTH):
            # The last tile of a row or column may be smaller: slices must stay inside the tensor.
            bottom, right = min(top + height, rows), min(left + WIDTH, columns)
            shape = (bottom - top, right - left)

            x = nl.ndarray(shape, a.dtype, buffer=nl.sbuf)
            y = nl.ndarray(shape, b.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=a[top:bottom, left:right])
            nisa.dma_copy(dst=y, src=b[top:bottom, left:right])

            z = nl.ndarray(shape, a.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=z, data1=x, data2=y, op=nl.add)

            nisa.dma_copy(dst=total[top:bottom, left:right], src=z)
    return total


def inputs(rng):
    return [rng.standard_normal((300, 5000), np.float32) for _ in range(2)]


def reference(a, b):
    return a + b


if __name__ == "__main__":
    given = inputs(np.random.default_rng(0))
    np.testing.assert_array_equal(add(*given), reference(*given))
