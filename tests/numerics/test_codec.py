"""Casts: the scalar definition, the compiled loops and numpy / ml_dtypes give the same bits."""

import math

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from device import Device, bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import UsageError
from neuroncore.numerics import codec
from neuroncore.numerics.formats import FLOATS, FORMATS, INTEGERS

NAN_CODE = {
    "tfloat32": 0x7FC00000,
    "bfloat16": 0x7FC0,
    "float16": 0x7E00,
    "float8_e5m2": 0x7E,
    "float8_e4m3": 0x7C,
    "float8_e3m4": 0x78,
    "float8_e4m3fn": 0x7F,
}
NARROW = [f for f in FLOATS if f.bits <= 16]
SHORT = [f for f in FORMATS.values() if f.bits <= 16 and f.kind != "bool"]
narrow = pytest.mark.parametrize("form", NARROW, ids=str)
short = pytest.mark.parametrize("form", SHORT, ids=str)
whole = pytest.mark.parametrize("form", [f for f in INTEGERS if f.kind != "bool"], ids=str)
every = pytest.mark.parametrize("form", FORMATS.values(), ids=str)


# --- reference ------------------------------------------------------------------------------------


def numpy_codes(form, values):
    """The unsigned codes that numpy and ml_dtypes give float32 values, with canonical NaN."""
    values = np.asarray(values, np.float32)
    if form.kind == "bool":
        return (values != 0).astype(np.uint8)
    if form == "float32":
        return bits(values)
    with np.errstate(all="ignore"):
        if form.is_integer:
            rounded = np.rint(np.where(np.isnan(values), 0, values).astype(np.float64))
            return np.clip(rounded, *form.range).astype(np.int64).astype(form.code_type)
        codes = tf32(values) if form == "tfloat32" else bits(values.astype(form.numpy))
    sign = np.signbit(values).astype(codes.dtype) << (form.bits - 1)
    return np.where(np.isnan(values), (sign | NAN_CODE[form]).astype(codes.dtype), codes)


def tf32(values):
    """The nearest multiples of 2^13 of the magnitude's bit pattern, or the even ones on a tie."""
    pattern = bits(values).astype(np.int64)
    kept, rest = np.divmod(pattern & 0x7FFFFFFF, 8192)
    kept += (rest > 4096) | ((rest == 4096) & (kept % 2 == 1))
    return (kept * 8192 | pattern & 0x80000000).astype(np.uint32)


def numpy_values(form, codes):
    """The values that numpy and ml_dtypes read from codes of the storage type."""
    return codes.view(form.numpy).astype(np.float32)


def stratified(per_exponent, seed=1):
    """float32 numbers of both signs and every exponent: around every tie of every width, and at
    random."""
    rng = np.random.default_rng(seed)
    shape = (512, per_exponent)
    cut = rng.integers(1, 24, shape)
    unit = np.left_shift(1, cut)
    near = rng.choice([0, 1, -1], shape) + rng.choice([0, 1], shape) * (unit >> 1)
    mantissa = rng.integers(0, 1 << 23, shape) // unit * unit + near
    random = rng.random(shape) < 0.25
    mantissa = np.where(random, rng.integers(0, 1 << 23, shape), mantissa) % (1 << 23)
    mantissa[:, :4] = 0, 1, 0x400000, 0x7FFFFF
    pattern = (np.arange(512)[:, None] << 23) + mantissa
    return pattern.astype(np.uint32).view(np.float32).reshape(-1)


def all_codes(form):
    return np.arange(1 << form.bits).astype(form.code_type).view(form.storage)


def some_codes(form):
    """Every code of up to 16 bits, and many of 32; canonical where TF32 and bool need it."""
    if form.kind == "bool":
        return np.array([0, 1], np.uint8)
    if form.bits <= 16:
        return all_codes(form)
    if form.is_float:
        values = stratified(16)
        return tf32(values).view(np.float32) if form == "tfloat32" else values
    edges = [0, 1, 2**24 - 1, 2**24, 2**24 + 1, 2**24 + 3, 2**31 - 1, 2**31, 2**32 - 1]
    random = np.random.default_rng(3).integers(0, 2**32, 8192)
    return np.append(edges, random >> np.arange(8192) % 32).astype(np.uint32).view(form.storage)


@pytest.fixture(scope="module")
def sample():
    return stratified(1 << 11)


def agree(values, expected):
    """Assert equal bits; any NaN of the same sign is accepted."""
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(values), nan)
    assert np.array_equal(np.signbit(values), np.signbit(expected))
    assert np.array_equal(bits(values)[~nan], bits(expected)[~nan])


# --- reading --------------------------------------------------------------------------------------


@short
def test_every_code_is_read_like_in_numpy(form):
    agree(codec.decode(form, all_codes(form)), numpy_values(form, all_codes(form)))


