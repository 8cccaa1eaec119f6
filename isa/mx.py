"""Microscaling (MX) formats: 32 narrow numbers along K share a scale, a power of two.

The 32 are 8 partitions of 4 packed elements. That of the data in rows 32q + 8r to 32q + 8r + 7 is
row 32q + r of the scale tile, which starts where the data does or 4, 8 or 12 partitions below, so
that the scales of four tensors fit between each other (NKI guide, "MXFP Matrix Multiplication").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.clause import Traits, cost, instruction, product
from neuroncore.core.core import Core
from neuroncore.core.psum import accumulated
from neuroncore.enums import engine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import PACK, Format, float8_e8m0fnu

from .words import mx as words
from .words.mx import MovingScale, Packed, Quantized, Scales, StationaryScale, Sum, Wide
from .words.tensor import Pair

# Scales so near to 1 that with them in the operands no product or sum of 8-bit floats leaves
# float32's normal numbers: multiplying first is then as exact as multiplying last.
NEAR = 45


@instruction(
    engine.vector,
    shapes="src: P%32 4*F; dst: P F; dst_scale: S F",
    cost=words.quantize_cost,
    rules=words.QUANTIZE,
    feature="mx",
)
def quantize_mx(dst: Quantized, src: Wide, dst_scale: Scales, *, core: Core) -> None:
    """dst[p, f][i] = src[p, 4f + i] / X;  dst_scale[p/8, f] = X = 2^(floor(log2 amax) - emax + 1)

    amax is the greatest magnitude of a group, 8 partitions times 4 elements; emax is 8 for e4m3fn,
    15 for e5m2. Elements are rounded to nearest even, and saturate. The scale of zeros is 2^-127;
    a group with NaN or an infinity in it is NaN, scale and all (unpublished). `Options.mx_scale`
    has the older rule. Other partitions of dst_scale are left as they are.
    """
    assert dst.dtype.element is not None
    values = src.values().reshape(src.shape[0], -1)
    elements, scales = quantized(values, dst.dtype.element, core.options.mx_scale)
    dst.codes()[...] = codec.pack(dst.dtype, elements).reshape(dst.shape)
    rows = words.scale_rows(src.shape[0])
    dst_scale.codes()[rows] = scales.reshape(len(rows), *dst_scale.shape[1:])
    chosen = np.zeros(dst_scale.shape, np.bool_)
    chosen[rows] = True
    dst_scale.mark_written(chosen)


@instruction(
    engine.tensor,
    shapes="stationary: K%32 M%2<=stationary_free; moving: K N; dst: M N; "
    "stationary_scale: S M; moving_scale: T N",
    cost=cost.dynamic(words.mx_cost),
    rules=words.MATMUL,
    feature="mx",
    opcode="MATMUL",
    traits=Traits(multiplies=True),
)
def nc_matmul_mx(
    dst: Sum,
    stationary: Packed,
    moving: Packed,
    stationary_scale: StationaryScale,
    moving_scale: MovingScale,
    tile_position: Pair = None,
    tile_size: Pair = None,
    accumulate: bool | None = None,
    *,
    core: Core,
) -> None:
    """dst[m, n] (+)= sum_k sum_i stationary[k, m][i] ss[k/8, m] * moving[k, n][i] ms[k/8, n]

    ss and ms are stationary_scale and moving_scale, powers of two. The four products of i are
    added first, from the left, and scaled once; the sum over k is a float32 chain from k = 0,
    which is then added to dst, if that is being accumulated. With `Options.mx_order="chain"` each
    product joins the chain by itself.
    """
    group = PACK if core.options.mx_order == "group" else 1
    s, ss = operand(core, "stationary_scale", stationary, stationary_scale)
    x, xs = operand(core, "moving_scale", moving, moving_scale)
    if not (near(ss) and near(xs)):
        ss, xs = neutral(s, ss), neutral(x, xs)
    if near(ss) and near(xs):
        s, x = scaled_by(s, ss), scaled_by(x, xs)
        one = product.plain(core.options)
        accumulated(core, dst, accumulate, lambda out, add: one(s, x, out, add, group))
    else:
        accumulated(core, dst, accumulate, lambda out, add: extreme(s, x, ss, xs, out, add, group))


def quantized(values: Array, element: Format, rule: str) -> tuple[Array, Array]:
    """Codes of the elements [P, F/4, 4] and of their scales [P/8, F/4]."""
    partitions, columns = values.shape[0], values.shape[1] // PACK
    groups = values.reshape(-1, words.ROWS, columns, PACK)
    amax = np.abs(groups).max(axis=1).max(axis=-1)
    finite = np.isfinite(amax)
    emax = (element.max_code >> element.mantissa) - element.bias
    exponent = np.frexp(amax)[1] - 1 - emax + (rule == "ocp_x2")
    code = np.clip(exponent + float8_e8m0fnu.bias, 0, float8_e8m0fnu.max_code)
    code = np.where(finite, np.where(amax == 0, 0, code), float8_e8m0fnu.nan_code)
    inverse = codec.decode(float8_e8m0fnu, np.where(finite, float8_e8m0fnu.max_code - code, 0))
    scaled = groups * inverse[:, None, :, None]
    elements = codec.encode(element, np.clip(scaled, -element.max, element.max))
    if not finite.all():
        elements[np.broadcast_to(~finite[:, None, :, None], elements.shape)] = element.nan_code
    return elements.reshape(partitions, columns, PACK), code.astype(np.uint8)


def operand(core: Core, name: str, data: Tile, scale: Tile) -> tuple[Array, Array]:
    """The elements [4K, F], float32, and the codes of their scales [K/8, F]."""
    assert data.dtype.element is not None
    rows = words.scale_rows(data.shape[0])
    if scale.storage.gaps is not None:
        core.check_written(name, scale, rows)
    packed = data.codes().reshape(data.shape[0], -1)
    elements = codec.unpack(data.dtype, packed, axis=1).reshape(-1, packed.shape[1])
    return codec.decode(data.dtype.element, elements), scale.codes()[rows].reshape(len(rows), -1)


def near(scales: Array) -> bool:
    one = float8_e8m0fnu.bias
    return bool(scales.min() >= one - NEAR and scales.max() <= one + NEAR)


def neutral(values: Array, scales: Array) -> Array:
    """The scales with 1 in the place of those that have nothing to multiply."""
    zeros = (values.reshape(len(scales), -1, values.shape[1]) == 0).all(axis=1)
    none = zeros & (scales != float8_e8m0fnu.nan_code)
    return np.where(none, scales.dtype.type(float8_e8m0fnu.bias), scales)


def scaled_by(values: Array, scales: Array) -> Array:
    groups = values.reshape(len(scales), -1, values.shape[1])
    factors = codec.decode(float8_e8m0fnu, scales)
    return (groups * factors[:, None, :]).reshape(values.shape)


def extreme(s: Array, x: Array, ss: Array, xs: Array, out: Array, add: bool, group: int) -> Any:
    """With scales whose product may be beyond float32 though the result is not, or NaN."""
    s_scale, x_scale = (codec.decode(float8_e8m0fnu, c).astype(np.float64) for c in (ss, xs))
    return product.scaled_chain(s, x, s_scale, x_scale, out, add, group)
