"""Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011):
random numbers as a function of a counter and a key."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from neuroncore.base.jit import compiled, generated, inlined
from neuroncore.numerics.loops.lanes import (
    LANES,
    Lanes,
    interleaved,
    lower_halves,
    splat,
    store_pairs,
)

Array = npt.NDArray[Any]

MULTIPLY0, MULTIPLY1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL0, WEYL1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
ZERO, ONE, TWO, THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
TOP = np.uint64(62)
BLOCK_STEP = LANES  # blocks computed at a time
BLOCK_WORDS = 4 * BLOCK_STEP


def _rounds(a: Any, b: Any, c: Any, d: Any, k0: Any, k1: Any, upper: Any) -> Any:
    """Return the four random words of a block, in the lower 32 bits. a, b, c, d are the words of
    the counter, and k0, k1 the words of the key, in 64 bits each. `upper` returns the upper half of
    64 bits."""
    for _ in range(10):
        x, y = MULTIPLY0 * (a & LOW), MULTIPLY1 * (c & LOW)
        a, b, c, d = upper(y) ^ b ^ k0, y & LOW, upper(x) ^ d ^ k1, x & LOW
        k0, k1 = (k0 + WEYL0) & LOW, (k1 + WEYL1) & LOW
    return a, b, c, d


_scalar_rounds = inlined(_rounds)


@inlined
def _upper(x: Any) -> Any:
    return x >> HALF


@inlined
def _block(low: Any, high: Any, key: Any, words: Any) -> None:
    """Set `words` to the four numbers of block number high * 2^64 + low."""
    words[0], words[1], words[2], words[3] = _scalar_rounds(
        low & LOW, low >> HALF, high & LOW, high >> HALF, key & LOW, key >> HALF, _upper
    )


@inlined
def _joined(state: Any, word: int) -> Any:
    return np.uint64(state[word]) | np.uint64(state[word + 1]) << HALF


@compiled
def draw(states: Array, out: Array) -> None:
    """Set `out`, shape [P, N], to the next numbers of every lane, and advance the states, shape [P,
    S, 6].

    A state is a counter of 128 bits and a key of 64 bits, least significant word first. Number n of
    a state is word n % 4 of block n // 4. The lane's number n comes from its state (n // 4) % S,
    where n is the counter of the first state. All S counters advance by 1 for each number."""
    streams, count = states.shape[1], out.shape[1]
    words = np.empty(4, np.uint64)
    for p in range(states.shape[0]):
        first = np.uint64(states[p, 0, 0])
        for s in range(streams):
            state = states[p, s]
            low, high, key = _joined(state, 0), _joined(state, 2), _joined(state, 4)
            fresh = True
            for i in range(count):
                if np.int64((first + np.uint64(i)) >> TWO) % streams == s:
                    if fresh or low & THREE == ZERO:
                        _block(low >> TWO | high << TOP, high >> TWO, key, words)
                        fresh = False
                    out[p, i] = np.uint32(words[np.int64(low & THREE)])
                else:
                    fresh = True
                low += ONE
                if low == ZERO:
                    high += ONE
            state[0], state[1] = np.uint32(low & LOW), np.uint32(low >> HALF)
            state[2], state[3] = np.uint32(high & LOW), np.uint32(high >> HALF)


@generated
def _blocks(typingctx: Any, out: Any, i: Any, low: Any, middle: Any, high: Any, key: Any) -> Any:
    """Set out[i : i + BLOCK_WORDS] to the words of BLOCK_STEP blocks.

    The first block has a counter of 128 bits: `low` and `middle` are 32 bits each, and `high` is
    the upper 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        low, middle, high, key = (splat(builder, v, BLOCK_STEP) for v in values[2:])
        blocks = (low + low.each(range(BLOCK_STEP))) & LOW
        counter = blocks, middle, high & LOW, high >> HALF
        a, b, c, d = _rounds(*counter, key & LOW, key >> HALF, Lanes.upper)
        pairs = interleaved(lower_halves(a, b), lower_halves(c, d))
        store_pairs(context, out, values[0], values[1], pairs)
        return context.get_dummy_value()

    return types.void(out, types.int64, *[types.uint64] * 4), generate


@compiled
def words(stream: Array, block: int, out: Array, ones: int) -> None:
    """Set `out` to the words of a stream, from the first word of `block` on, a multiple of
    BLOCK_STEP.

    `stream`: two 64-bit words: the upper part of the counter, and the key
    `out`: its memory must extend BLOCK_WORDS words past the end, because BLOCK_WORDS are written at
        a time
    `ones`: bits that are set in every word"""
    high, key = stream[0], stream[1]
    for i in range(0, out.shape[0], BLOCK_WORDS):
        number = np.uint64(block + i // 4)
        _blocks(out, i, number & LOW, number >> HALF, high, key)
    if ones != 0:
        for i in range(out.shape[0]):
            out[i] |= np.uint32(ones)


@compiled
def draw_blocks(states: Array, out: Array, row: Array) -> None:
    """Draw numbers as `draw` does, for one state per lane, BLOCK_STEP blocks at a time. Counters
    must stay below 2^64. `row` is scratch memory for the numbers of a lane and 2 * BLOCK_WORDS
    more."""
    count = out.shape[1]
    for p in range(states.shape[0]):
        state = states[p, 0]
        low, high, key = _joined(state, 0), _joined(state, 2), _joined(state, 4)
        # words at the start of the first step that are not used
        before = np.int64(low & np.uint64(BLOCK_WORDS - 1))
        first = (low >> TWO | high << TOP) & ~np.uint64(BLOCK_STEP - 1)
        for i in range(0, before + count, BLOCK_WORDS):
            number = first + np.uint64(i // 4)
            _blocks(row, i, number & LOW, number >> HALF, high >> TWO, key)
        for i in range(count):
            out[p, i] = row[before + i]
        low += np.uint64(count)
        state[0], state[1] = np.uint32(low & LOW), np.uint32(low >> HALF)
