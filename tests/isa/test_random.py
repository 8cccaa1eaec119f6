"""rng, rand2, dropout and the states of their generators."""

from itertools import product

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import engine

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
GENERATORS = [
    *((target, engine.vector) for target in TARGETS),
    ("trn2", engine.gpsimd),
    ("trn3", engine.gpsimd),
]
STATEFUL = [("trn2", engine.gpsimd, 6), ("trn3", engine.gpsimd, 6), ("trn3", engine.vector, 24)]
MASK = 0xFFFFFFFF


def philox(counter, key):
    """Return the four words of one block of Philox4x32-10, as its paper defines it."""
    a, b, c, d = (counter >> 32 * i & MASK for i in range(4))
    low, high = key & MASK, key >> 32
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = y >> 32 ^ b ^ low, y & MASK, x >> 32 ^ d ^ high, x & MASK
        low, high = low + 0x9E3779B9 & MASK, high + 0xBB67AE85 & MASK
    return a, b, c, d


def after(words, count):
    """Return the numbers that follow from a state (6 words or four times 6), and the state after
    them."""
    states = [words[i : i + 6] for i in range(0, len(words), 6)]
    counters = [sum(int(w) << 32 * i for i, w in enumerate(s[:4])) for s in states]
    keys = [int(s[4]) | int(s[5]) << 32 for s in states]
    numbers = []
    for _ in range(count):
        turn = counters[0] // 4 % len(states)
        counter, key = counters[turn], keys[turn]
        numbers.append(philox(counter // 4, key)[counter % 4])
        counters = [(c + 1) % 2**128 for c in counters]
    for state, counter in zip(states, counters):
        state[:4] = [counter >> 32 * i & MASK for i in range(4)]
    return numbers, [w for s in states for w in s]


def state(device, lanes, unit, words):
    dst = device.empty((lanes, words), "uint32")
    device.issue("rand_get_state", dst, unit)
    return dst.numpy()


def seed(device, value, dtype="uint32"):
    device.issue("set_rng_seed", device.tile(np.array([[value]], dtype)))


# --- the generator --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**128 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            0x0370734413198A2E85A308D3243F6A88, 0x299F31D0A4093822,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)  # fmt: skip
def test_the_published_answers_of_philox(counter, key, words):
    assert [f"{w:08x}" for w in philox(counter, key)] == words.split()


@pytest.mark.parametrize(("target", "unit", "words"), STATEFUL)
@given(data=st.data())
def test_numbers_depend_only_on_the_state(target, unit, words, data):
    word = st.one_of(st.integers(0, MASK), st.sampled_from([0, MASK, MASK - 2]))
    given_state = data.draw(st.lists(word, min_size=words, max_size=words))
    count = data.draw(st.integers(1, 40))
    device = Device(target)
    device.issue("rand_set_state", device.tile(np.array([given_state], np.uint32)), unit)
    want, left = after(given_state, count)
    assert device.random((1, count), engine=unit)[0].tolist() == want
    assert state(device, 1, unit, words)[0].tolist() == left


@for_all("target, unit", GENERATORS)
def test_the_initial_state_is_that_of_seed_zero(target, unit):
    first = Device(target).random((128, 9), engine=unit)
    assert np.array_equal(first, Device(target).random((128, 9), engine=unit))
    if unit is engine.vector:
        device = Device(target)
        seed(device, 0)
        assert np.array_equal(first, device.random((128, 9)))


@for_all("target", TARGETS)
def test_a_seed_repeats_the_sequence(target):
    device = Device(target)
    for dtype, value in (("uint32", 7), ("int32", -7), ("float32", 0.1)):
        seed(device, value, dtype)
        first = device.random((64, 50))
        assert not np.array_equal(first, device.random((64, 50)))
        seed(device, value, dtype)
        assert np.array_equal(first, device.random((64, 50)))
        seed(device, value + 1, dtype)
        assert not np.array_equal(first, device.random((64, 50)))


def test_a_seed_is_32_bits_in_any_format():
    outcomes = []
    for dtype in ("uint32", "int32", "float32"):
        device = Device()
        device.issue("set_rng_seed", device.tile(np.array([[0xC0490FDB]], np.uint32).view(dtype)))
        outcomes.append(device.random((3, 5)).tolist())
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_seed_may_be_in_psum():
    device, other = Device(), Device()
    device.issue("set_rng_seed", device.tile(np.array([[5]], np.int32), buffer="psum"))
    seed(other, 5)
    assert np.array_equal(device.random((4, 4)), other.random((4, 4)))


def test_a_seed_sets_only_the_vector_engine():
    device, other = Device(), Device()
    seed(device, 5)
    theirs = [d.random((4, 4), engine=engine.gpsimd) for d in (device, other)]
    assert np.array_equal(*theirs)


@for_all("target, unit", GENERATORS)
def test_numbers_do_not_depend_on_how_many_are_drawn_at_a_time(target, unit):
    whole = Device(target).random((5, 47), engine=unit)
    device = Device(target)
    pieces = [device.random((5, n), engine=unit) for n in (1, 2, 3, 30, 4, 7)]
    assert np.array_equal(np.concatenate(pieces, axis=1), whole)


@for_all("target, unit", GENERATORS)
def test_numbers_do_not_depend_on_other_lanes(target, unit):
    whole = Device(target).random((128, 11), engine=unit)
    device = Device(target)
    dst = device.empty((128, 11), "uint32")
    for start in (64, 0, 96, 32):
        device.issue("rng", dst[start : start + 32], unit)
    assert np.array_equal(dst.numpy(), whole)


def test_programs_of_one_launch_draw_different_numbers():
    first, second = Device(), Device()
    second.core.program_id = 1
    assert not (first.random((128, 64)) == second.random((128, 64))).any()


def test_a_seed_does_not_affect_later_launches():
    @nki.jit
    def drawn(seed):
        dst = nl.ndarray((5, 7), nl.uint32)
        result = nl.ndarray((5, 7), nl.uint32, buffer=nl.shared_hbm)
        nisa.rng(dst, nisa.vector_engine)
        nisa.dma_copy(result, dst)
        nisa.set_rng_seed(nl.load(seed))
        return result

    first, second = (drawn(np.array([[seed]], np.uint32)) for seed in (3, 4))
    assert np.array_equal(first, second)


def test_lanes_and_engines_draw_different_numbers():
    device = Device("trn3")
    both = [device.random((128, 512), engine=u) for u in (engine.vector, engine.gpsimd)]
    drawn = np.concatenate(both).ravel()
    # about 2 of 2^17 numbers of 32 bits are equal by chance
    assert drawn.size - np.unique(drawn).size < 16


# --- rng ------------------------------------------------------------------------------------------


@for_all("target, unit", GENERATORS)
def test_narrow_formats_get_the_lowest_bits(target, unit):
    full = Device(target).random((33, 7), engine=unit)
    for dtype in INTEGERS:
        narrow = Device(target).random((33, 7), dtype, engine=unit)
        assert np.array_equal(bits(narrow), full & (2 ** (8 * narrow.itemsize) - 1))


def test_elements_are_drawn_in_order_whatever_the_shape_and_strides():
    device = Device()
    for shape in ((1, 1), (3, 7), (33, 5), (9, 5, 3), (2, 3, 2, 5)):
        device.random(shape)
    whole = device.tile(np.zeros((4, 4, 10), np.uint32), buffer="psum")
    device.issue("rng", whole[:, 1::2, ::2])
    device.agrees()


@for_all("target, unit", GENERATORS)
def test_every_bit_is_set_half_of_the_time(target, unit):
    drawn = Device(target).random((128, 512), engine=unit)
    ones = np.unpackbits(drawn.view(np.uint8)).reshape(-1, 32).sum(axis=0)
    n = drawn.size
    assert (np.abs(ones - n / 2) < 5 * np.sqrt(n / 4)).all()


def test_neighbors_are_not_correlated():
    x = Device().random((128, 512)).astype(np.float64) / 2**32 - 0.5
    for axis, lag in product((0, 1), (1, 2, 3, 4, 127)):
        moved = np.moveaxis(x, axis, 0)
        products = moved[lag:] * moved[: len(moved) - lag]
        assert abs(products.sum()) < 5 * np.sqrt(products.size) / 12


# --- states ---------------------------------------------------------------------------------------


@for_all("target, unit, words", STATEFUL)
def test_a_saved_state_replays_the_same_numbers(target, unit, words):
    for drawn in (0, 1, 6, 64):
        device = Device(target)
        if drawn:
            device.random((128, drawn), engine=unit)
        saved = device.empty((128, words), "uint32")
        device.issue("rand_get_state", saved, unit)
        first = device.random((128, 30), engine=unit)
        device.issue("rand_set_state", saved, unit)
        assert np.array_equal(device.random((128, 30), engine=unit), first)


@for_all("target, unit, words", STATEFUL)
def test_a_state_that_is_set_can_be_read_back(target, unit, words):
    device = Device(target)
    values = np.random.default_rng(0).integers(0, 2**32, (128, words), dtype=np.uint32)
    device.issue("rand_set_state", device.tile(values), unit)
    assert np.array_equal(state(device, 128, unit, words), values)


def test_a_state_moves_to_another_core():
    device, other = Device("trn3"), Device("trn3")
    device.random((7, 13), engine=engine.vector)
    saved = state(device, 7, engine.vector, 24)
    other.issue("rand_set_state", other.tile(saved), engine.vector)
    assert np.array_equal(device.random((7, 5)), other.random((7, 5)))


def test_lanes_that_are_not_set_keep_their_states():
    device, other = Device(), Device()
    whole = device.zeros((128, 6), "uint32")
    device.issue("rand_set_state", whole[32:35])
    mine, theirs = (d.random((128, 4), engine=engine.gpsimd) for d in (device, other))
    assert (mine != theirs).any(axis=1).nonzero()[0].tolist() == [32, 33, 34]


def test_gpsimd_is_the_default_and_has_separate_states():
    device = Device("trn3")
    before = state(device, 4, engine.gpsimd, 6)
    device.random((4, 8))
    dst = device.empty((4, 6), "uint32")
    device.issue("rand_get_state", dst)
    assert np.array_equal(dst.numpy(), before)


def test_all_draws_of_the_vector_engine_advance_one_state():
    device, other = Device("trn3"), Device("trn3")
    device.random((4, 8 + 3 + 5))
    other.random((4, 8))
    other.issue("rand2", other.empty((4, 3)), 0.0, 1.0)
    other.issue("dropout", other.empty((4, 5)), other.zeros((4, 5)), 0.5)
    assert np.array_equal(*(state(d, 4, engine.vector, 24) for d in (device, other)))


def test_the_state_of_v4s_vector_engine_can_go_to_psum():
    device = Device("trn3")
    dst = device.empty((9, 24), "uint32", "psum")
    device.issue("rand_get_state", dst, engine.vector)
    assert np.array_equal(dst.numpy(), state(device, 9, engine.vector, 24))


# --- cost -----------------------------------------------------------------------------------------


def test_v4_draws_four_numbers_per_cycle():
    """The times of rng on trn2 and trn3 differ by more than the ratio of their clocks."""
    busy = {}
    for target in ("trn2", "trn3"):
        device = Device(target)
        device.issue("rng", device.empty((128, 8192), "uint32"))
        busy[target] = device.timeline().total_ns
    assert busy["trn2"] > 4 * busy["trn3"]
