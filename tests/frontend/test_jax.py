"""jax arrays in and out of kernels."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neuroncore.errors import DtypeError

jax = pytest.importorskip("jax")

DTYPES = (
    *("float32", "float16", "bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "bool"),
)


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


@nki.jit
def increased(x):
    nl.store(x, nl.add(nl.load(x), 1.0))
    return x


def array(dtype="float32", shape=(3, 8)):
    """Small whole numbers, which every format has."""
    return (jax.numpy.arange(np.prod(shape)) % 2).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_go_in_and_come_out_in_their_format(dtype):
    given = array(dtype)
    got = copied(given)
    assert isinstance(got, jax.Array) and got.dtype == given.dtype
    assert np.asarray(got).tolist() == np.asarray(given).tolist()


def test_an_array_of_jax_does_not_change():
    given = array()
    got = increased(given)
    assert isinstance(got, jax.Array) and got.tolist() == (np.asarray(given) + 1).tolist()
    assert given.tolist() == array().tolist()


def test_results_are_of_jax_if_an_argument_is():
    @nki.jit
    def kernel(pair, named):
        return [copied(pair[0]), named["x"]], copied(named["x"])

    (first, second), third = kernel((np.ones((3, 8), np.float32), None), {"x": array()})
    assert all(isinstance(x, jax.Array) for x in (first, second, third))


def test_the_first_library_among_the_arguments_makes_the_results():
    torch = pytest.importorskip("torch")

    @nki.jit
    def kernel(x, y):
        return copied(x), copied(y)

    assert all(isinstance(x, jax.Array) for x in kernel(array(), torch.ones(3, 8)))
    assert all(isinstance(x, torch.Tensor) for x in kernel(torch.ones(3, 8), array()))


def test_what_no_engine_computes_with_is_refused_by_name():
    with pytest.raises(DtypeError, match="argument x has dtype complex64") as caught:
        copied(array("complex64"))
    assert ".astype(jnp.float32)" in caught.value.hint
