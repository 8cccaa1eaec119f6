"""The Tensor engine's product as a chain of fused multiply-adds from row 0 to the last.

out[m, n] = fma(s[K-1, m], x[K-1, n], ... fma(s[1, m], x[1, n], fma(s[0, m], x[0, n], 0)))

Where an element of the array multiplies a group of rows at a time, their products are added first,
from the left, and the chain is one of float32 additions:

out[m, n] = ... + (((s[4, m] x[4, n] + s[5, m] x[5, n]) + s[6, m] x[6, n]) + s[7, m] x[7, n])

(of which the products are exact, since 8-bit floats are all that is multiplied in that way).

A block of results stays in registers while k runs, so the order is the definition's and the
speed is a BLAS library's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils

from neuroncore import buffers
from neuroncore.native.jit import compiled, generated
from neuroncore.native.lanes import LANES

Array = npt.NDArray[Any]

# The block that fills the registers: rows x vectors.
ROWS, VECTORS = 6 if LANES == 8 else 8, 2
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


def _block_of(group: int) -> Any:
    """The operation that computes ROWS x COLUMNS results from where the three arrays begin, `group`
    rows at each of `k` steps."""

    def _block(typingctx: Any, s: Any, x: Any, out: Any, k: Any, accumulate: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _generate(group, context, builder, signature, values)
            return context.get_dummy_value()

        return types.void(s, x, out, types.int64, types.boolean), generate

    return generated(_block)


def _generate(group: int, context: Any, builder: Any, signature: Any, values: Any) -> None:
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
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(_INDEX)
    step.add_incoming(_index(0), entry)
    sums = [[builder.phi(_VECTOR) for _ in range(VECTORS)] for _ in range(ROWS)]
    first = builder.mul(step, _index(group))
    rows = [builder.add(first, _index(g)) for g in range(group)]
    weights = [builder.gep(s_data, [builder.mul(row, s_step)]) for row in rows]
    moving = [_vectors(builder, x_data, builder.mul(row, x_step)) for row in rows]
    results = []
    for r in range(ROWS):
        stationary = [_splat(builder, builder.load(builder.gep(w, [_index(r)]))) for w in weights]
        columns = zip(*moving, strict=True)
        results.append(
            [
                _link(builder, stationary, c, total)
                for c, total in zip(columns, sums[r], strict=True)
            ]
        )
    following = builder.add(step, _index(1))
    step.add_incoming(following, loop)
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


def _vectors(builder: ir.IRBuilder, base: Any, offset: Any) -> list[Any]:
    """VECTORS vectors that lie one after the other."""
    row = builder.gep(base, [offset])
    return [
        builder.load(_vector_at(builder, row, _index(v * LANES)), align=4) for v in range(VECTORS)
    ]


def _link(builder: ir.IRBuilder, weights: list[Any], moving: tuple[Any, ...], total: Any) -> Any:
    """One link of the chain: the products of a group added to the sum so far."""
    fma = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f32"
    )
    if len(weights) == 1:
        return builder.call(fma, [weights[0], moving[0], total])
    products = builder.fmul(weights[0], moving[0])
    for weight, vector in zip(weights[1:], moving[1:], strict=True):
        products = builder.call(fma, [weight, vector, products])
    return builder.fadd(total, products)


_block, _pair_block, _quad_block = _block_of(1), _block_of(2), _block_of(4)


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


@compiled
def grouped_chain(s: Array, x: Array, out: Array, accumulate: bool, group: int) -> None:
    """The same, `group` rows (2 or 4) at a time; K is a multiple of the group. It stands apart
    because the other loses a tenth of its speed in one function with it."""
    k = s.shape[0] // group
    for n in range(0, x.shape[1], COLUMNS):
        for m in range(0, s.shape[1], ROWS):
            if group == 2:
                _pair_block(s[:, m:], x[:, n:], out[m:, n:], k, accumulate)
            else:
                _quad_block(s[:, m:], x[:, n:], out[m:, n:], k, accumulate)


@compiled
def scaled_chain(
    s: Array, x: Array, s_scale: Array, x_scale: Array, out: Array, accumulate: bool
) -> None:
    """The same with groups of 4, the sum of whose products is multiplied by a float64 scale from
    each side, [K / 32, M] and [K / 32, N], and rounded before it joins the chain; any sizes."""
    total = np.empty(x.shape[1], np.float32)
    for m in range(s.shape[1]):
        total[:] = np.float32(0)
        for k in range(0, s.shape[0], 4):
            for n in range(x.shape[1]):
                products = s[k, m] * x[k, n] + s[k + 1, m] * x[k + 1, n]
                products = products + s[k + 2, m] * x[k + 2, n] + s[k + 3, m] * x[k + 3, n]
                scale = s_scale[k // 32, m] * x_scale[k // 32, n]
                total[n] += np.float32(np.float64(products) * scale)
        for n in range(x.shape[1]):
            out[m, n] = out[m, n] + total[n] if accumulate else total[n]


def blocked(size: int, block: int) -> int:
    """`size` rounded up to whole blocks."""
    return -(-size // block) * block


def product(s: Array, x: Array, out: Array, accumulate: bool, group: int = 1) -> None:
    """`chain` for any sizes and strides: what doesn't fill blocks is padded with zeros."""
    m, n = out.shape
    wide_m, wide_n = blocked(m, ROWS), blocked(n, COLUMNS)
    s, x = _padded(s, wide_m), _padded(x, wide_n)
    if (wide_m, wide_n) == (m, n) and out.strides[1] == 4:
        _multiply(s, x, out, accumulate, group)
        return
    padded = buffers.floats((wide_m, wide_n))
    _multiply(s, x, padded, False, group)
    if accumulate:
        np.add(out, padded[:m, :n], out=out)
    else:
        out[...] = padded[:m, :n]


def _multiply(s: Array, x: Array, out: Array, accumulate: bool, group: int) -> None:
    if group == 1:
        chain(s, x, out, accumulate)
    else:
        grouped_chain(s, x, out, accumulate, group)


def _padded(matrix: Array, columns: int) -> Array:
    if matrix.shape[1] == columns and matrix.strides[1] == 4:
        return matrix
    padded = np.zeros((matrix.shape[0], columns), np.float32)
    padded[:, : matrix.shape[1]] = matrix
    return padded