@every
def test_the_definition_reads_the_same_values_as_the_loops(form):
    codes = some_codes(form)
    one = [codec.decode_one(form, int(c)) for c in codes.view(form.code_type)]
    agree(codec.decode(form, codes), np.array(one, np.float64).astype(np.float32))


def test_bools_read_as_0_and_1():
    assert codec.decode(FORMATS["bool"], np.array([0, 1], np.uint8)).tolist() == [0, 1]


# value in memory, as float32, back as int32, as uint32
THROUGH_FLOAT32 = [
    (2**24 + 1, 2.0**24, 2**24, 2**24),
    (2**24 + 3, 2.0**24 + 4, 2**24 + 4, 2**24 + 4),
    (2**31 - 1, 2.0**31, 2**31 - 1, 2**31),
    (-(2**31), -(2.0**31), -(2**31), 0),
    (123456789, 123456792.0, 123456792, 123456792),
    (2147483583, 2147483520.0, 2147483520, 2147483520),
    (2147483584, 2147483648.0, 2147483647, 2147483648),
]


@for_all("start, value, signed, unsigned", THROUGH_FLOAT32)
def test_wide_integers_round_on_their_way_through_float32(start, value, signed, unsigned):
    int32, uint32 = FORMATS["int32"], FORMATS["uint32"]
    read = codec.decode(int32, np.array([start], np.int32))
    assert read.dtype == np.float32 and read == value
    assert codec.encode(int32, read) == signed
    assert codec.encode(uint32, read) == unsigned


def test_an_integer_is_rounded_twice_on_its_way_to_bfloat16():
    start = np.array([2**30 + 2**22 + 1], np.int32)
    assert codec.cast(FORMATS["int32"], FORMATS["bfloat16"], start) == 0x4E80  # 2^30


# --- writing --------------------------------------------------------------------------------------


def test_the_sample_has_every_exponent_and_tie(sample):
    assert sample.size == 1 << 20
    assert len(np.unique(bits(sample) >> 23)) == 512
    assert np.isnan(sample).sum() > 2000 and np.isinf(sample).sum() >= 2
    assert (bits(sample) & 0x7FFFFF == 0).any() and (np.abs(sample) == 2.0**-149).any()


@every
def test_writing_agrees_with_numpy(form, sample):
    codes = codec.encode(form, sample)
    assert codes.dtype == form.storage
    assert np.array_equal(codes.view(form.code_type), numpy_codes(form, sample))


@every
def test_the_definition_writes_the_same_codes_as_the_loops(form):
    values = stratified(16 if form.is_float else 8, seed=2)
    if form == "float32":  # these keep the payload of NaN, because nothing is converted
        values = values[~np.isnan(values)]
    one = np.array([codec.encode_one(form, float(v)) for v in values], form.code_type)
    assert np.array_equal(codec.encode(form, values).view(form.code_type), one)


@short
def test_every_code_survives_reading_and_writing(form):
    codes = all_codes(form)
    expected = codes.view(form.code_type).copy()
    if form.is_float:
        nan, sign = np.isnan(numpy_values(form, codes)), 1 << (form.bits - 1)
        expected[nan] = expected[nan] & sign | NAN_CODE[form]
    back = codec.encode(form, codec.decode(form, codes)).view(form.code_type)
    assert np.array_equal(back, expected)
    some = expected[:: 1 if form.bits == 8 else 61]
    one = [codec.encode_one(form, codec.decode_one(form, int(c))) for c in some]
    assert np.array_equal(one, some)


@given(st.floats(width=32), st.sampled_from([*FORMATS.values()]))
def test_array_and_scalar_agree_on_any_float(value, form):
    codes = codec.encode(form, np.array([value], np.float32)).view(form.code_type)
    if form != "float32" or not math.isnan(value):
        assert int(codes[0]) == codec.encode_one(form, value)


@given(st.floats(width=32, allow_nan=False), st.sampled_from(NARROW))
def test_nothing_representable_is_nearer(value, form):
    code = codec.encode_one(form, value)
    if abs(value) < form.max:
        gap = abs(codec.decode_one(form, code) - value)
        for other in {code - 1, code + 1} & {*range(1 << form.bits)}:
            there = abs(codec.decode_one(form, other) - value)
            assert not there < gap and (there != gap or code % 2 == 0 or gap == 0)


# --- overflow and underflow of floats -------------------------------------------------------------

