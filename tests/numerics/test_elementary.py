"""Parts of the compiled loops: fused multiply-adds, folds and scans in a fixed order."""

from fractions import Fraction

import numpy as np
import pytest
from device import bits
from every import for_all
from neuroncore.isa.operators import OPERATORS

from neuroncore.base.jit import compiled
from neuroncore.clause import arithmetic as numeric
from neuroncore.numerics import generator
from neuroncore.numerics.loops import elementary, fold, intrinsics, philox

ROWS = (1, 7, 8, 9, 33)  # loops take eight at a time
EDGES = [0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan]


def step(name, a, b):
    """Apply one operator to float32 columns with numpy."""
    if name in ("maximum", "minimum"):  # numpy leaves the sign of a zero open
        chosen = np.where(np.signbit(a) == (name == "minimum"), a, b)
        return np.where((a == 0) & (b == 0), chosen, getattr(np, name)(a, b))
    return np.float32(1) * getattr(np, name)(a, b)


def matrix(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-3, 4, (rows, columns))).astype(
        np.float32
    )


@compiled
def fused(a, b, c, out):
    for i in range(a.shape[0]):
        out[i] = intrinsics.fma(a[i], b[i], c[i])


@compiled
def extremes(a, b, greatest, least):
    for i in range(a.shape[0]):
        greatest[i] = intrinsics.maximum(a[i], b[i])
        least[i] = intrinsics.minimum(a[i], b[i])


def test_a_fused_multiply_add_rounds_once():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 500))
    c = -(a * b) * rng.choice([1, 1 + 2**-40, 0.5], 500)
    out = np.empty(500)
    fused(a, b, c, out)
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a, b, c, strict=True)]
    assert out.tolist() == [float(e) for e in exact]
    assert (out != a * b + c).any()


def test_extremes_of_edge_values():
    a, b = (x.astype(np.float32).ravel() for x in np.meshgrid(EDGES, EDGES))
    greatest, least = np.empty_like(a), np.empty_like(a)
    extremes(a, b, greatest, least)
    for values, name in ((greatest, "maximum"), (least, "minimum")):
        expected = step(name, a, b)
        nan = np.isnan(a) | np.isnan(b)
        assert np.array_equal(np.isnan(values), nan)
        assert np.array_equal(bits(values)[~nan], bits(expected.astype(np.float32))[~nan])


@for_all("rows", ROWS)
@for_all("name", ["add", "multiply", "maximum", "minimum"])
def test_a_fold_runs_from_left_to_right(name, rows):
    x, state = matrix(rows, 50), matrix(rows, 1, 9)[:, 0].copy()
    expected = state.copy()
    for j in range(50):
        expected = step(name, expected, x[:, j])
    getattr(fold, name)(x, state)
    assert np.array_equal(bits(state), bits(expected))


REDUCING = [n for n, op in OPERATORS.items() if op.reduces and op.kind == "arithmetic"]


@for_all("shape, axes", [((3, 7), 1), ((33, 5, 4), 1), ((9, 5, 4), 2), ((1, 1), 1)])
@for_all("name", REDUCING)
def test_a_reduction_starts_from_its_first_element(name, shape, axes):
    values = matrix(shape[0], int(np.prod(shape[1:]))).reshape(shape)
    values[..., 0] = np.where(values[..., 0] > 0, values[..., 0], -0.0)
    kept = shape[: len(shape) - axes]
    columns = values.reshape(int(np.prod(kept)), -1)
    expected = columns[:, 0].copy()
    for j in range(1, columns.shape[1]):
        expected = step(name, expected, columns[:, j])
    result = numeric.reduce(OPERATORS[name], values, axes)
    assert result.shape == kept
    assert np.array_equal(bits(result), bits(expected.reshape(kept)))


