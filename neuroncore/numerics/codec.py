"""Conversion between float32 values and codes: the bits that a format has in memory.

`encode_one` and `decode_one` are the definition, in exact arithmetic; `encode` and `decode` do the
same for arrays. Rounding is to nearest even. Integers saturate (NKI 0.6.0 release notes). A float
that overflows becomes infinity, as in IEEE 754. In a format without infinity it becomes NaN, and in
a format without both it becomes the largest number. Codes of packed formats must be unpacked first
(`unpack`). `copy` copies large transposed arrays by compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.errors import UsageError
from neuroncore.base.lazy import Lazy
from neuroncore.numerics.formats import PACK, Format, bfloat16, float32, float64
from neuroncore.numerics.loops import codec as native
from neuroncore.numerics.loops import transpose

if TYPE_CHECKING:
    from fractions import Fraction


Array = npt.NDArray[Any]
FLOAT = np.dtype(np.float32)
WORDS = {n: np.dtype(f"u{n}") for n in (1, 2, 4)}  # unsigned types, by their size in bytes
LEAST = 1 << 11  # a compiled transpose is faster for matrices with at least this many elements
fractions: Any = Lazy("fractions")


def decode_one(form: Format, code: int) -> float:
    """Return the exact value of one code, the content of memory as an unsigned integer."""
    if form.is_integer:
        low, _ = form.range
        return float(code - (1 << form.bits) if low < 0 and code >> form.bits - 1 else code)
    if form.kind == "scale":
        return math.nan if code == form.nan_code else math.ldexp(1, code - form.bias)
    code >>= _padding(form)
    sign = -1.0 if code >> (form.exponent + form.mantissa) else 1.0
    magnitude = code & ((1 << form.exponent + form.mantissa) - 1)
    if magnitude == form.inf_code:
        return sign * math.inf
    if magnitude > form.max_code:
        return math.copysign(math.nan, sign)
    exponent, fraction = magnitude >> form.mantissa, magnitude & ((1 << form.mantissa) - 1)
    if exponent:
        fraction += 1 << form.mantissa
    return sign * math.ldexp(fraction, max(exponent, 1) - form.bias - form.mantissa)


def encode_one(
    form: Format,
    value: float,
    *,
    saturate: bool = False,
    rounded: Callable[[Fraction], int] = round,
) -> int:
    """Return the code of one float32 value: the content of memory as an unsigned integer.

    `rounded` rounds a magnitude, in units in the last place, to an integer. The default rounds to
    nearest, ties to even."""
    if form.kind == "bool":
        return int(value != 0)
    if form.is_integer:
        low, high = form.range
        whole = 0 if math.isnan(value) else _clamped(value, low, high)
        return whole % (1 << form.bits)
    if form.kind == "scale":
        return _scale_code(form, value)
    sign = (math.copysign(1.0, value) < 0) << (form.exponent + form.mantissa)
    magnitude = min(abs(value), form.max) if saturate else abs(value)
    return (sign | _magnitude_code(form, magnitude, rounded)) << _padding(form)


def _clamped(value: float, low: int, high: int) -> int:
    if math.isinf(value):
        return high if value > 0 else low
    nearest: int = round(fractions.Fraction(value))
    return min(max(nearest, low), high)


def _scale_code(form: Format, value: float) -> int:
    """Return the code of the nearest power of two; a tie goes to the even code. Smaller values, and
    0, get the smallest power. Negative numbers, infinity and NaN become NaN."""
    if not 0 <= value < math.inf:
        return form.nan_code
    fraction, exponent = math.frexp(value)  # 0.5 <= fraction < 1
    code = exponent - 1 + form.bias
    code += fraction > 0.75 or (fraction == 0.75 and code % 2 == 1)
    return min(max(code, 0), form.max_code) if value else 0


def _magnitude_code(form: Format, value: float, rounded: Callable[[Fraction], int]) -> int:
    if math.isnan(value):
        return form.nan_code
    overflow = form.nan_code if form.inf_code is None else form.inf_code
    if math.isinf(value):
        return overflow
    least = 1 - form.bias
    exponent = max(math.frexp(value)[1] - 1, least) if value else least
    place = fractions.Fraction(2) ** (exponent - form.mantissa)
    steps = rounded(fractions.Fraction(value) / place)
    code = ((exponent + form.bias - 1) << form.mantissa) + steps
    return overflow if code > form.max_code else code


def _padding(form: Format) -> int:
    """Return the number of low bits that the format does not use (TF32 in 32 bits)."""
    return form.bits - 1 - form.exponent - form.mantissa


# --- arrays ------------------------------------------------------------------------------------


def decode(form: Format, codes: Array, out: Array | None = None) -> Array:
    """Return the float32 values of `codes`, of the type `form.storage`, in the contiguous array
    `out` if given.

    Integers beyond 2^24 are rounded to nearest even. float64, which no engine has, stays unchanged;
    so does float32 without `out`."""
    if form is float64 or (form is float32 and out is None):
        return codes
    _not_packed(form)
    if out is None:
        out = buffers.floats(codes.shape)
    else:
        _check(out, codes)
    if form.is_integer or form.bits == 32:
        np.copyto(out, codes)
        return out
    if form.kind == "scale":
        native.float32_from_scales(buffers.contiguous(codes).reshape(-1), _bits(out))
        return out
    flat, bits = buffers.contiguous(codes).reshape(-1), _bits(out)
    if form is bfloat16:
        native.float32_from_bfloat16(flat, bits)
    else:
        native.float32_from_narrow(flat.view(form.code_type), bits, widening(form))
    return out


def encode(
    form: Format, values: Array, out: Array | None = None, *, saturate: bool = False
) -> Array:
    """Return the codes of float32 `values`, in the contiguous array `out` if given.

    With `saturate`, infinities and floats beyond the largest number of the format become this
    number."""
    if form is float64:
        return values.astype(np.float64)
    if form is float32 and out is None:
        return values
    values, out = prepared(form, values, out, saturate)
    if form is float32:
        np.copyto(out, values)
        return out
    flat, target = values.reshape(-1), out.reshape(-1)
    if form.is_integer:
        _encode_integers(form, flat, target)
    elif form.kind == "scale":
        native.scales_from(_bits(flat), target)
    elif form.exponent == float32.exponent:
        native.wide_from(flat, _as_codes(form, target))
    else:
        native.narrow_from(flat, _as_codes(form, target), narrow_numbers(form))
    return out


def _bits(numbers: Array) -> Array:
    return numbers.reshape(-1).view(np.uint32)


def _as_codes(form: Format, stored: Array) -> Array:
    """Return codes as unsigned integers, because numba has no float16."""
    return stored if form.storage is form.code_type else stored.view(form.code_type)


def prepared(form: Format, values: Array, out: Array | None, saturate: bool) -> tuple[Array, Array]:
    """Return contiguous float32 values, and an array for their codes. With `saturate`, values are
    clipped to the range of a float format."""
    _not_packed(form)
    if out is None:
        out = buffers.array(values.shape, form.storage)
    else:
        _check(out, values)
    if values.dtype is not FLOAT:
        values = values.astype(FLOAT)
    if saturate and form.is_float and form is not float32:
        values = np.clip(values, -form.max, form.max)
    return buffers.contiguous(values), out


def _check(out: Array, like: Array) -> None:
    """Raise UsageError unless `out` is contiguous and has the shape of `like`: the loops write
    without checks."""
    if out.shape != like.shape or not out.flags.c_contiguous:
        raise UsageError(
            f"out has shape {out.shape} and strides {out.strides}; "
            f"it must be contiguous and of shape {like.shape}"
        )


def _not_packed(form: Format) -> None:
    if form.element is not None:
        raise UsageError(f"a code of {form} packs four numbers: unpack it with codec.unpack")


def _encode_integers(form: Format, values: Array, out: Array) -> None:
    if form.kind == "bool":
        np.not_equal(values, 0, out=out.view(np.bool_))
    else:
        low, high = form.range
        native.integer_from(values, out, float(low), float(high))


@cache
def widening(form: Format) -> Array:
    """Return the numbers that `float32_from_narrow` needs for a format, as uint32:

    * the shifts of the fraction and of the sign, and the difference of the biases,
    * the smallest code of a normal number, and the codes of infinity and of the largest number,
    * the bits of the smallest subnormal."""
    none = (1 << form.exponent + form.mantissa) + 1
    constants = (
        23 - form.mantissa,
        form.exponent + form.mantissa,
        (127 - form.bias) << 23,
        1 << form.mantissa,
        none if form.inf_code is None else form.inf_code,
        form.max_code,
        np.float32(form.min_subnormal).view(np.uint32),
    )
    return np.array(constants, np.uint32)


@cache
def narrow_numbers(form: Format) -> Array:
    """Return the constants, as uint32, in the order in which the loops of `loops.codec` read them
    to encode a format with fewer exponent bits than float32."""
    width, shift = 8 * form.itemsize, 23 - form.mantissa
    least = 128 - form.bias
    # the code of infinity; without infinity, of NaN; without both, of the largest number
    overflow = form.max_code + form.nan
    steps = -(least << form.mantissa) % (1 << width)
    return np.array(
        [
            (overflow << shift) + ((127 - form.bias) << 23),
            form.nan_code,
            32 - form.bits,
            1 << form.bits - 1,
            least << 23,
            shift,
            (shift << 23) + steps,
        ],
        np.uint32,
    )


def unpack(form: Format, codes: Array, axis: int = -1) -> Array:
    """Return the codes of the four elements of each packed code, along a new axis."""
    element, mask = _element(form)
    parts = [(codes >> (element.bits * i) & mask).astype(element.storage) for i in range(PACK)]
    return np.stack(parts, axis)


def pack(form: Format, codes: Array) -> Array:
    """Return packed codes. The last axis of `codes` contains the codes of the four elements."""
    element, mask = _element(form)
    packed = np.zeros(codes.shape[:-1], form.storage)
    for i in range(PACK):
        packed |= (codes[..., i] & mask).astype(form.storage) << form.storage.type(element.bits * i)
    return packed


def _element(form: Format) -> tuple[Format, int]:
    if form.element is None:
        raise UsageError(f"{form} is not a packed format")
    return form.element, (1 << form.element.bits) - 1


def cast(source: Format, target: Format, codes: Array) -> Array:
    """Convert codes of one format to another format, through float32. For equal formats, return
    `codes` itself."""
    if source is target:
        return codes
    return encode(target, decode(source, codes))


def poison(form: Format) -> int:
    """Return the code that uninitialized memory shows: NaN for floats, 4 for integers and 1 for
    bool.

    All elements of a packed format are NaN; for float4_e2m1fn, which has no NaN, the code is 6.
    (The vendor's simulator shows NaN and 4 too: NKI simulator guide, "Uninitialized memory".)"""
    if form.element is not None:
        return sum(poison(form.element) << form.element.bits * i for i in range(PACK))
    return encode_one(
        form, math.nan if not form.is_integer else 1.0 if form.kind == "bool" else 4.0
    )


def mirrored(codes: Array) -> Array:
    """Return signed codes of floats as integers with the order of the floats, and +0 above -0. It
    is its own inverse."""
    sign = codes >> (codes.dtype.itemsize * 8 - 1)
    integers: Array = codes ^ (sign & np.iinfo(codes.dtype).max)
    return integers


def ranks(codes: Array, lost: bool = False) -> Array:
    """Return integers with the order of these floats, as `mirrored` does. NaN is above all numbers,
    or below if `lost`."""
    bottom, top = np.iinfo(codes.dtype).min, np.iinfo(codes.dtype).max
    infinity = {2: 0x7F80, 4: 0x7F800000, 8: 0x7FF << 52}[codes.dtype.itemsize]
    integers = mirrored(codes)
    integers[(codes & top) > infinity] = bottom if lost else top
    return integers


def copy(source: Array, target: Array) -> None:
    """Set target[...] = source for arrays of the same shape. Compiled code transposes large arrays
    that are contiguous along different axes."""
    axes = _dense(source, target)
    if axes is None or np.may_share_memory(source, target):
        target[...] = source
        return
    rows, columns = axes
    source, target = source.view(WORDS[source.itemsize]), target.view(WORDS[target.itemsize])
    if source.ndim == 2:
        transpose.turn(*(source.T, target) if rows == 0 else (source, target.T))
        return
    order = [axis for axis in range(source.ndim) if axis not in axes]
    matrices, into = (
        source.transpose(*order, columns, rows),
        target.transpose(*order, rows, columns),
    )
    for place in np.ndindex(into.shape[:-2]):
        transpose.turn(matrices[place], into[place])


def _dense(source: Array, target: Array) -> tuple[int, int] | None:
    """Return the axes along which `source` and `target` are contiguous.

    Return None if these are equal, if their matrix is small, or if no loop supports the
    elements."""
    steps, others, item = source.strides, target.strides, target.itemsize
    if steps[-1:] == others[-1:] or item not in WORDS or source.dtype != target.dtype:
        return None
    if item not in steps or item not in others:
        return None
    rows, columns = steps.index(item), others.index(item)
    if rows == columns or source.shape[rows] * source.shape[columns] < LEAST:
        return None
    return rows, columns
