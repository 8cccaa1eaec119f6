"""One legal call of an instruction with a format wherever that may stand, and what comes of it.

A recipe fills a device's tiles, issues the instruction and yields each result with the values it
should have: float32, which the test rounds once to the tile's format, or what was moved, as it is.
"""

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
from device import ten_bits

from neuroncore.numerics.formats import lookup

RECIPES = {}
FLOATS = (
    *("float32", "tfloat32", "bfloat16", "float16"),
    *("float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3fn"),
)
FORMS = (*FLOATS, "int8", "int16", "int32", "uint8", "uint16", "uint32", "bool")
SHAPE = (33, 5, 3)


def recipe(function):
    """Enter a recipe under the instruction's name."""
    assert function.__name__ not in RECIPES
    RECIPES[function.__name__] = function
    return function


def values(form, shape=SHAPE, seed=0):
    """Numbers of a format, the limits of integers among them; of packed formats and scales the
    codes. No -0."""
    rng, form = np.random.default_rng([seed, *shape]), lookup(form)
    if form.is_opaque:
        return rng.integers(0, 1 << form.bits, shape).astype(form.code_type)
    if form == "bool":
        return rng.random(shape) < 0.6
    if form.is_integer:
        low, high = (int(n) for n in form.range)
        small = rng.integers(max(low, -99), min(high, 99), shape, endpoint=True)
        return np.where(rng.random(shape) < 0.1, rng.choice([low, high], shape), small).astype(form)
    numbers = np.clip(rng.normal(size=shape) * 2, -9, 9).astype(np.float32)
    if form == "tfloat32":
        return ten_bits(numbers)
    rounded = numbers.astype(form)
    return np.where(rounded == 0, np.zeros(shape, form), rounded)


def put(device, raw, form, buffer="sbuf"):
    """A tile of what `values` gave."""
    form = lookup(form)
    return (
        device.tile(raw, buffer=buffer).view(form)
        if form.is_opaque
        else device.tile(raw, form, buffer)
    )


def given(device, form, shape=SHAPE, seed=0, buffer="sbuf"):
    """A tile of a format and what is in it."""
    raw = values(form, shape, seed)
    return put(device, raw, form, buffer), raw


def single(raw):
    """As the lanes compute with it."""
    return raw.astype(np.float32)


def column(raw):
    """[P, 1] values against those of 3 axes."""
    return single(raw).reshape(-1, 1, 1)


def fold(function, x):
    """From the left along the free axes as one, in float32: [P, 1]."""
    with np.errstate(all="ignore"):
        return function.accumulate(x.reshape(len(x), -1), axis=1, dtype=np.float32)[:, -1:]


def either(form, allowed, other="float32"):
    """The format where it may stand, else another."""
    return form if form in allowed else other
