"""An independent description of formats, and float32 values to test them."""

from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from neuroncore.numerics import codec, stochastic
from neuroncore.numerics.formats import FLOATS
from neuroncore.numerics.loops import stochastic as native

narrow = pytest.mark.parametrize("form", [f for f in FLOATS if f.bits <= 16], ids=str)

# exponent bits, mantissa bits, bias, infinities, NaN
LAYOUT = {
    "bfloat16": (8, 7, 127, True, True),
    "tfloat32": (8, 10, 127, True, True),
    "float16": (5, 10, 15, True, True),
    "float8_e5m2": (5, 2, 15, True, True),
    "float8_e4m3": (4, 3, 7, True, True),
    "float8_e3m4": (3, 4, 3, True, True),
    "float8_e4m3fn": (4, 3, 7, False, True),
    "float4_e2m1fn": (2, 1, 1, False, False),
}
IN_NUMPY = {name: np.dtype(name).type for name in LAYOUT if hasattr(ml_dtypes, name)}
IN_NUMPY["float16"] = np.float16


@cache
def magnitudes(name):
    """The finite values from 0 up, in the order of their codes."""
    exponent, mantissa, bias, infinite, nan = LAYOUT[name]
    steps = 1 << mantissa
    finite = ((1 << exponent) - 1) * steps if infinite else (1 << exponent) * steps - nan
    codes = np.arange(finite)
    field = np.maximum(codes // steps, 1)
    significand = codes % steps + np.where(codes >= steps, steps, 0)
    return np.ldexp(significand.astype(np.float64), field - bias - mantissa)


def overflow_code(name):
    """The code after the largest finite code, or the largest itself if there is none."""
    return len(magnitudes(name)) - (not LAYOUT[name][4])


def thresholds(name, value):
    """Return the code below |value|, and the number below which a random word leads to the next
    code, as a fraction; 2^32 if every word does."""
    table = magnitudes(name)
    size = Fraction(abs(float(value)))
    below = int(np.searchsorted(table, abs(float(value)), side="right")) - 1
    low = Fraction(table[below])
    last = below == len(table) - 1
    step = low - Fraction(table[below - 1]) if last else Fraction(table[below + 1]) - low
    return below, min(int((size - low) / step * 2**32), 2**32)


def around(name, count, seed=0):
    """Finite float32 of both signs: of any size, in and near the format's range, equal to its
    numbers, halfway between them, and next to those."""
    rng = np.random.default_rng(seed)
    exponent, mantissa, bias, *_ = LAYOUT[name]
    low = max(0, 127 - bias - mantissa - 4)
    high = min(254, 127 - bias + (1 << exponent) + 1)
    field = np.where(rng.random(count) < 0.8, rng.integers(low, high + 1, count), 0)
    field = np.where(field == 0, rng.integers(0, 255, count), field)
    fraction = rng.integers(0, 1 << 23, count)
    kept = rng.integers(0, 4, count)  # a quarter each: any, representable, halfway, next to halfway
    unit = 1 << 23 - mantissa
    exact = fraction // unit * unit
    near = exact + unit // 2 + rng.integers(-1, 2, count) * (kept == 3)
    fraction = np.where(kept == 0, fraction, np.where(kept == 1, exact, near))
    sign = rng.integers(0, 2, count)
    return (sign << 31 | field << 23 | fraction).astype(np.uint32).view(np.float32)


def neighbors(name):
    """Every value of an 8-bit format, all halves, quarters and eighths between, and their float32
    neighbors, of both signs, to above the largest; for wider formats a million values around their
    range."""
    if LAYOUT[name][0] + LAYOUT[name][1] > 7:
        return around(name, 1_000_000)
    table = magnitudes(name)
    table = np.append(table, table[-1] + np.arange(1, 5) * (table[-1] - table[-2]))
    parts = np.arange(8) / 8
    between = table[:-1, None] + parts * np.diff(table)[:, None]
    middle = between.reshape(-1).astype(np.float32)
    close = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    every = np.concatenate([middle, *close])
    return np.concatenate([every, -every])


def codes_with(form, values, words, saturate=False):
    """The codes of float32 values that are rounded stochastically with a given word each, by the
    loops of `stochastic.encode`."""
    values, out = codec.prepared(form, values, None, saturate)
    arrays = values.reshape(-1), words.reshape(-1), out.reshape(-1).view(form.code_type)
    numbers = stochastic._numbers(form)
    if numbers is stochastic.NONE:
        native.wide_from(*arrays)
    else:
        native.narrow_from(*arrays, numbers)
    return out
