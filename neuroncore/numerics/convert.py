"""Number formats of NeuronCores on numpy arrays, no kernel needed: encode, decode, round, cast.

    >>> from neuroncore import numerics
    >>> numerics.round([1.03, 500.0], "float8_e4m3")
    array([ 1., inf], dtype=float32)

`dtype` is a name ("bfloat16", "float8_e4m3fn_x4", ...), a dtype of nki.language, numpy, ml_dtypes,
torch or jax, or a `cfp8`. Short names are those of other libraries: "bf16", "e5m2", "fp4". "e4m3"
and "fp8" are float8_e4m3fn, as in the OCP specification and torch; "float8_e4m3" is the older kind,
up to 240. (Of the runtime's FP32R nothing is published; "fp32r" is taken for TF32.)

Arrays are numpy's, torch's or jax's, and results are of the same library.

`mode` is "nearest", ties to even, or "stochastic" (`neuroncore.numerics.stochastic` defines it),
which then depends on `seed` and on where in the array an element is, counted in C order, and on
nothing else. `seed` is a number or a `Stream` that names core, engine and instruction as well, to
repeat what an instruction did. float32, integers and scales are rounded to nearest in any mode, as
on the device. Floats overflow to infinity, NaN where a format has none, and the largest number
where it has neither; with `saturate` always to the largest. Integers saturate.

Everything is float32 first, as in the engines: other input is rounded to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.numerics import codec, quick, stochastic
from neuroncore.numerics.formats import (
    FLOATS,
    PACK,
    Format,
    Kind,
    biased,
    float32,
    lookup_any,
)
from neuroncore.numerics.libraries import of_any_library
from neuroncore.numerics.stochastic import Stream

Array = npt.NDArray[Any]
DType = npt.DTypeLike | str
Mode = Literal["nearest", "stochastic"]
MODES = get_args(Mode)

LAGS = (1, 2, 3, 4, 128, 512)
FLOAT = np.dtype(np.float32)
WIDE = 8  # bytes of numbers that no engine has


def cfp8(dtype: DType, bias: int) -> Format:
    """The configurable 8-bit float: float8_e5m2, float8_e4m3 or float8_e3m4 with another bias, from
    -64 to 120. A larger bias is for smaller numbers: value = (-1)^s * 1.m * 2^(e - bias)."""
    return biased(dtype, bias)


@of_any_library
def encode(
    values: npt.ArrayLike,
    dtype: DType,
    mode: Mode = "nearest",
    seed: int | Stream = 0,
    *,
    saturate: bool = False,
    first: int = 0,
) -> Array:
    """Return the codes of numbers, as memory holds them: unsigned integers as wide as the format.

    The result has the shape of `values`, but for a packed format, where four numbers along the last
    axis become one code. `first` is the number of the first element where `values` continues
    another array, so that parts can be rounded on their own.

    Raises UsageError for anything that is not a number, format, mode or seed, or doesn't pack.
    """
    form, numbers = lookup_any(dtype), as_floats(values)
    if form.element is not None:
        if numbers.shape[-1:] == () or numbers.shape[-1] % PACK:
            raise UsageError(
                f"{form} packs four numbers along the last axis; the shape is {numbers.shape}"
            )
        codes = encode(numbers, form.element, mode, seed, saturate=saturate, first=first)
        return codec.pack(form, codes.reshape(*codes.shape[:-1], codes.shape[-1] // PACK, PACK))
    return _encoded(form, numbers, mode, seed, saturate, first)


def _encoded(
    form: Format, numbers: Array, mode: Mode, seed: int | Stream, saturate: bool, first: int = 0
) -> Array:
    """The codes of float32 numbers in a format that is not packed."""
    if mode not in MODES:
        raise UsageError(f"mode is {mode!r}; it must be 'nearest' or 'stochastic'")
    if not isinstance(seed, int | np.integer | Stream):
        raise UsageError(f"seed is {seed!r}; it must be a whole number or a Stream")
    if not isinstance(first, int | np.integer) or not 0 <= first < 1 << 63:
        raise UsageError(f"first is {first!r}; it must be from 0 to 2^63 - 1")
    codes = np.empty(numbers.shape, form.storage)
    if mode == "nearest":
        codec.encode(form, numbers, codes, saturate=saturate)
    else:
        stream = seed if isinstance(seed, Stream) else Stream(int(seed))
        stochastic.encode(form, numbers, stream, codes, first=first, saturate=saturate)
    return codes.view(form.code_type)


@of_any_library
def decode(codes: npt.ArrayLike, dtype: DType) -> Array:
    """The float32 values of codes: integers, or an array of the format's own numpy type.

    The result has the shape of `codes`, but for a packed format, where the last axis is four times
    as long. int32 and uint32 beyond 2^24 are rounded to nearest even.

    Raises UsageError for codes that are not as wide as the format.
    """
    form = lookup_any(dtype)
    return _values(form, _codes(codes, form))


def _values(form: Format, stored: Array) -> Array:
    """The float32 values of codes, whose numpy type has the format's width."""
    if form.element is None:
        numbers = np.empty(stored.shape, np.float32)
        return codec.decode(form, stored.view(form.storage), numbers)
    elements = codec.unpack(form, np.atleast_1d(stored))
    *outer, last, _ = elements.shape
    return _values(form.element, elements.reshape(*outer, last * PACK))


