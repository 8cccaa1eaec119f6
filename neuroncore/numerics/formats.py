"""The number formats, one row each. Everything else about a format is derived from its row.

The layouts are from the page "Supported Data Types" of the NKI documentation. The largest number
distinguishes `float8_e4m3` (240, IEEE style, with infinities) from `float8_e4m3fn` (448, OCP). The
microscaling (MX) formats are from OCP Microscaling Formats 1.0. The page "MXFP Matrix
Multiplication" describes how four elements are packed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.base.lazy import Lazy

if TYPE_CHECKING:
    from neuroncore.numerics import names
else:
    names = Lazy("neuroncore.numerics.names")

Kind = Literal["float", "int", "uint", "bool", "scale", "packed"]
Held = Literal["engines", "memory", "packs", "nothing"]
PACK = 4  # elements of a packed format
BIAS = "_bias"  # a part of the names of formats that `biased` makes


class Format(str):
    """A number format. It is a `str`, like the dtypes of the API: it compares and prints like its
    name, and can be used as a key of a dict and as a numpy dtype.

    `exponent`, `mantissa` and `bias` describe floats: a sign, `exponent` bits and `mantissa` bits,
    with the value (-1)^s * 1.m * 2^(e - bias). `infinite` is True if the largest exponent is for
    infinities and NaN (IEEE style). It is False if numbers use the largest exponent too, and only a
    mantissa of all ones is NaN ("fn"). `nan` is True if the format has NaN, and `any_bias` if its
    bias can be set. A "scale" has only an exponent. A "packed" format consists of four codes of
    `element`, the first in the lowest bits.

    `held` is the part of a machine that supports the format. "engines": engines compute with the
    format. "memory": engines only move its codes and multiply matrices of them. "packs": it is the
    element of a packed format. "nothing": no part supports it. `feature` is the feature that a
    machine needs for the format, or None. `other_names` are other names in the API, and
    `short_names` are names in `neuroncore.numerics` only."""

    bits: int
    kind: Kind
    exponent: int
    mantissa: int
    bias: int
    infinite: bool
    nan: bool
    any_bias: bool
    element: Format | None
    held: Held
    feature: str | None
    other_names: tuple[str, ...]
    short_names: tuple[str, ...]

    def __new__(
        cls,
        name: str,
        bits: int,
        kind: Kind,
        exponent: int = 0,
        mantissa: int = 0,
        bias: int = 0,
        infinite: bool = True,
        nan: bool = True,
        any_bias: bool = False,
        element: Format | None = None,
        held: Held = "engines",
        feature: str | None = None,
        other_names: tuple[str, ...] = (),
        short_names: tuple[str, ...] = (),
    ) -> Format:
        self = str.__new__(cls, name)
        self.bits, self.kind = bits, kind
        self.exponent, self.mantissa, self.bias = exponent, mantissa, bias
        self.infinite, self.nan, self.any_bias = infinite, nan, any_bias
        self.element, self.held, self.feature = element, held, feature
        self.other_names, self.short_names = other_names, short_names
        return self

    def holds(self, other: Format) -> bool:
        """Return whether this format can represent all finite numbers of `other`; False unless both
        are floats or equal."""
        if self is other or not (self.is_float and other.is_float):
            return self is other
        finer = self.mantissa >= other.mantissa and self.min_subnormal <= other.min_subnormal
        return finer and self.max >= other.max

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies and pickles refer to this row."""
        base, mark, _ = str(self).partition(BIAS)
        return (biased, (base, self.bias)) if mark else (lookup, (base,))

    @property
    def name(self) -> str:
        return str(self)

    @cached_property
    def itemsize(self) -> int:
        """The bytes of one element in memory."""
        return self.code_type.itemsize

    @cached_property
    def is_float(self) -> bool:
        return self.kind == "float"

    @cached_property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint", "bool")

    @cached_property
    def is_opaque(self) -> bool:
        """True for packed formats and scales, which only some instructions accept: those that move
        data, and those with operands that name them, such as products of MX matrices."""
        return self.held == "memory"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type that users see. Packed formats are unsigned integers, unless another
        package has registered a type. TF32 is float32 with 13 low bits of 0."""
        if self == "tfloat32":
            return np.dtype(np.float32)
        try:
            return np.dtype(str(self))
        except TypeError:
            return self.code_type

    @cached_property
    def storage(self) -> np.dtype[Any]:
        """The numpy type of the codes in memory."""
        native = ("float64", "float32", "tfloat32", "float16")
        if (self.is_float or self.is_opaque) and self not in native:
            return self.code_type
        return np.dtype(np.uint8) if self.kind == "bool" else self.numpy

    @cached_property
    def code_type(self) -> np.dtype[Any]:
        """The unsigned integer type of the width of one element; 4 bits take a byte."""
        return np.dtype(f"uint{max(self.bits, 8)}")

    # --- derived numbers of a float ------------------------------------------------------------

    @cached_property
    def top(self) -> int:
        """The exponent field with all bits set, at its position in a code."""
        return ((1 << self.exponent) - 1) << self.mantissa

    @cached_property
    def nan_code(self) -> int:
        """The code of the positive quiet NaN, or of the largest number if the format has no NaN."""
        if not self.infinite:
            return self.top | ((1 << self.mantissa) - 1)
        return self.top | (1 << (self.mantissa - 1))

    @cached_property
    def inf_code(self) -> int | None:
        return self.top if self.infinite else None

    @cached_property
    def max_code(self) -> int:
        """The code of the largest finite number of a float."""
        return (self.top if self.infinite else self.nan_code) - self.nan

    @cached_property
    def max(self) -> float:
        if self.is_integer:
            return float(self.range[1])
        fraction = self.max_code & ((1 << self.mantissa) - 1)
        exponent = (self.max_code >> self.mantissa) - self.bias
        return float((1 + fraction / (1 << self.mantissa)) * 2.0**exponent)

    @cached_property
    def min_normal(self) -> float:
        """The smallest normal number. A scale has no subnormals; its smallest number has exponent
        field 0."""
        return float(2.0 ** ((self.kind != "scale") - self.bias))

    @cached_property
    def min_subnormal(self) -> float:
        return self.min_normal * 2.0**-self.mantissa

    @cached_property
    def eps(self) -> float:
        """The gap between 1 and the next larger value."""
        return float(2.0**-self.mantissa)

    @cached_property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer format."""
        if self.kind == "bool":
            return 0, 1
        signed = self.kind == "int"
        return -(1 << self.bits - 1) if signed else 0, (1 << self.bits - signed) - 1


