"""Products of the Tensor engine: reading of operands, and products of matrices.

Operands are float32 matrices s [K, M] and x [K, N]; `out` [M, N] is s.T @ x. `out (+)= y` means
that y is added to `out` if `accumulate` is true, and overwrites it otherwise. A product is rounded
to float32 before it is added. A packed operand is in the order in which compiled loops read it."""

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
# takes two matrices, `out`, whether to add to it, and the number of rows in a group
Product = Callable[..., None]
Sum = Callable[[Array, bool], None]  # writes a product into an array, or adds it to the array


STATIONARY, MOVING = "stationary", "moving"
TF32_BITS = np.uint32(0xFFFFE000)
ONE_THREAD = 1 << 19  # the largest number of multiplications for which OpenBLAS starts no threads
# sign, exponent and 12 significant bits, the first of which is implicit
HIGH_BITS = np.uint32(0xFFFFF000)


def reader(tile: Tile, role: str, options: Options) -> Callable[[Tile], Array]:
    """Return a function that reads operands [K, free] like `tile` as float32 values for a product.

    The result is valid until the next read with the same `role`, STATIONARY or MOVING."""
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
    values[np.isnan(codes)] = np.nan  # the upper bits of a NaN may be those of an infinity


def plain(options: Options) -> Product:
    """Return the function that multiplies matrices in any format: `blas` or `chain`, as the options
    require."""
    return blas if options.matmul == "blas" else chain


def packer(role: str, chained: bool, decoded: bool) -> Packer | None:
    """Return the function that packs an operand for its product, or None. Packed values can be
    reused while the tile is unchanged.

    `role`: STATIONARY or MOVING
    `chained`: whether `chain` multiplies the operand
    `decoded`: whether the operand's values differ from the codes in memory"""
    if chained:
        pack: Packer = matrices.packed_weights if role == STATIONARY else matrices.packed_panels
        return pack
    return np.array if decoded else None


def are_packed(dst: Tile, stationary: Tile, moving: Tile, multiply: Product, group: int) -> bool:
    """Return whether products of matrices like these take packed operands."""
    doubles = float64 in (dst.held, stationary.held, moving.held)
    if multiply is not chain or group > 1 or doubles:
        return False
    return not matrices.is_narrow(stationary.free_size, moving.free_size)


def of(wide: bool, options: Options) -> Product:
    """Return the function that multiplies two matrices. `wide`: whether one of them is float32."""
    multiply = plain(options)
    if wide and options.fp32_matmul == "four_pass":
        return partial(four_pass, multiply)
    return multiply


def picks(matrix: Array) -> bool:
    """Return whether a product with this matrix only moves rows: elements are 0 or 1, with at most
    one 1 in each column."""
    return bool(((matrix == 0) | (matrix == 1)).all() and (matrix.sum(axis=0) <= 1).all())


def moved(s: Array, x: Array, in_s: Array | None, in_x: Array | None) -> Array | None:
    """Return flags [M, N] of the product's elements that come from flagged elements of one matrix.

    `in_s` and `in_x` are the flags of s and x, or None. Return None unless the other matrix has no
    flags and only moves rows (`picks`)."""
    if in_s is not None and in_x is None and picks(x):
        return in_s.T @ x > 0
    if in_x is not None and in_s is None and picks(s):
        return s.T @ in_x > 0
    return None


def of_scaled(s: Array, s_scales: Array, x: Array, x_scales: Array, options: Options) -> Sum:
    """Return a function that writes or adds the product of operands with scales.

    `s`, `x`: shapes [4K, M] and [4K, N]
    `s_scales`, `x_scales`: codes of float8_e8m0fnu, one row for 32 rows of the operand

    With `Options.mx_order="group"`, groups of four products are added first."""
    group = PACK if options.mx_order == "group" else 1
    if not (near(s_scales) and near(x_scales)):
        s_scales, x_scales = neutral(s, s_scales), neutral(x, x_scales)
    if near(s_scales) and near(x_scales):
        left, right = scaled_by(s, s_scales), scaled_by(x, x_scales)
        multiply = plain(options)
        return lambda out, add: multiply(left, right, out, add, group)
    # The product of two scales may be outside of float32's range although the result is inside, or
    # NaN.
    ss, xs = (codec.decode(float8_e8m0fnu, c).astype(np.float64) for c in (s_scales, x_scales))
    return lambda out, add: scaled_chain(s, x, ss, xs, out, add, group)


