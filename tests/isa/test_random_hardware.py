"""Generators of the kind that the device has (Options.rng="hardware"), and the R series of both
kinds."""

import numpy as np
import pytest
from device import TARGETS, Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import engine
from published_machines import since

from neuroncore.base.errors import TargetError

MASK = 0xFFFFFFFF
MARSAGLIA = [123456789, 362436069, 521288629, 88675123, 5783321, 6615241]
FIRST = [246875399, 3690007200, 1264581005, 3906711041]
KINDS = ["philox", "hardware"]
XORWOW = [("trn2", engine.gpsimd, 1), ("trn3", engine.gpsimd, 1), ("trn3", engine.vector, 4)]
EVERY = [*((t, engine.vector) for t in TARGETS), ("trn2", engine.gpsimd), ("trn3", engine.gpsimd)]


def hardware(target="trn2"):
    return Device(target, rng="hardware")


def xorwow(state):
    """Return the next number of a state, which it advances, in Python's integers."""
    x, y, z, w, v, d = state
    t = x ^ x >> 2
    v, old = (v ^ v << 4 ^ t ^ t << 1) & MASK, v
    state[:] = y, z, w, old, v, d + 362437 & MASK
    return v + state[5] & MASK


def get(device, lanes, unit, words):
    dst = device.empty((lanes, words), "uint32")
    device.issue("rand_get_state", dst, unit)
    return dst.numpy()


def put(device, states, unit):
    device.issue("rand_set_state", device.tile(np.asarray(states, np.uint32)), unit)


def seed(device, value):
    device.issue("set_rng_seed", device.tile(np.array([[value]], np.uint32)))


# --- R1: known numbers ----------------------------------------------------------------------------


def test_R1_the_reference_gives_marsaglias_numbers():
    state = MARSAGLIA.copy()
    assert [xorwow(state) for _ in range(4)] == FIRST


@pytest.mark.parametrize(("target", "unit", "streams"), XORWOW)
def test_R1_the_first_words_from_marsaglias_state(target, unit, streams):
    device = hardware(target)
    put(device, [MARSAGLIA * streams] * 5, unit)
    got = device.random((5, 4 * streams), engine=unit)
    assert np.array_equal(got, np.broadcast_to(np.repeat(FIRST, streams), got.shape))