float32 = Format(
    "float32", 32, "float", 8, 23, 127, short_names=("fp32", "f32", "float", "binary32")
)
tfloat32 = Format("tfloat32", 32, "float", 8, 10, 127, short_names=("tf32", "fp32r"))
bfloat16 = Format("bfloat16", 16, "float", 8, 7, 127, short_names=("bf16",))
float16 = Format("float16", 16, "float", 5, 10, 15, short_names=("fp16", "f16", "half", "binary16"))
float8_e5m2 = Format(
    "float8_e5m2",
    8,
    "float",
    5,
    2,
    15,
    any_bias=True,
    other_names=("float8e5",),
    short_names=("e5m2", "fp8_e5m2", "f8e5m2", "ocp_e5m2"),
)
float8_e4m3 = Format(
    "float8_e4m3",
    8,
    "float",
    4,
    3,
    7,
    any_bias=True,
    other_names=("float8e4",),
    short_names=("fp8_exp4", "f8e4m3"),
)
float8_e3m4 = Format(
    "float8_e3m4", 8, "float", 3, 4, 3, any_bias=True, short_names=("e3m4", "fp8_e3m4", "f8e3m4")
)
float8_e4m3fn = Format(
    "float8_e4m3fn",
    8,
    "float",
    4,
    3,
    7,
    infinite=False,
    feature="float8_e4m3fn",
    short_names=("e4m3fn", "e4m3", "fp8", "float8", "fp8_e4m3", "f8e4m3fn", "ocp_e4m3"),
)
int8 = Format("int8", 8, "int", short_names=("i8", "s8"))
int16 = Format("int16", 16, "int", short_names=("i16", "s16"))
int32 = Format("int32", 32, "int", short_names=("i32", "s32"))
uint8 = Format("uint8", 8, "uint", short_names=("u8",))
uint16 = Format("uint16", 16, "uint", short_names=("u16",))
uint32 = Format("uint32", 32, "uint", short_names=("u32",))
bool_ = Format("bool", 8, "bool", other_names=("bool_",))
float8_e8m0fnu = Format(
    "float8_e8m0fnu",
    8,
    "scale",
    8,
    0,
    127,
    infinite=False,
    held="memory",
    feature="mx",
    short_names=("e8m0", "e8m0fnu", "f8e8m0fnu", "ocp_e8m0"),
)
float8_e5m2_x4 = Format(
    "float8_e5m2_x4", 32, "packed", element=float8_e5m2, held="memory", feature="mx"
)
float8_e4m3fn_x4 = Format(
    "float8_e4m3fn_x4", 32, "packed", element=float8_e4m3fn, held="memory", feature="mx"
)
float4_e2m1fn = Format(
    "float4_e2m1fn",
    4,
    "float",
    2,
    1,
    1,
    infinite=False,
    nan=False,
    held="packs",
    short_names=("e2m1", "e2m1fn", "fp4", "f4e2m1fn", "ocp_e2m1"),
)
float4_e2m1fn_x4 = Format(
    "float4_e2m1fn_x4", 16, "packed", element=float4_e2m1fn, held="memory", feature="mx"
)
float64 = Format("float64", 64, "float", 11, 52, 1023, held="nothing")  # see `precision`

