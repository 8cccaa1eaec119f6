"""Puzzle 15: fp8 with scales.

The largest number of float8_e4m3 is 240. Its range is small, so rows with numbers of very different
sizes do not fit into it. With a scale for each row, they do:

    scale = the largest absolute value of the row / 240
    q = x / scale, rounded to float8_e4m3

Then q * scale is x again, except for rounding. `nisa.activation` with `op=nl.abs` takes absolute
values.

Write q to a tile `q` of float8_e4m3, and the scales to a float32 tile `scale` [rows, 1].

    neuroncore puzzles check p15_fp8.py
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    """q (float8_e4m3) and scale [rows, 1] so that q * scale = x [rows, columns]; rows <= 128."""
    q_out = nl.ndarray(x.shape, nl.float8_e4m3, buffer=nl.shared_hbm)
    scale_out = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    # solution
    sizes = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=sizes, op=nl.abs, data=tile)
    scale = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=scale, op=nl.maximum, data=sizes, axis=1)
    nisa.tensor_scalar(dst=scale, data=scale, op0=nl.multiply, operand0=1 / 240)
    inverse = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=scale)
    q = nl.ndarray(x.shape, nl.float8_e4m3, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=q, data=tile, op0=nl.multiply, operand0=inverse)
    # end
    nisa.dma_copy(dst=q_out, src=q)
    nisa.dma_copy(dst=scale_out, src=scale)
    return q_out, scale_out


def inputs(rng, shape=(128, 1024)):
    sizes = 10.0 ** rng.integers(-4, 5, (shape[0], 1))
    return [(rng.standard_normal(shape) * sizes).astype(np.float32)]


def reference(x):
    scale = np.abs(x).max(axis=1, keepdims=True) / np.float32(240)
    return (x / scale).astype(ml_dtypes.float8_e4m3), scale
