"""Comparisons of results with references."""

import numpy as np
import pytest
from every import for_all

from neuroncore.base.errors import UsageError
from neuroncore.report import compare as comparing
from neuroncore.report.compare import Incomparable, compare


def test_a_comparison_gives_the_largest_and_the_relative_error():
    c = compare([[3.0, 4.5], [0.0, 0.0]], [[3.0, 4.0], [0.0, 0.0]])
    assert (c.max_abs, c.rel_l2, c.worst, c.got, c.want) == (0.5, 0.5 / 5, (0, 1), 4.5, 4.0)
    assert c.to_dict() == {"max_abs": 0.5, "rel_l2": 0.1, "worst": [0, 1], "got": 4.5, "want": 4.0}


def test_equal_arrays_differ_by_nothing():
    values = [[1.0, np.nan], [np.inf, -np.inf]]
    c = compare(values, values)
    assert (c.max_abs, c.rel_l2) == (0, 0)
    assert compare([0.0, -0.0], [-0.0, 0.0]).rel_l2 == 0
    assert (compare([], []).rel_l2, compare([], []).worst) == (0, ())


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (np.ones(3), "^the result has shape"),
        ("words", "^the result or the reference is not numeric"),
        ([1.0, "words"], "^the result or the reference is not numeric"),
        (np.array([1.0, {}]), "^the result or the reference is not numeric"),
    ],
)
def test_arrays_that_cannot_be_compared_are_refused(got, said):
    with pytest.raises(Incomparable, match=said):
        compare(got, np.ones(2))


@pytest.mark.parametrize("form", [np.float32, np.float64, np.float16])
def test_large_arrays_are_compared_by_a_compiled_loop(form, monkeypatch):
    random = np.random.default_rng(1)
    want = random.standard_normal((301, 67)).astype(form)
    got = (want + 1e-3 * random.standard_normal(want.shape)).astype(np.float32)
    plain = compare(got, want)
    monkeypatch.setattr(comparing, "COMPILED", 1)
    fast = compare(got, want)
    assert fast.rel_l2 == pytest.approx(plain.rel_l2, rel=1e-12)
    assert (fast.max_abs, fast.worst) == (plain.max_abs, plain.worst)
    got[300, 66] = np.nan
    assert compare(got, want).rel_l2 == np.inf and compare(got, want).worst == (300, 66)


@for_all("shape", [(), (1,), (3, 5), (40000,)])
@for_all("form", [np.float32, np.float16, np.int32])
@for_all("scale", [1.0, 1e-200, 1e200])
def test_comparison_in_strips(shape, form, scale):
    random = np.random.default_rng(1)
    want = np.asarray(100 * random.standard_normal(shape), form)
    got = want + random.integers(0, 2, shape).astype(form)
    if scale != 1:
        want, got = (one.astype(np.float64) * scale for one in (want, got))
    found = compare(got, want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    apart = np.abs(got - want)
    assert found.max_abs == apart.max() and apart[found.worst] == apart.max()
    expected = np.linalg.norm(np.ravel(apart / scale)) / np.linalg.norm(np.ravel(want / scale))
    assert found.rel_l2 == pytest.approx(expected, rel=1e-9)


@for_all(
    ("got", "want"),
    [
        (np.nan, 1.0),
        (1.0, np.nan),
        (np.inf, -np.inf),
        (np.inf, 3e38),
        (np.nan, np.inf),
        (1e308, -1e308),
    ],
)
def test_a_value_that_is_finite_on_one_side_only_has_an_infinite_error(got, want):
    c = compare([1.0, got, 2.0], [1.0, want, 2.0])
    assert (c.max_abs, c.rel_l2, c.worst) == (np.inf, np.inf, (1,))


def test_zeros_can_be_an_exact_reference():
    assert compare([0.0], [0.0]).rel_l2 == 0
    assert compare([1e-30], [0.0]).rel_l2 == np.inf


@pytest.mark.parametrize("scale", [1e-300, 1e-45, 1e38, 1e300])
def test_the_relative_error_is_the_same_at_every_scale(scale):
    assert compare([scale, 2 * scale], [scale, scale]).rel_l2 == pytest.approx(0.5**0.5)


def test_shapes_must_agree():
    for got, want in (((2, 3), (3, 2)), ((2,), (2, 1)), ((0,), (1,)), ((), (1,))):
        with pytest.raises(UsageError, match="the result has shape"):
            compare(np.zeros(got), np.zeros(want))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3", "uint8", "bool"])
def test_every_format_is_compared_in_float64(dtype):
    got, want = np.array([0, 1, 1], dtype), np.array([0, 1, 0], dtype)
    assert compare(got, want).max_abs == 1
    assert compare(np.uint8([0]), np.uint8([1])).max_abs == 1
    assert compare(np.float32(3), 4).worst == ()
