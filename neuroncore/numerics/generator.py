"""The random numbers of the engines: a generator for each lane.

The device has shift registers on v2 and v3, and XORWOW on v4. Neither the constants nor the seeding
are published, so no one can reproduce the device's numbers. Three properties are published and hold
here. A state has six words, and each lane of v4's Vector engine has four states. A seed repeats a
sequence. A restored state continues its sequence.

`PHILOX` (Philox4x32-10) is the default. Number n of a lane depends only on the lane's state and n,
and not on the number of draws per call or on other lanes. `XORWOW` and `LFSR` resemble the device's
generators, for programs that save, set and compare states. They are placeholders: NOT THE DEVICE'S
BITS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.numerics.loops import philox
from neuroncore.numerics.loops import shift_registers as registers

Array = npt.NDArray[Any]


WORDS = 6  # words of a state (ISA)
WORD, ALL_SET = np.dtype(np.uint32), 0xFFFFFFFF


class Generator(NamedTuple):
    """A random number generator. The `streams` states of a lane provide its numbers in turn, shape
    [lanes, streams, 32-bit words]."""

    seeded: Callable[[int, int, int, int, int], Array]
    """(seed, core, unit, lanes, streams) -> states. The sequences of any two states have no
    numbers in common, not even if seed, core or unit differ."""
    draw: Callable[[Array, int], Array]
    """(states, count) -> the next 32-bit numbers of each lane, [lanes, count]. The states
    advance."""

    def uniform(self, states: Array, count: int) -> Array:
        """Return random float32 numbers in [0, 1): the upper 24 bits of each 32-bit number."""
        drawn = self.draw(states, count)
        np.right_shift(drawn, 8, out=drawn)
        numbers = buffers.floats(drawn.shape)
        # the numbers have 24 bits, so the conversion is exact
        np.copyto(numbers, drawn.view(np.int32), casting="same_kind")
        return np.multiply(numbers, np.float32(2.0**-24), out=numbers)


def _counters(seed: int, core: int, unit: int, lanes: int, streams: int) -> Array:
    """Return states of Philox, shape [lanes, streams, 6]: a counter of four words, and a key of
    two."""
    states = np.zeros((lanes, streams, WORDS), np.uint32)
    states[..., 2] = np.arange(lanes)[:, np.newaxis]
    states[..., 3] = unit << 24 | np.arange(streams)
    states[..., 4], states[..., 5] = seed, core
    return states


def _philox(states: Array, count: int) -> Array:
    numbers = buffers.array((len(states), count), WORD)
    if states.shape[1] > 1 or count < philox.BLOCK_WORDS or (states[:, 0, 1] == ALL_SET).any():
        philox.draw(states, numbers)
    else:
        philox.draw_blocks(states, numbers, np.empty(count + 2 * philox.BLOCK_WORDS, WORD))
    return numbers


def _words(words: int) -> Callable[[int, int, int, int, int], Array]:
    """Return a function that makes states of `words` words, drawn by Philox. No word is 0: a shift
    register of zeros never changes."""

    def seeded(seed: int, core: int, unit: int, lanes: int, streams: int) -> Array:
        counters = _counters(seed, core, unit, lanes, streams).reshape(-1, 1, WORDS)
        return (_philox(counters, words) | 1).reshape(lanes, streams, words)

    return seeded


def _drawing(loop: str) -> Callable[[Array, int], Array]:
    """Return a function that draws numbers with a loop of `loops.shift_registers`. All states of a
    lane advance together, as in a cycle of v4's Vector engine, and surplus numbers are dropped."""

    def draw(states: Array, count: int) -> Array:
        lanes, streams, _ = states.shape
        moving = np.ascontiguousarray(states.transpose(1, 2, 0))  # so that the loops run over lanes
        numbers = np.empty((-(-count // streams), streams, lanes), np.uint32)
        getattr(registers, loop)(moving, numbers)
        states[...] = moving.transpose(2, 0, 1)
        return np.ascontiguousarray(numbers.reshape(-1, lanes)[:count].T)

    return draw


PHILOX = Generator(_counters, _philox)

XORWOW = Generator(_words(WORDS), _drawing("xorwow"))
"""Marsaglia's generator with his constants. A state is a shift register of five words, x y z w v,
and a counter that is added to its output. It is an assumption that the device has these constants,
and its words in this order."""

LFSR = Generator(_words(1), _drawing("lfsr"))
"""A shift register of one word in Galois form, with the polynomial x^32 + x^22 + x^2 + x + 1 and
the period 2^32 - 1. A number is the register after 32 shifts. The length, the polynomial and the
number of shifts are assumptions."""
