"""The Tensor engine's product as a chain of fused multiply-adds from row 0 to the last.

out[m, n] = fma(s[K-1, m], x[K-1, n], ... fma(s[1, m], x[1, n], fma(s[0, m], x[0, n], 0)))

A block of results stays in registers while k runs, so the order is the definition's and the
speed is a BLAS library's.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils

from neuroncore import buffers
from neuroncore.native.jit import compiled, generated

Array = npt.NDArray[Any]

_FEATURES = llvmlite.binding.get_host_cpu_features()
# Lanes of a vector register, and the block that fills the registers: rows x vectors.
LANES, ROWS, VECTORS = (
    (16, 8, 2) if _FEATURES.get("avx512f") else (8, 6, 2) if _FEATURES.get("avx2") else (4, 8, 2)
)
COLUMNS = LANES * VECTORS

_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)


def _index(value: int) -> ir.Constant:
    return ir.Constant(_INDEX, value)


def _vector_at(builder: ir.IRBuilder, base: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(base, [offset]), ir.PointerType(_VECTOR))


def _splat(builder: ir.IRBuilder, scalar: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    zero = ir.Constant(ir.IntType(32), 0)
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(builder.insert_element(undefined, scalar, zero), undefined, lanes)


@generated
def _block(typingctx: Any, s: Any, x: Any, out: Any, k: Any, accumulate: Any) -> Any:
    """ROWS x COLUMNS results from where the three arrays begin."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:3], values[:3], strict=True)
        ]
        (s_data, s_step), (x_data, x_step), (out_data, out_step) = (
            (a.data, builder.udiv(builder.extract_value(a.strides, 0), _index(4))) for a in arrays
        )
        entry = builder.block
        loop = builder.append_basic_block("chain")
        done = builder.append_basic_block("done")
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f32"
        )
        builder.branch(loop)
        builder.position_at_end(loop)
        row = builder.phi(_INDEX)
        row.add_incoming(_index(0), entry)
        sums = [[builder.phi(_VECTOR) for _ in range(VECTORS)] for _ in range(ROWS)]
        s_row = builder.gep(s_data, [builder.mul(row, s_step)])
        x_row = builder.gep(x_data, [builder.mul(row, x_step)])
        moving = [
            builder.load(_vector_at(builder, x_row, _index(v * LANES)), align=4)
            for v in range(VECTORS)
        ]
        results = []
        for r in range(ROWS):
            weight = _splat(builder, builder.load(builder.gep(s_row, [_index(r)])))
            results.append(
                [builder.call(fma, [weight, moving[v], sums[r][v]]) for v in range(VECTORS)]
            )
        following = builder.add(row, _index(1))
        row.add_incoming(following, loop)
        for r in range(ROWS):
            for v in range(VECTORS):
                sums[r][v].add_incoming(ir.Constant(_VECTOR, [0.0] * LANES), entry)
                sums[r][v].add_incoming(results[r][v], loop)
        builder.cbranch(builder.icmp_signed("<", following, values[3]), loop, done)
        builder.position_at_end(done)
        with builder.if_else(values[4]) as (adding, storing):
            for branch, add in ((adding, True), (storing, False)):
                with branch:
                    for r in range(ROWS):
                        out_row = builder.gep(out_data, [builder.mul(_index(r), out_step)])
                        for v in range(VECTORS):
                            place = _vector_at(builder, out_row, _index(v * LANES))
                            value = results[r][v]
                            if add:
                                value = builder.fadd(builder.load(place, align=4), value)
                            builder.store(value, place, align=4)
        return context.get_dummy_value()

    return types.void(s, x, out, types.int64, types.boolean), generate


@compiled
def chain(s: Array, x: Array, out: Array, accumulate: bool) -> None:
    """out = s.T @ x, or += with one more rounding.

    s [K, M], x [K, N], out [M, N], float32, unit stride along the last axis; M is a multiple of
    ROWS, N of COLUMNS, K at least 1.
    """
    k = s.shape[0]
    for n in range(0, x.shape[1], COLUMNS):
        for m in range(0, s.shape[1], ROWS):
            _block(s[:, m:], x[:, n:], out[m:, n:], k, accumulate)


def blocked(size: int, block: int) -> int:
    """`size` rounded up to whole blocks."""
    return -(-size // block) * block


def product(s: Array, x: Array, out: Array, accumulate: bool) -> None:
    """`chain` for any sizes and strides: what doesn't fill blocks is padded with zeros."""
    m, n = out.shape
    wide_m, wide_n = blocked(m, ROWS), blocked(n, COLUMNS)
    s, x = _padded(s, wide_m), _padded(x, wide_n)
    if (wide_m, wide_n) == (m, n) and out.strides[1] == 4:
        chain(s, x, out, accumulate)
        return
    padded = buffers.floats((wide_m, wide_n))
    chain(s, x, padded, False)
    if accumulate:
        np.add(out, padded[:m, :n], out=out)
    else:
        out[...] = padded[:m, :n]


def _padded(matrix: Array, columns: int) -> Array:
    if matrix.shape[1] == columns and matrix.strides[1] == 4:
        return matrix
    padded = np.zeros((matrix.shape[0], columns), np.float32)
    padded[:, : matrix.shape[1]] = matrix
    return padded
