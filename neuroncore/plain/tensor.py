"""The Tensor engine: products of matrices, and transposes. Also microscaling formats."""

from functools import partial, reduce
from typing import Any

import numpy as np

from neuroncore.plain.arithmetic import apply, chain, four_passes
from neuroncore.plain.formats import FORMATS, TFLOAT32, Array, F, decode, encode, pack, unpack
from neuroncore.plain.memory import Operand


def nc_matmul(i: Any) -> None:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[k, n]

    In double_row mode the products of k and k + K/2 are added first."""
    if i.is_transpose and i.core.machine.has("native_transpose"):
        picked = i.moving.rows() != 0
        codes = i.stationary.bits()[picked.argmax(0)].T
        i.dst.put(np.where(picked.any(0), codes, codes.dtype.type(0)))
        return
    accumulated(i.dst, i.accumulate, *products(i, 2 if "double_row" in str(i.perf_mode) else 1))


def nc_matmul_sparse(i: Any) -> None:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[A (k // A) + a, c, n]

    pattern is (A, N): A of N adjacent weights are kept. A weight has a tag of 4 bits in tags[k, m
    // 4]. The tag is a N/A + c for partition a and slot c, or c A + a if `places` is "slot"."""
    kept, among = i.pattern
    s, x = read(i.core, i.stationary), i.moving.values()
    tag = (i.tags.codes()[..., np.newaxis] >> 4 * np.arange(4) & 15).reshape(i.tags.lanes, -1)
    a, c = np.divmod(tag, among // kept)
    if i.places == "slot":
        c, a = np.divmod(tag, kept)
    chosen = x[np.arange(len(s))[:, np.newaxis] // kept * kept + a, c]
    columns = [chain(s[:, m : m + 1], chosen[:, m]) for m in range(s.shape[1])]
    accumulated(i.dst, i.accumulate, np.concatenate(columns))


def nc_transpose(i: Any) -> None:
    """dst[f, p] = data[p, f]; the Tensor engine of v2 multiplies data with an identity matrix"""
    if i.engine.name == "vector" or i.core.machine.has("native_transpose") or i.data.form.whole:
        i.dst.put(i.data.bits().T)
        return
    bad, identity = lost(i, "data"), np.eye(i.data.lanes, dtype=F)
    total = chain(np.where(bad, F(0), read(i.core, i.data)), identity)
    i.dst.set(np.where(bad.T, F(np.nan), total))


def nc_matmul_mx(i: Any) -> None:
    """dst[m, n] (+)= sum_k sum_j stationary[k, m][j] ss[k/8, m] * moving[k, n][j] ms[k/8, n]

    If `Options.mx_order` is group, the four products of j are added first, and scaled once."""
    s, ss = scaled(i.core, i.stationary, i.stationary_scale)
    x, xs = scaled(i.core, i.moving, i.moving_scale)
    group = 4 if i.core.options.mx_order == "group" else 1
    accumulated(i.dst, i.accumulate, chain(s, x, group, scales=(ss, xs)))


def quantize_mx(i: Any) -> None:
    """dst[p, f][j] = src[p, 4f + j] / X;  dst_scale[p/8, f] = X = 2^(floor(log2 amax) - emax + 1)

    A group is 8 partitions times 4 elements, and amax is its greatest magnitude. If
    `Options.mx_scale` is ocp, there is no + 1. Elements saturate. The scale of zeros is 2^-127. If
    a group contains NaN or infinity, all its elements become NaN."""
    element, groups = FORMATS[i.dst.form.element], i.src.rows().reshape(i.src.lanes // 8, 8, -1, 4)
    amax = np.abs(groups).max(axis=(1, 3))
    power = np.frexp(amax)[1] - np.frexp(element.max)[1] + (i.core.options.mx_scale == "ocp_x2")
    scale = np.where(amax == 0, 0, np.clip(power + 127, 0, 254))
    factor = np.ldexp(F(1), 127 - scale)[:, np.newaxis, :, np.newaxis]
    finite = np.isfinite(amax)
    elements = np.clip((groups * factor).astype(F), -element.max, element.max)
    elements = np.where(finite[:, np.newaxis, :, np.newaxis], elements, F(np.nan))
    i.dst.put(pack(i.dst.held, encode(element, elements)))
    scale_rows(i.core, i.dst_scale, i.dst.lanes).put(np.where(finite, scale, 255))


def read(core: Any, operand: Operand, group: int = 1) -> Array:
    """Return the numbers to multiply, as float32 [K, columns]. `Options.tf32_read` selects how TF32
    numbers are rounded, and `Options.subnormals` whether subnormals become 0."""
    form, options, values = operand.held, core.options, operand.values()
    if form is TFLOAT32:
        cut = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(F)
        nearest = encode(form, values).view(F)
        values = np.where(np.isnan(values) | (options.tf32_read == "round"), nearest, cut)
    if options.subnormals == "flush":
        small = np.abs(values) < np.ldexp(1.0, 1 - form.bias)
        values = np.where(small, np.copysign(F(0), values), values)
    return values.reshape(group * len(values), -1)


def products(i: Any, group: int) -> list[Array]:
    """Return the products of matrices to add to dst, with NaN for unknown results. If one matrix
    only moves numbers (as an identity matrix does), 0 times an uninitialized number is 0."""
    s, x = read(i.core, i.stationary, group), read(i.core, i.moving, group)
    in_s, in_x = lost(i, "stationary").reshape(s.shape), lost(i, "moving").reshape(x.shape)
    forms, spared = (i.stationary.held, i.moving.held), np.zeros((), np.bool_)
    if in_s.any() and picks(x):
        s, spared = np.where(in_s, F(0), s), in_s.T.astype(F) @ x > 0
    elif in_x.any() and picks(s):
        x, spared = np.where(in_x, F(0), x), s.T @ in_x.astype(F) > 0
    wide = "float32" in (i.stationary.form.name, i.moving.form.name)
    narrow, four = all(form.mantissa <= 11 for form in forms), i.core.options.fp32_matmul != "chain"
    sums = four_passes(s, x) if wide and four else [chain(s, x, group, narrow)]
    return [np.where(spared, F(np.nan), values) for values in sums]


def lost(i: Any, name: str) -> Array:
    """Return flags [K, columns] of the elements of operand `name` that depend on uninitialized
    memory and are not finite."""
    operand = getattr(i, name)
    flags = operand.missing() | i.core.undefined.get(name, np.False_)
    return (flags & ~np.isfinite(operand.values())).reshape(operand.lanes, -1)


def picks(matrix: Array) -> bool:
    """Return whether every column consists of zeros and at most one 1."""
    return bool(((matrix == 0) | (matrix == 1)).all() and (matrix.sum(axis=0) <= 1).all())


def accumulated(dst: Any, add: bool | None, *sums: Array) -> None:
    """Add `sums` to dst one after the other, in float32. The first overwrites dst if `add` is
    False, and unwritten elements if `add` is None."""
    first, *others = (values.reshape(dst.shape) for values in sums)
    fresh = dst.missing(ever=False) if add is None else not add
    total = np.where(fresh, first, apply("add", dst.values(), first))
    dst.set(reduce(partial(apply, "add"), others, total))


def scaled(core: Any, data: Operand, scale: Operand) -> tuple[Array, Array]:
    """Return (float32 elements, float64 scales) of packed data, both of the shape [4 K,
    columns]."""
    element, codes = unpack(data.held, data.bits())
    values = decode(element, codes).swapaxes(1, 2).reshape(4 * data.lanes, -1)
    scales = scale_rows(core, scale, data.lanes).codes().reshape(data.lanes // 8, -1)
    powers = decode(FORMATS["float8_e8m0fnu"], scales).astype(np.float64)
    return values, np.repeat(powers, 32, axis=0)


def scale_rows(core: Any, scale: Operand, partitions: int) -> Operand:
    """Return the rows of a scale tile for `partitions` partitions of data. Row 32q + r has the
    scales of eight partitions from 32q + 8r on."""
    quadrant, groups = core.machine.limits.quadrant, np.arange(partitions // 8)
    return scale.part(groups // (quadrant // 8) * quadrant + groups % (quadrant // 8))