@of_any_library
def round(
    values: npt.ArrayLike,
    dtype: DType,
    mode: Mode = "nearest",
    seed: int | Stream = 0,
    *,
    saturate: bool = False,
    first: int = 0,
) -> Array:
    """Return the nearest numbers that the format holds, or random neighbors: float32 of the same
    shape.

    Arguments and errors are those of `encode`.
    """
    codes = encode(values, dtype, mode, seed, saturate=saturate, first=first)
    rounded: Array = decode(codes, dtype)
    return rounded


def cast(
    array: npt.ArrayLike,
    dtype: DType,
    mode: Mode = "nearest",
    seed: int | Stream = 0,
    *,
    saturate: bool = False,
) -> Any:
    """Return a copy of an array in another format, in that format's numpy type.

    Equal formats are copied bit for bit; others go through float32, so that int32 is rounded twice,
    and so are float64 and int64. Formats without a numpy type are returned as codes.

    Raises UsageError as `encode` does.
    """
    if type(array) is not np.ndarray:
        return _cast_of_any_library(array, dtype, mode, seed, saturate)
    if mode == "nearest" and type(seed) is int and not saturate:
        small = quick.cast(array, dtype)
        if small is not None:
            return small
    return _cast(array, dtype, mode, seed, saturate)


def _cast(
    array: npt.ArrayLike, dtype: DType, mode: Mode, seed: int | Stream, saturate: bool
) -> Array:
    given, target = _native(np.asarray(array)), lookup_any(dtype)
    if given.dtype.itemsize == WIDE and given.dtype.kind in "fiu":
        given = as_floats(given)
    source = lookup_any(given.dtype)
    if source is target:
        return given.copy()
    values: Array = given if source is float32 else _values(source, given)
    if target is float32:
        return values
    codes: Array
    if target.element is not None:
        codes = encode(values, target, mode, seed, saturate=saturate)
    else:
        codes = _encoded(target, as_floats(values), mode, seed, saturate)
    return codes.view(target.numpy)


_cast_of_any_library = of_any_library(_cast)


def stochastic_round(
    array: npt.ArrayLike, dtype: DType, seed: int | Stream = 0, *, saturate: bool = False
) -> Any:
    """Return a copy of an array in another format, rounded up or down at random so that the mean
    is right. The same seed gives the same result. This is `cast` with mode "stochastic"."""
    return cast(array, dtype, "stochastic", seed, saturate=saturate)


def encodings(dtype: DType) -> Array:
    """Every code of a format of up to 16 bits, in order: a structured array of 2^bits rows.

    Fields: `code`, `value` (float64, exact), `sign`, `exponent` and `fraction` (the fields of a
    float's code), and `kind`: zero, subnormal, normal, infinity or nan.

    Raises UsageError for wider formats and packed ones.
    """
    form = lookup_any(dtype)
    if form.bits > 16 or form.element is not None:
        of = f"take its element, {form.element}" if form.element else "16 bits are the most"
        raise UsageError(f"there is no table of the codes of {form}: {of}")
    fields: list[tuple[str, Any]] = [("code", np.uint16), ("value", np.float64), ("sign", np.uint8)]
    fields += [("exponent", np.uint16), ("fraction", np.uint16), ("kind", "U9")]
    count = 2 if form.kind == "bool" else 1 << form.bits
    table = np.zeros(count, fields)
    code = table["code"] = np.arange(count)
    with np.errstate(invalid="ignore"):  # NaN that signal
        value = table["value"] = decode(code.astype(form.code_type), form).astype(np.float64)
    if form.kind in ("float", "scale"):
        table["sign"] = code >> form.exponent + form.mantissa
        table["exponent"] = code >> form.mantissa & (1 << form.exponent) - 1
        table["fraction"] = code & (1 << form.mantissa) - 1
    kinds = [value == 0, np.isnan(value), np.isinf(value), np.abs(value) < _least(form)]
    table["kind"] = np.select(kinds, ["zero", "nan", "infinity", "subnormal"], "normal")
    return table


