"""Numerics of the Tensor engine: conformance tests T1 to T12, whose ids are in the names of tests,
and the ways in which options let the engine read TF32."""

import ml_dtypes
import numpy as np
import pytest
from chains import chain, normal
from device import Device, bits, same, ten_bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import DtypeError

NARROW = ("bfloat16", "float16", "float8_e4m3", "float8_e5m2")
FORMATS = [
    *(("trn1", f) for f in (*NARROW, "tfloat32", "float32")),
    *(("trn2", f) for f in (*NARROW, "tfloat32", "float32")),
    *(("trn3", f) for f in (*NARROW, "float8_e4m3fn", "tfloat32", "float32")),
]
MODES = [
    {},
    {"matmul": "blas"},
    {"fp32_matmul": "four_pass"},
    {"fp32_matmul": "four_pass", "matmul": "blas"},
    {"tf32_read": "truncate"},
    {"subnormals": "flush"},
]


def product(s, x, form="float32", target="trn2", dst="float32", steps=1, **options):
    """Return the numbers in PSUM after `steps` products, each added to the previous sum."""
    device = Device(target, **options)
    out = device.empty((s.shape[1], x.shape[1]), dst, "psum")
    for left, right in zip(np.split(s, steps), np.split(x, steps)):
        device.issue("nc_matmul", out, device.tile(left, form), device.tile(right, form))
    assert device.findings == []
    return out.numpy()


def column(*values):
    return np.array(values, np.float32)[:, None]


# --- T1 to T5: sums -------------------------------------------------------------------------------


@for_all("options", MODES)
@for_all(("target", "form"), FORMATS)
def test_T1_sums_that_are_exact_are_the_same_in_every_mode(target, form, options):
    rng = np.random.default_rng(1)
    s, x = rng.integers(-8, 9, (128, 33)), rng.integers(-8, 9, (128, 70))
    got = product(s, x, form, target, **options)
    assert np.array_equal(got, s.astype(np.int64).T @ x)


@for_all("place", [1, 2, 63, 64, 126, 127])
@for_all("form", ["bfloat16", "float16", "tfloat32", "float32"])
def test_T2_order_of_the_chain(form, place):
    """Ones are lost next to 2^24 = 2^12 * 2^12, and count after -2^24 was added."""
    s, x = np.ones((128, 1), np.float32), np.ones((128, 1), np.float32)
    s[0], s[place] = 2.0**12, -(2.0**12)
    x[0] = x[place] = 2.0**12
    assert product(s, x, form) == 127 - place


def test_T2_order_of_the_four_passes():
    """Products of low halves are added first: terms of 2^-24 that would each be less than half a
    unit of the other sums."""
    low = 1 + 2.0**-12  # the halves 1 and 2^-12
    s, x = np.full((3, 1), low, np.float32), np.full((3, 1), low, np.float32)
    want = np.float32(3 * 2.0**-24)
    for term in (3 * 2.0**-12, 3 * 2.0**-12, 3.0):
        want = want + np.float32(term)
    got = product(s, x, fp32_matmul="four_pass")
    assert bits(got) == bits(want) != bits(product(s, x))


def test_T3_the_sum_of_a_tile_is_added_to_psum():
    """The result is 2^24 + (1 + 1), where a single chain would lose both ones; also bits of random
    numbers."""
    ones = np.ones((4, 1), np.float32)
    assert product(column(2.0**24, 0, 1, 1), ones, steps=2) == 2.0**24 + 2
    assert product(column(2.0**24, 0, 1, 1), ones) == 2.0**24
    s, x = normal((96, 20), 1), normal((96, 50), 2)
    first, *others = (chain(s[k : k + 32], x[k : k + 32]) for k in (0, 32, 64))
    want = first
    for other in others:
        want = want + other
    got = product(s, x, steps=3)
    assert np.array_equal(bits(got), bits(want))
    assert not np.array_equal(bits(got), bits(chain(s, x)))


