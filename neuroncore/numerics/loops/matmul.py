"""The Tensor engine's product as a chain of fused multiply-adds, from row 0 to the last row.

out[m, n] = fma(s[K-1, m], x[K-1, n], ... fma(s[1, m], x[1, n], fma(s[0, m], x[0, n], 0)))

If a processing element of the engine multiplies a group of rows at a time, the products of the
group are added first, from the left. Then the chain consists of float32 additions:

out[m, n] = ... + (((s[4, m] x[4, n] + s[5, m] x[5, n]) + s[6, m] x[6, n]) + s[7, m] x[7, n])

The products s x are exact, because only 8-bit floats are multiplied in groups.

A block of results stays in registers during the loop over rows k. Additions have the order of the
definition, at the speed of a BLAS library. As in such a library, operands are first copied so that
a block reads them contiguously: rows 2 KiB apart would share a few sets of the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, types

from neuroncore.base import buffers
from neuroncore.base.jit import compiled, compiled_once, inlined
from neuroncore.numerics.loops.blocks import ROWS, VECTORS, block, copied, scaled_block
from neuroncore.numerics.loops.intrinsics import pointer
from neuroncore.numerics.loops.lanes import LANES

Array = npt.NDArray[Any]

COLUMNS = LANES * VECTORS
FLOAT_BYTES = 4
NOTHING = np.empty((0, 0), np.float32)
EDGE = ROWS, COLUMNS
NOWHERE = 0, 0  # blocks of groups prefetch nothing: prefetching makes them 5 % slower

_block_1, _block_2, _block_3 = (block(v) for v in (1, 2, 3))
_pair_1, _pair_2 = (block(v, 2) for v in (1, 2))
_quad_1, _quad_2 = (block(v, 4) for v in (1, 2))
_scaled_single, _scaled_quad = (scaled_block(group) for group in (1, 4))
_SOURCE, _TARGET = (types.Array(types.float32, 2, "A", readonly=r) for r in (True, False))
STACK = 4  # blocks whose weights are packed together, so that whole cache lines are read once
_copied_rows, _copied_stack = copied(ROWS), copied(ROWS, STACK, stacked=True)
_copied_1, _copied_2, _copied_3 = (copied(LANES, v) for v in (1, 2, 3))


@compiled_once(_SOURCE, types.float32[:, :, ::1])
def pack_weights(s: Array, weights: Array) -> None:
    """Pack s, shape [K, M], into the weights of blocks, shape [M / ROWS, K, ROWS]."""
    _pack_weights(s, weights)


@compiled_once(_SOURCE, types.float32[::1])
def pack_panels(x: Array, panels: Array) -> None:
    """Pack x, shape [K, N], into panels, one after the other. A panel, shape [K, vectors * LANES],
    contains the columns that one block of the result uses."""
    k, n = x.shape[0], 0
    while n < x.shape[1]:
        vectors = _vectors(x.shape[1] - n, 3)
        panel = panels[k * n : k * (n + vectors * LANES)].reshape(k, vectors * LANES)
        _moving(x[:, n:], panel, vectors, False)
        n += vectors * LANES


@compiled_once(
    *(types.float32[:, :, ::1], _SOURCE, _TARGET, types.boolean),
    *(types.float32[::1], types.boolean, types.float32[:, ::1]),
)
def chain(
    weights: Array,
    x: Array,
    out: Array,
    accumulate: bool,
    panels: Array,
    packed: bool,
    edge: Array,
) -> None:
    """out = s.T @ x, or with `accumulate` out += s.T @ x, with one more rounding.

    `weights`: the packed s, of shape [K, M]
    `x`: float32, shape [K, N]; empty if x is `packed`
    `out`: float32, shape [M, N]
    `panels`: the packed x, or room for one panel
    `edge`: room for a block of results that is only partly inside `out`

    A block has up to three vectors of columns. It prefetches the next block's weights and a share
    of the next panel: operands are rarely in the nearest caches. Large products take an eighth less
    time."""
    _chain(weights, x, out, accumulate, panels, packed, edge)


@compiled_once(
    *(types.int64[:, ::1], types.int64, types.int64, types.int64, types.int64),
    *(_TARGET, types.float32[:, ::1]),
)
def chains(
    listed: Array, first: int, end: int, low: int, high: int, out: Array, edge: Array
) -> None:
    """Compute the products `first` to `end` of a list, for the blocks of rows `low` to `high` of
    the result.

    The list stores four numbers for each product: the address of the packed weights, the address of
    the packed panels, K, and whether the product is added to the result."""
    blocks, columns = -(-out.shape[0] // ROWS), -(-out.shape[1] // LANES) * LANES
    part = out[low * ROWS : high * ROWS]
    for i in range(first, end):
        k = listed[i, 2]
        weights = carray(pointer(listed[i, 0]), (blocks, k, ROWS))[low:high]
        panels = carray(pointer(listed[i, 1]), (k * columns,))
        _chain(weights, edge, part, listed[i, 3] > 0, panels, True, edge)


@compiled_once(*(_SOURCE, _SOURCE, _TARGET, types.boolean, types.float32[::1], types.int64))
def grouped_chain(
    s: Array, x: Array, out: Array, accumulate: bool, scratch: Array, group: int
) -> None:
    """out = s.T @ x, or with `accumulate` out += s.T @ x, in groups of `group` rows (2 or 4), which
    divides K. A block has at most two vectors of columns, because a group needs registers."""
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
                _pair_2(weights[m // ROWS], moving, part, k, NOWHERE, accumulate and whole)
            elif group == 2:
                _pair_1(weights[m // ROWS], moving, part, k, NOWHERE, accumulate and whole)
            elif vectors == 2:
                _quad_2(weights[m // ROWS], moving, part, k, NOWHERE, accumulate and whole)
            else:
                _quad_1(weights[m // ROWS], moving, part, k, NOWHERE, accumulate and whole)
            if not whole:
                _put(edge, out[m : m + ROWS, n : n + vectors * LANES], accumulate)
        n += vectors * LANES


@compiled
def scaled_chain(
    s: Array, x: Array, s_scale: Array, x_scale: Array, out: Array, group: int
) -> None:
    """out = a chain over groups of 1 or 4 rows. The sum of a group's products is multiplied by a
    float64 scale of each operand, and rounded; then it is added.

    `s_scale`: shape [K / 32, M]. `x_scale`: shape [K / 32, N]. Strides must be 1, and sizes must be
    multiples of ROWS and LANES."""
    k = s.shape[0] // group
    for n in range(0, x.shape[1], LANES):
        for m in range(0, s.shape[1], ROWS):
            scales = s_scale[:, m:], x_scale[:, n:]
            if group == 1:
                _scaled_single(s[:, m:], x[:, n:], scales, out[m:, n:], k)
            else:
                _scaled_quad(s[:, m:], x[:, n:], scales, out[m:, n:], k)


@inlined
def _chain(
    weights: Array,
    x: Array,
    out: Array,
    accumulate: bool,
    panels: Array,
    packed: bool,
    edge: Array,
) -> None:
    """The body of `chain`, which other compiled loops share."""
    k, n = weights.shape[1], 0
    while n < out.shape[1]:
        vectors = _vectors(out.shape[1] - n, 3)
        first = k * n if packed else 0
        panel = panels[first : first + k * vectors * LANES].reshape(k, vectors * LANES)
        moving = panel[:, :]
        if not packed:
            moving = _moving(x[:, n:], panel, vectors, out.shape[0] <= ROWS)
        share = _share(vectors, out.shape[0]) if packed else 0
        for m in range(0, out.shape[0], ROWS):
            whole = _is_whole(out, m, n, vectors)
            part = out[m:, n:] if whole else edge[:, :]
            ahead = k * (vectors * LANES + m // ROWS * share), share
            if vectors == 3:
                _block_3(weights[m // ROWS], moving, part, k, ahead, accumulate and whole)
            elif vectors == 2:
                _block_2(weights[m // ROWS], moving, part, k, ahead, accumulate and whole)
            else:
                _block_1(weights[m // ROWS], moving, part, k, ahead, accumulate and whole)
            if not whole:
                _put(edge, out[m : m + ROWS, n : n + vectors * LANES], accumulate)
        n += vectors * LANES


@inlined
def _vectors(columns: int, most: int) -> int:
    """Return the number of vectors of columns in the next block. Four remaining vectors are divided
    into two blocks of two."""
    remaining = -(-columns // LANES)
    return 2 if remaining == 4 else min(remaining, most)


@inlined
def _share(vectors: int, rows: int) -> int:
    """Return how many elements of each row of the next panel a block prefetches: at most one
    vector. Together, enough blocks prefetch the whole panel."""
    return min(-(-vectors * LANES * ROWS // rows), LANES)


@inlined
def _is_whole(out: Array, m: int, n: int, vectors: int) -> bool:
    """Return whether a whole block fits at its place in `out`."""
    inside = m + ROWS <= out.shape[0] and n + vectors * LANES <= out.shape[1]
    return inside and out.strides[1] == FLOAT_BYTES


@inlined
def _carved(scratch: Array, k: int) -> tuple[Array, Array, Array]:
    """Divide the scratch array into weights [M / ROWS, K, ROWS], a panel [K, COLUMNS] and a block
    for the edge of the result."""
    panel, edge = k * COLUMNS, ROWS * COLUMNS
    return (
        scratch[panel + edge :].reshape(-1, k, ROWS),
        scratch[:panel].reshape(k, COLUMNS),
        scratch[panel : panel + edge].reshape(ROWS, COLUMNS),
    )


@inlined
def _pack_weights(s: Array, weights: Array) -> None:
    k, columns = s.shape
    whole = columns if s.strides[1] == FLOAT_BYTES else 0
    stacked, single = whole - whole % (STACK * ROWS), whole - whole % ROWS
    rows = weights.reshape(-1, ROWS)
    for m in range(0, stacked, STACK * ROWS):
        _copied_stack(s[:, m:], rows[m // ROWS * k :], k)
    for m in range(stacked, single, ROWS):
        _copied_rows(s[:, m:], weights[m // ROWS], k)
    for m in range(single, columns, ROWS):
        _pad(s[:, m:], weights[m // ROWS], ROWS)


@inlined
def _moving(x: Array, panel: Array, vectors: int, once: bool) -> Array:
    """Return the first `vectors` * LANES columns of `x`, copied to `panel` and filled up with
    zeros.

    No copy is made, and `x` itself is returned, if its columns are read only `once`, are enough
    and have adjacent elements."""
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
    """out = s.T @ x, for any sizes and strides. With `accumulate` the product is added to `out`,
    with one more rounding.

    `s`: float32, shape [K, M] with K at least 1. `x`: float32, shape [K, N]. `out`: shape [M, N].
    If `group` is 1, s and x may be packed."""
    if s.ndim == 3 and x.ndim == 1:  # both are packed; this is so if their tiles are unchanged
        chain()(s, NOTHING, out, accumulate, x, True, buffers.scratch("edge", EDGE))
        return
    if is_narrow(*out.shape):
        s, x, out = x, s, out.T  # lanes are for columns; the sums are the same
    if group > 1:
        grouped_chain()(s, x, out, accumulate, _scratch(len(s), s.shape[1]), group)
        return
    k = s.shape[-2]
    weights = s if s.ndim == 3 else _weights(s, buffers.scratch("weights", _weights_shape(s)))
    packed = x.ndim == 1
    panels = x if packed else buffers.scratch("panel", (k * COLUMNS,))
    edge = buffers.scratch("edge", EDGE)
    chain()(weights, NOTHING if packed else x, out, accumulate, panels, packed, edge)


def is_narrow(rows: int, columns: int) -> bool:
    """Return whether a result has fewer columns than lanes, and more rows than columns. The
    operands of such a product are swapped and can't be packed."""
    return columns < LANES and columns < rows


