"""Conversion of contiguous float32 arrays to narrow floats and integers, rounded to nearest even,
and back."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled
from neuroncore.numerics.loops.lanes import STEP, Lanes, elementwise

Array = npt.NDArray[Any]
U = np.uint32  # numba promotes uint32 <op> uint32 to uint64, so every step is narrowed again

SIGN, MAGNITUDE = 0x80000000, 0x7FFFFFFF  # of a float32
EXPONENT, QUIET_NAN = 0x7F800000, 0x7FC00000
ROUND = 6755399441055744.0  # 1.5 * 2^52: after adding it, the nearest integer is in the low bits


@compiled
def float32_from_bfloat16(codes: Array, out: Array) -> None:
    """Convert uint16 codes to the uint32 bits of float32."""
    for i in range(codes.shape[0]):
        out[i] = U(U(codes[i]) << U(16))


@compiled
def float32_from_narrow(codes: Array, out: Array, numbers: Array) -> None:
    """Convert 8- or 16-bit codes to the uint32 bits of float32. `numbers`:
    `numerics.codec.widening`.

    Every NaN becomes the canonical NaN. Subnormals are computed from integers: float32 subnormals
    are a hundred times slower on many processors."""
    shift, sign_shift, rebias = numbers[0], numbers[1], numbers[2]
    min_normal, infinity, largest = numbers[3], numbers[4], numbers[5]
    min_subnormal = U(numbers[6]).view(np.float32)
    for i in range(codes.shape[0]):
        code = U(codes[i])
        magnitude = U(code & U(U(U(1) << sign_shift) - U(1)))
        normal = U(U(magnitude << shift) + rebias)
        subnormal = np.float32(np.float32(np.int32(magnitude)) * min_subnormal).view(np.uint32)
        bits = subnormal if magnitude < min_normal else normal
        bits = U(0x7FC00000) if magnitude > largest else bits
        bits = U(0x7F800000) if magnitude == infinity else bits
        out[i] = U(bits | U(U(code >> sign_shift) << U(31)))


# --- scales: formats that have only an exponent --------------------------------------------------


@compiled
def float32_from_scales(codes: Array, out: Array) -> None:
    """Convert 8-bit codes to the uint32 bits of float32. Code 0 is half of the smallest normal
    number."""
    for i in range(codes.shape[0]):
        code = U(codes[i])
        bits = U(0x400000) if code == U(0) else U(code << U(23))
        out[i] = U(QUIET_NAN) if code == U(255) else bits


@compiled
def scales_from(bits: Array, out: Array) -> None:
    """Convert uint32 bits of float32 to the codes of the nearest powers of two; a tie goes to the
    even code.

    Half a step is added, less one unit if the code is even."""
    for i in range(bits.shape[0]):
        u = bits[i]
        code = U(U(u + U(U(U(u >> U(23)) & U(1)) + U(0x3FFFFF))) >> U(23))
        code = U(254) if code > U(254) else code
        code = U(u > U(0x600000)) if u < U(0x800000) else code
        code = U(255) if u >= U(EXPONENT) else code
        out[i] = U(0) if u == U(SIGN) else code


# --- formats with the exponent of float32: bfloat16, and TF32 in its container -------------------
# Formulas for `lanes.elementwise`: `u` has the bits of float32, `width` is the width of a code.
# Results are in the upper bits.


def cut(width: int) -> int:
    """Return how many low bits of a float32 a code does not store: 13 for TF32, 16 for bfloat16."""
    return 13 if width == 32 else 16


def any_nan(vectors: list[Lanes]) -> Lanes:
    """Return whether each lane may have a NaN in one of the vectors: their sum is NaN (also for
    opposite infinities)."""
    return reduce(add, [u.as_float() for u in vectors]).is_nan()


def kept(width: int, u: Lanes) -> Lanes:
    """Return the float32 bits `u` without the low bits that a code does not store (`cut`);
    unchanged for bfloat16, where only the upper 16 bits are stored."""
    return u & 0x100000000 - (1 << cut(width)) if width == 32 else u


def canonical(u: Lanes, rounded: Lanes) -> Lanes:
    """Return `rounded`, except for NaN: if u is a NaN, return the quiet NaN with the sign of u."""
    return (u & SIGN | QUIET_NAN).where(u.as_float().is_nan(), rounded)


def _nearest(width: int, u: Lanes) -> Lanes:
    """Round to nearest even: add half a step, less one unit if the last remaining bit is 0."""
    half = 1 << cut(width) - 1
    odd = (u & 1 << cut(width)) > 0
    return kept(width, u + u.all(half).where(odd, half - 1))


def _nearest_or_nan(width: int, u: Lanes) -> Lanes:
    return canonical(u, _nearest(width, u))


_wide_step = elementwise(any_nan, _nearest, _nearest_or_nan, upper=True)
_wide_one = elementwise(any_nan, _nearest, _nearest_or_nan, upper=True, single=True)


@compiled
def wide_from(values: Array, out: Array) -> None:
    """Convert float32 to codes of bfloat16 (16 bits) or TF32 (32 bits)."""
    whole = values.shape[0] - values.shape[0] % STEP
    for i in range(0, whole, STEP):
        _wide_step((values,), out, i, ())
    for i in range(whole, values.shape[0]):
        _wide_one((values,), out, i, ())


# --- formats with a smaller exponent --------------------------------------------------------------
# The constants of a format: `ceiling`, the float32 to which larger magnitudes are reduced; `nan`,
# the code of NaN; `down`, the shift of the sign from float32 to a code; `sign`, the mask of the
# sign in a code; `least`, the exponent of the smallest normal number; `shift`, the difference of
# mantissa bits; `magic`, see below.


def any_overflow(vectors: list[Lanes], ceiling: Lanes, *_: Lanes) -> Lanes:
    return reduce(Lanes.greatest, [u & MAGNITUDE for u in vectors]) > ceiling


def _steps(magnitude: Lanes, least: Lanes, shift: Lanes, magic: Lanes) -> Lanes:
    """Return the code without its sign; bits above its width are arbitrary.

    The addition of 2^(23 - mantissa) * P rounds: the last bits of the sum are the magnitude in
    steps of the format at P. P is the power of two of the magnitude, or the smallest normal number
    if that is greater. `exponent >> shift` adds 2^mantissa for each power of two up to P. `magic`
    is the exponent 23 - mantissa, minus the excess `least >> shift`."""
    exponent = (magnitude & EXPONENT).greatest(least)
    aligned = (magnitude.as_float() + (exponent + magic).as_float()).as_word()
    return aligned - exponent + (exponent >> shift)


def _narrow(
    width: int, u: Lanes, ceiling: Lanes, nan: Lanes, down: Lanes, sign: Lanes, *rest: Lanes
) -> Lanes:
    return _steps(u & MAGNITUDE, *rest) | u >> down & sign


def _narrow_or_special(
    width: int, u: Lanes, ceiling: Lanes, nan: Lanes, down: Lanes, sign: Lanes, *rest: Lanes
) -> Lanes:
    magnitude = u & MAGNITUDE
    code = _steps(magnitude.least(ceiling), *rest)
    return nan.where(magnitude > EXPONENT, code) | u >> down & sign


_narrow_step = elementwise(any_overflow, _narrow, _narrow_or_special)
_narrow_one = elementwise(any_overflow, _narrow, _narrow_or_special, single=True)


@compiled
def narrow_from(values: Array, out: Array, numbers: Array) -> None:
    """Convert float32 to the 8- or 16-bit codes of the format that `numbers` describes."""
    n = numbers
    shared = (n[0], n[1], n[2], n[3], n[4], n[5], n[6])
    whole = values.shape[0] - values.shape[0] % STEP
    for i in range(0, whole, STEP):
        _narrow_step((values,), out, i, shared)
    for i in range(whole, values.shape[0]):
        _narrow_one((values,), out, i, shared)


@compiled
def integer_from(values: Array, out: Array, low: float, high: float) -> None:
    """Convert float32 to integers of up to 32 bits, to nearest even. Numbers outside of `low` to
    `high` saturate; NaN becomes 0."""
    for i in range(values.shape[0]):
        x: Any = np.float64(values[i])
        x = high if x > high else x
        x = low if x < low else x
        x = 0.0 if x != x else x
        out[i] = np.float64(x + ROUND).view(np.int64)  # the low bits of the sum
