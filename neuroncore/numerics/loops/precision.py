"""Distances between results and the same results in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled, inlined

Array = npt.NDArray[Any]


@compiled
def distance(real: Array, exact: Array) -> tuple[float, float]:
    """Return the sums of (real - exact)^2 and of exact^2 over two vectors. The code uses eight
    partial sums to keep the processor's adders busy."""
    n = real.shape[0]
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = 0.0
    for i in range(0, n - 7, 8):
        x0, x1, x2, x3 = exact[i], exact[i + 1], exact[i + 2], exact[i + 3]
        x4, x5, x6, x7 = exact[i + 4], exact[i + 5], exact[i + 6], exact[i + 7]
        a0 += (real[i] - x0) ** 2
        a1 += (real[i + 1] - x1) ** 2
        a2 += (real[i + 2] - x2) ** 2
        a3 += (real[i + 3] - x3) ** 2
        a4 += (real[i + 4] - x4) ** 2
        a5 += (real[i + 5] - x5) ** 2
        a6 += (real[i + 6] - x6) ** 2
        a7 += (real[i + 7] - x7) ** 2
        b0 += x0 * x0
        b1 += x1 * x1
        b2 += x2 * x2
        b3 += x3 * x3
        b4 += x4 * x4
        b5 += x5 * x5
        b6 += x6 * x6
        b7 += x7 * x7
    for i in range(n - n % 8, n):
        a0 += (real[i] - exact[i]) ** 2
        b0 += exact[i] ** 2
    error = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))
    return error, ((b0 + b1) + (b2 + b3)) + ((b4 + b5) + (b6 + b7))


@inlined
def _exponent(x: Any) -> Any:
    """Return floor(log2 |x|) of a normal float64; -1023 for 0 and subnormals."""
    bits = np.float64(x).view(np.int64)
    return ((bits >> np.int64(52)) & np.int64(0x7FF)) - np.int64(1023)


@compiled
def ulps(real: Array, exact: Array, mantissa: int, least: int) -> tuple[int, float, float, float]:
    """Return the number of finite elements, and three figures about their errors |real - exact|.

    They are the sum of squares, the sum of squares in units in the last place of `exact`, and the
    largest error in such units. The second figure is the mean square error divided by the mean
    square unit, times the number of elements: a mean of ratios would be dominated by results near
    0.

    `mantissa`, `least`: the format has this many bits of fraction, and subnormals below 2^least"""
    count, error, units, greatest = 0, 0.0, 0.0, 0.0
    for i in range(real.shape[0]):
        difference = abs(real[i] - exact[i])
        if not difference < np.inf:
            continue
        count += 1
        place = np.int64(mantissa) - max(_exponent(exact[i]), np.int64(least))
        inverse = np.int64((place + np.int64(1023)) << np.int64(52)).view(np.float64)
        error += difference * difference
        units += 1.0 / (inverse * inverse)
        greatest = max(greatest, difference * inverse)
    return count, error, error / units * count if count else 0.0, greatest


@compiled
def largest(codes: Array, mask: Any) -> Any:
    """Return the largest magnitude among codes of floats. `mask` has the unsigned type of the
    codes, and removes the sign."""
    greatest = codes.dtype.type(0)
    for i in range(codes.shape[0]):
        greatest = max(greatest, codes.dtype.type(codes[i] & mask))
    return greatest


@compiled
def greatest(codes: Array) -> Any:
    """Return the largest magnitude among integers, where -n counts as n - 1."""
    greatest_so_far = codes.dtype.type(0)
    for i in range(codes.shape[0]):
        magnitude = codes.dtype.type(codes[i] ^ (codes[i] >> 31))
        greatest_so_far = max(greatest_so_far, magnitude)
    return greatest_so_far


@compiled
def lost(real: Array, exact: Array) -> tuple[int, int]:
    """Return how many elements have a finite error other than 0, and the sum of the binary
    exponents of their relative errors. The exact value 0 doesn't count."""
    count, total = 0, 0
    for i in range(real.shape[0]):
        difference = real[i] - exact[i]
        if difference != 0.0 and exact[i] != 0.0 and abs(difference) < np.inf:
            count += 1
            total += _exponent(difference) - _exponent(exact[i])
    return count, total
