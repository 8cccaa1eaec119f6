"""The Tensor engine's product as a chain of fused multiply-adds from row 0 to the last.

out[m, n] = fma(s[K-1, m], x[K-1, n], ... fma(s[1, m], x[1, n], fma(s[0, m], x[0, n], 0)))

Where an element of the array multiplies a group of rows at a time, their products are added first,
from the left, and the chain is one of float32 additions:

out[m, n] = ... + (((s[4, m] x[4, n] + s[5, m] x[5, n]) + s[6, m] x[6, n]) + s[7, m] x[7, n])

(of which the products are exact, since 8-bit floats are all that is multiplied in that way).

A block of results stays in registers while k runs, so the order is the definition's and the
speed is a BLAS library's. As there, operands are first copied to where a block finds them one after
the other: rows 2 KiB apart would share a few sets of the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from neuroncore.native import buffers
from neuroncore.native.blocks import ROWS, VECTORS, block, copied, scaled_block
from neuroncore.native.jit import compiled, compiled_once, inlined
from neuroncore.native.lanes import LANES

Array = npt.NDArray[Any]

COLUMNS = LANES * VECTORS
FLOAT_BYTES = 4

_block_1, _block_2, _block_3 = (block(v) for v in (1, 2, 3))
_pair_1, _pair_2 = (block(v, 2) for v in (1, 2))
_quad_1, _quad_2 = (block(v, 4) for v in (1, 2))
_scaled_single, _scaled_quad = (scaled_block(group) for group in (1, 4))
_SOURCE, _TARGET = (types.Array(types.float32, 2, "A", readonly=r) for r in (True, False))
_copied_rows = copied(ROWS)
_copied_1, _copied_2, _copied_3 = (copied(LANES, v) for v in (1, 2, 3))


@compiled_once(_SOURCE, _SOURCE, _TARGET, types.boolean, types.float32[::1])
def chain(s: Array, x: Array, out: Array, accumulate: bool, scratch: Array) -> None:
    """out = s.T @ x, or += with one more rounding, by blocks of up to three vectors of columns.

    s [K, M], x [K, N], out [M, N], float32; `scratch` has scratch_size(K, M) elements.
    """
    k = s.shape[0]
    weights, panel, edge = _carved(scratch, k)
    _pack_weights(s, weights)
    n = 0
    while n < x.shape[1]:
        vectors = _vectors(x.shape[1] - n, 3)
        moving = _moving(x[:, n:], panel, vectors, s.shape[1] <= ROWS)
        for m in range(0, s.shape[1], ROWS):
            whole = _is_whole(out, m, n, vectors)
            part = out[m:, n:] if whole else edge[:, :]
            if vectors == 3:
                _block_3(weights[m // ROWS], moving, part, k, accumulate and whole)
            elif vectors == 2:
                _block_2(weights[m // ROWS], moving, part, k, accumulate and whole)
            else:
                _block_1(weights[m // ROWS], moving, part, k, accumulate and whole)
            if not whole:
                _put(edge, out[m : m + ROWS, n : n + vectors * LANES], accumulate)
        n += vectors * LANES


@compiled
def grouped_chain(
    s: Array, x: Array, out: Array, accumulate: bool, scratch: Array, group: int
) -> None:
    """The same, `group` rows (2 or 4) at a time, whose moving vectors leave registers for blocks of
    two; K is a multiple of the group."""
    k = s.shape[0] // group
    weights, panel, edge = _carved(scratch, s.shape[0])
    _pack_weights(s, weights)
    n = 0
    while n < x.shape[1]:
        vectors = _vectors(x.shape[1] - n, 2)
        moving = _moving(x[:, n:], panel, vectors, s.shape[1] <= ROWS)
        for m in range(0, s.shape[1], ROWS):
            whole = _is_whole(out, m, n, vectors)
            part = out[m:, n:] if whole else edge[:, :]
            if group == 2 and vectors == 2:
                _pair_2(weights[m // ROWS], moving, part, k, accumulate and whole)
            elif group == 2:
                _pair_1(weights[m // ROWS], moving, part, k, accumulate and whole)
            elif vectors == 2:
                _quad_2(weights[m // ROWS], moving, part, k, accumulate and whole)
            else:
                _quad_1(weights[m // ROWS], moving, part, k, accumulate and whole)
            if not whole:
                _put(edge, out[m : m + ROWS, n : n + vectors * LANES], accumulate)
        n += vectors * LANES


@compiled
def scaled_chain(
    s: Array, x: Array, s_scale: Array, x_scale: Array, out: Array, group: int
) -> None:
    """out = the chain of groups of 1 or 4 rows, whose sums of products are multiplied by a float64
    scale from each side, [K / 32, M] and [K / 32, N], and rounded before it joins.

    Unit strides; whole blocks of ROWS and LANES.
    """
    k = s.shape[0] // group
    for n in range(0, x.shape[1], LANES):
        for m in range(0, s.shape[1], ROWS):
            scales = s_scale[:, m:], x_scale[:, n:]
            if group == 1:
                _scaled_single(s[:, m:], x[:, n:], scales, out[m:, n:], k)
            else:
                _scaled_quad(s[:, m:], x[:, n:], scales, out[m:, n:], k)


@inlined
def _vectors(columns: int, most: int) -> int:
    """How many vectors of columns the next block has; the last ones share four as two and two."""
    left = -(-columns // LANES)
    return 2 if left == 4 else min(left, most)


@inlined
def _is_whole(out: Array, m: int, n: int, vectors: int) -> bool:
    """Whether a block can write to its place."""
    inside = m + ROWS <= out.shape[0] and n + vectors * LANES <= out.shape[1]
    return inside and out.strides[1] == FLOAT_BYTES


@inlined
def _carved(scratch: Array, k: int) -> tuple[Array, Array, Array]:
    """Weights [M / ROWS, K, ROWS], a panel [K, COLUMNS] and a block at the edge of the result."""
    panel, edge = k * COLUMNS, ROWS * COLUMNS
    return (
        scratch[panel + edge :].reshape(-1, k, ROWS),
        scratch[:panel].reshape(k, COLUMNS),
        scratch[panel : panel + edge].reshape(ROWS, COLUMNS),
    )


@inlined
def _pack_weights(s: Array, weights: Array) -> None:
    for m in range(0, s.shape[1], ROWS):
        if s.strides[1] == FLOAT_BYTES and m + ROWS <= s.shape[1]:
            _copied_rows(s[:, m:], weights[m // ROWS], s.shape[0])
        else:
            _pad(s[:, m:], weights[m // ROWS], ROWS)


@inlined
def _moving(x: Array, panel: Array, vectors: int, once: bool) -> Array:
    """The first vectors of columns, where they are if they are read only `once`."""
    whole = x.strides[1] == FLOAT_BYTES and x.shape[1] >= vectors * LANES
    if not whole:
        _pad(x, panel, vectors * LANES)
    elif once:
        return x
    elif vectors == 3:
        _copied_3(x, panel, x.shape[0])
    elif vectors == 2:
        _copied_2(x, panel, x.shape[0])
    else:
        _copied_1(x, panel, x.shape[0])
    return panel[:, :]


@inlined
def _pad(source: Array, target: Array, columns: int) -> None:
    inside = min(columns, source.shape[1])
    for k in range(source.shape[0]):
        for j in range(inside):
            target[k, j] = source[k, j]
        for j in range(inside, columns):
            target[k, j] = np.float32(0)


@inlined
def _put(edge: Array, out: Array, accumulate: bool) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = out[i, j] + edge[i, j] if accumulate else edge[i, j]


def product(s: Array, x: Array, out: Array, accumulate: bool, group: int = 1) -> None:
    """out [M, N] = s.T @ x, or += with one more rounding, for any sizes and strides; s [K, M] and
    x [K, N] float32, K at least 1."""
    if out.shape[1] < LANES and out.shape[1] < out.shape[0]:
        s, x, out = x, s, out.T  # lanes are for columns; the sums are the same
    k, m = s.shape
    scratch = buffers.scratch("chain", (scratch_size(k, m),))
    if group == 1:
        chain()(s, x, out, accumulate, scratch)
    else:
        grouped_chain(s, x, out, accumulate, scratch, group)


def scratch_size(k: int, m: int) -> int:
    """What `chain` needs beside its arguments."""
    return k * (COLUMNS + blocked(m, ROWS)) + ROWS * COLUMNS


def scaled_product(
    s: Array, x: Array, s_scale: Array, x_scale: Array, out: Array, accumulate: bool, group: int
) -> None:
    """`scaled_chain` for any sizes and strides."""
    m, n = out.shape
    left, right = (
        [_padded(a, size) for a in pair]
        for pair, size in (((s, s_scale), blocked(m, ROWS)), ((x, x_scale), blocked(n, LANES)))
    )
    total = buffers.floats((left[0].shape[1], right[0].shape[1]))
    scaled_chain(left[0], right[0], left[1], right[1], total, group)
    if accumulate:
        np.add(out, total[:m, :n], out=out)
    else:
        out[...] = total[:m, :n]


def blocked(size: int, block: int) -> int:
    """`size` rounded up to whole blocks."""
    return -(-size // block) * block


def _padded(matrix: Array, columns: int) -> Array:
    if matrix.shape[1] == columns and matrix.strides[1] == matrix.itemsize:
        return matrix
    padded = np.zeros((matrix.shape[0], columns), matrix.dtype)
    padded[:, : matrix.shape[1]] = matrix
    return padded
