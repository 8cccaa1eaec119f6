"""Number formats of NeuronCores for numpy arrays, without a kernel: encode, decode, round, cast.

    >>> from neuroncore import numerics
    >>> numerics.round([1.03, 500.0], "float8_e4m3")
    array([ 1., inf], dtype=float32)

`dtype` is a name ("bfloat16", "float8_e4m3fn_x4", ...), a dtype of nki.language, numpy, ml_dtypes,
torch or jax, or a `cfp8`. Short names are those of other libraries: "bf16", "e5m2", "fp4". "e4m3"
and "fp8" are float8_e4m3fn, as in the OCP specification and torch; "float8_e4m3" is the older kind,
whose largest number is 240. (The runtime's FP32R is not described anywhere; "fp32r" means TF32.)

Arrays may be numpy's, torch's or jax's. Results are arrays of the same library.

`mode` is "nearest", ties to even, or "stochastic" (defined in `neuroncore.numerics.stochastic`).
Stochastic rounding depends only on `seed` and on the position of an element in the array, in C
order. `seed` is a number; or a `Stream`, which also names core, engine and instruction, to repeat
the rounding of an instruction. float32, integers and scales are rounded to nearest in any mode, as
on the device. A float that overflows becomes infinity, or in a format without infinity NaN. In a
format without infinity and NaN it becomes the largest number, and with `saturate` in any format.
Integers saturate.

All input is rounded to float32 first, as in the engines.
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
    """Return a configurable 8-bit float: float8_e5m2, float8_e4m3 or float8_e3m4 with another bias,
    from -64 to 120. With a larger bias the numbers are smaller: value = (-1)^s * 1.m * 2^(e -
    bias)."""
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
    """Return the codes of numbers as memory stores them: unsigned integers as wide as the format.

    The result has the shape of `values`. In a packed format, four numbers along the last axis
    become one code. If an array is rounded in several calls, `first` is the position of the first
    element of `values` in the whole array.

    Raises UsageError for anything that is not a number, format, mode or seed, or that can't be
    packed."""
    form, numbers = lookup_any(dtype), as_floats(values)
    if form.element is not None:
        if numbers.shape[-1:] == () or numbers.shape[-1] % PACK:
            raise UsageError(
                f"{form} packs four numbers; the last axis of {numbers.shape} is no multiple of 4"
            )
        codes = encode(numbers, form.element, mode, seed, saturate=saturate, first=first)
        return codec.pack(form, codes.reshape(*codes.shape[:-1], codes.shape[-1] // PACK, PACK))
    return _encoded(form, numbers, mode, seed, saturate, first)


def _encoded(
    form: Format, numbers: Array, mode: Mode, seed: int | Stream, saturate: bool, first: int = 0
) -> Array:
    """Return the codes of float32 numbers in a format that is not packed."""
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
    """Return the float32 values of codes: integers, or an array of the format's numpy type.

    The result has the shape of `codes`; for a packed format the last axis is four times as long.
    int32 and uint32 beyond 2^24 are rounded to nearest even.

    Raises UsageError for codes that are not as wide as the format."""
    form = lookup_any(dtype)
    return _values(form, _codes(codes, form))


def _values(form: Format, stored: Array) -> Array:
    """Return the float32 values of codes, whose numpy type has the width of the format."""
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
    """Return numbers rounded to a format, as float32 of the same shape. In mode "stochastic" the
    result is one of the two neighbors, at random.

    Arguments and errors are as for `encode`.
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
    """Return a copy of an array in another format, in the numpy type of that format.

    If the format stays the same, bits are copied. Otherwise numbers are converted through float32,
    so int32, int64 and float64 are rounded twice. A format without a numpy type becomes codes.

    Raises the errors of `encode`.
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
    numbers, target = _native(np.asarray(array)), lookup_any(dtype)
    if numbers.dtype.itemsize == WIDE and numbers.dtype.kind in "fiu":
        numbers = as_floats(numbers)
    source = lookup_any(numbers.dtype)
    if source is target:
        return numbers.copy()
    values: Array = numbers if source is float32 else _values(source, numbers)
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
    """Return a copy of an array in another format, rounded up or down at random, so that the mean
    error is 0. The same seed gives the same result. This is `cast` with mode "stochastic"."""
    return cast(array, dtype, "stochastic", seed, saturate=saturate)


def encodings(dtype: DType) -> Array:
    """Return every code of a format of up to 16 bits, in order: a structured array of 2^bits rows.

    Fields: `code`; `value` (float64, exact); `sign`, `exponent` and `fraction` (the fields of the
    code of a float); and `kind`: zero, subnormal, normal, infinity or nan.

    Raises UsageError for wider formats and packed ones.
    """
    form = lookup_any(dtype)
    if form.bits > 16 or form.element is not None:
        advice = f"use {form.element}" if form.element else "it has more than 16 bits"
        raise UsageError(f"there is no table of the codes of {form}: {advice}")
    fields: list[tuple[str, Any]] = [("code", np.uint16), ("value", np.float64), ("sign", np.uint8)]
    fields += [("exponent", np.uint16), ("fraction", np.uint16), ("kind", "U9")]
    count = 2 if form.kind == "bool" else 1 << form.bits
    table = np.zeros(count, fields)
    code = table["code"] = np.arange(count)
    with np.errstate(invalid="ignore"):  # signaling NaNs
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
    """The numbers that describe a format. Numbers that only floats have are None for integers."""

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
    """The number half a step above `max`. Smaller magnitudes are rounded to `max` or less; larger
    magnitudes overflow. This number itself overflows if the last bit of `max` is set."""
    infinity: int | None = None
    """The code of +infinity, or None."""
    nan: int | None = None
    """The code of the NaN that conversions produce, or None."""
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
    """Return the layout and the limits of a format.

    Raises UsageError for a name that no format has; the message has the most similar name.
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
    """Return the limits of a float format, with the names that numpy.finfo and torch.finfo use too.

    Raises UsageError for integers, which have only `info`.
    """
    limits = info(dtype)
    if limits.eps is None:
        raise UsageError(f"{limits.name} is not a float; neuroncore.numerics.info describes it")
    return limits


