"""Microscaling (MX) formats: 32 narrow numbers along K share a scale, a power of two.

The 32 are 8 partitions of 4 packed elements. That of the data in rows 32q + 8r to 32q + 8r + 7 is
row 32q + r of the scale tile, which starts where the data does or 4, 8 or 12 partitions below, so
that the scales of four tensors fit between each other (NKI guide, "MXFP Matrix Multiplication").
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from neuroncore.clause import cost, product
from neuroncore.clause.instruction import Call, Rule, instruction
from neuroncore.clause.operand import PSUM, SBUF, Operand, Static
from neuroncore.clause.rules import same_partitions
from neuroncore.core.core import Core
from neuroncore.core.psum import accumulated
from neuroncore.enums import engine
from neuroncore.errors import KernelError, ShapeError, StartPartitionError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import (
    PACK,
    PACKED,
    Format,
    bfloat16,
    float8_e4m3fn_x4,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    uint8,
)

from .words.tensor import (
    array_tiling,
    indirect_uses_the_whole_array,
    moving_fits,
    rows_only,
)

ROWS = 8  # partitions that share scales
QUADRANT = 32
OFFSETS = (0, 4, 8, 12)
SCALES = (float8_e8m0fnu, uint8)
# Scales so near to 1 that with them in the operands no product or sum of 8-bit floats leaves
# float32's normal numbers: multiplying first is then as exact as multiplying last.
NEAR = 45


def scale_rows(partitions: int) -> Array:
    """Where in a scale tile the scales of so many partitions of data are."""
    groups = np.arange(partitions // ROWS)
    each = QUADRANT // ROWS
    return groups // each * QUADRANT + groups % each


# --- legality -------------------------------------------------------------------------------------


def whole_quadrants(name: str) -> Rule:
    def rule(call: Call, machine: Machine) -> KernelError | None:
        view = call.view(name)
        if view.partitions % QUADRANT == 0:
            return None
        return ShapeError(
            f"{call.name}: {name} has {view.partitions} partitions",
            argument=name,
            expected="a multiple of 32 partitions",
            got=str(view),
            because="scales are spread over quadrants of 32 partitions",
            hint="pad the tile with zeros",
        )

    return rule


def even_columns(call: Call, machine: Machine) -> KernelError | None:
    view = call.view("stationary")
    if view.free_size % 2 == 0:
        return None
    return ShapeError(
        f"{call.name}: stationary has {view.free_size} columns",
        argument="stationary",
        expected="an even number of columns",
        got=str(view),
        hint="pad the tile with a column of zeros",
    )


def four_to_one(call: Call, machine: Machine) -> KernelError | None:
    dst, src = call.view("dst"), call.view("src")
    if src.free_size == PACK * dst.free_size:
        return None
    return ShapeError(
        f"{call.name}: src has {src.free_size} elements per partition, dst {dst.free_size}",
        argument="dst",
        expected=f"{src.free_size / PACK:g} elements per partition",
        got=str(dst),
        because="four neighbours of src become one packed element",
    )


def has_scales(data: str, scale: str) -> Rule:
    """One scale for each packed element of 8 partitions, in the quadrant where the data is."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        of, view = call.view(data), call.view(scale)
        rows = scale_rows(of.partitions)
        least = int(rows[-1]) + 1 if len(rows) else 1
        if view.free_size != of.free_size or view.partitions < least:
            return ShapeError(
                f"{call.name}: {scale} ({view}) does not hold the scales of {data} ({of})",
                argument=scale,
                expected=f"at least {least} partitions of {of.free_size} scales",
                got=str(view),
                because="each quadrant of 32 partitions of data has 4 partitions of scales",
            )
        first = of.partition // QUADRANT * QUADRANT
        starts = [first + offset for offset in OFFSETS]
        if view.stepped or view.partition not in starts:
            return StartPartitionError(
                f"{call.name}: {scale} starts at partition {view.partition}, {data} at {first}",
                argument=scale,
                expected=f"consecutive partitions from one of {starts}",
                got=f"partition {view.partition}, strides {view.strides}",
                because="scales are in the quadrant of 32 partitions that their data is in",
            )
        return None

    return rule


# --- cost -----------------------------------------------------------------------------------------


def quantize_cost(call: Call, machine: Machine) -> cost.Cost:
    per_cycle = cost.rate(machine, engine.vector, "quantize_mx")
    return cost.stream(call, machine, call.view("src").free_size / per_cycle)


def mx_cost(call: Call, machine: Machine) -> cost.Cost:
    """A packed column per cycle, as of any 8-bit format, with four times its work in it (ARCH3)."""
    s, x = call.view("stationary"), call.view("moving")
    columns = max(x.free_size, cost.strided_cycles(x, machine))
    return cost.systolic(call, machine, "float8", "stationary", columns, s.free_size)


# --- meaning --------------------------------------------------------------------------------------


@instruction(
    engine.vector,
    cost=quantize_cost,
    rules=[
        whole_quadrants("src"),
        same_partitions("src", "dst"),
        four_to_one,
        has_scales("dst", "dst_scale"),
    ],
    feature="mx",
)
def quantize_mx(
    dst: Annotated[
        Tile,
        Operand(writes=True, regions=(SBUF,), dtypes=(float8_e5m2_x4, float8_e4m3fn_x4)),
    ],
    src: Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=(float16, bfloat16))],
    dst_scale: Annotated[
        Tile, Operand(writes=True, partial=True, regions=(SBUF,), dtypes=SCALES, starts=False)
    ],
    *,
    core: Core,
) -> None:
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
    rows = scale_rows(src.shape[0])
    dst_scale.codes()[rows] = scales.reshape(len(rows), *dst_scale.shape[1:])
    chosen = np.zeros(dst_scale.shape, np.bool_)
    chosen[rows] = True
    dst_scale.mark_written(chosen)


def quantized(values: Array, element: Format, rule: str) -> tuple[Array, Array]:
    """Codes of the elements [P, F/4, 4] and of their scales [P/8, F/4]."""
    partitions, columns = values.shape[0], values.shape[1] // PACK
    groups = values.reshape(-1, ROWS, columns, PACK)
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


Packed = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=PACKED, indirect=True)]
Scale = Operand(
    reads=True, partial=True, regions=(SBUF,), dtypes=SCALES, starts=False, indirect=True
)
Pair = Annotated[tuple[int, ...] | None, Static(sequence=True)]


@instruction(
    engine.tensor,
    shapes="stationary: K%32 M%2<=stationary_free; moving: K N; dst: M N",
    cost=cost.dynamic(mx_cost),
    rules=[
        moving_fits,
        has_scales("stationary", "stationary_scale"),
        has_scales("moving", "moving_scale"),
        array_tiling,
        rows_only,
        indirect_uses_the_whole_array,
    ],
    feature="mx",
    opcode="MATMUL",
)
def nc_matmul_mx(
    dst: Annotated[
        Tile, Operand(writes=True, regions=(PSUM,), dtypes=(float32, bfloat16), indirect=True)
    ],
    stationary: Packed,
    moving: Packed,
    stationary_scale: Annotated[Tile, replace(Scale, index_of="stationary")],
    moving_scale: Annotated[Tile, replace(Scale, index_of="moving")],
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


def operand(core: Core, name: str, data: Tile, scale: Tile) -> tuple[Array, Array]:
    """The elements [4K, F], float32, and the codes of their scales [K/8, F]."""
    assert data.dtype.element is not None
    rows = scale_rows(data.shape[0])
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