def test_T4_initial_value_of_a_sum_in_psum():
    """By default the first write of each location begins a sum. With `accumulate`, the old contents
    are added and count as read."""
    device = Device()
    one = device.tile(np.ones((1, 1), np.float32))

    def add(dst, accumulate=None):
        ones = device.tile(np.ones((1, dst.shape[1]), np.float32))
        device.issue("nc_matmul", dst, one, ones, accumulate=accumulate)

    dst = device.empty((1, 6), buffer="psum")
    add(dst[:, :4])
    add(dst[:, 2:])
    assert dst.numpy().tolist() == [[1, 1, 2, 2, 1, 1]]
    add(dst, False)
    add(dst, True)
    assert (dst.numpy() == 2).all() and device.findings == []
    add(device.empty((1, 6), buffer="psum"), True)
    assert device.findings == ["UNINIT_READ"]
    device.issue("memset", dst, 0.0)
    add(dst)
    assert device.findings[1:] == ["PSUM_FOREIGN"]


@for_all(("target", "form"), FORMATS)
def test_T5_fused_operations_differ_only_in_float32(target, form):
    """Products of operands with up to 12 significant bits are exact, so rounding them changes
    nothing."""
    device = Device(target)
    s, x = (device.tile(normal((128, n), n), form).numpy().astype(np.float32) for n in (40, 60))
    if form == "tfloat32":
        s, x = ten_bits(s), ten_bits(x)
    separate = np.zeros((40, 60), np.float32)
    for k in range(128):
        separate = separate + np.outer(s[k], x[k])
    equal = np.array_equal(bits(product(s, x, form, target)), bits(separate))
    assert equal == (form != "float32")


# --- T6 and T7: transposes ------------------------------------------------------------------------


def transposed(device, tile, dtype=None):
    """Return the same tile transposed in two ways, 128 columns at a time."""
    rows, columns = tile.shape
    made = [device.empty((columns, rows), dtype or tile.dtype, "psum") for _ in range(2)]
    identity = device.tile(np.eye(rows), tile.dtype)
    device.issue("nc_transpose", made[0], tile)
    device.issue("nc_matmul", made[1], tile, identity, is_transpose=True)
    return [m.codes().copy() for m in made]


@for_all("target", ["trn2", "trn3"])
@for_all("form", ["bfloat16", "float16"])
@for_all("quarter", range(4))
def test_T6_every_16_bits_pass_a_transpose(target, form, quarter):
    device = Device(target)
    codes = np.arange(1 << 14, dtype=np.uint16).reshape(128, 128) + np.uint16(quarter << 14)
    for got in transposed(device, device.tile(codes.view(form))):
        assert np.array_equal(got.view(np.uint16), codes.T)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_T6_32_bits_pass_a_transpose(target):
    """Every exponent and sign with fractions of zero, one bit, a payload, and all bits."""
    device = Device(target)
    upper = np.arange(512, dtype=np.uint32) << 23
    codes = np.stack([upper | low for low in (0, 1, 0x2ABCDE, 0x7FFFFF)]).reshape(128, 16)
    for form in ("float32", "tfloat32"):
        for got in transposed(device, device.tile(codes.view(np.float32), form), "float32"):
            assert np.array_equal(got.view(np.uint32), codes.T)


@pytest.mark.parametrize(
    ("target", "form"),
    [*((t, f) for t in ("trn2", "trn3") for f in NARROW[2:]), ("trn3", "float8_e4m3fn")],
)
def test_T6_8_bits_pass_a_transpose_into_8_or_16(target, form):
    device = Device(target)
    codes = np.arange(256, dtype=np.uint8).reshape(32, 8)
    tile = device.tile(codes.view(form))
    for dtype, kind in ((None, np.uint8), ("bfloat16", np.uint16)):
        for got in transposed(device, tile, dtype):
            assert np.array_equal(got.view(kind), codes.T.astype(kind))


@pytest.mark.parametrize("form", ["bfloat16", "float16", "float32"])
def test_T7_on_v2_a_transpose_is_a_product_that_spreads_nan(form):
    """Row m of the result is the sum over column m of the data, each times 1 or 0."""
    device, nan, inf = Device("trn1"), np.nan, np.inf
    data = np.array([[nan, 1, -0.0, 5], [2, inf, 3, -0.0], [4, 6, -inf, 7]], np.float32)
    want = [[nan, nan, nan], [nan, inf, nan], [nan, nan, -inf], [5, 0, 7]]
    made = device.empty((4, 3), buffer="psum")
    identity = device.tile(np.eye(3), form)
    device.issue("nc_matmul", made, device.tile(data, form), identity, is_transpose=True)
    direct = device.empty((4, 3), form, "psum")
    device.issue("nc_transpose", direct, device.tile(data, form))
    for got in (made.numpy(), direct.numpy().astype(np.float32)):
        same(got, np.array(want, np.float32))