def compare_casts(values: npt.ArrayLike, dtypes: tuple[DType, ...] = FLOATS) -> Array:
    """Return numbers rounded to several formats: a structured array [formats, *values.shape].

    Fields: `dtype`; `value`, the float32 input; `code`; `result`, the value of the code; `error`,
    which is result - value; `ulps`, the error in steps of the format at the value (the step of
    integers is 1); and `outcome`. The outcome is exact, rounded, underflow (a number became 0),
    overflow (a number became infinity or NaN), saturated (a number beyond the format's largest
    number became this largest number), or nan."""
    numbers = as_floats(values)
    fields: list[tuple[str, Any]] = [("dtype", "U24"), ("value", np.float32), ("code", np.uint32)]
    fields += [("result", np.float32), ("error", np.float64), ("ulps", np.float64)]
    table = np.zeros((len(dtypes), *numbers.shape), [*fields, ("outcome", "U9")])
    for row, dtype in zip(table, dtypes, strict=True):
        form = lookup_any(dtype)
        if form.element is not None:
            raise UsageError(f"a code of {form} packs four numbers: compare {form.element}")
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
    """The result of rounding one number `draws` times.

    `z` and `lags` are distances in standard deviations. `z` is the distance of `ups` from its
    expected value; `lags` contains the distances of autocorrelations from 0. A distance of 4.5 or
    more has a probability of 1 in 150,000 and counts as a failure."""

    value: float
    below: float
    above: float
    fraction: float
    """(value - below) / (above - below): the expected share of results that are `above`."""
    draws: int
    ups: int
    """The number of results that were rounded away from 0."""
    bias: float
    """The mean of results - value, in steps."""
    variance: float
    """The variance of the results, in squared steps; fraction * (1 - fraction) is expected."""
    z: float
    lags: dict[int, float]
    """By n, the autocorrelation of results that are n elements apart, as a distance from 0."""

    @property
    def worst(self) -> float:
        """The largest magnitude among `z` and the values of `lags`."""
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

    The default value is 1 plus a fifth of a step. `results` are tested instead if given: numbers
    that were rounded elsewhere, for example on a device.

    Raises UsageError if the value needs no rounding or overflows, if the format has no stochastic
    rounding, if there are too few draws, or if a result is not a neighbor of the value."""
    form = lookup_any(dtype)
    if not stochastic.applies(form):
        raise UsageError(f"casts to {form} are not stochastic, only casts to narrower floats are")
    x = np.float32(as_floats(1 + form.eps / 5 if value is None else value))
    ends = [stochastic.encode_one(form, float(x), word) for word in (2**32 - 1, 0)]
    below, above = (codec.decode_one(form, code) for code in ends)
    if below == above or not np.isfinite([below, above]).all():
        raise UsageError(f"{x} always becomes {below}: it must lie between two numbers of {form}")
    drawn = (
        round(np.full(max(draws, 0), x), form, "stochastic", seed) if results is None else results
    )
    rounded = as_floats(drawn).reshape(-1)
    if rounded.size <= 2 * max(LAGS):
        raise UsageError(f"the test needs more than {2 * max(LAGS)} draws, but got {rounded.size}")
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
    """Return numbers as float32; float32 is not copied. Raises UsageError for anything that is not
    a number."""
    if isinstance(values, np.ndarray) and values.dtype is FLOAT:
        return values
    try:
        array = np.asarray(values)
        if array.dtype == object:  # Python's integers beyond 64 bits
            array = array.astype(np.float64)
        with np.errstate(over="ignore"):
            return array.astype(np.float32, casting="same_kind", copy=False)
    except (OverflowError, TypeError, ValueError) as error:
        raise UsageError(f"values must be numbers that float32 can hold: {error}") from None


def _native(array: Array) -> Array:
    """Return the numbers in this machine's byte order, which the formats assume."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _codes(codes: npt.ArrayLike, form: Format) -> Array:
    """Return codes as unsigned integers of the width of the format."""
    array = np.asarray(codes)
    if array.dtype == np.int64 and not isinstance(codes, np.ndarray):
        if ((array < 0) | (array >> 8 * form.itemsize > 0)).any():
            raise UsageError(f"codes of {form} are from 0 to 2^{8 * form.itemsize} - 1")
        array = array.astype(form.code_type)
    if array.dtype.itemsize != form.itemsize:
        raise UsageError(
            f"codes of {form} are {form.code_type}, or {form.numpy}; these are {array.dtype}"
        )
    return np.ascontiguousarray(_native(array)).reshape(array.shape).view(form.code_type)


def _least(form: Format) -> float:
    return form.min_normal if form.kind in ("float", "scale") else 0.0


def step(form: Format, values: Array) -> Array:
    """Return the distance between adjacent numbers of a format at the values, as float64."""
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
