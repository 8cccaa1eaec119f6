"""Narrow floats and integers from float32, round-to-nearest-even, over contiguous arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.native.jit import compiled, inlined

Array = npt.NDArray[Any]
U = np.uint32  # numba promotes uint32 <op> uint32 to uint64: narrow again after every step


@compiled
def bfloat16_from(bits: Array, out: Array) -> None:
    """uint32 bits of float32 -> uint16 codes: same exponent range, so only the rounding is left."""
    for i in range(bits.shape[0]):
        u = bits[i]
        magnitude = U(u & U(0x7FFFFFFF))
        odd = U(U(magnitude >> U(16)) & U(1))
        code = U(U(U(magnitude + U(0x7FFF)) + odd) >> U(16))
        code = U(0x7FC0) if magnitude > U(0x7F800000) else code
        out[i] = np.uint16(U(code | U(U(u >> U(16)) & U(0x8000))))


@compiled
def tfloat32_from(bits: Array, out: Array) -> None:
    """uint32 bits of float32 -> the same with the low 13 bits rounded away."""
    for i in range(bits.shape[0]):
        u = bits[i]
        magnitude = U(u & U(0x7FFFFFFF))
        odd = U(U(magnitude >> U(13)) & U(1))
        rounded = U(U(U(magnitude + U(0xFFF)) + odd) & U(0xFFFFE000))
        rounded = U(0x7FC00000) if magnitude > U(0x7F800000) else rounded
        out[i] = U(rounded | U(u & U(0x80000000)))


@compiled
def float32_from_bfloat16(codes: Array, out: Array) -> None:
    """uint16 codes -> uint32 bits of float32."""
    for i in range(codes.shape[0]):
        out[i] = U(U(codes[i]) << U(16))


@compiled
def float32_from_narrow(
    codes: Array, out: Array, shift: Any, sign_shift: Any, rebias: Any, min_normal: Any,
    min_subnormal: Any, infinity: Any, largest: Any,
) -> None:  # fmt: skip
    """8- or 16-bit codes -> uint32 bits of float32; every NaN becomes the canonical one.

    Subnormals are made from integers: reading them as float32 subnormals would be a hundred
    times slower on many processors.
    """
    for i in range(codes.shape[0]):
        code = U(codes[i])
        magnitude = U(code & U(U(U(1) << sign_shift) - U(1)))
        normal = U(U(magnitude << shift) + rebias)
        subnormal = np.float32(np.float32(np.int32(magnitude)) * min_subnormal).view(np.uint32)
        bits = subnormal if magnitude < min_normal else normal
        bits = U(0x7FC00000) if magnitude > largest else bits
        bits = U(0x7F800000) if magnitude == infinity else bits
        out[i] = U(bits | U(U(code >> sign_shift) << U(31)))


@inlined
def _narrow(
    u: Any, half: Any, shift: Any, rebias: Any, magic: Any,
    magic_bits: Any, min_normal: Any, overflow_from: Any, overflow: Any, nan: Any, sign_shift: Any,
) -> Any:  # fmt: skip
    """One float32 as the code of a format with fewer exponent bits.

    Adding `magic` lines the smallest subnormal up with the last bit of a float32, so that the
    processor's own rounding does the subnormals.
    """
    magnitude = U(u & U(0x7FFFFFFF))
    odd = U(U(magnitude >> shift) & U(1))
    normal = U(U(U(U(magnitude + half) + odd) >> shift) - rebias)
    aligned = np.float32(magnitude.view(np.float32) + magic)
    subnormal = U(aligned.view(np.uint32) - magic_bits)
    code = subnormal if magnitude < min_normal else normal
    code = overflow if magnitude >= overflow_from else code
    code = nan if magnitude > U(0x7F800000) else code
    return U(code | U(U(U(u >> U(31)) & U(1)) << sign_shift))


@compiled
def narrow_from(
    bits: Array, out: Array, half: Any, shift: Any, rebias: Any, magic: Any,
    magic_bits: Any, min_normal: Any, overflow_from: Any, overflow: Any, nan: Any, sign_shift: Any,
) -> None:  # fmt: skip
    """uint32 bits of float32 -> codes of a format with fewer exponent bits, 8 or 16 wide."""
    for i in range(bits.shape[0]):
        out[i] = _narrow(
            bits[i], half, shift, rebias, magic, magic_bits, min_normal,
            overflow_from, overflow, nan, sign_shift,
        )  # fmt: skip


@compiled
def integer_from(values: Array, out: Array, low: float, high: float) -> None:
    """float32 -> integers of any width: nearest even, then saturate; NaN is 0."""
    for i in range(values.shape[0]):
        x = np.rint(np.float64(values[i]))
        x = high if x > high else x
        x = low if x < low else x
        x = 0.0 if x != x else x
        out[i] = np.int64(x)
