"""The API in which a kernel is written is recognized from its names."""

from functools import partial
from types import FunctionType

import neuronxcc.nki as older
import neuronxcc.nki.language as older_nl
import nki
import nki.language as nl
import numpy as np
import pytest

from neuroncore.base.errors import SignatureError
from neuroncore.frontend.dialects import dialect


def of_today(x):
    return nl.load(x)


def of_older(x):
    return older_nl.load(x)


def of_both(x):
    return nl.load(older_nl.load(x))


def of_neither(x):
    return x


def within(x):
    def inner(y):
        return older_nl.load(y)

    return inner(x)


def by_its_own_import(x):
    import neuronxcc.nki.language as own

    return own.load(x)


def by_a_helper(x):
    return decorated(x)


@older.jit
def decorated(x):
    return x


def elsewhere(function, **space):
    """Return the same code in a module with these contents."""
    return FunctionType(function.__code__, {"__name__": "elsewhere", **space}, function.__name__)


@pytest.mark.parametrize(
    "function, expected",
    [
        (of_today, "nki"),
        (of_older, "neuronxcc.nki"),
        (within, "neuronxcc.nki"),
        (by_its_own_import, "neuronxcc.nki"),
        (by_a_helper, "neuronxcc.nki"),
        pytest.param(partial(of_older, x=1), "neuronxcc.nki", id="partial"),
        (of_both, None),
        (of_neither, None),
        (elsewhere(of_neither, load=nl.load), "nki"),
        (elsewhere(of_neither, load=older_nl.load, name="nki.language"), "neuronxcc.nki"),
        (elsewhere(of_today, nl=older_nl), "neuronxcc.nki"),
        (elsewhere(by_a_helper, decorated=of_older), "neuronxcc.nki"),
        (elsewhere(by_a_helper, decorated=elsewhere(by_a_helper, decorated=of_today)), "nki"),
        (elsewhere(of_both, nl=of_today, older_nl=of_older), None),
        (len, None),
    ],
    ids=lambda value: getattr(value, "__name__", "") or str(value),
)
def test_a_kernel_belongs_to_the_api_whose_names_it_uses(function, expected):
    assert dialect(function) == expected


def indexes(x):
    i, j = older_nl.mgrid[0:4, 0:4]
    return older_nl.load(x[i, j])


def stores(x):
    older_nl.store(x, 1.0)


@pytest.mark.parametrize("function", [of_older, indexes, stores])
def test_a_kernel_of_the_older_api_with_the_current_jit_is_reported(function):
    with pytest.raises(SignatureError) as caught:
        nki.jit(function)(np.ones((4, 4), np.float32))
    assert "a kernel of neuronxcc.nki is launched through nki.jit" in caught.value.because
    assert "neuronxcc.nki.jit" in caught.value.hint


def test_other_mistakes_keep_their_message():
    def wrong(x):
        return nl.load("x")

    with pytest.raises(SignatureError) as caught:
        nki.jit(wrong)(np.ones((4, 4), np.float32))
    assert "neuronxcc" not in str(caught.value)


def test_the_same_kernel_with_the_jit_of_its_api_runs():
    @older.jit
    def copied(x):
        out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
        older_nl.store(out, of_older(x))
        return out

    assert (copied(np.ones((4, 4), np.float32)) == 1).all()
