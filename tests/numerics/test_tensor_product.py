"""The Tensor engine's product: blocks and their edges, one rounding at each link, and the same bits
on every kind of processor."""

import contextlib
import io
import math
import os
import subprocess
import sys
from fractions import Fraction

import llvmlite.binding
import numpy as np
import pytest
from chains import chain, fused, normal
from device import bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.clause import product

ODD = [
    *[(1, 1, 1), (2, 1, 70), (2, 70, 1), (5, 9, 17), (7, 8, 16), (3, 4, 48), (3, 12, 49)],
    *[(128, 3, 64), (6, 17, 65), (4, 33, 96), (9, 7, 113), (130, 15, 31), (1, 128, 512)],
]


def test_a_link_of_the_chain_is_the_exact_sum_rounded_once():
    a, b, c = normal((3, 500))
    for *terms, got in zip(a, b, c, fused(a, b, c), strict=True):
        p, q, r = (Fraction(float(term)) for term in terms)
        near = (got, np.nextafter(got, np.float32(-9)), np.nextafter(got, np.float32(9)))
        away = [abs(p * q + r - Fraction(float(value))) for value in near]
        assert away[0] == min(away)


@for_all("accumulate", [False, True])
@for_all("shape", ODD)
def test_blocks_and_their_edges_are_the_chain(shape, accumulate):
    k, m, n = shape
    s, x, out = normal((k, m), 1), normal((k, n), 2), normal((m, n), 3)
    want = out + chain(s, x) if accumulate else chain(s, x)
    product.chain(s, x, out, accumulate)
    assert np.array_equal(bits(out), bits(want))


@for_all("group", [2, 4])
@for_all("shape", ODD)
def test_blocks_of_groups_and_their_edges_are_the_chain(shape, group):
    k, m, n = shape
    s, x = (normal((group * k, c), c).astype("float8_e5m2").astype(np.float32) for c in (m, n))
    want, got = np.zeros((m, n), np.float32), np.empty((m, n), np.float32)
    for first in range(0, group * k, group):
        total = np.outer(s[first], x[first])
        for row in range(first + 1, first + group):
            total = total + np.outer(s[row], x[row])
        want = want + total
    product.chain(s, x, got, False, group)
    assert np.array_equal(bits(got), bits(want))


@pytest.mark.parametrize("cut", [np.s_[:, ::2], np.s_[:, ::-1], np.s_[::-1, 3:], np.s_[1:, :-1]])
def test_arrays_of_any_strides(cut):
    """The operands have any strides, and so has the result in turn, whose other elements are
    unchanged."""
    s, x = normal((40, 70), 1)[cut], normal((40, 130), 2)[cut]
    want = chain(s, x)
    for make in (np.empty_like, lambda a: np.empty(a.shape[::-1], np.float32).T):
        out = make(want)
        product.chain(s, x, out, False)
        assert np.array_equal(bits(out), bits(want))
    wide = np.full((2 * want.shape[0], 3 * want.shape[1]), 7, np.float32)
    product.chain(s, x, wide[::2, ::3], False)
    assert np.array_equal(bits(wide[::2, ::3]), bits(want))
    wide[::2, ::3] = 7
    assert (wide == 7).all()


def nearest(exact):
    """The float32 nearest to a fraction, ties to even."""
    unit = Fraction(2) ** max(math.frexp(float(exact))[1] - 24, -149)
    value = float(round(exact / unit) * unit)
    return np.float32(value if abs(value) < 2.0**128 else math.copysign(math.inf, value))


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(finite, finite, finite)
def test_a_link_of_the_chain_is_rounded_once(a, b, c):
    s, x = np.array([[c], [a]], np.float32), np.array([[1], [b]], np.float32)
    out = np.empty((1, 1), np.float32)
    product.chain(s, x, out, False)
    assert out[0, 0] == nearest(Fraction(a) * Fraction(b) + Fraction(c))


# A few products, some of huge and tiny numbers, and digests of their bits: one of plain products,
# and one of those in groups and scaled.
DIGEST = """
import hashlib, sys
import numpy as np
from neuroncore.clause import product
from neuroncore.numerics.loops import lanes

rng, digest = np.random.default_rng(0), hashlib.sha256()
def numbers(*shape):
    values = rng.normal(size=shape) * 2.0 ** rng.integers(-70, 60, shape)
    values = values.astype(np.float32)
    values[rng.random(shape) < 0.02] = rng.choice(np.float32([0, -0.0, 1e-45, -1e-40, 3e38]))
    return values
for k, m, n in ((1, 1, 1), (3, 7, 5), (64, 33, 1), (19, 50, 131)):
    out = np.empty((m, n), np.float32)
    product.chain(numbers(k, m), numbers(k, n), out, False)
    digest.update(np.where(np.isnan(out), np.float32(0.5), out).tobytes())
print(lanes.LANES, lanes.FUSED, digest.hexdigest(), flush=True)
if "plain" in sys.argv:
    sys.exit()
s, x = rng.integers(-99, 99, (2, 64, 40)).astype(np.float32)
scales = 2.0 ** rng.integers(-60, 60, (2, 2, 40))
for group in (2, 4):
    product.chain(s, x, out[:40, :40], False, group)
    digest.update(out[:40, :40].tobytes())
for group in (1, 4):
    product.scaled_chain(s, x, *scales, out[:40, :40], False, group)
    digest.update(out[:40, :40].tobytes())
print(digest.hexdigest())
"""
AVX2 = "+avx2,+avx,+fma,+sse4.2,+sse4.1,+ssse3,+sse3,+sse2,+popcnt,+bmi,+bmi2,+f16c"
HOST = llvmlite.binding.get_host_cpu_features()
# Compiling a loop for another processor takes a second: all products are made where nothing is
# fused, and plain ones where only the number of lanes differs.
OTHERS = [
    *([("nehalem", "", "all", ["4", "False"])] if "sse2" in HOST else []),
    *([("haswell", AVX2, "plain", ["8", "True"])] if HOST.get("avx2") else []),
]


def digests(which, **environment):
    """Lanes of a vector, whether multiply-adds are fused there, and the digests."""
    program = [sys.executable, "-c", DIGEST, which]
    environment = {**os.environ, **environment}
    done = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_the_bits_are_the_same_on_any_processor():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(DIGEST, {})
    _, _, *here = printed.getvalue().split()
    for name, features, which, kind in OTHERS:
        found = digests(which, NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=features)
        assert found == [*kind, *here[: len(found) - 2]]
        assert len(found) == (4 if which == "all" else 3)