def chain(s: Array, x: Array, out: Array, accumulate: bool, group: int = 1) -> None:
    """out (+)= s.T @ x as a chain of fused multiply-adds, from row 0 on (`numerics.loops.matmul`).

    Operands may be packed if `are_packed`. The products of `group` rows are added first."""
    if out.dtype.type is np.float64:
        _double(s, x, out, accumulate)
    else:
        matrices.product(s, x, out, accumulate, group)


def _double(s: Array, x: Array, out: Array, accumulate: bool) -> None:
    """out (+)= s.T @ x in float64, in any order. Blocks of columns are so small that BLAS uses only
    this thread: waiting for busy threads would take longer."""
    step = max(ONE_THREAD // s.size, 1)
    for first in range(0, out.shape[1], step):
        columns = slice(first, first + step)
        if accumulate:
            out[:, columns] += np.matmul(s.T, x[:, columns], dtype=np.float64)
        else:
            np.matmul(s.T, x[:, columns], out=out[:, columns], dtype=np.float64)


def blas(s: Array, x: Array, out: Array, accumulate: bool, group: int = 1) -> None:
    """out (+)= the product by numpy's BLAS library. The bits of the product depend on the
    processor, the number of threads and the shape."""
    product = buffers.scratch("product", out.shape) if accumulate else out
    np.matmul(s.T, x, out=product)
    if accumulate:
        np.add(out, product, out=out)


def four_pass(multiply: Product, s: Array, x: Array, out: Array, accumulate: bool) -> None:
    """out (+)= four products of halves of float32 numbers: low x low, low x high, high x low, high
    x high. `multiply` computes and adds each product separately."""
    (s_high, s_low, s_finite), (x_high, x_low, x_finite) = halves(s), halves(x)
    passes = (s_low, x_low), (s_low, x_finite), (s_finite, x_low), (s_high, x_high)
    for i, (left, right) in enumerate(passes):
        multiply(left, right, out, accumulate or i > 0, 1)


def halves(values: Array) -> tuple[Array, Array, Array]:
    """Return three arrays for float32 values: the upper 12 significant bits, the lower 12, and the
    upper 12 with 0 for infinities and NaN. So these occur in only one product of `four_pass`."""
    high = (values.view(np.uint32) & HIGH_BITS).view(np.float32)
    finite = np.isfinite(values)
    if finite.all():
        return high, values - high, high
    inside = np.where(finite, high, np.float32(0))
    return np.where(finite, high, values), np.where(finite, values, inside) - inside, inside


def scaled_chain(
    s: Array, x: Array, s_scale: Array, x_scale: Array, out: Array, accumulate: bool, group: int
) -> None:
    """out (+)= the product of s and x, with scales, as a chain over groups of 1 or 4 rows.

    The sum of a group is multiplied by both scales, and rounded (`numerics.loops.matmul`).

    `s_scale`, `x_scale`: float64, shapes [K / 32, M] and [K / 32, N]"""
    if out.dtype == np.float64:
        _double(_scaled(s, s_scale), _scaled(x, x_scale), out, accumulate)
    else:
        matrices.scaled_product(s, x, s_scale, x_scale, out, accumulate, group)


def _scaled(values: Array, scales: Array) -> Array:
    groups: Array = values.reshape(len(scales), -1, values.shape[1]) * scales[:, None]
    return groups.reshape(values.shape)
