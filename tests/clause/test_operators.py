"""The ALU operators: all published ones exist, and each is tested on every kind of number."""

import math

import mpmath
import nki.language as nl
import numpy as np
import pytest
from device import Device, bits
from every import for_all
from neuroncore.isa.operators import OPERATORS

from neuroncore.base.errors import (
    SignatureError,
)
from neuroncore.clause import alu
from neuroncore.clause import arithmetic as numeric

# nki.api.shared.rst, "Supported Math Operators for NKI ISA": kind, operands, legal as reduction
PUBLISHED = {
    "invert": ("bitvec", 1, False),
    "bitwise_and": ("bitvec", 2, True),
    "bitwise_or": ("bitvec", 2, True),
    "bitwise_xor": ("bitvec", 2, True),
    "left_shift": ("bitvec", 2, False),
    "right_shift": ("bitvec", 2, False),
    "add": ("arithmetic", 2, True),
    "subtract": ("arithmetic", 2, True),
    "multiply": ("arithmetic", 2, True),
    "maximum": ("arithmetic", 2, True),
    "minimum": ("arithmetic", 2, True),
    "equal": ("arithmetic", 2, False),
    "not_equal": ("arithmetic", 2, False),
    "greater_equal": ("arithmetic", 2, False),
    "greater": ("arithmetic", 2, False),
    "less_equal": ("arithmetic", 2, False),
    "less": ("arithmetic", 2, False),
    "logical_and": ("arithmetic", 2, True),
    "logical_or": ("arithmetic", 2, True),
    "logical_xor": ("arithmetic", 2, True),
    "power": ("arithmetic", 2, False),
    "abs_max": ("arithmetic", 2, False),
    "abs_min": ("arithmetic", 2, False),
    "abs": ("arithmetic", 1, False),
    "square": ("arithmetic", 1, False),
    "relu": ("arithmetic", 1, False),
    "rsqrt": ("arithmetic", 1, False),
    "reciprocal": ("arithmetic", 1, False),
}
BESIDES = {
    "bypass": ("arithmetic", 1, False),  # of activate2
    "average": ("partition", 2, False),  # of tensor_partition_reduce
}


def test_every_published_operator_exists():
    assert set(OPERATORS) == {*PUBLISHED, *BESIDES}


@for_all("name", OPERATORS)
def test_an_operator_has_its_published_properties(name):
    row = OPERATORS[name]
    assert (row.kind, row.arity, row.reduces) == {**PUBLISHED, **BESIDES}[name]
    assert row.name == name and repr(row) == f"nl.{name}"
    assert getattr(nl, name).operator is row


@pytest.mark.parametrize("name", ["divide", "mod", "fmod", "logical_not", "negative"])
def test_functions_that_the_hardware_lacks_are_not_operators(name):
    device = Device()
    data, dst = device.tile(np.ones((4, 4), np.float32)), device.empty((4, 4))
    assert name not in OPERATORS
    device.refuses(
        SignatureError, "tensor_scalar", dst, data, getattr(nl, name), 2.0, words=["op0"]
    )


# --- arithmetic -----------------------------------------------------------------------------------

TINY, LEAST, LARGEST = 2.0**-149, 2.0**-126, (2 - 2**-23) * 2.0**127
MAGNITUDES = (0, TINY, LEAST, 0.1, 1, 1 + 2**-23, 1.5, 2, 3, 2**24 - 1, 1e30, LARGEST, math.inf)
SPECIAL = np.array([s * m for m in MAGNITUDES for s in (1, -1)] + [math.nan], np.float32)


def greatest(a, b):
    return np.where((a > b) | ((a == b) & ~np.signbit(a)) | np.isnan(a), a, b)


def least(a, b):
    return np.where((a < b) | ((a == b) & np.signbit(a)) | np.isnan(a), a, b)