def packed_weights(s: Array) -> Array:
    """Return the packed form of s, shape [K, M], for `product`. It can be reused with another x."""
    return _weights(s, buffers.floats(_weights_shape(s)))


def packed_panels(x: Array) -> Array:
    """Return the packed form of x [K, N] for `product`."""
    panels = buffers.floats((len(x) * blocked(x.shape[1], LANES),))
    pack_panels()(x, panels)
    return panels


def _weights(s: Array, weights: Array) -> Array:
    pack_weights()(s, weights)
    return weights


def _weights_shape(s: Array) -> tuple[int, int, int]:
    return -(-s.shape[1] // ROWS), len(s), ROWS


def _scratch(k: int, m: int) -> Array:
    """Return scratch memory for `grouped_chain`."""
    size = k * (COLUMNS + blocked(m, ROWS)) + ROWS * COLUMNS
    return buffers.scratch("chain", (size,))


def scaled_product(
    s: Array, x: Array, s_scale: Array, x_scale: Array, out: Array, accumulate: bool, group: int
) -> None:
    """Compute `scaled_chain` for any sizes and strides. With `accumulate` the result is added to
    `out`."""
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
    """Return `size` rounded up to a multiple of `block`."""
    return -(-size // block) * block


def _padded(matrix: Array, columns: int) -> Array:
    if matrix.shape[1] == columns and matrix.strides[1] == matrix.itemsize:
        return matrix
    padded = np.zeros((matrix.shape[0], columns), matrix.dtype)
    padded[:, : matrix.shape[1]] = matrix
    return padded
