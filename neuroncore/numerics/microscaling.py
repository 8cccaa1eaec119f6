"""Microscaling (MX): 32 narrow numbers, 8 rows of 4, share a power of two as their scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
