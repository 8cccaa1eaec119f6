r"""The activation functions compared with their definitions at 50 digits.

An ulp is the distance of float32 neighbors at the true value, 2^-149 among subnormals."""

import math

import mpmath as mp
import nki.language as nl
import numpy as np
import pytest
from alu import VALID
from device import TARGETS, Device, bits
from every import for_all
from mpmath import mpf
from neuroncore.isa.operators import FUNCTIONS

from neuroncore.base.errors import OperatorError
from neuroncore.clause import alu
from neuroncore.clause import arithmetic as numeric

INF, NAN, PI = math.inf, math.nan, math.pi

# nki.api.shared.rst, "Supported Activation Functions for NKI ISA", with valid input ranges
EVERYTHING = (-INF, INF)
PUBLISHED = {
    **dict.fromkeys(("copy", "square", "sigmoid", "relu", "prelu", "gelu", "gelu_dx"), EVERYTHING),
    **dict.fromkeys(("gelu_apprx_tanh", "gelu_apprx_sigmoid", "silu", "silu_dx"), EVERYTHING),
    **dict.fromkeys(("gelu_apprx_sigmoid_dx", "tanh", "softplus", "mish"), EVERYTHING),
    **dict.fromkeys(("erf", "erf_dx", "exp", "sign", "abs"), EVERYTHING),
    **VALID,
}


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def slope(x, s):
    """The derivative of x sigmoid(s x)."""
    return sigmoid(s * x) * (1 + s * x * sigmoid(-s * x))


