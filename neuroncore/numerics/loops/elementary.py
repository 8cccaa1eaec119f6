"""Elementary functions of float32 arrays, computed in float64 and rounded once.

Polynomials have relative errors below 1e-11: results are within 0.501 ulp (0.51 near zeros of the
derivatives, where large terms cancel). Explicit fused multiply-adds without library calls give the
same bits on every processor. Helpers take and return float64, and return NaN for NaN."""

from __future__ import annotations

from math import factorial, pi
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled, inlined
from neuroncore.numerics.loops.codec import ROUND
from neuroncore.numerics.loops.intrinsics import fma

Array = npt.NDArray[Any]

LOG2E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10  # their sum is ln 2
SQRT_HALF, SQRT_HALF_BITS = 0.7071067811865476, 0x3FE6A09E667F3BCD
SQRT_2_OVER_PI = 0.7978845608028654
PI_LOW = 1.2246467991473532e-16  # pi minus the nearest float64
TWO_OVER_SQRT_PI, ONE_OVER_SQRT_2PI = 1.1283791670955126, 0.3989422804014327
NEGATIVE_NAN = np.copysign(np.nan, -1.0)  # the result of invalid operations on x86 processors
TAN_PI_8, TAN_3PI_8 = 0.4142135623730951, 2.414213562373095

