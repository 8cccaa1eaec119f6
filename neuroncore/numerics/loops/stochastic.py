"""Stochastic rounding of float32 to narrow floats, as defined in `neuroncore.numerics.stochastic`.

Let f be the part of a magnitude that is cut off, as a fraction of the last place that is kept. The
magnitude is rounded up if its random word is below f * 2^32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled
from neuroncore.numerics.loops.codec import (
    EXPONENT,
    MAGNITUDE,
    any_nan,
    any_overflow,
    canonical,
    cut,
    kept,
)
from neuroncore.numerics.loops.lanes import STEP, Lanes, elementwise
from neuroncore.numerics.loops.philox import BLOCK_WORDS, words

Array = npt.NDArray[Any]

CHUNK = 1 << 11  # words per draw: they stay in the first-level cache


def _wide(width: int, u: Lanes, word: Lanes) -> Lanes:
    up = word < u << 32 - cut(width)
    return kept(width, u + u.all(1 << cut(width)).where(up, 0))


def _wide_or_nan(width: int, u: Lanes, word: Lanes) -> Lanes:
    return canonical(u, _wide(width, u, word))


def _steps(magnitude: Lanes, word: Lanes, least: Lanes, shift: Lanes, per_unit: Lanes) -> Lanes:
    """Return the code without its sign: the magnitude in units of the smallest subnormal.
    Floating-point arithmetic is exact here. `per_unit` is 1 divided by this unit."""
    count = magnitude.as_float() * per_unit.as_float()
    below = count.to_word()
    rest = (count - below.to_float()) * 2.0**32
    is_small = magnitude < least
    normal = (magnitude - least >> shift) + (least.all(1) << least.all(23) - shift)
    whole = below.where(is_small, normal)
    part = rest.to_word().where(is_small, magnitude << least.all(32) - shift)
    return whole + whole.all(1).where(word < part, 0)


def _narrow(
    width: int, u: Lanes, word: Lanes, ceiling: Lanes, nan: Lanes, down: Lanes, sign: Lanes,
    *rest: Lanes,
) -> Lanes:  # fmt: skip
    return _steps(u & MAGNITUDE, word, *rest) | u >> down & sign


def _narrow_or_special(
    width: int, u: Lanes, word: Lanes, ceiling: Lanes, nan: Lanes, down: Lanes, sign: Lanes,
    *rest: Lanes,
) -> Lanes:  # fmt: skip
    magnitude = u & MAGNITUDE
    code = _steps(magnitude.least(ceiling), word, *rest)
    return nan.where(magnitude > EXPONENT, code) | u >> down & sign


_wide_step = elementwise(any_nan, _wide, _wide_or_nan, upper=True)
_wide_one = elementwise(any_nan, _wide, _wide_or_nan, upper=True, single=True)
_narrow_step = elementwise(any_overflow, _narrow, _narrow_or_special)
_narrow_one = elementwise(any_overflow, _narrow, _narrow_or_special, single=True)


@compiled
def wide_from(values: Array, random: Array, out: Array) -> None:
    """Convert float32 to codes of bfloat16 or TF32, with one random word per value."""
    whole = values.shape[0] - values.shape[0] % STEP
    for i in range(0, whole, STEP):
        _wide_step((values, random), out, i, ())
    for i in range(whole, values.shape[0]):
        _wide_one((values, random), out, i, ())


@compiled
def narrow_from(values: Array, random: Array, out: Array, numbers: Array) -> None:
    """Convert float32 to codes of the format that `numbers` describes, with one random word per
    value."""
    n = numbers
    shared = (n[0], n[1], n[2], n[3], n[4], n[5], n[6])
    whole = values.shape[0] - values.shape[0] % STEP
    for i in range(0, whole, STEP):
        _narrow_step((values, random), out, i, shared)
    for i in range(whole, values.shape[0]):
        _narrow_one((values, random), out, i, shared)


@compiled
def rows_from(
    values: Array, out: Array, numbers: Array, stream: Array, first: int, pitch: int, ones: int
) -> None:
    """Convert float32 `values`, shape [rows, n], to codes of the same shape. Element [r, i] uses
    word first + r * pitch + i of the stream. `numbers` is empty for a format with the exponent of
    float32."""
    random = np.empty(CHUNK + 2 * BLOCK_WORDS, np.uint32)
    n = values.shape[1]
    for r in range(values.shape[0]):
        for begin in range(0, n, CHUNK):
            end = min(n, begin + CHUNK)
            word = first + r * pitch + begin
            skip = word % BLOCK_WORDS
            words(stream, (word - skip) // 4, random[: skip + end - begin], ones)
            taken = random[skip : skip + end - begin]
            if numbers.shape[0] == 0:
                wide_from(values[r, begin:end], taken, out[r, begin:end])
            else:
                narrow_from(values[r, begin:end], taken, out[r, begin:end], numbers)