# Each row above is in the tables below whose condition it meets.
ROWS = tuple(row for row in list(globals().values()) if isinstance(row, Format))
FORMATS = {row.name: row for row in ROWS if row.held == "engines"}
OPAQUE = {row.name: row for row in ROWS if row.held == "memory"}
PACKED = tuple(row for row in ROWS if row.kind == "packed")
FLOATS = tuple(row for row in FORMATS.values() if row.is_float)
INTEGERS = tuple(row for row in FORMATS.values() if row.is_integer)
CONFIGURABLE = tuple(row for row in ROWS if row.any_bias)
# importing ml_dtypes registers the names of the narrow formats with numpy
assert ml_dtypes.bfloat16


BIASES = range(-64, 121)


def biased(dtype: npt.DTypeLike | str, bias: int) -> Format:
    """Return the configurable 8-bit float (cFP8) with the layout of `dtype` and another exponent
    bias.

    float8_e5m2, float8_e4m3 and float8_e3m4 can have the biases BIASES, with which all numbers are
    normal in float32. The description of NeuronCore-v3 mentions "adjustable exponent biasing for
    cFP8", but no API sets a bias, so no instruction takes these formats. Raises UsageError for
    another format or bias."""
    base = lookup(dtype)
    if base not in CONFIGURABLE:
        raise UsageError(
            f"the bias of {base} is fixed; only {', '.join(CONFIGURABLE)} can have another bias"
        )
    if bias not in BIASES:
        raise UsageError(f"the bias is {bias!r}; it must be from {BIASES[0]} to {BIASES[-1]}")
    return base if bias == base.bias else _biased(base, bias)


@cache
def _biased(base: Format, bias: int) -> Format:
    name = f"{base}{BIAS}{bias}"
    return Format(name, base.bits, "float", base.exponent, base.mantissa, bias)


TYPES = (np.dtype, type)


def lookup(dtype: npt.DTypeLike | str) -> Format:
    """Return the format for a dtype of the API, a numpy dtype or a name. Raises UsageError for
    anything else; the message has the most similar name."""
    return _lookup(dtype, _form_of_name)


def _lookup(dtype: Any, find: Callable[[str], Format]) -> Format:
    if isinstance(dtype, Format):
        return dtype
    return _of_type(dtype, find) if isinstance(dtype, TYPES) else find(name_of(dtype))


@cache
def _of_type(dtype: Any, find: Callable[[str], Format]) -> Format:
    return find(name_of(dtype))


def _form_of_name(name: str) -> Format:
    form = _named(ROWS).get(name)
    if form is None or form.held not in ("engines", "memory"):
        raise _unknown(name)
    return form


def lookup_any(dtype: npt.DTypeLike | str) -> Format:
    """Return the format for a dtype or name, as `lookup` does. This function also accepts elements
    of packed formats and names of other libraries.

    "e4m3" and "fp8" are float8_e4m3fn, as in the OCP specification, torch and vLLM."""
    return _lookup(dtype, _form_of_any_name)


def _form_of_any_name(name: str) -> Format:
    form = _by_any_name(ROWS).get(names.plain(name))
    return form or _form_of_name(name)


@cache
def _by_any_name(rows: tuple[Format, ...]) -> dict[str, Format]:
    known = (row for row in rows if row.held != "nothing")
    return {n: row for row in known for n in (str(row), *row.other_names, *row.short_names)}


@cache
def _named(rows: tuple[Format, ...]) -> dict[str, Format]:
    return {name: row for row in rows for name in (str(row), *row.other_names)}


def _unknown(name: str) -> UsageError:
    hint = (
        names.reason(name)
        or _meant(names.plain(name))
        or f"there are {', '.join(FORMATS | OPAQUE)}"
    )
    return UsageError(f"{name!r} is not a NeuronCore number format; {hint}")


def _meant(name: str) -> str | None:
    """Return a hint with the formats that a name may mean, or None."""
    if name == "e4m3":
        return (
            f"did you mean {str(float8_e4m3)!r} (up to 240) or {str(float8_e4m3fn)!r} (up to 448)?"
        )
    if name in ROWS:
        return "it is only the format of an element of packed formats"
    known = _by_any_name(ROWS)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {str(known[near[0]])!r}?" if near else None


def name_of(dtype: Any) -> str:
    """Return the name of a dtype of the API, of numpy or of torch."""
    if isinstance(dtype, str):
        return dtype
    if type(dtype).__module__.partition(".")[0] == "torch":
        return str(dtype).removeprefix("torch.")
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return str(dtype)