@dataclass(frozen=True)
class Info:
    """A format's numbers. Numbers that only floats have are None for integers, and vice versa."""

    name: str
    bits: int
    """The bits of one element in memory."""
    kind: Kind
    max: float
    """The largest finite number."""
    min: float
    """The least finite number."""
    exponent_bits: int | None = None
    mantissa_bits: int | None = None
    bias: int | None = None
    min_normal: float | None = None
    min_subnormal: float | None = None
    eps: float | None = None
    """The gap between 1 and the next larger number."""
    overflow: float | None = None
    """Half a step above `max`. Smaller magnitudes are rounded to `max` or less, larger ones
    overflow. This number overflows if the last bit of `max` is set."""
    infinity: int | None = None
    """The code of +infinity; None where there is none."""
    nan: int | None = None
    """The code of the NaN that conversions make; None where there is none."""
    element: str | None = None
    """The element format of a packed format. The other numbers describe an element."""

    # --- names of numpy.finfo and torch.finfo ---

    @property
    def dtype(self) -> str:
        return self.name

    @property
    def tiny(self) -> float | None:
        return self.min_normal

    @property
    def smallest_normal(self) -> float | None:
        return self.min_normal

    @property
    def smallest_subnormal(self) -> float | None:
        return self.min_subnormal

    @property
    def nexp(self) -> int | None:
        return self.exponent_bits

    @property
    def nmant(self) -> int | None:
        return self.mantissa_bits


def info(dtype: DType) -> Info:
    """The layout and the limits of a format.

    Raises UsageError for any other name, with the nearest name of a format.
    """
    form = lookup_any(dtype)
    row = form.element or form
    if row.is_integer:
        low, high = row.range
        return Info(form.name, form.bits, form.kind, high, low)
    scale = row.kind == "scale"
    last = 2.0 ** ((row.max_code >> row.mantissa) - row.bias - row.mantissa)
    return Info(
        *(form.name, form.bits, form.kind, row.max, row.min_normal if scale else -row.max),
        *(row.exponent, row.mantissa, row.bias, row.min_normal),
        *(row.min_subnormal, row.eps, row.max + last / 2),
        codec.encode_one(row, math.inf) if row.infinite else None,
        codec.encode_one(row, math.nan) if row.nan else None,
        form.element and form.element.name,
    )


def finfo(dtype: DType) -> Info:
    """The limits of a float, under the names of numpy.finfo and torch.finfo as well.

    Raises UsageError for integers, which have only `info`.
    """
    found = info(dtype)
    if found.eps is None:
        raise UsageError(f"{found.name} is not a float; neuroncore.numerics.info describes it")
    return found


def compare_casts(values: npt.ArrayLike, dtypes: tuple[DType, ...] = FLOATS) -> Array:
    """Return numbers rounded to several formats: a structured array [formats, *values.shape].

    Fields: `dtype`; `value`, the float32 given; `code`; `result`, the value of the code; `error`,
    result - value; `ulps`, that error in steps of the format at the value (integers: in ones);
    `outcome`: exact, rounded, underflow (a number became 0), overflow (infinity or NaN), saturated
    (beyond the largest, and became it), or nan.
    """
    numbers = as_floats(values)
    fields: list[tuple[str, Any]] = [("dtype", "U24"), ("value", np.float32), ("code", np.uint32)]
    fields += [("result", np.float32), ("error", np.float64), ("ulps", np.float64)]
    table = np.zeros((len(dtypes), *numbers.shape), [*fields, ("outcome", "U9")])
    for row, dtype in zip(table, dtypes, strict=True):
        form = lookup_any(dtype)
        if form.element is not None:
            raise UsageError(f"{form} is four numbers in one: compare {form.element}")
        code = encode(numbers, form)
        result = decode(code, form)
        with np.errstate(invalid="ignore"):
            error = np.where(result == numbers, 0, result.astype(np.float64) - numbers)
        row["dtype"], row["value"], row["code"], row["result"] = form, numbers, code, result
        row["error"] = error
        row["ulps"] = error / step(form, numbers)
        row["outcome"] = _outcome(form, numbers, result)
    return table


@dataclass(frozen=True)
class Statistics:
    """How one number was rounded `draws` times. `z` are the distances from the expected
    values in standard deviations. Chance exceeds 4.5 once in 150,000 times: that is a failure."""

    value: float
    below: float
    above: float
    fraction: float
    """The fraction of the step from `below` to `above`: how often to round away from 0."""
    draws: int
    ups: int
    """The number of results that were rounded away from 0."""
    bias: float
    """The mean of the results less the value, in steps."""
    variance: float
    """The variance of the results, in steps squared; fraction * (1 - fraction) is expected."""
    z: float
    lags: dict[int, float]
    """z of the autocorrelation of results so many elements apart."""

    @property
    def worst(self) -> float:
        """The largest |z| of all."""
        return max(abs(self.z), *map(abs, self.lags.values()))