# --- T8 to T12 ------------------------------------------------------------------------------------


@for_all(
    ("target", "s", "x", "allowed"),
    [
        ("trn2", "bfloat16", "float8_e4m3", True),
        ("trn2", "float16", "float8_e5m2", True),
        ("trn2", "float32", "tfloat32", True),
        ("trn2", "float32", "bfloat16", False),
        ("trn2", "float8_e5m2", "tfloat32", False),
        ("trn3", "float8_e4m3fn", "float8_e5m2", True),
        ("trn3", "float8_e4m3fn", "float8_e4m3", False),
    ],
)
def test_T8_formats_that_can_be_multiplied(target, s, x, allowed):
    device = Device(target)
    left, right = device.tile(np.ones((5, 3)), s), device.tile(np.full((5, 4), 2.0), x)
    dst = device.empty((3, 4), buffer="psum")
    if allowed:
        device.issue("nc_matmul", dst, left, right)
        assert (dst.numpy() == 10).all()
    else:
        device.refuses(DtypeError, "nc_matmul", dst, left, right, words=[s, x])


@pytest.mark.parametrize(("target", "form"), [("trn2", "float8_e4m3"), ("trn3", "float8_e4m3fn")])
def test_T9_double_row_is_a_product_of_256_rows(target, form):
    device, rng = Device(target), np.random.default_rng(9)
    s, x = rng.integers(-8, 9, (128, 2, 128)), rng.integers(-8, 9, (128, 2, 300))
    dst = device.empty((128, 300), buffer="psum")
    device.issue(
        "nc_matmul", dst, device.tile(s, form), device.tile(x, form), perf_mode="double_row"
    )
    assert np.array_equal(dst.numpy(), np.einsum("ktm,ktn->mn", s, x))


def halves(values):
    """Return the upper 12 and the lower 12 of 24 significant bits (fewer for subnormal numbers)."""
    unit = np.ldexp(1.0, np.maximum(np.frexp(values.astype(np.float64))[1], -125) - 12)
    high = (np.trunc(values / unit) * unit).astype(np.float32)
    return high, values - high


@pytest.mark.parametrize("options", [{}, {"fp32_matmul": "four_pass"}], ids=str)
def test_T10_float32_products_have_float32_precision(options):
    s, x = normal((128, 128), 1), normal((128, 512), 2)
    exact = s.astype(np.float64).T @ x.astype(np.float64)
    error = np.linalg.norm(product(s, x, **options) - exact) / np.linalg.norm(exact)
    assert 1e-8 < error < 3e-7


@for_all("scale", [1.0, 1e-36, 3e-41])
@for_all("steps", [1, 2])
def test_T10_four_passes_are_four_chains(steps, scale):
    """Each chain has one 12-bit half of each operand, and is added to PSUM separately."""
    s, x = normal((38, 11), 1, scale), normal((38, 37), 2)
    want = np.zeros((11, 37), np.float32)
    for left, right in zip(np.split(s, steps), np.split(x, steps)):
        (s_high, s_low), (x_high, x_low) = halves(left), halves(right)
        for pair in ((s_low, x_low), (s_low, x_high), (s_high, x_low), (s_high, x_high)):
            want = want + chain(*pair)
    got = product(s, x, steps=steps, fp32_matmul="four_pass")
    assert np.array_equal(bits(got), bits(want))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_T10_the_halves_of_a_number_add_up_to_it(value):
    one = np.ones((1, 1), np.float32)
    got = product(np.array([[value]], np.float32), one, fp32_matmul="four_pass")
    assert got == np.float32(value)


