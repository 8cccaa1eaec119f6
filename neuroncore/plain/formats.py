"""Number formats, with ml_dtypes and numpy: values, rounding, codes of uninitialized memory."""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F = np.float32
PACKED = 4  # elements of a packed code


class Coding(NamedTuple):
    """A number format. `numpy` is numpy's type for its values, and `codes` the type for its bits. A
    code has `size` bytes. A float has `mantissa` stored bits in its mantissa, an exponent `bias`,
    and the largest number `max`. `element` names the format of the four numbers in a packed
    code."""

    name: str
    kind: str  # float, integer, bool, scale, packed
    numpy: Any
    codes: Any
    size: int
    mantissa: int = 0
    bias: int = 0
    max: float = 0.0
    element: str = ""

    @property
    def whole(self) -> bool:
        return self.kind in ("integer", "bool")


def _float(name: str, size: int, mantissa: int, bias: int) -> Coding:
    dtype = F if name == "tfloat32" else np.dtype(getattr(ml_dtypes, name, name))
    top = (2 - 2.0**-10) * 2.0**127 if dtype is F else float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    return Coding(name, "float", dtype, np.dtype(f"u{size}"), size, mantissa, bias, top)


_INTEGERS = [(f"{sign}int{8 * n}", n) for sign in ("", "u") for n in (1, 2, 4)]
_ELEMENTS = (("float8_e5m2", 4), ("float8_e4m3fn", 4), ("float4_e2m1fn", 2))
_ROWS = [
    *(_float("float32", 4, 23, 127), _float("tfloat32", 4, 10, 127), _float("bfloat16", 2, 7, 127)),
    *(_float("float16", 2, 10, 15), _float("float8_e5m2", 1, 2, 15)),
    *(_float("float8_e4m3", 1, 3, 7), _float("float8_e3m4", 1, 4, 3)),
    *(_float("float8_e4m3fn", 1, 3, 7), _float("float4_e2m1fn", 1, 1, 1)),
    *(Coding(name, "integer", np.dtype(name), np.dtype(name), n) for name, n in _INTEGERS),
    Coding("bool", "bool", np.uint8, np.dtype(np.uint8), 1),
    Coding("float8_e8m0fnu", "scale", ml_dtypes.float8_e8m0fnu, np.dtype(np.uint8), 1),
    *(Coding(f"{e}_x4", "packed", None, np.dtype(f"u{n}"), n, element=e) for e, n in _ELEMENTS),
]
FORMATS = {row.name: row for row in _ROWS}
FLOAT32, TFLOAT32, E4M3FN = (FORMATS[n] for n in ("float32", "tfloat32", "float8_e4m3fn"))


def decode(form: Coding, codes: Array) -> Array:
    """Return the float32 values of codes. Integers beyond 2^24 are rounded to nearest even."""
    return codes.view(form.numpy).astype(F)


def encode(form: Coding, values: Array, saturate: bool = False) -> Array:
    """Return the codes of float32 values, rounded to nearest even. Integers saturate, and NaN
    becomes 0. Floats overflow to infinity. float8_e4m3fn overflows to NaN, or to its largest number
    if `saturate`."""
    if form.kind == "bool":
        return (values != 0).astype(np.uint8)
    if form.whole:
        ends = np.iinfo(form.codes)
        whole = np.rint(np.where(np.isnan(values), 0, values).astype(np.float64))
        return np.clip(whole, ends.min, ends.max).astype(form.codes)
    if saturate and form is E4M3FN:
        values = np.clip(values, -form.max, form.max)
    bits = values.astype(form.numpy).view(form.codes)
    if form is TFLOAT32:  # the lower 13 of 32 bits are 0
        bits = bits + np.uint32(0xFFF) + (bits >> 13 & 1) & np.uint32(0xFFFFE000)
    if form is FLOAT32 or form.kind != "float":
        return bits
    sign = np.signbit(values).astype(np.int64) << (8 * form.size - 1)
    return np.where(np.isnan(values), (sign | nan(form)).astype(form.codes), bits)


def nan(form: Coding) -> int:
    """Return the code of the positive quiet NaN, or of the largest number in float4_e2m1fn."""
    if form is TFLOAT32 or form.kind == "scale":
        return 0x7FC00000 if form is TFLOAT32 else 0xFF
    code = 7 if form.mantissa == 1 else int(np.array(np.nan, form.numpy).view(form.codes))
    return code & ~(1 << (8 * form.size - 1))


def poison(form: Coding) -> int:
    """Return the code that an uninitialized element has: NaN, 4 for integers, 1 for booleans."""
    if form.kind == "packed":
        element = FORMATS[form.element]
        return sum(nan(element) << _width(form) * i for i in range(PACKED))
    if form.whole:
        return 1 if form.kind == "bool" else 4
    return nan(form)


def _width(form: Coding) -> int:
    """Return the number of bits of an element of a packed format."""
    return 8 * form.size // PACKED


def unpack(form: Coding, codes: Array) -> tuple[Coding, Array]:
    """Split packed codes. Return the format of their elements, and the code of each element; the
    new last axis has the four elements of a packed code."""
    width = _width(form)
    parts = [codes >> width * i & (1 << width) - 1 for i in range(PACKED)]
    return FORMATS[form.element], np.stack(parts, -1).astype(np.uint8)


def pack(form: Coding, codes: Array) -> Array:
    """Return packed codes. The last axis of `codes` has four elements."""
    shifts = np.arange(PACKED, dtype=np.uint32) * _width(form)
    return np.bitwise_or.reduce(codes.astype(np.uint32) << shifts, axis=-1).astype(form.codes)


def stochastic(form: Coding, values: Array, words: Array, saturate: bool) -> Array:
    """Return the codes of float32 values by stochastic rounding. A magnitude is rounded up if its
    random word is below floor(2^32 * f). f is the fraction that rounding down would cut off, in
    units of the last bit."""
    size = np.abs(values).astype(np.float64)
    exponent = np.maximum(np.frexp(size)[1] - 1, 1 - form.bias)
    steps = np.ldexp(np.where(np.isfinite(size), size, 0), form.mantissa - exponent)
    below = np.floor(steps)
    up = words < np.floor((steps - below) * 2.0**32)
    rounded = np.ldexp(below + up, exponent - form.mantissa)
    beyond = form.max if saturate and form is E4M3FN else np.inf
    rounded = np.where(np.isinf(size) | (rounded > form.max), beyond, rounded)
    return encode(form, np.copysign(np.where(np.isnan(values), values, rounded), values).astype(F))