def stochastic_test(
    dtype: DType,
    value: float | None = None,
    draws: int = 1 << 22,
    seed: int | Stream = 0,
    *,
    results: npt.ArrayLike | None = None,
) -> Statistics:
    """Round one float32 value stochastically `draws` times, and test the results.

    The default of the value is 1 plus a fifth of a step. `results` are numbers that were rounded
    elsewhere, for example on a device, and are tested instead.

    Raises UsageError for a value that the format holds, or beyond its largest, for formats that are
    not rounded stochastically, and for fewer draws than the largest lag needs.
    """
    form = lookup_any(dtype)
    if not stochastic.applies(form):
        raise UsageError(f"casts to {form} are not stochastic; those to narrower floats are")
    x = np.float32(as_floats(1 + form.eps / 5 if value is None else value))
    ends = [stochastic.encode_one(form, float(x), word) for word in (2**32 - 1, 0)]
    below, above = (codec.decode_one(form, code) for code in ends)
    if below == above or not np.isfinite([below, above]).all():
        raise UsageError(f"{x} is not between two numbers of {form}, but becomes {below} always")
    drawn = (
        round(np.full(max(draws, 0), x), form, "stochastic", seed) if results is None else results
    )
    rounded = as_floats(drawn).reshape(-1)
    if rounded.size <= 2 * max(LAGS):
        raise UsageError(f"{rounded.size} draws are too few; more than {2 * max(LAGS)} are needed")
    if not np.isin(rounded, [below, above]).all():
        raise UsageError(f"results of {x} in {form} must be {below} or {above}")
    return _statistics(float(x), below, above, rounded == np.float32(above))


def _statistics(value: float, below: float, above: float, up: Array) -> Statistics:
    fraction = (value - below) / (above - below)
    spread = fraction * (1 - fraction)
    centred = up - fraction
    lags = {
        lag: float(np.mean(centred[:-lag] * centred[lag:]) / spread * (up.size - lag) ** 0.5)
        for lag in LAGS
    }
    bias = float(centred.mean())
    z = bias / (spread / up.size) ** 0.5
    ups, variance = int(np.count_nonzero(up)), float(np.var(up))
    return Statistics(
        value, below, above, fraction, up.size, ups, bias=bias, variance=variance, z=z, lags=lags
    )


def as_floats(values: npt.ArrayLike) -> Array:
    """Return numbers as float32; without a copy if they are float32 already.

    Raises UsageError for anything that is not a number.
    """
    if isinstance(values, np.ndarray) and values.dtype is FLOAT:
        return values
    try:
        given = np.asarray(values)
        if given.dtype == object:  # Python's integers beyond 64 bits
            given = given.astype(np.float64)
        with np.errstate(over="ignore"):
            return given.astype(np.float32, casting="same_kind", copy=False)
    except (OverflowError, TypeError, ValueError) as error:
        raise UsageError(f"values must be numbers that float32 can hold: {error}") from None


def _native(array: Array) -> Array:
    """The same numbers with the bytes in this machine's order, as formats are laid out."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _codes(codes: npt.ArrayLike, form: Format) -> Array:
    """Codes as unsigned integers of the format's width."""
    given = np.asarray(codes)
    if given.dtype == np.int64 and not isinstance(codes, np.ndarray):
        if ((given < 0) | (given >> 8 * form.itemsize > 0)).any():
            raise UsageError(f"codes of {form} are from 0 to 2^{8 * form.itemsize} - 1")
        given = given.astype(form.code_type)
    if given.dtype.itemsize != form.itemsize:
        raise UsageError(
            f"codes of {form} are {form.code_type}, or {form.numpy}; these are {given.dtype}"
        )
    return np.ascontiguousarray(_native(given)).reshape(given.shape).view(form.code_type)


def _least(form: Format) -> float:
    return form.min_normal if form.kind in ("float", "scale") else 0.0


def step(form: Format, values: Array) -> Array:
    """Return the distance between neighbors of a format at the values, float64."""
    if form.is_integer:
        return np.ones(values.shape)
    with np.errstate(invalid="ignore"):
        magnitude = np.clip(np.abs(values.astype(np.float64)), form.min_normal, form.max)
    exponent = np.frexp(np.nan_to_num(magnitude, nan=1.0))[1] - 1
    steps: Array = np.ldexp(1.0, exponent - form.mantissa)
    return steps


def _outcome(form: Format, values: Array, results: Array) -> Array:
    low = form.range[0] if form.is_integer else -form.max
    beyond = (values > form.max) | (values < low)
    outcomes = {
        "nan": np.isnan(values),
        "exact": values == results,
        "overflow": ~np.isfinite(results),
        "saturated": beyond & ((results == np.float32(form.max)) | (results == low)),
        "underflow": results == 0,
    }
    return np.select([*outcomes.values()], [*outcomes], "rounded")