def bell_and_tail(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2 + x * mp.npdf(x)


MEANING = {
    "sigmoid": sigmoid,
    "tanh": mp.tanh,
    "exp": mp.exp,
    "log": mp.log,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "gelu_dx": lambda x: bell_and_tail(max(x, mpf(-100))),  # below, 50 digits are too few
    # (1 + tanh u) / 2 = sigmoid(2 u)
    "gelu_apprx_tanh": lambda x: x * sigmoid(mp.sqrt(8 / mp.pi) * (x + mpf("0.044715") * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(mpf("1.702") * x),
    "gelu_apprx_sigmoid_dx": lambda x: slope(x, mpf("1.702")),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": lambda x: slope(x, 1),
    "softplus": lambda x: mp.log1p(mp.exp(x)) if x < 200 else x,
    "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))) if x < 200 else x,
    "erf": mp.erf,
    "erf_dx": lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
    "sin": mp.sin,
    "arctan": mp.atan,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "square": lambda x: x * x,
    "sqrt": mp.sqrt,
    "reciprocal": lambda x: 1 / x,
    "copy": lambda x: x,
    "abs": abs,
    "relu": lambda x: max(x, mpf(0)),
    "prelu": lambda x: max(x, mpf(0)),  # with its parameter left at 0
    "sign": mp.sign,
}
ONE_OPERATION = ("square", "sqrt", "reciprocal", "copy", "abs", "relu", "prelu", "sign")
POSITIVE = ("log", "sqrt", "rsqrt")
ROOTS = {"gelu_dx": -0.7517915, "silu_dx": -1.2784645, "gelu_apprx_sigmoid_dx": -0.7511542}


def test_every_published_function_exists():
    assert {name: row.valid for name, row in FUNCTIONS.items()} == PUBLISHED
    assert {*MEANING} == {*PUBLISHED}


@for_all("name", PUBLISHED)
def test_a_function_is_found_by_its_name(name):
    row = FUNCTIONS[name]
    assert row.name == name and repr(row) == f"nl.{name}" and row.definition
    if name != "sin":  # as a function of tiles it reduces the range first
        assert getattr(nl, name).function is row


# --- accuracy -------------------------------------------------------------------------------------


def evaluated(name, x):
    out = np.empty(x.shape, np.float32)
    with np.errstate(all="ignore"):
        numeric.activate(FUNCTIONS[name].apply, x, out)
    return out


def sample(name):
    """Return inputs with every exponent, more where the functions bend, and the neighbors of
    special points."""
    rng = np.random.default_rng(11)
    mantissas = rng.integers(0, 1 << 23, (255, 1))
    every = (np.arange(255)[:, None] << 23 | mantissas).astype(np.uint32).view(np.float32).ravel()
    bends = np.exp2(rng.uniform(-7, 7, 150)).astype(np.float32)
    edges = np.array([2.0**-149, 2.0**-126, 1, 0.5, PI / 2, math.log(2), 88.72284], np.float32)
    edges = np.append(edges, [np.nextafter(edges, np.float32(s)) for s in (0, INF)])
    x = np.concatenate([every, bends, edges]).astype(np.float32)
    x = x[x > 0]
    if name not in POSITIVE:
        x = np.concatenate([x, -x])
    if name == "sin":
        x = x[np.abs(x) <= PI]
    return x


def true_values(name, x):
    """Return the true values as float64, whose rounding is 2^-29 of an ulp."""
    with mp.workdps(50):
        exact = [MEANING[name](mpf(v)) for v in x.tolist()]
        return np.array([math.copysign(float(abs(t)), -1 if t < 0 else 1) for t in exact])


def ulps(values, truth):
    """Return the error of each value in ulps. A value is treated as infinity if it exceeds the
    largest float32 by half an ulp."""
    overflow = np.abs(truth) >= (2 - 2**-24) * 2.0**127
    assert np.array_equal(np.isinf(values), overflow)
    with np.errstate(all="ignore"):
        step = np.maximum(np.exp2(np.floor(np.log2(np.abs(truth))) - 23), 2.0**-149)
        return np.where(overflow, 0, np.abs(values.astype(np.float64) - truth) / step)


@pytest.mark.parametrize("name", MEANING)
def test_results_are_the_nearest_float32_or_almost(name):
    x = sample(name)
    values, truth = evaluated(name, x), true_values(name, x)
    assert ulps(values, truth).max() <= (0.5 if name in ONE_OPERATION else 0.501)
    assert np.array_equal(np.signbit(values), np.signbit(truth))


@pytest.mark.parametrize("name", ROOTS)
def test_derivatives_are_accurate_next_to_their_zeros(name):
    start = np.float32(ROOTS[name]).view(np.int32)
    x = (start + np.arange(-100, 101)).astype(np.int32).view(np.float32)
    values, truth = evaluated(name, x), true_values(name, x)
    assert (truth > 0).any() and (truth < 0).any()
    assert ulps(values, truth).max() <= 0.51


# --- special values -------------------------------------------------------------------------------

# at 0, -0, infinity and -infinity
LIMITS = {
    "copy": (0, -0.0, INF, -INF),
    "square": (0, 0, INF, INF),
    "relu": (0, 0, INF, 0),
    "abs": (0, 0, INF, INF),
    "sign": (0, 0, 1, -1),
    "sigmoid": (0.5, 0.5, 1, 0),
    "tanh": (0, -0.0, 1, -1),
    "exp": (1, 1, INF, 0),
    "log": (-INF, -INF, INF, NAN),
    "gelu": (0, -0.0, INF, -0.0),
    "gelu_dx": (0.5, 0.5, 1, -0.0),
    "gelu_apprx_tanh": (0, -0.0, INF, -0.0),
    "gelu_apprx_sigmoid": (0, -0.0, INF, -0.0),
    "gelu_apprx_sigmoid_dx": (0.5, 0.5, 1, -0.0),
    "silu": (0, -0.0, INF, -0.0),
    "silu_dx": (0.5, 0.5, 1, -0.0),
    "softplus": (math.log(2), math.log(2), INF, 0),
    "mish": (0, -0.0, INF, -0.0),
    "erf": (0, -0.0, 1, -1),
    "erf_dx": (2 / math.sqrt(PI), 2 / math.sqrt(PI), 0, 0),
    "arctan": (0, -0.0, PI / 2, -PI / 2),
    "sqrt": (0, -0.0, INF, NAN),
    "rsqrt": (INF, -INF, 0, NAN),
    "reciprocal": (INF, -INF, 0, -0.0),
}


@for_all("name", LIMITS)
def test_limits(name):
    values = evaluated(name, np.array([0, -0.0, INF, -INF], np.float32))
    expected = np.array(LIMITS[name], np.float32)
    assert np.array_equal(np.isnan(values), np.isnan(expected))
    number = ~np.isnan(expected)
    assert np.array_equal(bits(values)[number], bits(expected)[number])


@for_all("name", PUBLISHED)
def test_nan_stays_nan(name):
    assert np.isnan(evaluated(name, np.array([NAN, -NAN], np.float32))).all()


@pytest.mark.parametrize("name", POSITIVE)
def test_functions_of_positive_numbers_give_nan_below_zero(name):
    assert np.isnan(evaluated(name, np.array([-1, -(2.0**-149), -1e38], np.float32))).all()


# --- sin beyond pi --------------------------------------------------------------------------------


def test_sin_of_9_has_the_published_value():
    device = Device()
    dst = device.empty((1, 2))
    device.issue("activation", dst, nl.sin, device.tile(np.array([[9, -9]], np.float32)))
    assert dst.codes()[0].tolist() == pytest.approx([27.65, -27.65], abs=0.005)


def test_sin_beyond_pi_is_a_cubic():
    x = np.linspace(3.2, 1000, 5000).astype(np.float32)
    d = x.astype(np.float64) - PI
    cubic = d**3 / 6 - d
    assert evaluated("sin", x) == pytest.approx(cubic, rel=1e-7, abs=1e-12)
    assert evaluated("sin", -x) == pytest.approx(-cubic, rel=1e-7, abs=1e-12)


def test_sin_is_seamless_at_pi():
    below, above = np.float32(3.1415925), np.float32(3.1415927)
    assert evaluated("sin", np.array([below, above, -above])) == pytest.approx(
        [PI - float(below), PI - float(above), float(above) - PI], rel=1e-7
    )


# --- in the instruction ---------------------------------------------------------------------------


@for_all("name", PUBLISHED)
@for_all("target", TARGETS)
def test_every_machine_has_every_function(name, target):
    device = Device(target)
    x = np.linspace(0.1, 3, 21, dtype=np.float32).reshape(3, 7)
    dst = device.empty((3, 7))
    device.issue("activation", dst, getattr(nl, name), device.tile(x))
    assert np.array_equal(bits(dst.codes()), bits(evaluated(name, x)))


@for_all("name", PUBLISHED)
def test_results_do_not_depend_on_their_place(name):
    """Loops are vectorized; the remaining elements get the same bits."""
    x = np.linspace(0.1, 3, 67, dtype=np.float32)
    together = evaluated(name, x)
    alone = [evaluated(name, x[i : i + 1])[0] for i in range(67)]
    assert np.array_equal(bits(together), bits(np.array(alone)))
    assert np.array_equal(bits(evaluated(name, x[::-1])), bits(together[::-1]))


@pytest.mark.parametrize("name", PUBLISHED)
@for_all("size", [7, alu.LARGE + 3])
def test_a_result_may_replace_its_argument(name, size):
    x = np.linspace(0.1, 3, size, dtype=np.float32)
    together = x.copy()
    numeric.activate(FUNCTIONS[name].apply, together, together)
    assert np.array_equal(bits(together), bits(evaluated(name, x)))


@for_all("op", [nl.add, nl.maximum, nl.power, "exp", None, math.exp])
def test_other_names_are_not_activation_functions(op):
    device = Device()
    data, dst = device.tile(np.ones((2, 3), np.float32)), device.empty((2, 3))
    device.refuses(OperatorError, "activation", dst, op, data, words=["op=", "activation"])