# on float64, which holds every float32 product exactly, and whose sums and quotients round to the
# right float32
MEANING = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": greatest,
    "minimum": least,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: ~(a == b),
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: (a > b) | (a == b),
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: (a < b) | (a == b),
    "logical_and": lambda a, b: ~(a == 0) & ~(b == 0),
    "logical_or": lambda a, b: ~((a == 0) & (b == 0)),
    "logical_xor": lambda a, b: (a == 0) ^ (b == 0),
    "abs_max": lambda a, b: np.where(abs(a) > abs(b), a, b),
    "abs_min": lambda a, b: np.where(abs(a) < abs(b), a, b),
}
UNARY = {
    "abs": lambda a: np.where(np.signbit(a), -a, a),
    "square": lambda a: a * a,
    "relu": lambda a: np.where((a > 0) | np.isnan(a), a, 0.0),
    "reciprocal": lambda a: 1 / a,
    "bypass": lambda a: a,
}
TWO_OPERANDS = [n for n, row in PUBLISHED.items() if row[:2] == ("arithmetic", 2)]


def rounded(meaning, *operands):
    with np.errstate(all="ignore"):
        result = meaning(*(np.asarray(x, np.float64) for x in operands))
        return np.asarray(result, np.float64).astype(np.float32)


def same(values, expected):
    """Assert that the bits are equal; all NaN count as equal."""
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(values), nan)
    assert np.array_equal(bits(values)[~nan], bits(expected)[~nan])


def applied(name, a, b, reverse=False):
    out = np.empty(a.shape, np.float32)
    with np.errstate(all="ignore"):
        numeric.apply(OPERATORS[name], a, b, out, reverse)
    return out


def test_the_oracle_knows_every_operator():
    assert {*MEANING, "power"} == {*TWO_OPERANDS}
    unary = {n for n, row in {**PUBLISHED, **BESIDES}.items() if row[:2] == ("arithmetic", 1)}
    assert {*UNARY, "rsqrt"} == unary


@for_all("reverse", [False, True])
@pytest.mark.parametrize("name", MEANING)
def test_two_operands_of_every_kind(name, reverse):
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(SPECIAL, SPECIAL))
    expected = rounded(MEANING[name], *((b, a) if reverse else (a, b)))
    same(applied(name, a, b, reverse), expected)  # a tile
    same(applied(name, a, SPECIAL[:, None], reverse), expected)  # one value per partition
    for row in range(len(SPECIAL)):  # a number
        same(applied(name, a[row : row + 1], SPECIAL[row], reverse), expected[row : row + 1])


@pytest.mark.parametrize("name", UNARY)
def test_one_operand_of_every_kind(name):
    for operand in (None, np.float32(0)):
        same(applied(name, SPECIAL[None], operand), rounded(UNARY[name], SPECIAL[None]))


@for_all("name", [*MEANING, "power", *UNARY, "rsqrt"])
def test_gaps_between_rows_and_axes_are_not_written(name):
    rng = np.random.default_rng(5)
    a, b = rng.uniform(0.5, 4, (2, 5, 3, 7)).astype(np.float32)
    whole = np.full((5, 6, 9), -1, np.float32)
    window = whole[:, ::2, 1:8]
    OPERATORS[name].apply(a, b, window)
    same(window, applied(name, a, b))
    window[...] = -1
    assert (whole == -1).all()
    big = np.ones((5, 6, 9), np.float32)
    big[:, ::2, 1:8] = a
    same(applied(name, big[:, ::2, 1:8], b), applied(name, a, b))


def test_sums_and_products_round_once():
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 2**32, (2, 64, 512), np.uint32).view(np.float32)
    for name in ("add", "subtract", "multiply"):
        same(applied(name, a, b), rounded(MEANING[name], a, b))
    same(applied("reciprocal", a, None), rounded(UNARY["reciprocal"], a))


