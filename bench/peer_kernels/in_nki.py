"""The kernels in NKI. They use only instructions that the interpreter of triton-viz has too."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl

ROWS, WIDE = 128, 512  # rows and columns of a tile


def add(a, b, out):
    for row in nl.affine_range(a.shape[0] // ROWS):
        part = nl.ds(row * ROWS, ROWS)
        left = nl.ndarray((ROWS, a.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        right = nl.ndarray((ROWS, a.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((ROWS, a.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a[part, :])
        nisa.dma_copy(dst=right, src=b[part, :])
        nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=out[part, :], src=total)


def softmax(x, out):
    for row in nl.affine_range(x.shape[0] // ROWS):
        part = nl.ds(row * ROWS, ROWS)
        tile = nl.ndarray((ROWS, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        powers = nl.ndarray((ROWS, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        result = nl.ndarray((ROWS, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        largest = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        inverse = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[part, :])
        nisa.tensor_reduce(
            dst=largest, op=nl.maximum, data=tile, axis=1, negate=True, keepdims=True
        )
        nisa.activation(dst=powers, op=nl.exp, data=tile, bias=largest)
        nisa.tensor_reduce(dst=total, op=nl.add, data=powers, axis=1, keepdims=True)
        nisa.reciprocal(dst=inverse, data=total)
        nisa.tensor_scalar(dst=result, data=powers, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[part, :], src=result)


def rmsnorm(x, out):
    columns = x.shape[1]
    for row in nl.affine_range(x.shape[0] // ROWS):
        part = nl.ds(row * ROWS, ROWS)
        tile = nl.ndarray((ROWS, columns), dtype=nl.float32, buffer=nl.sbuf)
        squares = nl.ndarray((ROWS, columns), dtype=nl.float32, buffer=nl.sbuf)
        result = nl.ndarray((ROWS, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        mean = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        inverse = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[part, :])
        nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1, keepdims=True)
        nisa.tensor_scalar(
            dst=mean, data=total, op0=nl.multiply, operand0=1 / columns, op1=nl.add, operand1=1e-6
        )
        nisa.activation(dst=inverse, op=nl.rsqrt, data=mean)
        nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[part, :], src=result)


def matmul(a_t, b, out):
    for m in nl.affine_range(a_t.shape[1] // ROWS):
        for n in nl.affine_range(b.shape[1] // WIDE):
            total = nl.ndarray((ROWS, WIDE), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(a_t.shape[0] // ROWS):
                left = nl.ndarray((ROWS, ROWS), dtype=nl.float32, buffer=nl.sbuf)
                right = nl.ndarray((ROWS, WIDE), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=a_t[nl.ds(k * ROWS, ROWS), nl.ds(m * ROWS, ROWS)])
                nisa.dma_copy(dst=right, src=b[nl.ds(k * ROWS, ROWS), nl.ds(n * WIDE, WIDE)])
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            result = nl.ndarray((ROWS, WIDE), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[nl.ds(m * ROWS, ROWS), nl.ds(n * WIDE, WIDE)], src=result)