def test_T10_infinities_and_nan_have_one_pass():
    """A low half would be NaN, and zero times an infinity is NaN."""
    s = np.array([[np.inf, -np.inf, np.nan, 2, 0]], np.float32)
    x = np.array([[1, -2, 0, np.inf, np.nan, 1 + 2.0**-20]], np.float32)
    signalling = np.array([[0x7F800001]], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        want = s.T * x + np.float32(0)  # chains begin at +0
    same(product(s, x, fp32_matmul="four_pass"), want)
    assert np.isnan(product(signalling, np.ones((1, 1), np.float32), fp32_matmul="four_pass"))


@pytest.mark.parametrize("form", ["bfloat16", "tfloat32"])
def test_T10_four_passes_are_for_float32(form):
    s, x = normal((64, 10), 1), normal((64, 30), 2)
    one, other = (product(s, x, form, fp32_matmul=mode) for mode in ("chain", "four_pass"))
    assert np.array_equal(bits(one), bits(other))


def test_T11_bfloat16_in_psum_is_rounded_at_every_step():
    """1 + 2^-8 is rounded to 1 at each of four steps, although the exact sum is 1 + 2^-6; 3 * 2^-8
    is rounded to 2^-6."""
    one = np.ones((5, 1), np.float32)
    small, large = column(1, *[2.0**-8] * 4), column(1, *[3 * 2.0**-8] * 4)
    got = [product(s, one, target="trn3", dst="bfloat16", steps=5).item() for s in (small, large)]
    assert got == [1, 1 + 4 * 2.0**-6]
    wide = [product(s, one, target="trn3", steps=5).item() for s in (small, large)]
    assert wide == [1 + 2.0**-6, 1 + 12 * 2.0**-8]
    s, x = normal((64, 20), 1), normal((64, 50), 2)
    want = np.zeros((20, 50), ml_dtypes.bfloat16)
    for k in range(0, 64, 16):
        total = want.astype(np.float32) + chain(s[k : k + 16], x[k : k + 16])
        want = total.astype(ml_dtypes.bfloat16)
    got = product(s, x, target="trn3", dst="bfloat16", steps=4)
    assert np.array_equal(bits(got), bits(want))


def test_T11_bfloat16_in_psum_can_be_rounded_stochastically():
    """Each of the four additions of 2^-8 adds 2^-7 with probability 1/2, so the mean is exact."""
    s, x = column(1, *[2.0**-8] * 4), np.ones((5, 512), np.float32)
    s = np.repeat(s, 128, axis=1)
    how = {"target": "trn3", "dst": "bfloat16", "steps": 5, "stochastic": True}
    first, again, other = (product(s, x, stochastic_seed=seed, **how) for seed in (1, 1, 2))
    assert np.array_equal(bits(first), bits(again)) and not np.array_equal(first, other)
    ups = (first.astype(np.float64) - 1) / 2.0**-7
    assert set(np.unique(ups)) == {0, 1, 2, 3, 4}
    assert abs(ups.mean() - 2) < 5 / np.sqrt(ups.size)  # five standard errors


@for_all("mode", ["keep", "flush"])
@for_all(("target", "form"), FORMATS)
def test_T12_subnormal_operands(target, form, mode):
    info = ml_dtypes.finfo("float32" if form == "tfloat32" else form)
    values = [info.smallest_subnormal, info.smallest_normal - info.smallest_subnormal]
    if form == "tfloat32":
        values = [2.0**-136, 2.0**-126 - 2.0**-136]
    values = np.array([*values, info.smallest_normal], np.float32)
    values = np.concatenate([values, -values])[None, :]
    got = product(values, np.ones((1, 1)), form, target, subnormals=mode)[:, 0]
    want = values[0] * np.array([mode == "keep", mode == "keep", True] * 2)
    assert np.array_equal(got, want)
    other = product(np.ones((1, 1)), values, form, target, subnormals=mode)[0]
    assert np.array_equal(other, want)


def test_T12_a_transpose_that_moves_bits_keeps_them():
    device = Device(subnormals="flush")
    codes = np.array([[1, 2, 3]], np.uint16)
    for got in transposed(device, device.tile(codes.view("bfloat16"))):
        assert np.array_equal(got.view(np.uint16), codes.T)


# --- how TF32 is read -----------------------------------------------------------------------------


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_tfloat32_may_be_read_without_its_low_bits(values):
    values, one = np.array([values], np.float32), np.ones((1, 1), np.float32)
    cut = (bits(values) & 0xFFFFE000).view(np.float32)
    want = np.where(np.isnan(values), values, cut)[0] + np.float32(0)
    same(product(values, one, "tfloat32", tf32_read="truncate")[:, 0], want)
    same(product(values, one, "tfloat32")[:, 0], ten_bits(values)[0] + np.float32(0))


def test_a_nan_whose_low_bits_are_cut_off_does_not_become_an_infinity():
    nan = np.array([[0x7F800001]], np.uint32).view(np.float32)
    got = product(nan, np.ones((1, 1), np.float32), "tfloat32", tf32_read="truncate")
    assert np.isnan(got)
