"""Stochastic rounding: exact thresholds, statistics of many draws, and the random words."""

import itertools
import threading

import numpy as np
import pytest
from device import bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from numbers_of_formats import LAYOUT, around, codes_with, overflow_code, thresholds

from neuroncore import numerics
from neuroncore.base.errors import UsageError
from neuroncore.numerics import codec, stochastic
from neuroncore.numerics.formats import FORMATS, INTEGERS, float8_e8m0fnu, lookup_any
from neuroncore.numerics.stochastic import Stream

FORMS = {name: lookup_any(name) for name in LAYOUT}
every = pytest.mark.parametrize("name", FORMS)
TOP = 2**32 - 1


def words_of(*numbers):
    return np.array(numbers, np.uint32)


def codes_of(form, values, words, **how):
    """Codes without the container's unused low bits."""
    found = codes_with(form, values, words, **how).view(form.code_type)
    return found.astype(np.int64) >> (13 if form == "tfloat32" else 0)


def sign_bit(name):
    exponent, mantissa, *_ = LAYOUT[name]
    return 1 << exponent + mantissa


# --- when a number goes up ------------------------------------------------------------------------


@every
@pytest.mark.parametrize("saturate", [False, True])
def test_the_word_below_which_a_number_goes_up_is_the_exact_fraction(name, saturate):
    values = around(name, 3000)
    below, limit = map(np.array, zip(*[thresholds(name, v) for v in values], strict=True))
    over = overflow_code(name) - (saturate and LAYOUT[name][4])
    above = np.minimum(below + 1, over)
    sign = np.where(np.signbit(values), sign_bit(name), 0)
    random = np.random.default_rng(1).integers(0, 2**32, len(values))
    for word in (0, np.maximum(limit - 1, 0), np.minimum(limit, TOP), TOP, random):
        word = np.broadcast_to(word, limit.shape)
        want = np.where(word < limit, above, below) | sign
        got = codes_of(FORMS[name], values, word.astype(np.uint32), saturate=saturate)
        assert np.array_equal(got, want)


@every
@given(st.floats(width=32), st.integers(0, TOP), st.booleans())
def test_the_definition_and_the_loops_agree(name, value, word, saturate):
    form = FORMS[name]
    got = codes_with(form, np.float32([value]), words_of(word), saturate=saturate)
    one = stochastic.encode_one(form, value, word, saturate=saturate)
    assert int(got.view(form.code_type)[0]) == one


@every
def test_representable_numbers_are_never_changed(name):
    form = FORMS[name]
    codes = np.arange(1 << min(form.bits, 16)).astype(form.code_type)
    if name == "tfloat32":
        codes <<= 16
    values = codec.decode(form, codes.view(form.storage))
    values = np.append(values, np.float32([0, -0.0, np.inf, -np.inf, np.nan, -np.nan]))
    still = codec.encode(form, values).view(form.code_type)
    for word in (0, 1, TOP, 0x9E3779B9):
        words = np.full(values.shape, word, np.uint32)
        assert np.array_equal(codes_with(form, values, words).view(still.dtype), still)


@pytest.mark.parametrize("word, code", [(0, 0x78), (2**30 - 1, 0x78), (2**30, 0x77), (TOP, 0x77)])
def test_above_the_largest_a_number_overflows_as_often_as_it_is_beyond(word, code):
    """244 is a quarter of the way from 240 to 256, which e4m3 doesn't have."""
    form = FORMATS["float8_e4m3"]
    values = np.float32([244, -244, 256, -300])
    got = codes_with(form, values, np.full(4, word, np.uint32))
    assert got.tolist() == [code, code | 0x80, 0x78, 0xF8]


def test_saturating_formats_never_overflow():
    values = np.float32([449, -470, 1e30, np.inf, -np.inf, np.nan])
    got = codes_with(FORMATS["float8_e4m3fn"], values, np.zeros(6, np.uint32), saturate=True)
    assert got.tolist() == [0x7E, 0xFE, 0x7E, 0x7E, 0xFE, 0x7F]