# the largest finite value, the first that overflows, the code of what it becomes
OVERFLOWS = {
    "bfloat16": ((2 - 2**-7) * 2.0**127, (2 - 2**-8) * 2.0**127, 0x7F80),
    "float16": (65504, 65520, 0x7C00),
    "float8_e5m2": (57344, 61440, 0x7C),
    "float8_e4m3": (240, 248, 0x78),
    "float8_e3m4": (15.5, 15.75, 0x70),
    "float8_e4m3fn": (448, np.nextafter(np.float32(464), np.float32(500)), 0x7F),
    "tfloat32": ((2 - 2**-10) * 2.0**127, (2 - 2**-11) * 2.0**127, 0x7F800000),
}


@for_all("name", OVERFLOWS)
@for_all("sign", [1, -1])
def test_floats_overflow_half_a_step_above_the_largest(name, sign):
    form, (largest, first, code) = FORMATS[name], OVERFLOWS[name]
    below = np.nextafter(np.float32(first), np.float32(0))
    values = sign * np.array(
        [largest, below, first, np.finfo(np.float32).max, math.inf], np.float32
    )
    codes = codec.encode(form, values).view(form.code_type)
    negative = (sign < 0) << (form.bits - 1)
    assert codes[:2].tolist() == [codec.encode_one(form, sign * largest)] * 2
    assert codes[2:].tolist() == [code | negative] * 3


@narrow
def test_floats_underflow_gradually(form):
    least = form.min_subnormal
    up = np.nextafter(np.float32(least / 2), np.float32(1))
    values = np.array([0, least / 4, least / 2, up, least, 1.5 * least, 2.5 * least], np.float32)
    sign = 1 << (form.bits - 1)
    assert codec.encode(form, values).view(form.code_type).tolist() == [0, 0, 0, 1, 1, 2, 2]
    negative = codec.encode(form, -values).view(form.code_type)
    assert negative.tolist() == [sign, sign, sign, sign + 1, sign + 1, sign + 2, sign + 2]
    largest = np.array([form.min_normal - least, form.min_normal - least / 2], np.float32)
    first = 1 << form.mantissa
    assert codec.encode(form, largest).view(form.code_type).tolist() == [first - 1, first]


def test_the_two_kinds_of_e4m3_differ():
    ieee, fn = FORMATS["float8_e4m3"], FORMATS["float8_e4m3fn"]
    assert codec.decode_one(ieee, 0x78) == math.inf and codec.decode_one(fn, 0x78) == 256
    assert all(math.isnan(codec.decode_one(ieee, code)) for code in range(0x79, 0x80))
    assert codec.decode_one(fn, 0x7E) == 448 and math.isnan(codec.decode_one(fn, 0x7F))
    assert codec.encode_one(fn, 464) == 0x7E and codec.encode_one(ieee, 464) == 0x78


# --- integers -------------------------------------------------------------------------------------

ROUNDED = {0.5: 0, 1.5: 2, 2.5: 2, 3.5: 4, -0.5: 0, -1.5: -2, -2.5: -2, 126.5: 126, 0.49999997: 0}


@whole
def test_integers_round_to_nearest_even(form):
    low, _ = form.range
    for value, rounded in ROUNDED.items():
        wanted = max(rounded, low)
        assert codec.encode(form, np.array([value], np.float32)) == wanted
        assert codec.encode_one(form, value) == wanted % (1 << form.bits)


@whole
def test_integers_saturate_and_nan_is_0(form):
    low, high = form.range
    values = np.array([math.inf, -math.inf, 1e30, -1e30, math.nan, -math.nan, -0.0], np.float32)
    assert codec.encode(form, values).tolist() == [high, low, high, low, 0, 0, 0]


@for_all(
    "name, value, code",
    [
        *(
            ("int8", 127.5, 127),
            ("int8", 127.49, 127),
            ("int8", -128.5, -128),
            ("int8", -129, -128),
        ),
        *(("uint8", 255.5, 255), ("uint8", 254.5, 254), ("uint8", -0.75, 0), ("uint8", 256, 255)),
        *(("int16", 32767.5, 32767), ("int16", -32768.5, -32768), ("int16", 65536, 32767)),
        *(("uint16", 65535.5, 65535), ("uint16", 65534.5, 65534), ("uint16", 32768, 32768)),
        ("int32", 2147483520.0, 2147483520),  # the float32 below 2^31
        *(("int32", 2.0**31, 2**31 - 1), ("int32", -(2.0**31), -(2**31))),
        ("int32", -2147483904.0, -(2**31)),  # the float32 below -2^31
        *(("uint32", 2.0**31, 2**31), ("uint32", 4294967040.0, 4294967040)),
        *(("uint32", 2.0**32, 2**32 - 1), ("uint32", -1.0, 0)),
    ],
)
def test_integers_at_their_limits(name, value, code):
    form = FORMATS[name]
    assert codec.encode(form, np.array([value], np.float32)).tolist() == [code]
    assert codec.encode_one(form, value) == code % (1 << form.bits)


