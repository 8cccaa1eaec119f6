"""Packed layouts: microscaling and structured sparsity.

Microscaling (MX): 32 narrow numbers, in 8 rows of 4, share a scale, which is a power of two.

Structured sparsity: at most A of N adjacent numbers along the contraction are not 0. Compressed
weights keep A numbers of each group, each with a tag: its position among the N numbers, which is
one of A partitions and one of its N / A slots. How the tag encodes these is not published: `PLACES`
lists both ways. The patterns are documented (neuron-core-v3.rst, neuron-core-v4.rst)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.numerics import codec
from neuroncore.numerics.formats import PACK, Format, float8_e8m0fnu

Array = npt.NDArray[Any]

ROWS = 8  # partitions that share a scale
# A bound on the exponents of scales. If scales within it are multiplied into the operands, no
# product or sum of 8-bit floats leaves float32's normal numbers. Then multiplying the scales first
# is as exact as multiplying them last.
NEAR = 45


def quantized(values: Array, element: Format, rule: str) -> tuple[Array, Array]:
    """Quantize values, shape [P, F]. Return the codes of the elements, shape [P, F/4, 4], and of
    the scales, shape [P/8, F/4]."""
    partitions, columns = values.shape[0], values.shape[1] // PACK
    groups = values.reshape(-1, ROWS, columns, PACK)
    scales = scales_of(np.abs(groups).max(axis=1).max(axis=-1), element, rule)
    elements = elements_of(groups, scales[:, None, :, None], element)
    return elements.reshape(partitions, columns, PACK), scales


def scales_of(amax: Array, element: Format, rule: str) -> Array:
    """Return the codes of the scales of groups. `amax` is the largest magnitude of each group."""
    emax = (element.max_code >> element.mantissa) - element.bias
    exponent = np.frexp(amax)[1] - 1 - emax + (rule == "ocp_x2")
    code = np.clip(exponent + float8_e8m0fnu.bias, 0, float8_e8m0fnu.max_code)
    code = np.where(amax == 0, 0, code)
    return np.where(np.isfinite(amax), code, float8_e8m0fnu.nan_code).astype(np.uint8)


def elements_of(groups: Array, scales: Array, element: Format) -> Array:
    """Return the codes of the elements, in the shape of `groups`. `scales` are the codes of the
    scales, with size 1 along the axes inside a group."""
    lost = scales == float8_e8m0fnu.nan_code
    inverse = np.where(lost, 0, float8_e8m0fnu.max_code - scales).astype(np.uint8)
    # infinity times the smallest scale, whose result is not used
    with np.errstate(invalid="ignore"):
        scaled = groups * codec.decode(float8_e8m0fnu, inverse)
    elements = codec.encode(element, scaled, saturate=True)
    if lost.any():
        elements[np.broadcast_to(lost, elements.shape)] = element.nan_code
    return elements


def near(scales: Array) -> bool:
    """Return whether all scales, given as codes, are between 2^-NEAR and 2^NEAR."""
    code_of_one = float8_e8m0fnu.bias
    return bool(scales.min() >= code_of_one - NEAR and scales.max() <= code_of_one + NEAR)


def neutral(values: Array, scales: Array) -> Array:
    """Return the codes of the scales, with scale 1 for groups whose values are all 0. A scale that
    is NaN stays NaN."""
    zeros = (values.reshape(len(scales), -1, values.shape[1]) == 0).all(axis=1)
    none = zeros & (scales != float8_e8m0fnu.nan_code)
    return np.where(none, scales.dtype.type(float8_e8m0fnu.bias), scales)


def scaled_by(values: Array, scales: Array) -> Array:
    """Return values, shape [K, n], multiplied by the scales of their groups. `scales`: codes of
    shape [groups, n]. A group is K / groups rows of one column."""
    groups = values.reshape(len(scales), -1, values.shape[1])
    factors = codec.decode(float8_e8m0fnu, scales)
    return (groups * factors[:, None, :]).reshape(values.shape)


Pattern = tuple[int, int]
PLACES = ("partition", "slot")  # the more significant digit of a tag

PATTERNS: tuple[Pattern, ...] = ((4, 16), (4, 12), (4, 8), (2, 8), (2, 4), (1, 4), (1, 2))
TAG_BITS = 4
TAGS_PER_WORD = 4  # in a word of 16 bits, the tag of the first column lowest (assumed)


def split(tags: Array, pattern: Pattern, places: str) -> tuple[Array, Array]:
    """Return (partition below A, slot below N / A): the position that each tag encodes. `places`
    names the more significant digit of a tag."""
    kept, among = pattern
    if places == "partition":
        return tags // (among // kept), tags % (among // kept)
    return tags % kept, tags // kept


def packed(tags: Array) -> Array:
    """Pack tags [K, M] into words [K, M / 4]."""
    four = tags.astype(np.uint16).reshape(len(tags), -1, TAGS_PER_WORD)
    words: Array = np.bitwise_or.reduce(four << (TAG_BITS * np.arange(TAGS_PER_WORD)), axis=2)
    return words.astype(np.uint16)


def unpacked(words: Array) -> Array:
    """Unpack words [K, M / 4] into tags [K, M]."""
    shifts = (TAG_BITS * np.arange(TAGS_PER_WORD)).astype(np.uint16)
    tags: Array = (words[:, :, None] >> shifts) & np.uint16((1 << TAG_BITS) - 1)
    return tags.reshape(len(words), -1).astype(np.intp)


def compress(weights: Array, pattern: Pattern) -> tuple[Array, Array]:
    """Compress weights, shape [N * G, M], where G is the number of groups of N adjacent rows.

    Return the values, shape [A * G, M], and words of tags, shape [A * G, M / 4]. Row r of the dense
    weights multiplies the numbers that `arranged` puts at the position of r.

    Raises UsageError for an unknown pattern, and if the number of rows is not a multiple of N or
    the number of columns is not a multiple of 4. Raises UsageError also if a column has more than A
    nonzero weights in a group; the message names the first such group and column."""
    kept, among = pattern
    rows, columns = weights.shape
    if pattern not in PATTERNS or rows % among or columns % TAGS_PER_WORD:
        known = ", ".join(f"{a}:{n}" for a, n in PATTERNS)
        raise UsageError(
            f"weights {rows} x {columns} don't fit the pattern {kept}:{among}: patterns are "
            f"{known}, the number of rows must be a multiple of {among}, and the number of "
            f"columns a multiple of {TAGS_PER_WORD}"
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
    """Return the moving tile, shape [A * G, N / A, n], for weights that `compress` has compressed.

    `moving`: a dense matrix, shape [N * G, n]"""
    kept, among = pattern
    groups, slots = len(moving) // among, among // kept
    if places == "partition":
        return moving.reshape(groups * kept, slots, -1)
    shape = groups * kept, slots, moving.shape[1]
    return moving.reshape(groups, slots, kept, -1).swapaxes(1, 2).reshape(shape)