@for_all("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@for_all("dtype", ["int8", "uint16", "int32"])
def test_bit_patterns_are_reduced_without_conversion(name, dtype):
    info = np.iinfo(dtype)
    values = np.random.default_rng(2).integers(info.min, info.max, (5, 3, 4), dtype, endpoint=True)
    expected = getattr(np, name).reduce(values.reshape(5, -1), axis=1)
    result = numeric.reduce(OPERATORS[name], values, 2)
    assert result.dtype == dtype and np.array_equal(result, expected)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_a_neutral_start_changes_nothing_and_an_identity_is_one(name):
    op = OPERATORS[name]
    alone = np.array([[v] for v in EDGES], np.float32)
    for start in (op.neutral, op.identity):
        state = np.full(len(EDGES), start, np.float32)
        numeric.fold(op, alone, state)
        nan = np.isnan(alone[:, 0])
        assert np.isnan(state[nan]).all() and np.array_equal(state[~nan], alone[~nan, 0])
        if start is op.neutral:
            assert np.array_equal(bits(state)[~nan], bits(alone[:, 0])[~nan])


@for_all("swap0", [False, True])
@for_all("swap1", [False, True])
@for_all("names", [(a, b) for a in fold.SCANNED for b in fold.SCANNED])
def test_a_scan_carries_its_state(names, swap0, swap1):
    check_scan(names, swap0, swap1)


@for_all("swap", [False, True])
@for_all("names", [("greater", "add"), ("multiply", "logical_or"), ("less", "less")])
def test_a_scan_of_any_operators(names, swap):
    check_scan(names, swap, not swap)


def check_scan(names, swap0, swap1):
    first, second = matrix(5, 12, 3), matrix(5, 12, 4)
    state = matrix(5, 1, 5)[:, 0].copy()
    r, out = state.copy(), np.empty_like(first)
    expected = []
    for j in range(12):
        r = step(names[0], *((r, first[:, j]) if swap0 else (first[:, j], r)))
        r = step(names[1], *((second[:, j], r) if swap1 else (r, second[:, j])))
        expected.append(r)
    with np.errstate(all="ignore"):
        op0, op1 = (OPERATORS[n] for n in names)
        numeric.scan(op0, op1, first, second, state, out, swap0, swap1)
    assert np.array_equal(bits(out), bits(np.array(expected, np.float32).T))
    assert np.array_equal(bits(state), bits(out[:, -1]))


# --- powers, numbers outside of a range, draws ----------------------------------------------------


@pytest.mark.parametrize("exponents", ["each", "lanes", 0.5, 2.0, -3.0, np.inf, np.nan])
def test_a_power_of_a_negative_number_agrees_with_numpy(exponents):
    numbers = np.array([*EDGES, -np.nan, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e20, -1e20], np.float32)
    a, b = map(np.ascontiguousarray, np.meshgrid(numbers, numbers))
    b = b if exponents == "each" else b[:, :1] if exponents == "lanes" else np.float32(exponents)
    out = np.empty_like(a)
    with np.errstate(all="ignore"):
        OPERATORS["power"].apply(a, b, out)
        every = np.array(np.broadcast_to(b, a.shape))  # numpy takes the root of -0 for a single 0.5
        expected = np.power(a, every, dtype=np.float64).astype(np.float32)
    # the signs of NaN are those that a processor gives to invalid operations, which differ
    assert (bits(np.abs(out)) == bits(np.abs(expected))).all()
    assert (np.signbit(out) == np.signbit(expected))[~np.isnan(out)].all()


@pytest.mark.parametrize("place", [0, 1023, 1024, 2999, None])
def test_the_first_number_outside_of_a_range(place):
    x = np.ones(3000, np.float32)
    x[[3, 1500, 2000]] = 0, np.inf, np.nan
    if place is not None:
        x[place:] = -7
    bounds = np.float32([0.5, 2.0, np.finfo(np.float32).max])
    found = [
        loop(x, x, *bounds) for loop in (elementary.first_outside, elementary.first_outside.plain)
    ]
    assert found == [-1 if place is None else place] * 2


@for_all("drawn", [0, 3, 61, (1 << 32) - 70, (1 << 34) - 100])
@for_all("above", [0, 3, (1 << 33) + 1])
def test_blocks_of_random_numbers_equal_numbers_drawn_one_by_one(drawn, above):
    states = generator.PHILOX.seeded(3, 1, 2, 5, 1)
    counters = drawn & 0xFFFFFFFF, drawn >> 32, above & 0xFFFFFFFF, above >> 32
    states[..., :4] = np.array(counters, np.uint32) + states[..., :4] * [0, 0, 1, 1]
    one_by_one, numbers = states.copy(), np.empty((5, 300), np.uint32)
    philox.draw(one_by_one, numbers)
    assert (generator.PHILOX.draw(states, 300) == numbers).all()
    assert (states == one_by_one).all()