def test_numbers_below_the_smallest_become_it_or_zero():
    values = np.float32([2.0**-10, -(2.0**-10), 2.0**-41, 2.0**-42, 1e-45])  # min is 2^-9
    form = FORMATS["float8_e4m3"]
    for word, codes in ((0, [1, 0x81, 1, 0, 0]), (TOP >> 1, [1, 0x81, 0, 0, 0])):
        got = codes_with(form, values, np.full(5, word, np.uint32))
        assert got.tolist() == codes
    got = codes_with(form, values, np.full(5, 1 << 31, np.uint32))
    assert got.tolist() == [0, 0x80, 0, 0, 0]


@for_all("form", [FORMATS["float32"], *INTEGERS, float8_e8m0fnu])
def test_wide_floats_integers_and_scales_are_rounded_to_nearest(form):
    values = np.float32([0.5, 1.5, 1.2, -3.7, 1e10, np.nan, 0.1])
    codes = codec.encode(form, values)
    assert np.array_equal(bits(stochastic.encode(form, values, Stream(5))), bits(codes))
    one = [stochastic.encode_one(form, float(v), 0) for v in values[:5]]
    assert one == [codec.encode_one(form, float(v)) for v in values[:5]]


# --- random words ---------------------------------------------------------------------------------


def philox(counter, key):
    """Philox4x32-10 in Python's integers."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = y >> 32 ^ b ^ k0, y & TOP, x >> 32 ^ d ^ k1, x & TOP
        k0, k1 = k0 + 0x9E3779B9 & TOP, k1 + 0xBB67AE85 & TOP
    return [a, b, c, d]


def test_the_oracle_gives_the_published_answers():
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([TOP] * 4, [TOP] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]
    assert philox(*pi) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


@pytest.mark.parametrize("first", [0, 5, 4 * 2**32 - 70, 2**40 + 3])
def test_words_are_philox_of_element_instruction_engine_and_launch(first):
    stream = Stream(seed=0xDEADBEEF, core=77, engine=0xA5, instruction=0x12345678, launch=0xABCDEF)
    want = []
    for block in range(first // 4, (first + 203) // 4 + 1):
        counter = [block & TOP, block >> 32, 0x12345678, 0xA5ABCDEF]
        want += philox(counter, [0xDEADBEEF, 77])
    want = want[first % 4 :][:200]
    assert stochastic.words(stream, 200, first=first).tolist() == want


@pytest.mark.parametrize("count", [1, 8, 16, 31])
def test_fewer_random_bits_decide_by_the_upper_ones(count):
    """R >> 32 - n < floor(fraction * 2^n)."""
    stream, form = Stream(3), FORMATS["bfloat16"]
    values = around("bfloat16", 4000)
    words = stochastic.words(stream, len(values)).astype(np.int64)
    found = [thresholds("bfloat16", v) for v in values]
    below, limit = map(np.array, zip(*found, strict=True))
    up = (words >> 32 - count) < (limit >> 32 - count)
    want = below + up | np.where(np.signbit(values), 1 << 15, 0)
    assert np.array_equal(stochastic.encode(form, values, stream, bits=count), want)


@pytest.mark.parametrize("wrong", [0, 33, -1])
def test_other_numbers_of_bits_are_refused(wrong):
    with pytest.raises(UsageError, match="from 1 to 32"):
        stochastic.encode(FORMATS["bfloat16"], np.ones(3, np.float32), Stream(), bits=wrong)


@pytest.mark.parametrize("field, room", [*zip(Stream._fields, (32, 32, 8, 32, 24), strict=True)])
def test_a_number_of_a_stream_has_its_bits(field, room):
    stochastic.words(Stream(**{field: 2**room - 1}), 4)
    for wrong in (-1, 2**room):
        with pytest.raises(UsageError, match=f"{field} is {wrong}; .* 2\\^{room} - 1"):
            stochastic.words(Stream(**{field: wrong}), 4)


# --- parts, order, threads ------------------------------------------------------------------------

TILE = np.random.default_rng(4).standard_normal((64, 333)).astype(np.float32)
STREAM = Stream(seed=9, core=1, engine=5, instruction=40, launch=2)


@every
def test_any_part_of_a_tile_is_rounded_as_in_the_whole(name):
    form = FORMS[name]
    whole = stochastic.encode(form, TILE, STREAM)
    given = stochastic.words(STREAM, TILE.size).reshape(TILE.shape)
    assert np.array_equal(codes_with(form, TILE, given), whole)
    for rows, columns in (
        (slice(3, 60), slice(1, 300)),
        (slice(63, 64), slice(5, 6)),
        (0, slice(0, 0)),
    ):
        part = TILE[rows, columns]
        first = np.arange(TILE.size).reshape(TILE.shape)[rows, columns]
        got = stochastic.encode(
            form, part, STREAM, first=int(first.flat[0]) if first.size else 0, pitch=333
        )
        assert np.array_equal(got, whole[rows, columns])


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3"])
def test_tiles_of_any_shape_are_numbered_in_their_order(name):
    form = FORMS[name]
    flat = stochastic.encode(form, TILE.reshape(-1)[:5040], STREAM)
    for shape in ((5040,), (5040, 1), (1, 5040), (7, 9, 80), (2, 3, 840)):
        values = TILE.reshape(-1)[:5040].reshape(shape)
        assert np.array_equal(stochastic.encode(form, values, STREAM).reshape(-1), flat)
    one = stochastic.encode(form, np.float32(TILE[0, 0]), STREAM)
    assert one.shape == () and one == flat[0]
    out = np.empty((7, 720), form.storage)
    strided = np.repeat(TILE.reshape(-1)[:5040], 2)[::2].reshape(7, 720)
    assert stochastic.encode(form, strided, STREAM, out) is out
    assert np.array_equal(out.reshape(-1), flat)


def test_threads_and_their_order_do_not_matter():
    form, n = FORMS["float8_e4m3"], TILE.size
    whole = stochastic.encode(form, TILE, STREAM).reshape(-1)
    out, edges = np.zeros(n, np.uint8), [0, 1, 777, 4096, 9001, n]

    def piece(a, b):
        stochastic.encode(form, TILE.reshape(-1)[a:b], STREAM, out[a:b], first=a)

    pieces = [threading.Thread(target=piece, args=pair) for pair in itertools.pairwise(edges)]
    for thread in reversed(pieces):
        thread.start()
    for thread in pieces:
        thread.join()
    assert np.array_equal(out, whole)


@pytest.mark.parametrize("field", Stream._fields)
def test_words_of_different_streams_are_unrelated(field):
    n = 1 << 18
    a = stochastic.words(STREAM, n)
    b = stochastic.words(STREAM._replace(**{field: getattr(STREAM, field) + 1}), n)
    assert np.array_equal(a, stochastic.words(STREAM, n))
    for bit in (0, 15, 31):
        z = (((a ^ b) >> bit & 1).mean() - 0.5) * 2 * n**0.5
        assert abs(z) < 4.5


# --- statistics -----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize(("eighths", "draws"), [(1, 1 << 20), (4, 1 << 19), (7, 1 << 19)])
def test_up_as_often_as_the_fraction_and_independently(name, eighths, draws):
    """Mean, variance, and correlations at lags that blocks, rows and tiles have."""
    form = FORMS[name]
    value = 1 + eighths / 8 * form.eps
    found = numerics.stochastic_test(form, value, draws, seed=eighths)
    assert (found.below, found.above, found.fraction) == (1, 1 + form.eps, eighths / 8)
    assert found.draws == draws and found.worst < 4.5
    assert abs(found.variance - found.fraction * (1 - found.fraction)) < 1e-3


def test_instructions_are_not_correlated():
    values = np.full(1 << 22, 1 + 2.0**-8, np.float32)
    form = FORMATS["bfloat16"]
    a, b = (stochastic.encode(form, values, STREAM._replace(instruction=i)) & 1 for i in (1, 2))
    assert abs((np.mean(a == b) - 0.5) * 2 * values.size**0.5) < 4.5


def test_long_sums_do_not_stagnate():
    """The vendor's example: 1024 + 2048 times 0.5 in float16, to nearest 1024, else about 2048."""
    replicas = 2000
    nearest, total = np.float32(1024), np.full(replicas, 1024, np.float32)
    for i in range(2048):
        nearest = numerics.round(nearest + np.float32(0.5), "float16")
        stream = Stream(seed=123, instruction=i)
        total = numerics.round(total + np.float32(0.5), "float16", "stochastic", stream)
    assert nearest == 1024
    mean, spread = total.mean(dtype=np.float64), total.std(dtype=np.float64)
    assert abs(mean - 2048) < 4 * 22.96 / replicas**0.5 and abs(spread - 22.96) < 2
    assert abs(2056 - mean) < 2 * spread  # the result on the vendor's page
