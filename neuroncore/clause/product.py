"""Products of the Tensor engine: how it reads its operands, and the products of matrices.

Operands are float32 matrices [K, M] and [K, N], the result is out [M, N]. The sum that a
product adds to `out` has been rounded to float32 before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.options import Options
from neuroncore.memory.tile import Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import PACK, float8_e8m0fnu, float32, float64, tfloat32
from neuroncore.numerics.loops import matmul as matrices
from neuroncore.numerics.packed import near, neutral, scaled_by

Array = npt.NDArray[Any]
Packer = Callable[[Array], Array]
Product = Callable[..., None]  # of two matrices, `out`, whether to add, and of what groups of rows
Sum = Callable[[Array, bool], None]  # what puts a product into an array, or adds it to that


STATIONARY, MOVING = "stationary", "moving"
TF32_BITS = np.uint32(0xFFFFE000)
ONE_THREAD = 1 << 19  # multiplications for which OpenBLAS starts no threads
HIGH_BITS = np.uint32(0xFFFFF000)  # sign, exponent and 12 significant bits, one of them not stored


def reader(tile: Tile, role: str, options: Options) -> Callable[[Tile], Array]:
    """Return how [K, free] operands like this one are read: as the float32 values that are
    multiplied, for the product at hand."""
    flush = options.subnormals == "flush"
    if (tile.held is float32 and not flush) or tile.held is float64:
        return codes_of
    return partial(_decoded, role, options)


def codes_of(tile: Tile) -> Array:
    codes = tile.codes()
    return codes if codes.ndim == 2 else codes.reshape(codes.shape[0], -1)


def _decoded(role: str, options: Options, tile: Tile) -> Array:
    codes = codes_of(tile)
    values = buffers.scratch(role, codes.shape)
    if tile.held is tfloat32:
        _read_tfloat32(codes, values, options)
    else:
        codec.decode(tile.held, codes, values)
    if options.subnormals == "flush":
        np.copysign(np.float32(0), values, out=values, where=np.abs(values) < tile.held.min_normal)
    return values


def _read_tfloat32(codes: Array, values: Array, options: Options) -> None:
    if options.tf32_read == "round":
        codec.encode(tfloat32, codes, values)
        return
    np.bitwise_and(codes.view(np.uint32), TF32_BITS, out=values.view(np.uint32))
    values[np.isnan(codes)] = np.nan  # whose upper bits may be an infinity's


def plain(options: Options) -> Product:
    """The product of every format."""
    return blas if options.matmul == "blas" else chain


def packer(role: str, chained: bool, decoded: bool) -> Packer | None:
    """Return the function that packs the values of an operand, which can be reused while its tile
    is unchanged; None if there is none. `chained` is true if `chain` multiplies it, `decoded` if
    its values differ from the codes in memory."""
    if chained:
        pack: Packer = matrices.packed_weights if role == STATIONARY else matrices.packed_panels
        return pack
    return np.array if decoded else None


def are_packed(dst: Tile, stationary: Tile, moving: Tile, multiply: Product, group: int) -> bool:
    """Return whether a product of matrices like these takes packed ones."""
    doubles = float64 in (dst.held, stationary.held, moving.held)
    if multiply is not chain or group > 1 or doubles:
        return False
    return not matrices.is_narrow(stationary.free_size, moving.free_size)


def of(wide: bool, options: Options) -> Product:
    """The product of two matrices; `wide` is whether one of them is float32."""
    one = plain(options)
    if wide and options.fp32_matmul == "four_pass":
        return partial(four_pass, one)
    return one


def picks(matrix: Array) -> bool:
    """Return whether a product with it moves rows of the other matrix and adds none: an identity
    matrix, or some of its columns in any order."""
    return bool(((matrix == 0) | (matrix == 1)).all() and (matrix.sum(axis=0) <= 1).all())


def moved(s: Array, x: Array, in_s: Array | None, in_x: Array | None) -> Array | None:
    """Return where a product puts the flagged elements of one matrix if the other one picks rows.
    None if it does not pick, or if neither or both matrices have flags."""
    if in_s is not None and in_x is None and picks(x):
        return in_s.T @ x > 0
    if in_x is not None and in_s is None and picks(s):
        return s.T @ in_x > 0
    return None


def of_scaled(s: Array, s_scales: Array, x: Array, x_scales: Array, options: Options) -> Sum:
    """The product of operands [4K, M] and [4K, N] with the codes of their scales, a row of scales
    for each 32 rows. With `Options.mx_order="group"` the four products of a row are added first."""
    group = PACK if options.mx_order == "group" else 1
    if not (near(s_scales) and near(x_scales)):
        s_scales, x_scales = neutral(s, s_scales), neutral(x, x_scales)
    if near(s_scales) and near(x_scales):
        left, right = scaled_by(s, s_scales), scaled_by(x, x_scales)
        one = plain(options)
        return lambda out, add: one(left, right, out, add, group)
    # the product of scales may be beyond float32 though the result is not, or NaN
    ss, xs = (codec.decode(float8_e8m0fnu, c).astype(np.float64) for c in (s_scales, x_scales))
    return lambda out, add: scaled_chain(s, x, ss, xs, out, add, group)


def chain(s: Array, x: Array, out: Array, accumulate: bool, group: int = 1) -> None:
    """out[m, n] (+)= the chain over k of fused multiply-adds, from row 0; see native.matmul. Where
    they `are_packed`, operands may be what a `packer` made of them.

    Products of a `group` of rows are added before they join the chain.
    """
    if out.dtype.type is np.float64:
        _double(s, x, out, accumulate)
    else:
        matrices.product(s, x, out, accumulate, group)


def _double(s: Array, x: Array, out: Array, accumulate: bool) -> None:
    """The sum in float64, in any order. BLAS gets pieces that it multiplies in this thread: where
    others are busy, waiting for them takes longer than the product."""
    step = max(ONE_THREAD // s.size, 1)
    for first in range(0, out.shape[1], step):
        columns = slice(first, first + step)
        if accumulate:
            out[:, columns] += np.matmul(s.T, x[:, columns], dtype=np.float64)
        else:
            np.matmul(s.T, x[:, columns], out=out[:, columns], dtype=np.float64)


def blas(s: Array, x: Array, out: Array, accumulate: bool, group: int = 1) -> None:
    """The same by the BLAS library of numpy: its bits depend on processor, threads and shape."""
    product = buffers.scratch("product", out.shape) if accumulate else out
    np.matmul(s.T, x, out=product)
    if accumulate:
        np.add(out, product, out=out)


def four_pass(one: Product, s: Array, x: Array, out: Array, accumulate: bool) -> None:
    """out[m, n] (+)= four products `one` of halves of float32 numbers, each added by itself:
    low x low, low x high, high x low, high x high."""
    (s_high, s_low, s_finite), (x_high, x_low, x_finite) = halves(s), halves(x)
    passes = (s_low, x_low), (s_low, x_finite), (s_finite, x_low), (s_high, x_high)
    for i, (left, right) in enumerate(passes):
        one(left, right, out, accumulate or i > 0, 1)


def halves(values: Array) -> tuple[Array, Array, Array]:
    """The upper 12 significant bits, the 12 below them, and the upper ones again without what is
    not finite, which one pass takes care of."""
    high = (values.view(np.uint32) & HIGH_BITS).view(np.float32)
    finite = np.isfinite(values)
    if finite.all():
        return high, values - high, high
    inside = np.where(finite, high, np.float32(0))
    return np.where(finite, high, values), np.where(finite, values, inside) - inside, inside


def scaled_chain(
    s: Array, x: Array, s_scale: Array, x_scale: Array, out: Array, accumulate: bool, group: int
) -> None:
    """The chain with groups of 1 or 4 rows, the sum of whose products is multiplied by a float64
    scale from each side, [K / 32, M] and [K / 32, N], and rounded; see native.matmul."""
    if out.dtype == np.float64:
        _double(_scaled(s, s_scale), _scaled(x, x_scale), out, accumulate)
    else:
        matrices.scaled_product(s, x, s_scale, x_scale, out, accumulate, group)


def _scaled(values: Array, scales: Array) -> Array:
    groups: Array = values.reshape(len(scales), -1, values.shape[1]) * scales[:, None]
    return groups.reshape(values.shape)
