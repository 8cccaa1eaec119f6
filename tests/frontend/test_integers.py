"""Axes, slices, loop bounds and seeds that are not integers are refused with neuroncore's messages,
in both dialects."""

import neuronxcc.nki
import neuronxcc.nki.language
import nki
import nki.language
import numpy as np
import pytest
from every import for_all

from neuroncore.base.errors import KernelError, OutsideKernelError, SignatureError

DIALECTS = {
    "today's": (nki.jit, nki.language),
    "older": (neuronxcc.nki.jit, neuronxcc.nki.language),
}
X = np.arange(12, dtype=np.float32).reshape(3, 4)

WRONG = {
    "sum": lambda nl, x: nl.sum(x, axis=0.5),
    "sum of a list": lambda nl, x: nl.sum(x, axis=[0.5]),
    "max by name": lambda nl, x: nl.max(x, axis="1"),
    "mean of none": lambda nl, x: nl.mean(x, axis=None),
    "softmax": lambda nl, x: nl.softmax(x, axis=1.0),
    "expand_dims": lambda nl, x: nl.expand_dims(x, axis=0.5),
    "program_id": lambda nl, x: nl.program_id(0.5),
    "num_programs": lambda nl, x: nl.num_programs(0.5),
    "slice step 0": lambda nl, x: x[:, 0:4:0],
    "slice step -1": lambda nl, x: x[:, 3:0:-1],
    "seed": lambda nl, x: nl.random_seed(None),
    "seed by name": lambda nl, x: nl.random_seed("seven"),
    "range": lambda nl, x: list(nl.affine_range(4 / 2)),
    "range of none": lambda nl, x: list(nl.static_range(None)),
    "range step 0": lambda nl, x: list(nl.sequential_range(0, 4, 0)),
}

RIGHT = {
    "sum": lambda nl, x: nl.sum(x, axis=1),
    "sum of a list": lambda nl, x: nl.sum(x, axis=[-1]),
    "sum by numpy": lambda nl, x: nl.sum(x, axis=np.int64(1)),
    "mean by numpy": lambda nl, x: nl.mean(x, axis=(np.int64(1),)),
    "softmax": lambda nl, x: nl.softmax(x, axis=1),
    "expand_dims": lambda nl, x: nl.expand_dims(x, axis=np.int64(1)),
    "program_id": lambda nl, x: nl.program_id(0),
    "num_programs": lambda nl, x: nl.num_programs((0, 1)),
    "slice": lambda nl, x: x[:, 0 : 4 : np.int64(3)],
    "range": lambda nl, x: list(nl.affine_range(np.int64(4) // 2)),
    "range step -1": lambda nl, x: list(nl.static_range(4, 0, -1)),
}


def kernel_of(dialect, does):
    jit, nl = DIALECTS[dialect]

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        does(nl, tile)
        nl.store(out, tile)
        return out

    return jit(kernel)


@for_all("dialect", DIALECTS)
@for_all("name", WRONG)
def test_a_value_that_is_not_an_integer_is_refused_with_a_reason_and_a_hint(dialect, name):
    with pytest.raises(KernelError) as refused:
        kernel_of(dialect, WRONG[name])(X)
    error = refused.value
    assert error.place.file == __file__
    assert error.expected and error.because and error.hint


@for_all("dialect", DIALECTS)
@for_all("name", RIGHT)
def test_types_that_count_as_integers_are_accepted(dialect, name):
    np.testing.assert_array_equal(kernel_of(dialect, RIGHT[name])(X), X)


@for_all("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["sum", "max by name", "expand_dims", "range", "range step 0"])
def test_wrong_integers_are_refused_outside_of_kernels_too(dialect, name):
    with pytest.raises(KernelError):
        WRONG[name](DIALECTS[dialect][1], X)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_array_of_the_host_is_not_accepted_as_a_tile(dialect):
    with pytest.raises(SignatureError, match="is not a tile"):
        kernel_of(dialect, lambda nl, _: nl.expand_dims(X, 1))(X)


@pytest.mark.parametrize("name", ["sum", "expand_dims"])
def test_tiles_cannot_be_made_outside_of_kernels(name):
    with pytest.raises(OutsideKernelError):
        RIGHT[name](nki.language, X)
