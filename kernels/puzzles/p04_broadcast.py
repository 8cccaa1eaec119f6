"""Puzzle 4: broadcast.

`tensor_tensor` needs two tiles of the same shape: it does not broadcast. `tensor_scalar` can take a
[rows, 1] tile as an operand, which is one number for each row. It applies two operators in one
pass: (data <op0> operand0) <op1> operand1.

Write x * scale + shift to out, in one pass over x.

    neuroncore puzzles check p04_broadcast.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x, scale, shift):
    """x * scale + shift, for x [rows, columns], scale and shift [rows, 1]; rows <= 128."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    a = nl.ndarray(scale.shape, x.dtype, buffer=nl.sbuf)
    b = nl.ndarray(shift.shape, x.dtype, buffer=nl.sbuf)
    # solution
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=a, src=scale)
    nisa.dma_copy(dst=b, src=shift)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=a, op1=nl.add, operand1=b)
    nisa.dma_copy(dst=out, src=tile)
    # end
    return out


def inputs(rng, shape=(128, 512)):
    columns = (shape[0], 1), (shape[0], 1)
    return [rng.standard_normal(s, np.float32) for s in (shape, *columns)]


def reference(x, scale, shift):
    return x * scale + shift