def test_every_number_except_zero_is_true():
    values = np.array([0, -0.0, 1e-45, -3, math.inf, math.nan], np.float32)
    assert codec.encode(FORMATS["bool"], values).tolist() == [0, 0, 1, 1, 1, 1]
    assert [codec.encode_one(FORMATS["bool"], float(v)) for v in values] == [0, 0, 1, 1, 1, 1]


# --- from format to format ------------------------------------------------------------------------


@for_all("target", FORMATS.values())
@for_all("source", FORMATS.values())
def test_a_cast_goes_through_float32(source, target):
    codes = some_codes(source)
    cast = codec.cast(source, target, codes)
    if source is target:
        assert np.array_equal(bits(cast), bits(codes))
        return
    assert cast.dtype == target.storage
    expected = numpy_codes(target, numpy_values(source, codes))
    if target == "float32":
        agree(cast, expected.view(np.float32))
    else:
        assert np.array_equal(cast.view(target.code_type), expected)


@pytest.mark.parametrize("instruction", ["tensor_copy", "dma_copy"])
@short
def test_a_copy_within_a_format_moves_bits(form, instruction):
    device = Device("trn3")
    codes = all_codes(form).reshape(128, -1)
    source = device.tile(codes.view(form.numpy), form)
    target = device.empty(codes.shape, form)
    device.issue(instruction, dst=target, src=source)
    assert np.array_equal(bits(target.codes()), bits(codes))


def test_a_float32_copy_keeps_the_payload_of_a_nan():
    device, values = Device(), stratified(8).reshape(128, -1)
    target = device.empty(values.shape)
    device.issue("tensor_copy", dst=target, src=device.tile(values))
    assert np.array_equal(bits(target.codes()), bits(values))


# --- shapes ---------------------------------------------------------------------------------------

GRID = np.arange(-60, 60, dtype=np.float32).reshape(2, 5, 12) / 4
VIEWS = {
    "0-d": GRID[0, 0, 0],
    "empty": GRID[:, :0],
    "every other": GRID[:, ::2, 1::3],
    "transposed": GRID.T,
    "backwards": GRID[:, :, ::-1],
    "broadcast": np.broadcast_to(GRID[:, :1], GRID.shape),
}


@every
@pytest.mark.parametrize("view", VIEWS)
def test_arrays_may_have_any_strides(form, view):
    values = np.asarray(VIEWS[view])
    codes = codec.encode(form, values)
    assert codes.shape == values.shape
    expected = numpy_codes(form, values).reshape(values.shape)
    assert np.array_equal(codes.view(form.code_type), expected)
    stored = np.asarray(numpy_codes(form, GRID).view(form.storage))
    strided = stored.T[::2]
    read = codec.decode(form, strided)
    assert read.shape == strided.shape
    assert np.array_equal(read, numpy_values(form, np.ascontiguousarray(strided)))


@every
def test_results_are_written_to_out(form):
    place = np.empty(GRID.shape, form.storage)
    assert codec.encode(form, GRID, place) is place
    assert np.array_equal(place.view(form.code_type), numpy_codes(form, GRID))
    values = np.empty(GRID.shape, np.float32)
    assert codec.decode(form, place, values) is values
    assert np.array_equal(values, numpy_values(form, place))


@every
@pytest.mark.parametrize("place", ["too small", "too large", "other shape", "with gaps"])
def test_an_out_array_that_does_not_fit_is_refused_unchanged(form, place):
    def made(dtype):
        base = np.zeros((4, 10, 24), dtype)
        views = {"too small": base[0, :5, :12], "too large": base, "with gaps": base[:2, :5, :12]}
        return base, base.reshape(-1)[:120] if place == "other shape" else views[place]

    base, out = made(form.storage)
    with pytest.raises(UsageError, match=r"contiguous and of shape \(2, 5, 12\)"):
        codec.encode(form, GRID, out)
    assert not base.any()
    base, out = made(np.float32)
    with pytest.raises(UsageError, match=r"contiguous and of shape \(2, 5, 12\)"):
        codec.decode(form, np.ones(GRID.shape, form.storage), out)
    assert not base.any()


@narrow
def test_wider_values_are_rounded_to_float32_first(form):
    """A float64 just above a tie is the tie itself once it is rounded to float32."""
    tie = 1 + form.eps / 2
    assert (
        codec.encode(form, np.array([tie + 2.0**-40, 1.0])).view(form.code_type).tolist()
        == [codec.encode_one(form, 1.0)] * 2
    )


# --- uninitialized memory -------------------------------------------------------------------------


@every
def test_poison_is_nan_or_4(form):
    code = codec.poison(form)
    value = codec.decode_one(form, code)
    if form.is_float:
        assert math.isnan(value) and code == NAN_CODE.get(form, 0x7FC00000)
    else:
        assert value == (1 if form.kind == "bool" else 4)
