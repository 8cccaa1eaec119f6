"""Stochastic rounding: up or down at random, so that the mean of many results is the exact value.

Let L <= |x| < H be adjacent numbers of the format, and R a random word of 32 bits. (Above the
largest number, H is one more step of the same size, and means overflow.) The magnitude becomes

    H  if R < floor((|x| - L) / (H - L) * 2^32)  else  L

so numbers of the format, zeros, infinities and NaN never change. This is the classical rule "add
random bits below the cut and truncate" (Gupta et al., ICML 2015), written as a comparison. The
device's number of random bits is not published; with `bits`, neuroncore uses fewer than 32.

An element with the number n gets word n of a `Stream` as R. Philox4x32-10 computes this word from n
and the fields of the stream, which identify the instruction. So an element gets the same word in
whatever order, on whatever thread and in however many parts a tile is rounded. Only casts from
float32 to narrower floats are stochastic (the vendor's description of
NEURON_RT_STOCHASTIC_ROUNDING_EN); other casts are to nearest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format, float32
from neuroncore.numerics.loops import philox
from neuroncore.numerics.loops import stochastic as native

if TYPE_CHECKING:
    from fractions import Fraction

Array = npt.NDArray[Any]

WORD = 32
NONE = np.empty(0, np.uint32)


class Stream(NamedTuple):
    """The identity of a sequence of random words: seed, core, engine, instruction and launch."""

    seed: int = 0
    """32 bits; 0 is the default of NEURON_RT_STOCHASTIC_ROUNDING_SEED."""
    core: int = 0
    """32 bits; cores of all ranks are numbered together."""
    engine: int = 0
    """8 bits: the engine, or a queue of the DMA engines, because each queue has a seed."""
    instruction: int = 0
    """32 bits: the number of instructions that the engine has issued before."""
    launch: int = 0
    """24 bits."""

    def words(self) -> Array:
        """Return two 64-bit words for `loops/philox.py`: the upper half of the counter (launch,
        engine, instruction), and the key (core, seed). Raises UsageError if a field has too many
        bits.

        The lower half of the counter counts blocks of four random words."""
        seed, core, engine, instruction, launch = self
        if (seed | core | instruction) >> 32 or engine >> 8 or launch >> 24:
            for name, value, bits in zip(self._fields, self, (32, 32, 8, 32, 24), strict=True):
                if value >> bits:
                    raise UsageError(f"{name} is {value}; it must be from 0 to 2^{bits} - 1")
        high = instruction | (engine << 24 | launch) << WORD
        return np.array([high, seed | core << WORD], np.uint64)


def applies(form: Format) -> bool:
    """Return whether casts to a format are stochastic when stochastic rounding is on."""
    return form.is_float and form is not float32


def encode_one(form: Format, value: float, word: int, *, saturate: bool = False) -> int:
    """Return the code of one float32 value for one random word. This is the definition, in exact
    arithmetic."""
    if not applies(form):
        return codec.encode_one(form, value, saturate=saturate)

    def rounded(steps: Fraction) -> int:
        below = floor(steps)
        return below + int(word < floor((steps - below) * 2**WORD))

    return codec.encode_one(form, value, saturate=saturate, rounded=rounded)


def encode(
    form: Format,
    values: Array,
    stream: Stream,
    out: Array | None = None,
    *,
    first: int = 0,
    pitch: int | None = None,
    bits: int = WORD,
    saturate: bool = False,
) -> Array:
    """Return the codes of float32 `values`, in the contiguous array `out` if given.

    `first`: the number of the first element
    `pitch`: the increase of the number from one row (last axis) to the next; for a part of a tile,
        the tile's columns
    `bits`: the random bits in each word"""
    if not applies(form):
        return codec.encode(form, values, out, saturate=saturate)
    values, out = codec.prepared(form, values, out, saturate)
    columns = values.shape[-1] if values.ndim else 1
    width = values.size if pitch in (None, columns) else columns
    rows = values.reshape(-1, width) if width else values.reshape(0, 0)
    target = out.reshape(rows.shape).view(form.code_type)
    numbers, ones = _numbers(form), _ones(bits)
    native.rows_from(rows, target, numbers, stream.words(), first, pitch or width, ones)
    return out


def words(stream: Stream, count: int, *, first: int = 0, bits: int = WORD) -> Array:
    """Return the words of `count` elements from element `first` on, as uint32. Only the upper
    `bits` bits are random; the others are ones."""
    skip = first % philox.BLOCK_WORDS
    drawn = np.empty(skip + count + philox.BLOCK_WORDS, np.uint32)
    philox.words(stream.words(), (first - skip) // 4, drawn[: skip + count], _ones(bits))
    return drawn[skip : skip + count]


def _ones(bits: int) -> int:
    """Return the lower bits, which are set in every random word: only the upper `bits` bits are
    random. So a word is never below a threshold with the same upper bits."""
    if not 1 <= bits <= WORD:
        raise UsageError(f"bits is {bits}; it must be from 1 to {WORD}")
    return (1 << WORD - bits) - 1


class Stochastic:
    """Stochastic rounding of one launch.

    Each instruction of each engine and core has separate random words, one for each element that it
    writes, in row-major order. Raises UsageError for a seed of more than 32 bits, and for more bits
    than a word has."""

    def __init__(self, seed: int, bits: int = WORD, saturate: bool = False) -> None:
        Stream(seed).words(), _ones(bits)  # only for the UsageError that they raise
        self.seed, self.bits, self.saturate = seed, bits, saturate
        self.issued: Counter[tuple[int, int]] = Counter()  # instructions, by core and engine
        self._last: dict[int, Stream] = {}
        self.begin(0, 0)

    def begin(self, core: int, engine: int) -> None:
        """Start the next instruction of an engine."""
        self._stream = Stream(self.seed, core, engine, self.issued[core, engine])
        self._last[core] = self._stream
        self.issued[core, engine] += 1
        self._first = 0

    def resume(self, core: int) -> None:
        """Continue with the last instruction of a core, after instructions of other cores."""
        self._stream, self._first = self._last[core], 0

    def __call__(self, form: Format, values: Array, out: Array | None = None) -> Array:
        """Return the codes of the next float32 values of the current instruction, as `encode`
        does."""
        if not applies(form):
            return codec.encode(form, values, out)
        first = self._first
        self._first += values.size
        saturate, bits = self.saturate and not form.infinite, self.bits
        return encode(form, values, self._stream, out, first=first, bits=bits, saturate=saturate)


def rounding(options: Options) -> Callable[..., Array]:
    """Return the function that rounds results in a launch with these options."""
    saturate = options.fn_overflow == "saturate"
    if options.stochastic:
        return Stochastic(options.stochastic_seed, options.stochastic_bits, saturate)
    return saturated if saturate else codec.encode


def saturated(form: Format, values: Array, out: Array | None = None) -> Array:
    """Return the codes of `codec.encode`, but the largest number for an overflow in a format
    without infinities."""
    return codec.encode(form, values, out, saturate=not form.infinite)


@cache
def _numbers(form: Format) -> Array:
    """Return the constants for the loops that round to a format; empty if the format has as many
    exponent bits as float32."""
    if form.exponent == float32.exponent:
        return NONE
    numbers = codec.narrow_numbers(form).copy()
    numbers[-1] = np.float32(1 / form.min_subnormal).view(np.uint32)
    return numbers
