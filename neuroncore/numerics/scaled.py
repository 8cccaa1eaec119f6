"""Numbers in narrow formats with scales: one scale per tensor, row or block (microscaling too).

>>> from neuroncore import numerics
>>> values, scale = numerics.quantize([[1.0, -3.0, 448.0, 896.0]], "fp8")
>>> scale, numerics.dequantize(values, scale)
(array([[2.]], dtype=float32), array([[  1.,  -3., 448., 896.]], dtype=float32))

In this module, a block is any part of an array that shares one scale, also a tensor or a row.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.numerics import packed
from neuroncore.numerics.convert import DType, Mode, as_floats, decode, encode
from neuroncore.numerics.formats import PACK, Format, float8_e8m0fnu, float32, lookup_any
from neuroncore.numerics.libraries import of_any_library
from neuroncore.numerics.names import SCALED, plain
from neuroncore.numerics.stochastic import Stream

Array = npt.NDArray[Any]
Rule = Literal["ocp_x2", "ocp"]
Per = Literal["tensor", "row"] | int | tuple[int, ...]

MX_BLOCK = packed.ROWS * PACK  # numbers that share a scale in microscaling
ONE = np.float32(1)


class Quantized(NamedTuple):
    """Numbers in a narrow format, and their scales: the quantized numbers are values * scale."""

    values: Array
    """In the numpy type of the format, in the shape of the input."""
    scale: Array
    """One number for each block, with as many axes as `values`: float32, or float8_e8m0fnu for
    microscaling."""


@of_any_library
def quantize(
    array: npt.ArrayLike,
    dtype: DType,
    per: Per | None = None,
    *,
    axis: int = -1,
    scale: npt.ArrayLike | None = None,
    mode: Mode = "nearest",
    seed: int | Stream = 0,
    rule: Rule | None = None,
) -> Quantized:
    """Return an array in a narrow format, with scales that use the whole range of the format.

    `dtype` is a float of at most 16 bits, int8 or int16, or a microscaling format: "mxfp8" (its
    numbers are float8_e4m3fn), "mxfp8_e5m2", "mxfp4".

    `per` is the part that shares a scale: the whole "tensor" (the default), a "row" (all numbers
    along `axis`), a number of adjacent elements along `axis`, or a block of the last axes, such as
    (128, 128). In microscaling the default is 32 adjacent elements; (8, 4) is the block of
    `nisa.quantize_mx`.

    A scale is the largest finite magnitude of its block, divided by the largest number of the
    format. The scale of a block of zeros is 1. Numbers are divided by their scale in float32,
    rounded by `mode` and `seed` as in `cast`, and saturate.

    In microscaling a scale is a power of two, chosen by `rule` as in `neuroncore.Options.mx_scale`.
    "ocp_x2" is the device's rule, and the default for 8 bits. "ocp" is the example of the OCP
    specification; it is the default for 4 bits, because no instruction quantizes to 4 bits.
    Rounding is to nearest even, as on the device. A block with infinities or NaN has the scale NaN.

    `scale` sets the scales, in the form that `dequantize` describes.

    Raises UsageError for other formats, for a `mode` other than "nearest" in microscaling, and for
    blocks that don't fit the shape."""
    values = as_floats(array)
    scheme = SCALED.get(plain(dtype)) if isinstance(dtype, str) else None
    form = _narrow(scheme or dtype)
    if scheme is None:
        block = _block("tensor" if per is None else per, values.shape, axis)
        scales = _by_largest(form, _blocks(values, block)) if scale is None else _scales(scale)
        return Quantized(_divided(form, values, scales, mode, seed), scales)
    if mode != "nearest":
        raise UsageError(
            f"mode is {mode!r}, but {dtype} is always rounded to nearest even ('nearest'), as on "
            "the device"
        )
    if scale is not None:
        scales = _powers(scale)
        return Quantized(_divided(form, values, _scales(scales)), scales)
    return _microscaled(
        form, values, _block(MX_BLOCK if per is None else per, values.shape, axis), rule
    )


@of_any_library
def dequantize(values: npt.ArrayLike, scale: npt.ArrayLike, dtype: DType | None = None) -> Array:
    """Return values * scale as float32 of the same shape: the inverse of `quantize`, as in
    `dequantize(*quantize(x, "fp8"))`.

    `dtype` is the format of `values` if they are codes. `scale` is a number, or an array with as
    many axes as `values`. If `scale` has k scales along an axis, each scale belongs to one of k
    equal blocks of `values`. Scales of type uint8 are codes of float8_e8m0fnu.

    Raises UsageError if `scale` has another number of axes. Raises UsageError also if the number of
    scales along an axis does not divide the length of this axis of `values`."""
    array = np.asarray(values)
    numbers: Array = decode(array, array.dtype if dtype is None else dtype)
    scales = _scales(scale)
    groups = _blocks(numbers, _block_of(scales, numbers.shape))
    return _joined(groups * _over(scales, groups), numbers.shape)


# --- scales -----------------------------------------------------------------------------------


def _by_largest(form: Format, groups: Array) -> Array:
    """Return the float32 scale of each block: its largest finite magnitude divided by the format's
    largest number, at least the smallest normal float32; 1 for zeros."""
    largest = _largest(groups)
    if not np.isfinite(largest).all():
        largest = _largest(np.where(np.isfinite(groups), groups, 0))
    scales = np.maximum(largest / np.float32(form.max), np.float32(float32.min_normal))
    positive: Array = np.where(largest == 0, ONE, scales)
    return positive