def test_rsqrt_is_correctly_rounded():
    """Checked with integers: r is nearest to 1/sqrt(x) if (r - ulp/2)^2 x < 1 < (r + ulp/2)^2 x."""
    rng = np.random.default_rng(7)
    mantissas = np.append([0, 1, 2**23 - 1], rng.integers(0, 2**23, 5000))
    for odd in (0, 1):
        x = np.ldexp(1 + mantissas / 2**23, odd).astype(np.float32)
        r = applied("rsqrt", x[None], None)[0]
        for value, root in zip(x.tolist(), r.tolist(), strict=True):
            n, twice = int(value * 2**23), int(root * 2**25)  # r in [1/2, 1]: ulp 2^-24, half 2^-25
            assert root == 1 or (twice - 1) ** 2 * n < 2**73 < (twice + 1) ** 2 * n
    specials = np.array([0, -0.0, math.inf, -1, -math.inf, math.nan, TINY, 4 * LEAST], np.float32)
    expected = np.array([math.inf, -math.inf, 0, *[math.nan] * 3, 2**74.5, 2.0**62], np.float32)
    same(applied("rsqrt", specials[None], None)[0], expected)


NAN, INF = math.nan, math.inf
POWERS = [  # as C's pow has it
    *((0, 0, 1), (NAN, 0, 1), (1, NAN, 1), (2, NAN, NAN), (NAN, 2, NAN), (2, 3, 8), (4, -0.5, 0.5)),
    *((0, -1, INF), (-0.0, -1, -INF), (-0.0, -2, INF), (-0.0, 3, -0.0), (-0.0, 2, 0)),
    *((-1, INF, 1), (2, INF, INF), (0.5, INF, 0), (0.5, -INF, INF), (INF, -1, 0), (INF, 2, INF)),
    *((-INF, 3, -INF), (-INF, -3, -0.0), (-2, 3, -8), (-2, 2, 4), (-2, 0.5, NAN), (-8, 1 / 3, NAN)),
    *((2, 128, INF), (-2, 129, -INF), (2, -149, TINY), (2, -151, 0), (-2, -151, -0.0)),
]


def test_powers_of_every_kind():
    x, y, expected = np.array(POWERS, np.float32).T
    same(applied("power", x[None], np.ascontiguousarray(y)[None])[0], expected)
    same(applied("power", y[None], np.ascontiguousarray(x)[None], True)[0], expected)


def test_powers_are_accurate():
    rng = np.random.default_rng(8)
    x = np.exp(rng.uniform(-5, 5, 1500)).astype(np.float32)
    y = rng.uniform(-15, 15, 1500).astype(np.float32)
    out = applied("power", x[None], y[None])[0]
    for a, b, r in zip(x.tolist(), y.tolist(), out, strict=True):
        true = mpmath.mpf(a) ** mpmath.mpf(b)
        assert abs(true - float(r)) <= 0.501 * float(np.spacing(r))


# --- bit patterns ---------------------------------------------------------------------------------

WIDTHS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def patterns(dtype):
    width = 8 * np.dtype(dtype).itemsize
    edges = [0, 1, 2, 2 ** (width - 1) - 1, 2 ** (width - 1), 2**width - 2, 2**width - 1]
    random = np.random.default_rng(width).integers(0, 2**width, 20)
    return np.append(edges, random).astype(f"uint{width}").view(dtype)


def counts(dtype):
    width = 8 * np.dtype(dtype).itemsize
    listed = [0, 1, 2, width - 1, width, width + 1, 2 * width, 100, 2**width - 1]
    return np.array(listed, f"uint{width}").view(dtype)


BITWISE = {
    "invert": lambda x, y, width: ~x,
    "bitwise_and": lambda x, y, width: x & y,
    "bitwise_or": lambda x, y, width: x | y,
    "bitwise_xor": lambda x, y, width: x ^ y,
    "left_shift": lambda x, y, width: x << y if y < width else 0,
    "right_shift": lambda x, y, width: x >> y if y < width else 0,
}


def bitwise(name, x, y):
    """Compute on Python's integers, with bits numbered as in an unsigned integer."""
    width = 8 * x.itemsize
    meaning = BITWISE[name]
    pairs = zip(bits(x).reshape(-1).tolist(), bits(y).reshape(-1).tolist(), strict=True)
    result = [meaning(a, b, width) % 2**width for a, b in pairs]
    return np.array(result, f"uint{width}").reshape(x.shape)


