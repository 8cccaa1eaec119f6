"""Microscaling (MX) formats: 32 narrow numbers along K share a scale, which is a power of two.

The 32 numbers are in 8 partitions, with 4 packed elements in each. The scale of the data in rows
32q + 8r to 32q + 8r + 7 is row 32q + r of the scale tile. This tile starts at the first partition
of the quadrant in which the data starts, or 4, 8 or 12 partitions after it. So the scales of four
tensors can be interleaved (NKI guide, "MXFP Matrix Multiplication").
"""

from __future__ import annotations

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.clause import cost, product
from neuroncore.clause.instruction import Traits, instruction
from neuroncore.core import sums
from neuroncore.core.core import Core
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.numerics.packed import quantized

from .words import mx as words
from .words.mx import MovingScale, Packed, Quantized, Scales, StationaryScale, Sum, Wide
from .words.tensor import Pair


@instruction(
    engine.vector,
    shapes="src: P%quadrant 4*F; dst: P F; dst_scale: S F",
    cost=words.quantize_cost,
    rules=words.QUANTIZE,
    feature="mx",
)
def quantize_mx(dst: Quantized, src: Wide, dst_scale: Scales, *, core: Core) -> None:
    """dst[p, f][i] = src[p, 4f + i] / X;  dst_scale[p/8, f] = X = 2^(floor(log2 amax) - emax + 1)

    amax is the greatest magnitude of a group, which is 8 partitions times 4 elements. emax is 8 for
    e4m3fn, and 15 for e5m2. Elements are rounded to nearest even, and saturate. The scale of zeros
    is 2^-127. If a group has a NaN or an infinity, its scale and all its elements become NaN
    (unpublished). Other partitions of dst_scale are unchanged. `Options.mx_scale` can select the
    older rule.
    """
    assert dst.dtype.element is not None
    values = src.values().reshape(src.shape[0], -1)
    elements, scales = quantized(values, dst.dtype.element, core.options.mx_scale)
    dst.codes()[...] = codec.pack(dst.dtype, elements).reshape(dst.shape)
    rows = words.scale_rows(src.shape[0], core.machine)
    dst_scale.codes()[rows] = scales.reshape(len(rows), *dst_scale.shape[1:])
    chosen = np.zeros(dst_scale.shape, np.bool_)
    chosen[rows] = True
    dst_scale.mark_written(chosen)


@instruction(
    engine.tensor,
    shapes=words.PRODUCT,
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

    ss and ms are stationary_scale and moving_scale. The four products of i are added first, from
    the left, and scaled once. Everything else is as in nc_matmul. `Options.mx_order` can select
    another order.
    """
    s = operand(core, "stationary_scale", stationary, stationary_scale)
    x = operand(core, "moving_scale", moving, moving_scale)
    sums.accumulated(core, dst, accumulate, product.of_scaled(*s, *x, core.options))


def operand(core: Core, name: str, data: Tile, scale: Tile) -> tuple[Array, Array]:
    """Return the elements [4K, F] as float32, and the codes of their scales [K/8, F]."""
    assert data.dtype.element is not None
    rows = words.scale_rows(data.shape[0], core.machine)
    if scale.storage.gaps is not None:
        core.check_written(name, scale, rows)
    packed = data.codes().reshape(data.shape[0], -1)
    elements = codec.unpack(data.dtype, packed, axis=1).reshape(-1, packed.shape[1])
    return codec.decode(data.dtype.element, elements), scale.codes()[rows].reshape(len(rows), -1)
