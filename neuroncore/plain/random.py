"""The instructions that draw random numbers, and the generators of the lanes of the Vector and
GpSimd engines. They are Philox4x32-10 (Salmon et al., 2011), or shift registers if `Options.rng` is
hardware."""

from typing import Any

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.plain.elementwise import column
from neuroncore.plain.formats import Array, F

U32, U64 = np.uint32, np.uint64
LOW, HALF = U64(0xFFFFFFFF), U64(32)


def rng(i: Any) -> None:
    """dst[p, f] = the lowest bits of the next 32-bit random number of lane p"""
    i.dst.put(draw(i))


def rand2(i: Any) -> None:
    """dst[p, f] = min[p] + u * (max[p] - min[p]), u uniform in [0, 1)"""
    low, high = column(i.min), column(i.max)
    i.dst.set(uniform(i) * (high - low) + low)


def dropout(i: Any) -> None:
    """dst[p, f] = 0 if u < prob[p] else data[p, f], u uniform in [0, 1)"""
    i.dst.put(np.where(uniform(i) < column(i.prob), i.data.bits() * 0, i.data.bits()))


def set_rng_seed(i: Any) -> None:
    """all lanes of the Vector engine restart from the seed src_seeds[0, 0]"""
    seed(i.core, i.engine, int(i.src_seeds.bits()[0, 0]), 0)


def rand_set_state(i: Any) -> None:
    """state[p] = src_seeds[p, :]; 6 words for the GpSimd engine, 4 x 6 for the Vector engine"""
    words = states(i, i.src_seeds)
    words[...] = i.src_seeds.codes().reshape(words.shape)


def rand_get_state(i: Any) -> None:
    """dst[p, :] = state[p]; 6 words for the GpSimd engine, 4 x 6 for the Vector engine"""
    i.dst.put(states(i, i.dst).copy())


def seed(core: Any, unit: engine, number: int, program: int) -> None:
    """Restart all lanes of the engine `unit` from the seed `number`. The states have the shape
    [lanes, states per lane, words]. A state of Philox has 4 words of a counter and 2 words of a
    key. The states of other generators are random words from Philox that are not 0."""
    streams = 4 if unit is engine.vector and is_xorwow(core, unit) else 1
    lanes = core.machine.limits.partitions
    states = np.zeros((lanes, streams, 6), U32)
    states[..., 2] = np.arange(lanes)[:, np.newaxis]
    states[..., 3] = unit.value << 24 | np.arange(streams)
    states[..., 4], states[..., 5] = number, program
    if core.options.rng == "hardware":
        words = 6 if is_xorwow(core, unit) else 1
        states = draw_philox(states.reshape(-1, 1, 6), words) | U32(1)
    core.generators[unit] = states.reshape(lanes, streams, -1)


def is_xorwow(core: Any, unit: engine) -> bool:
    """Return whether the engine's generator is XORWOW, not the shift register of the Vector engine
    before v4."""
    return unit is engine.gpsimd or bool(core.machine.has("vector_random_state"))


def states(i: Any, tile: Any) -> Array:
    """Return the states [P, states per lane, words] of the lanes of a tile."""
    if i.engine not in i.core.generators:
        seed(i.core, i.engine, i.core.options.rng_seed, i.core.program)
    return i.core.generators[i.engine][tile.first : tile.first + tile.lanes]


def draw(i: Any) -> Array:
    """Return a random 32-bit number for each element of dst, [P, F]."""
    words, count = states(i, i.dst), i.dst.positions.size // i.dst.lanes
    if i.core.options.rng == "philox":
        return draw_philox(words, count)
    shift = draw_xorwow if is_xorwow(i.core, i.engine) else draw_lfsr
    # all states of a lane advance together
    rounds = [shift(words) for _ in range(-(-count // words.shape[1]))]
    return np.concatenate(rounds, 1)[:, :count]


def uniform(i: Any) -> Array:
    """Return a random number in [0, 1) for each element of dst, [P, F]: 24 bits, divided by
    2^24."""
    return (draw(i) >> 8).astype(F) * F(2.0**-24)


def draw_xorwow(states: Array) -> Array:
    """Advance the states, and return the next numbers of XORWOW (Marsaglia): the sums of a shift
    register and a counter."""
    x, y, z, w, v, d = (states[..., n].copy() for n in range(6))
    t = x ^ x >> U32(2)
    last, d = v ^ v << U32(4) ^ t ^ t << U32(1), d + U32(362437)
    states[...] = np.stack([y, z, w, v, last, d], -1)
    return last + d


def draw_lfsr(states: Array) -> Array:
    """Advance shift registers in Galois form by 32 shifts, and return their contents."""
    for _ in range(32):
        states[...] = states >> U32(1) ^ U32(0x80200003) * (states & U32(1))
    return states[..., 0].copy()


def draw_philox(states: Array, count: int) -> Array:
    """Advance the states, and return the next numbers, [lanes, count]. A counter counts all numbers
    of its lane. The states of a lane alternate every four numbers."""
    words = states.astype(U64)
    low, high, key = (words[..., n] | words[..., n + 1] << HALF for n in (0, 2, 4))
    n = np.arange(count, dtype=U64)
    turn = ((low[:, :1] + n >> U64(2)) % U64(states.shape[1])).astype(np.intp)
    begin, upper, keys = (np.take_along_axis(part, turn, 1) for part in (low, high, key))
    at = begin + n
    upper = upper + (at < begin)
    moved = low + U64(count)
    above = high + (moved < low)
    states[..., :4] = np.stack([moved & LOW, moved >> HALF, above & LOW, above >> HALF], -1)
    return philox(at, upper, keys)


def philox(low: Array, high: Array, key: Any) -> Array:
    """Return the numbers of Philox at 128-bit counts, in two halves. The upper 126 bits choose a
    block of four numbers, and the lowest 2 bits one of them."""
    a, b = (low >> U64(2) | high << U64(62)) & LOW, (low >> U64(2) | high << U64(62)) >> HALF
    c, d, k0, k1 = high >> U64(2) & LOW, high >> U64(2) >> HALF, key & LOW, key >> HALF
    for _ in range(10):
        x, y = U64(0xD2511F53) * a, U64(0xCD9E8D57) * c
        a, b, c, d = (y >> HALF) ^ b ^ k0, y & LOW, (x >> HALF) ^ d ^ k1, x & LOW
        k0, k1 = (k0 + U64(0x9E3779B9)) & LOW, (k1 + U64(0xBB67AE85)) & LOW
    return np.choose((low & U64(3)).astype(np.intp), np.broadcast_arrays(a, b, c, d)).astype(U32)
