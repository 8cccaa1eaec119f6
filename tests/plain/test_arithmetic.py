"""Arithmetic of the plain reading compared with exact fractions and Python's functions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from every import for_all

from neuroncore.clause.alu import FUNCTIONS, OPERATORS
from neuroncore.plain.arithmetic import (
    BINARY,
    BITS,
    ELEMENTARY,
    EXACT,
    ULPS,
    UNARY,
    activation_of,
    apply,
    chain,
    fma,
    fold,
    four_passes,
)

F = np.float32


def rounded(exact):
    """A fraction as the nearest float32, ties to even."""
    low = F(float(exact))  # off by one step at most: rounded twice
    near = [low, np.nextafter(low, F(-np.inf)), np.nextafter(low, F(np.inf))]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


def wide(rng, count, least):
    """float32 numbers of many magnitudes."""
    return np.ldexp(rng.standard_normal(count), rng.integers(least, least + 60, count)).astype(F)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("least", [-30, -80])  # some of these products are subnormal
def test_a_fused_multiply_add_rounds_the_exact_result_once(least, narrow):
    rng = np.random.default_rng(0)
    a, b = wide(rng, 1000, least), wide(rng, 1000, least)
    if narrow:
        a, b = ((one.view(np.uint32) & np.uint32(0xFFFFF000)).view(F) for one in (a, b))
    c = np.where(rng.random(1000) < 0.5, -(a * b), wide(rng, 1000, 2 * least))  # cancels, or not
    found = fma(a, b, c, narrow)
    for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), found, strict=True):
        assert got == rounded(Fraction(x) * Fraction(y) + Fraction(z)), (x, y, z)


def test_ties_that_rounding_twice_would_round_wrongly():
    """1 + 2^-24 + 2^-60 is above the tie between 1 and 1 + 2^-23, though not in float64."""
    a, b = np.array([F(2.0**-30)]), np.array([F(2.0**-30)])
    assert fma(a, b, np.array([F(1)])) == 1
    big = np.array([F(1 + 2.0**-23)])
    tie = np.array([F(2.0**-24)])
    assert fma(tie, np.array([F(1)]), np.array([F(1)])) == 1  # to even
    assert fma(tie, big, np.array([F(1)])) == F(1 + 2.0**-23)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_product_beyond_float32_is_finite_before_it_is_added(narrow):
    s, x = np.float32([[2.0**100], [2.0**100]]), np.float32([[-(2.0**100)], [2.0**100]])
    with np.errstate(all="ignore"):
        assert chain(s, x, narrow=narrow) == -np.inf  # -inf + 2^200, not -inf + inf


@pytest.mark.parametrize("narrow", [False, True])
def test_a_chain_starts_at_row_0(narrow):
    s, x = np.array([[2.0**24], [1], [-(2.0**24)]], F), np.ones((3, 1), F)
    assert chain(s, x, narrow=narrow) == 0  # 2^24 + 1 is a tie, and goes to 2^24
    assert chain(s[::-1].copy(), x, narrow=narrow) == 1  # -2^24 + 1 is exact


def test_a_group_of_rows_is_added_before_it_joins():
    s, x = np.array([[2.0**24], [1], [1], [0]], F), np.ones((4, 1), F)
    assert chain(s, x) == 2.0**24
    assert chain(s, x, group=2) == 2.0**24  # (2^24 + 1) + (1 + 0)
    s = np.array([[2.0**24], [0], [1], [1]], F)
    assert chain(s, x, group=2) == 2.0**24 + 2


def test_subnormal_products_are_exact_too():
    tiny = np.full((2, 1), 2.0**-80, F)
    assert chain(tiny, tiny, narrow=True) == 0  # 2 * 2^-160 is below half of the least float32
    assert chain(np.full((2, 1), 2.0**-74, F), np.full((2, 1), 2.0**-75, F), narrow=True) > 0


def test_four_passes_add_up_to_the_product():
    rng = np.random.default_rng(1)
    s, x = rng.standard_normal((9, 4)).astype(F), rng.standard_normal((9, 3)).astype(F)
    total = np.sum([one.astype(np.float64) for one in four_passes(s, x)], axis=0)
    np.testing.assert_allclose(total, s.T.astype(np.float64) @ x, rtol=1e-6)


def test_folds_go_from_the_left():
    row = np.array([[2.0**24, 1, 1, -(2.0**24)]], F)
    assert fold("add", row) == 0
    assert fold("add", row[:, ::-1]) == 2


def test_zeros_have_an_order_and_nan_is_not_lost():
    zero, minus, nan = (np.array([v], F) for v in (0.0, -0.0, np.nan))
    assert not np.signbit(apply("maximum", minus, zero))
    assert np.signbit(apply("minimum", zero, minus))
    assert np.isnan(apply("maximum", nan, zero)) and np.isnan(apply("minimum", zero, nan))
    assert apply("maximum_number", nan, zero) == 0 and apply("minimum_number", zero, nan) == 0


def test_shifts_by_the_width_leave_nothing():
    ones = np.array([0xFFFFFFFF], np.uint32)
    for name in ("left_shift", "right_shift"):
        assert BITS[name](ones, np.array([31], np.uint32)) != 0
        assert BITS[name](ones, np.array([32], np.uint32)) == 0
    assert BITS["right_shift"](ones, np.array([4], np.uint32)) == 0x0FFFFFFF  # logical


def test_every_operator_and_function_is_there():
    known = {*BINARY, *UNARY, *BITS, "average"}
    assert {*OPERATORS} <= known
    assert {*FUNCTIONS} == {*EXACT, *ELEMENTARY} and {*ULPS} == {*ELEMENTARY}


WORKED = {  # name: (x, value), from the definitions that isa/operators.py prints
    "sigmoid": (1.0, 1 / (1 + math.exp(-1))),
    "gelu": (-1.5, -1.5 * 0.5 * math.erfc(1.5 / math.sqrt(2))),
    "silu": (2.0, 2 / (1 + math.exp(-2))),
    "softplus": (-20.0, math.log1p(math.exp(-20))),
    "mish": (1.0, math.tanh(math.log1p(math.e))),
    "erf_dx": (0.5, 2 / math.sqrt(math.pi) * math.exp(-0.25)),
    "rsqrt": (16.0, 0.25),
    "arctan": (1.0, math.pi / 4),
    "log": (10.0, math.log(10)),
    "sin": (9.0, 27.65),  # beyond pi, as the documentation has it
}


@for_all("name", WORKED)
def test_functions_by_hand(name):
    x, value = WORKED[name]
    rtol = 1e-3 if name == "sin" else 1e-7
    np.testing.assert_allclose(activation_of(name, np.array([x], F)), value, rtol=rtol)


@for_all("name", sorted(ELEMENTARY))
def test_derivatives_and_limits_are_numbers(name):
    ends = np.array([-np.inf, -1e38, -1e-38, 0, 1e-38, 1e38, np.inf], F)
    with np.errstate(all="ignore"):
        found = activation_of(name, ends)
    if name not in ("log", "rsqrt", "sin"):
        assert not np.isnan(found).any()