def grid(name, dtype, other):
    second = counts(other) if name.endswith("shift") else patterns(other)
    return (np.ascontiguousarray(x) for x in np.meshgrid(patterns(dtype), second))


@for_all("other", ["signed", "unsigned"])
@for_all("dtype", WIDTHS)
@pytest.mark.parametrize("name", BITWISE)
def test_bit_patterns_of_every_width(name, dtype, other):
    other = dtype.removeprefix("u") if other == "signed" else f"u{dtype.removeprefix('u')}"
    device = Device()
    x, y = grid(name, dtype, other)
    data, second = device.tile(x), device.tile(y)
    dst = device.empty(x.shape, dtype)
    if name != "invert":
        device.issue("tensor_tensor", dst, data, second, getattr(nl, name))
        assert np.array_equal(bits(dst.codes()), bitwise(name, x, y))
    column = device.tile(y[:, :1]) if name != "invert" else None
    device.issue("tensor_scalar", dst, data, getattr(nl, name), column)
    assert np.array_equal(bits(dst.codes()), bitwise(name, x, y))
    if name != "invert":
        device.issue("tensor_scalar", dst, second, getattr(nl, name), device.tile(x[:, :1]), True)
        assert np.array_equal(
            bits(dst.codes()), bitwise(name, np.repeat(x[:, :1], x.shape[1], 1).copy(), y)
        )


@for_all("dtype", WIDTHS)
def test_shifting_by_a_number(dtype):
    device, x = Device(), patterns(dtype)[None]
    data, dst = device.tile(x), device.empty(x.shape, dtype)
    width = 8 * x.itemsize
    for count in (0, 1, width - 1, width, width + 1):
        for name in ("left_shift", "right_shift"):
            device.issue("tensor_scalar", dst, data, getattr(nl, name), count)
            expected = bitwise(name, x, np.full(x.shape, count, x.dtype))
            assert np.array_equal(bits(dst.codes()), expected)


def test_bitvec_operators_can_be_chained():
    device, x = Device(), patterns("int16")[None]
    dst = device.empty(x.shape, "int16")
    data = device.tile(x)
    device.issue("tensor_scalar", dst, data, nl.left_shift, 4, op1=nl.bitwise_xor, operand1=0x0FF0)
    assert np.array_equal(bits(dst.codes()), (bits(x) << 4) ^ 0x0FF0)


# --- exact integers -------------------------------------------------------------------------------

EXACT = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
    "logical_xor": lambda a, b: bool(a) != bool(b),
}


@for_all("types", [("int32",) * 2, ("uint32",) * 2, ("int32", "uint32")])
@for_all("name", EXACT)
def test_32_bit_integers_are_exact_and_wrap_around(name, types):
    device = Device()
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(patterns(types[0]), patterns(types[1])))
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
    expected = np.array([int(EXACT[name](x, y)) % 2**32 for x, y in pairs], np.uint32)
    dst = device.empty(a.shape, types[0])
    device.issue("tensor_tensor", dst, device.tile(a), device.tile(b), getattr(nl, name))
    assert np.array_equal(bits(dst.codes()), expected.reshape(a.shape))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@for_all("shape", [(3, 5), (2, 3, 7), (5, alu.LARGE // 4 - 1)])
def test_a_result_may_replace_an_operand(name, shape):
    rng, apply = np.random.default_rng(0), OPERATORS[name].apply
    a, b, expected = rng.standard_normal((3, *shape), np.float32)
    apply(a, b, expected)
    for replaced in (0, 1):
        operands = [a.copy(), b.copy()]
        apply(*operands, operands[replaced])
        assert np.array_equal(bits(operands[replaced]), bits(expected))
    apply(a, np.float32(0), expected)
    apply(a, np.float32(0), a)
    assert np.array_equal(bits(a), bits(expected))