# Coefficients from the highest power down.
EXPM1 = tuple(1 / factorial(n) for n in range(12, 1, -1))  # (e^r - 1 - r) / r^2
ATANH = tuple(1 / n for n in range(27, 2, -2))  # (atanh z - z) / z^3 in z^2
ATANH_NEAR_0 = ATANH[-10:]  # enough terms for |z| < 0.172
SIN = tuple((-1) ** (n // 2) / factorial(n) for n in range(19, 2, -2))  # (sin y - y) / y^3 in y^2
ATAN = tuple((-1) ** (n // 2) / n for n in range(33, 2, -2))  # (atan z - z) / z^3 in z^2
# From mpmath: chebyfit(lambda u: q((7*u + 9)/16), [-1, 1], 18), where q(1/(1 + z/2)) is
# erfc(z) exp(z^2) (1 + z/2), for z from 0 to 14.
ERFC = (
    *(-4.976919184718073e-09, 4.805917987242776e-08, -5.925095422450466e-08),
    *(-2.96461334555136e-07, 9.429977120508221e-07, -4.973025219278158e-09),
    *(-5.6399149319158925e-06, 1.1031126027350826e-05, 1.657926455454116e-05),
    *(-0.00010535879886877556, 3.6435905632060696e-05, 0.0007931077286347769),
    *(-0.0010153095967314137, -0.007265694562633566, 0.00830745773747414),
    *(0.1114009418493911, 0.3318706832332613, 0.5559551406335601),
)
# From mpmath: chebyfit(lambda s: erf(sqrt(s))/sqrt(s), [0, 1], 11).
ERF = (
    *(9.428596956834164e-09, -1.5188281247335167e-07, 1.631035651387174e-06),
    *(-1.4913300906316395e-05, 0.00012054681918310599, -0.0008548304871782741),
    *(0.005223977154105304, -0.026866170586496874, 0.11283791670580423),
    *(-0.376126389031744, 1.1283791670955121),
)


# coefficients of odd and of even powers of u; short enough to be unrolled
ERFC_ODD, ERFC_EVEN = ERFC[0::2], ERFC[1::2]


@inlined
def _horner(x: Any, coefficients: Any) -> Any:
    p = coefficients[0]
    for i in range(1, len(coefficients)):
        p = fma(p, x, coefficients[i])
    return p


@inlined
def _within(x: Any, low: float, high: float) -> Any:
    """Return x, clipped to [low, high]."""
    return low if x < low else (high if x > high else x)


@inlined
def _reduced(x: Any) -> Any:
    """Return (2^k, e^r - 1) with x = k ln 2 + r and |r| <= ln(2) / 2."""
    shifted = fma(x, LOG2E, ROUND)
    k = shifted - ROUND
    r = fma(k, -LN2_LOW, fma(k, -LN2_HIGH, x))
    bits = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
    return np.int64(bits).view(np.float64), fma(_horner(r, EXPM1) * r, r, r)


@inlined
def _exp(x: Any) -> Any:
    scale, rest = _reduced(_within(x, -700.0, 700.0))
    return fma(scale, rest, scale)


@inlined
def _expm1(x: Any) -> Any:
    scale, rest = _reduced(_within(x, -700.0, 700.0))
    return fma(scale, rest, scale - 1.0)


@inlined
def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + _exp(-x))


@inlined
def _tanh(x: Any) -> Any:
    e = _expm1(2.0 * x)
    return np.copysign(e / (e + 2.0), x)


@inlined
def _twice_atanh(z: Any, coefficients: Any) -> Any:
    """Return 2 atanh(z) for |z| <= 1/3."""
    s = z * z
    return 2.0 * fma(_horner(s, coefficients) * s, z, z)


@inlined
def _log(x: Any) -> Any:
    """Return ln x of a positive normal float64 as k ln 2 + ln m, with m from sqrt(1/2) to
    sqrt(2)."""
    bits = np.float64(x).view(np.int64) - np.int64(SQRT_HALF_BITS)
    k = np.float64(bits >> np.int64(52))
    fraction = bits & np.int64(0xFFFFFFFFFFFFF)
    m = np.int64(fraction + np.int64(SQRT_HALF_BITS)).view(np.float64)
    rest = _twice_atanh((m - 1.0) / (m + 1.0), ATANH_NEAR_0)
    return fma(k, LN2_HIGH, fma(k, LN2_LOW, rest))


@inlined
def _softplus(x: Any) -> Any:
    """Return ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)."""
    t = _exp(-abs(x))
    return (0.0 if x < 0.0 else x) + _twice_atanh(t / (2.0 + t), ATANH)


@inlined
def _erfc_tail(z: Any) -> Any:
    """Return erfc(z) for z >= 0. Above 14 it is 0 in float32."""
    z = _within(z, 0.0, 14.0)
    t = 1.0 / (1.0 + 0.5 * z)
    u = (16.0 * t - 9.0) / 7.0
    return _exp(-(z * z)) * t * fma(_horner(u * u, ERFC_ODD), u, _horner(u * u, ERFC_EVEN))


@inlined
def _erf_middle(x: Any) -> Any:
    """Return erf x for |x| <= 1."""
    return x * _horner(x * x, ERF)


@inlined
def _erf(x: Any) -> Any:
    tail = 1.0 - _erfc_tail(abs(x))
    return _erf_middle(x) if abs(x) < 1.0 else (-tail if x < 0.0 else tail)


@inlined
def _normal_cdf(x: Any) -> Any:
    """Return Phi(x) = erfc(-x / sqrt 2) / 2, accurate in the lower tail."""
    z = abs(x) * SQRT_HALF
    half_tail = 0.5 * _erfc_tail(z)
    middle = 0.5 + 0.5 * _erf_middle(x * SQRT_HALF)
    return middle if z < 1.0 else (half_tail if x < 0.0 else 1.0 - half_tail)


@inlined
def _finite_below(x: Any) -> Any:
    """Return x, but replace -inf by a finite number. For -inf, x * sigmoid(x) and similar functions
    are 0."""
    return -1e30 if x < -1e30 else x


@inlined
def _sin(x: Any) -> Any:
    """Return sin x on [-pi, pi]. Beyond that range, return the cubic with which the Scalar engine
    extrapolates.

    The published sin(9) = 27.65 is the Taylor cubic at pi: -d + d^3/6 with d = x - pi
    (nki.api.shared.rst, note below the activation functions)."""
    y = abs(x)
    below_pi = (pi - y) + PI_LOW
    y = below_pi if y > pi / 2 else y
    s = y * y
    value = fma(_horner(s, SIN) * s, y, y)
    value = below_pi - below_pi * below_pi * below_pi / 6.0 if below_pi < 0.0 else value
    return value * np.copysign(1.0, x)


@inlined
def _arctan(x: Any) -> Any:
    """Return arctan x as start + arctan z. z is -1/x, (x - 1)/(x + 1) or x, depending on x. The
    operands of the quotient are chosen first, so one division is enough."""
    y = abs(x)
    far, middle = y > TAN_3PI_8, y > TAN_PI_8
    above = -1.0 if far else (y - 1.0 if middle else y)
    below = y if far else (y + 1.0 if middle else 1.0)
    z = above / below
    start = pi / 2 if far else (pi / 4 if middle else 0.0)
    s = z * z
    return np.copysign(start + fma(_horner(s, ATAN) * s, z, z), x)


# --- one loop per function: contiguous floats in, contiguous floats out, rounded to their type ----


@compiled
def exp(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = _exp(np.float64(x[i]))


@compiled
def sigmoid(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = _sigmoid(np.float64(x[i]))


@compiled
def tanh(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = _tanh(np.float64(x[i]))


@compiled
def log(x: Array, out: Array) -> None:
    """ln x; -inf at 0 and NaN for negative numbers, as in IEEE 754."""
    for i in range(x.shape[0]):
        v = np.float64(x[i])
        y = _log(v)
        y = v if v == np.inf or v != v else y
        y = -np.inf if v == 0.0 else y
        out[i] = np.nan if v < 0.0 else y


@compiled
def softplus(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = _softplus(np.float64(x[i]))


@compiled
def silu(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        v = _finite_below(np.float64(x[i]))
        out[i] = v * _sigmoid(v)


@compiled
def silu_dx(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        v = _within(np.float64(x[i]), -1e30, 1e30)
        s = _sigmoid(v)
        out[i] = s * (1.0 + v * _sigmoid(-v))


@compiled
def mish(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        v = _finite_below(np.float64(x[i]))
        out[i] = v * _tanh(_softplus(v))


@compiled
def erf(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = _erf(np.float64(x[i]))


@compiled
def erf_dx(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        v = np.float64(x[i])
        out[i] = TWO_OVER_SQRT_PI * _exp(-(v * v))


@compiled
def gelu(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        v = _finite_below(np.float64(x[i]))
        out[i] = v * _normal_cdf(v)


@compiled
def gelu_dx(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        # for smaller numbers only the sign of the result is left
        v = _within(np.float64(x[i]), -19.0, 1e30)
        out[i] = _normal_cdf(v) + v * ONE_OVER_SQRT_2PI * _exp(-0.5 * v * v)


@compiled
def gelu_tanh(x: Array, out: Array) -> None:
    """x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)"""
    for i in range(x.shape[0]):
        v = _finite_below(np.float64(x[i]))
        out[i] = v * _sigmoid(2.0 * SQRT_2_OVER_PI * (v + 0.044715 * v * v * v))


@compiled
def gelu_sigmoid(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        v = _finite_below(np.float64(x[i]))
        out[i] = v * _sigmoid(1.702 * v)


@compiled
def gelu_sigmoid_dx(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        v = _within(np.float64(x[i]), -1e30, 1e30)
        u = 1.702 * v
        out[i] = _sigmoid(u) * (1.0 + u * _sigmoid(-u))


@compiled
def sin(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = _sin(np.float64(x[i]))


@compiled
def arctan(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = _arctan(np.float64(x[i]))


@compiled
def rsqrt(x: Array, out: Array) -> None:
    """1 / sqrt(x): a quotient in the type of x, and one correction of third order. The error is at
    most 2^-60. This is several times as fast as a root and a quotient in float64."""
    for i in range(x.shape[0]):
        near = np.float64(x.dtype.type(1.0) / np.sqrt(x[i]))
        error = fma(-np.float64(x[i]) * near, near, 1.0)
        value = fma(fma(error, 0.375, 0.5) * error, near, near)
        out[i] = value if abs(error) < 1.0 else near  # 0, infinity and negative numbers get `near`


@inlined
def _power(a: Any, b: Any, power: Any) -> Any:
    """Return a to the b (C99, F.10.4.4). `power` is |a| to the b, or 1 to the b if a is 0.

    For a negative a, the result is negative if b is odd, and NaN if b is a fraction and both are
    finite."""
    of_zero = 0.0 if b > 0.0 else (np.inf if b < 0.0 else (1.0 if b == 0.0 else b))
    power = of_zero if a == 0.0 else power
    whole = np.rint(b) == b
    odd = whole & (np.rint(0.5 * b) != 0.5 * b)
    lost = (not whole) & (a > -np.inf) & (a < 0.0)
    value = -power if odd else (NEGATIVE_NAN if lost else power)
    value = value if b == b else (b if a == -1.0 else power)
    value = np.copysign(power, a) if (power != power) & (a != a) else value
    return value if np.copysign(1.0, a) < 0.0 else power


@compiled
def magnitudes(x: Array, out: Array) -> None:
    """out = |x|, with 1 in place of 0."""
    for i in range(x.shape[0]):
        out[i] = x.dtype.type(1.0) if x[i] == 0.0 else abs(x[i])


@compiled
def powers(of_magnitudes: Array, a: Array, b: Array, out: Array) -> None:
    """out = a to the power b, for float32 matrices. `of_magnitudes` has |a| (or 1 where a is 0) to
    the power b, in float64. `b` may have a single column."""
    step = np.int64(b.shape[1] > 1)
    for p in range(a.shape[0]):
        x, y, z, result = a[p], b[p], of_magnitudes[p], out[p]
        for j in range(z.shape[0]):
            result[j] = _power(np.float64(x[j]), np.float64(y[j * step]), z[j])


# --- the range of the engine's tables -------------------------------------------------------------

BLOCK = 1024  # elements that are tested together


@inlined
def _is_outside(size: Any, x: Any, low: Any, high: Any, most: Any) -> Any:
    return ((size < low) | (size > high)) & (abs(x) <= most) & (abs(x) > low - low)


@compiled
def first_outside(size: Array, x: Array, low: Any, high: Any, most: Any) -> int:
    """Return the first index where `size` is outside of the range, and `x` finite and not 0; -1 for
    none.

    `most`: the largest finite number. All arguments have one type, so that the first loop is
        vectorized."""
    for start in range(0, x.shape[0], BLOCK):
        sizes, numbers = size[start : start + BLOCK], x[start : start + BLOCK]
        any_outside = np.int32(0)
        for i in range(sizes.shape[0]):
            outside = _is_outside(sizes[i], numbers[i], low, high, most)
            any_outside |= np.int32(1) if outside else np.int32(0)
        if any_outside:
            for i in range(sizes.shape[0]):
                if _is_outside(sizes[i], numbers[i], low, high, most):
                    return start + i
    return -1
