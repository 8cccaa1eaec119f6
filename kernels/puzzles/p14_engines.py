"""Puzzle 14: engines in parallel.

The engines work at the same time. `tensor_scalar` can run on the Vector engine or on the Scalar
engine. The parameter `engine` chooses one: `nisa.engine.vector` or `nisa.engine.scalar`. If one
engine does everything, the other one has nothing to do.

Apply 3 * x + 1 to each of the 8 parts of the tile, 12 times, and divide the parts between the two
engines.

    neuroncore puzzles check p14_engines.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """3 * x + 1, applied 12 times, for x [128, columns]; columns is a multiple of 8."""
    columns = x.shape[1]
    width = columns // 8
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in range(8):
        part = tile[:, i * width : (i + 1) * width]
        # solution
        engine = nisa.engine.scalar if i % 3 == 1 else nisa.engine.vector
        for _ in range(12):
            nisa.tensor_scalar(
                dst=part,
                data=part,
                op0=nl.multiply,
                operand0=3.0,
                op1=nl.add,
                operand1=1.0,
                engine=engine,
            )
        # end
    nisa.dma_copy(dst=out, src=tile)
    return out


def inputs(rng, shape=(128, 4096)):
    return [rng.standard_normal(shape, np.float32)]


def reference(x):
    for _ in range(12):
        x = 3 * x + 1
    return x