@pytest.mark.parametrize(("target", "unit", "streams"), XORWOW)
@given(data=st.data())
def test_R1_xorwow_continues_from_any_state(target, unit, streams, data):
    word = st.one_of(st.integers(0, MASK), st.sampled_from([0, MASK]))
    states = [data.draw(st.lists(word, min_size=6, max_size=6)) for _ in range(streams)]
    count = data.draw(st.integers(1, 30))
    device = hardware(target)
    put(device, [[word for state in states for word in state]], unit)
    got = device.random((1, count), engine=unit)[0].tolist()
    cycles = -(-count // streams)  # all states of a lane advance together
    assert got == [xorwow(s) for _ in range(cycles) for s in states][:count]
    assert get(device, 1, unit, 6 * streams)[0].tolist() == [
        word for state in states for word in state
    ]


# --- the shift registers of v2 and v3 -------------------------------------------------------------

RECIPROCAL = 1 << 32 | 1 << 31 | 1 << 30 | 1 << 10 | 1  # the polynomial x^32 + x^22 + x^2 + x + 1


def times(a, b):
    """Return the product of polynomials over GF(2), modulo the register's polynomial; bit k belongs
    to x^k."""
    product = 0
    while b:
        product ^= a * (b & 1)
        a, b = a << 1, b >> 1
        a ^= RECIPROCAL * (a >> 32)
    return product


def power(exponent):
    """Return x to a power."""
    found, square = 1, 2
    while exponent:
        found = times(found, square) if exponent & 1 else found
        square, exponent = times(square, square), exponent >> 1
    return found


def test_the_register_has_the_longest_period():
    whole = 2**32 - 1
    primes = (3, 5, 17, 257, 65537)
    assert np.prod(primes) == whole and power(whole) == 1
    assert all(power(whole // prime) != 1 for prime in primes)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_next_number_is_the_register_after_32_shifts(target):
    """A shift to the right multiplies by x if the highest bit belongs to x^0."""

    def polynomial(word):
        return int(f"{word:032b}"[::-1], 2)

    drawn, step = hardware(target).random((128, 40)), power(32)
    for lane in (0, 1, 127):
        register = [polynomial(word) for word in drawn[lane]]
        assert register[1:] == [times(before, step) for before in register[:-1]]


# --- R2: seeds, states, low bits, distributions ---------------------------------------------------


@for_all("kind", KINDS)
@for_all("target", TARGETS)
def test_R2_a_seed_repeats_its_numbers(target, kind):
    device = Device(target, rng=kind)
    drawn = []
    for value in (7, 7, 8, 0):
        seed(device, value)
        drawn.append(device.random((64, 50)))
    assert np.array_equal(drawn[0], drawn[1])
    assert not any((drawn[0] == other).any(axis=1).all() for other in drawn[2:])
    assert np.array_equal(drawn[3], Device(target, rng=kind).random((64, 50)))


@for_all("kind", KINDS)
@for_all(("target", "unit", "streams"), XORWOW)
def test_R2_a_saved_state_continues_as_before(target, unit, streams, kind):
    device, other = Device(target, rng=kind), Device(target, rng=kind)
    device.random((128, 13), engine=unit)
    saved = get(device, 128, unit, 6 * streams)
    first = device.random((128, 30), engine=unit)
    for again in (device, other):
        put(again, saved, unit)
        assert np.array_equal(get(again, 128, unit, 6 * streams), saved)
        assert np.array_equal(again.random((128, 30), engine=unit), first)


@for_all("target, unit", EVERY)
def test_R2_narrow_integers_are_the_lowest_bits(target, unit):
    full = hardware(target).random((33, 7), engine=unit)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32"):
        narrow = hardware(target).random((33, 7), dtype, engine=unit)
        assert np.array_equal(narrow, full.astype(dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_R2_rand2_is_uniform(kind):
    device, bounds = Device("trn3", rng=kind), (-2.0, 6.0)
    dst = device.empty((128, 2048))
    device.issue("rand2", dst, *bounds)
    u = np.sort((dst.numpy().astype(np.float64).ravel() + 2) / 8)
    n = u.size
    assert u[0] >= 0 and u[-1] <= 1
    assert abs(u.mean() - 1 / 2) < 4.5 * (1 / 12 / n) ** 0.5
    assert abs(u.var() - 1 / 12) < 4.5 * (1 / 180 / n) ** 0.5
    ranks = np.arange(n + 1) / n  # Kolmogorov-Smirnov; one in a thousand exceeds 1.95
    assert max((u - ranks[:-1]).max(), (ranks[1:] - u).max()) * n**0.5 < 1.95


@pytest.mark.parametrize(("target", "unit"), EVERY)
def test_R2_every_bit_is_set_half_of_the_time_and_lanes_are_unrelated(target, unit):
    drawn = hardware(target).random((128, 512), engine=unit)
    ones = np.unpackbits(drawn.view(np.uint8)).reshape(-1, 32).sum(axis=0)
    assert (np.abs(ones - drawn.size / 2) < 5 * np.sqrt(drawn.size / 4)).all()
    x = drawn.astype(np.float64) / 2**32 - 0.5
    for axis, lag in ((0, 1), (1, 1), (1, 2), (1, 4), (0, 32)):
        moved = np.moveaxis(x, axis, 0)
        products = moved[lag:] * moved[:-lag]
        assert abs(products.sum()) < 5 * np.sqrt(products.size) / 12
    assert drawn.size - np.unique(drawn).size < 16


def test_R2_dropout_and_seeds_of_programs():
    device = hardware()
    dst, x = device.empty((128, 512)), device.tile(np.ones((128, 512), np.float32))
    device.issue("dropout", dst, x, 0.25)
    n = dst.numpy().size
    assert abs((dst.numpy() == 0).mean() - 0.25) < 4.5 * (0.1875 / n) ** 0.5
    other = hardware()
    other.core.program_id = 1
    assert (hardware().random((128, 64)) == other.random((128, 64))).mean() < 1e-3


# --- R3: generations ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_R3_generations_have_different_random_instructions(kind):
    devices = {target: Device(target, rng=kind) for target in TARGETS}
    for target, device in devices.items():
        device.random((4, 4))  # the Vector engine has rng on all
        states = (device.zeros((4, 6), "uint32"), device.zeros((4, 24), "uint32"))
        legal = {
            "gpsimd rng": lambda d=device: d.random((4, 4), engine=engine.gpsimd),
            "gpsimd state": lambda d=device, s=states: d.issue("rand_get_state", s[0]),
            "vector state": lambda d=device, s=states: d.issue(
                "rand_set_state", s[1], engine.vector
            ),
            "rand2": lambda d=device: d.issue("rand2", d.empty((4, 4)), 0.0, 1.0),
        }
        missing = set(legal)  # from the third generation on GpSimd has them, then Vector too
        if target in since(3):
            missing = {"vector state", "rand2"}
        if target in since(4):
            missing = set()
        for name, issue in legal.items():
            if name in missing:
                with pytest.raises(TargetError, match=target):
                    issue()
            else:
                issue()