def _largest(groups: Array) -> Array:
    """Return the largest magnitude of each block; NaN if the block has a NaN."""
    inner = tuple(range(groups.ndim // 2, groups.ndim))
    magnitudes: Array = np.abs(groups).max(axis=inner, initial=0)
    return magnitudes


def _scales(scale: npt.ArrayLike) -> Array:
    """Return scales as float32. Arguments of type uint8 are codes of float8_e8m0fnu."""
    array = np.asarray(scale)
    if array.dtype == np.uint8 or array.dtype == float8_e8m0fnu.numpy:
        decoded: Array = decode(array, float8_e8m0fnu)
        return decoded
    return as_floats(array)


def _powers(scale: npt.ArrayLike) -> Array:
    """Return scales for microscaling. Raises UsageError for numbers that are not powers of two."""
    scales = _scales(scale)
    powers: Array = encode(scales, float8_e8m0fnu)
    if not np.array_equal(decode(powers, float8_e8m0fnu), scales, equal_nan=True):
        raise UsageError("scales of microscaling must be powers of two from 2^-127 to 2^127")
    return powers.view(float8_e8m0fnu.numpy)


def _divided(
    form: Format, values: Array, scales: Array, mode: Mode = "nearest", seed: int | Stream = 0
) -> Array:
    groups = _blocks(values, _block_of(scales, values.shape))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scaled = _joined(groups / _over(scales, groups), values.shape)
    codes: Array = encode(scaled, form, mode, seed, saturate=True)
    return codes.view(form.numpy)


def _microscaled(
    form: Format, values: Array, block: tuple[int, ...], rule: Rule | None
) -> Quantized:
    if prod(block) != MX_BLOCK:
        raise UsageError(
            f"blocks of microscaling must have {MX_BLOCK} numbers; {block} has {prod(block)}"
        )
    rule = rule or ("ocp_x2" if form.bits == 8 else "ocp")
    if rule not in get_args(Rule):
        raise UsageError(f"rule is {rule!r}; it must be 'ocp_x2' or 'ocp'")
    groups = _blocks(values, block)
    scales = packed.scales_of(_largest(groups), form, rule)
    codes = packed.elements_of(groups, _over(scales, groups), form)
    numbers = _joined(codes, values.shape).view(form.numpy)
    return Quantized(numbers, scales.view(float8_e8m0fnu.numpy))


def _narrow(dtype: DType) -> Format:
    form = lookup_any(dtype)
    if form.kind not in ("float", "int") or form.bits > 16:
        raise UsageError(f"dtype is {form}; it must be a float of at most 16 bits, int8 or int16")
    return form


# --- blocks -----------------------------------------------------------------------------------


def _block(per: Per, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the size of a block along each axis. `per` is the argument of `quantize`."""
    if per == "tensor":
        return tuple(max(n, 1) for n in shape)
    if isinstance(per, tuple):
        return _checked((1,) * (len(shape) - len(per)) + per, shape)
    if not -len(shape) <= axis < len(shape):
        raise UsageError(f"axis is {axis}, but the shape is {shape}")
    if per != "row" and not isinstance(per, int):
        raise UsageError(
            f"per is {per!r}; it must be 'tensor', 'row', an int, or a block such as (128, 128)"
        )
    block = [1] * len(shape)
    block[axis] = max(shape[axis], 1) if per == "row" else int(per)
    return _checked(tuple(block), shape)


def _block_of(scales: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the size of a block along each axis, from the number of scales along each axis."""
    counts = scales.shape if scales.ndim else (1,) * len(shape)
    if len(counts) != len(shape) or any(
        n % max(count, 1) for n, count in zip(shape, counts, strict=True)
    ):
        raise UsageError(
            f"scales of shape {scales.shape} don't fit values of shape {shape}: along each axis, "
            "the number of values must be a multiple of the number of scales"
        )
    return tuple(max(n // max(count, 1), 1) for n, count in zip(shape, counts, strict=True))


def _checked(block: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(block) != len(shape) or any(b < 1 or n % b for n, b in zip(shape, block, strict=True)):
        raise UsageError(
            f"blocks of {block} don't fit an array of shape {shape}: pad the array, so that each "
            "axis is a multiple of the block"
        )
    return block


def _blocks(values: Array, block: tuple[int, ...]) -> Array:
    """Split an array into blocks. Axes of the result: the number of blocks along each axis of the
    array, then the size of a block along each."""
    split = [
        part for n, size in zip(values.shape, block, strict=True) for part in (n // size, size)
    ]
    return values.reshape(split).transpose(*range(0, len(split), 2), *range(1, len(split), 2))


def _joined(groups: Array, shape: tuple[int, ...]) -> Array:
    """Return the array of this shape that `_blocks` has split into `groups`."""
    half = groups.ndim // 2
    order = [place for axis in range(half) for place in (axis, axis + half)]
    return groups.transpose(order).reshape(shape)


def _over(scales: Array, groups: Array) -> Array:
    """Return one scale per block, in a shape that broadcasts to `groups` (see `_blocks`)."""
    half = groups.ndim // 2
    return scales.reshape(groups.shape[:half] + (1,) * half)
