"""Packed layouts: microscaling and structured sparsity.

Microscaling (MX): 32 narrow numbers, 8 rows of 4, share a power of two as their scale.

Structured sparsity: at most A of N neighbors along the contraction are not zero. Compressed weights
keep the A of each group, and a tag for each, its place among the N. How a place divides into one of
A partitions and one of N / A slots in it is not published: `PLACES` are both ways. The patterns
are documented (neuron-core-v3.rst, neuron-core-v4.rst).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.numerics import codec
from neuroncore.numerics.formats import PACK, Format, float8_e8m0fnu

Array = npt.NDArray[Any]

ROWS = 8  # partitions that share scales
# Scales so near to 1 that with them in the operands no product or sum of 8-bit floats leaves
# float32's normal numbers: multiplying first is then as exact as multiplying last.
NEAR = 45


def quantized(values: Array, element: Format, rule: str) -> tuple[Array, Array]:
    """Codes of the elements [P, F/4, 4] and of their scales [P/8, F/4]."""
    partitions, columns = values.shape[0], values.shape[1] // PACK
    groups = values.reshape(-1, ROWS, columns, PACK)
    scales = scales_of(np.abs(groups).max(axis=1).max(axis=-1), element, rule)
    elements = elements_of(groups, scales[:, None, :, None], element)
    return elements.reshape(partitions, columns, PACK), scales


def scales_of(amax: Array, element: Format, rule: str) -> Array:
    """Codes of the scales of groups, from their largest magnitudes."""
    emax = (element.max_code >> element.mantissa) - element.bias
    exponent = np.frexp(amax)[1] - 1 - emax + (rule == "ocp_x2")
    code = np.clip(exponent + float8_e8m0fnu.bias, 0, float8_e8m0fnu.max_code)
    code = np.where(amax == 0, 0, code)
    return np.where(np.isfinite(amax), code, float8_e8m0fnu.nan_code).astype(np.uint8)


def elements_of(groups: Array, scales: Array, element: Format) -> Array:
    """Codes of the elements of groups, from the codes of their scales, which have size 1 along the
    axes of a group."""
    lost = scales == float8_e8m0fnu.nan_code
    inverse = np.where(lost, 0, float8_e8m0fnu.max_code - scales).astype(np.uint8)
    with np.errstate(invalid="ignore"):  # infinity by the least, which is lost
        scaled = groups * codec.decode(float8_e8m0fnu, inverse)
    elements = codec.encode(element, scaled, saturate=True)
    if lost.any():
        elements[np.broadcast_to(lost, elements.shape)] = element.nan_code
    return elements


def near(scales: Array) -> bool:
    one = float8_e8m0fnu.bias
    return bool(scales.min() >= one - NEAR and scales.max() <= one + NEAR)


def neutral(values: Array, scales: Array) -> Array:
    """The scales, with 1 for those that have nothing to multiply."""
    zeros = (values.reshape(len(scales), -1, values.shape[1]) == 0).all(axis=1)
    none = zeros & (scales != float8_e8m0fnu.nan_code)
    return np.where(none, scales.dtype.type(float8_e8m0fnu.bias), scales)


def scaled_by(values: Array, scales: Array) -> Array:
    groups = values.reshape(len(scales), -1, values.shape[1])
    factors = codec.decode(float8_e8m0fnu, scales)
    return (groups * factors[:, None, :]).reshape(values.shape)


Pattern = tuple[int, int]
PLACES = ("partition", "slot")  # which digit of a tag counts more

PATTERNS: tuple[Pattern, ...] = ((4, 16), (4, 12), (4, 8), (2, 8), (2, 4), (1, 4), (1, 2))
TAG_BITS = 4
TAGS_PER_WORD = 4  # of 16 bits, that of the first column lowest (assumed)


def split(tags: Array, pattern: Pattern, places: str) -> tuple[Array, Array]:
    """Return, for each tag, the partition within its group, and the slot in that partition."""
    kept, among = pattern
    if places == "partition":
        return tags // (among // kept), tags % (among // kept)
    return tags % kept, tags // kept


def packed(tags: Array) -> Array:
    """Tags [K, M] as words [K, M / 4]."""
    four = tags.astype(np.uint16).reshape(len(tags), -1, TAGS_PER_WORD)
    words: Array = np.bitwise_or.reduce(four << (TAG_BITS * np.arange(TAGS_PER_WORD)), axis=2)
    return words.astype(np.uint16)


def unpacked(words: Array) -> Array:
    """Words [K, M / 4] as tags [K, M]."""
    shifts = (TAG_BITS * np.arange(TAGS_PER_WORD)).astype(np.uint16)
    tags: Array = (words[:, :, None] >> shifts) & np.uint16((1 << TAG_BITS) - 1)
    return tags.reshape(len(words), -1).astype(np.intp)


def compress(weights: Array, pattern: Pattern) -> tuple[Array, Array]:
    """Weights [N * G, M] as their values [A * G, M] and words of tags [A * G, M / 4].

    Row r of the dense weights multiplies what `arranged` puts at its place. Raises UsageError if
    the number of rows is not a multiple of N, that of columns not a multiple of 4, or a column of a
    group has more than A nonzero weights; the message names the first.
    """
    kept, among = pattern
    rows, columns = weights.shape
    if pattern not in PATTERNS or rows % among or columns % TAGS_PER_WORD:
        known = ", ".join(f"{a}:{n}" for a, n in PATTERNS)
        raise UsageError(
            f"weights {rows} x {columns} have no pattern {kept}:{among}: patterns are {known}; "
            f"rows are groups of {among}, columns of {TAGS_PER_WORD}"
        )
    groups = weights.reshape(-1, among, columns)
    full = (groups != 0).sum(axis=1)
    if (full > kept).any():
        group, column = np.argwhere(full > kept)[0]
        raise UsageError(
            f"rows {group * among} to {group * among + among - 1} of column {column} have "
            f"{full[group, column]} weights that are not zero; {kept}:{among} keeps {kept}"
        )
    tags = np.sort(np.argsort(groups == 0, axis=1, kind="stable")[:, :kept], axis=1)
    values = np.take_along_axis(groups, tags, axis=1).reshape(-1, columns)
    return values, packed(tags.reshape(-1, columns))


def arranged(moving: Array, pattern: Pattern, places: str = "partition") -> Array:
    """A dense matrix [N * G, n] as the moving tile [A * G, N / A, n] of weights of that pattern."""
    kept, among = pattern
    groups, slots = len(moving) // among, among // kept
    if places == "partition":
        return moving.reshape(groups * kept, slots, -1)
    shape = groups * kept, slots, moving.shape[1]
    return moving.reshape(groups, slots, kept, -1).swapaxes(1, 2).reshape(shape)
