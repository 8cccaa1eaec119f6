"""jax arrays as arguments and results of kernels."""

import neuronxcc.nki as older
import neuronxcc.nki.language as older_nl
import nki
import nki.language as nl
import numpy as np
import pytest
from launched import copied, increased

from neuroncore.base.errors import DtypeError, ShapeError
from neuroncore.frontend.settings import settings

jax = pytest.importorskip("jax")

DTYPES = (
    *("float32", "float16", "bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "bool"),
)


def array(dtype="float32", shape=(3, 8)):
    """Return small whole numbers, which every format represents."""
    return (jax.numpy.arange(np.prod(shape)) % 2).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arguments_and_results_keep_their_format_in_jax(dtype):
    given = array(dtype)
    got = copied(given)
    assert isinstance(got, jax.Array) and got.dtype == given.dtype
    assert np.asarray(got).tolist() == np.asarray(given).tolist()


def test_an_array_of_jax_does_not_change():
    given = array()
    got = increased(given)
    assert isinstance(got, jax.Array) and got.tolist() == (np.asarray(given) + 1).tolist()
    assert given.tolist() == array().tolist()


def test_results_are_jax_arrays_if_an_argument_is():
    @nki.jit
    def kernel(pair, named):
        return [copied(pair[0]), named["x"]], copied(named["x"])

    (first, second), third = kernel((np.ones((3, 8), np.float32), None), {"x": array()})
    assert all(isinstance(x, jax.Array) for x in (first, second, third))


def test_results_belong_to_the_library_of_the_first_array_argument():
    torch = pytest.importorskip("torch")

    @nki.jit
    def kernel(x, y):
        return copied(x), copied(y)

    assert all(isinstance(x, jax.Array) for x in kernel(array(), torch.ones(3, 8)))
    assert all(isinstance(x, torch.Tensor) for x in kernel(torch.ones(3, 8), array()))


def test_formats_without_an_engine_are_refused_by_name():
    with pytest.raises(DtypeError, match="argument x has dtype complex64") as caught:
        copied(array("complex64"))
    assert ".astype(jnp.float32)" in caught.value.hint


# --- graphs ---------------------------------------------------------------------------------------


@nki.jit
def added(x, y, *, twice=False):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    total = nl.add(nl.load(x), nl.load(y))
    nl.store(out, nl.add(total, total) if twice else total)
    return out


@older.jit
def older_added(x, y):
    out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
    older_nl.store(out, older_nl.load(x) + older_nl.load(y))
    return out


class Launches:
    """An observer that counts launches."""

    def __init__(self):
        self.done_ones = []

    def begun(self, core):
        pass

    def done(self, run):
        self.done_ones.append(run)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("kernel", [added, older_added])
def test_under_jit_a_kernel_runs_when_the_graph_runs(kernel, dtype):
    x = array(dtype)
    graph = jax.jit(lambda x: kernel(x, x) * x)
    launches = Launches()
    with settings(observer=launches, in_every_thread=True):
        for _ in range(2):
            got = graph(x)
            jax.block_until_ready(got)
    assert got.dtype == x.dtype and got.tolist() == (2 * x * x).tolist()
    assert len(launches.done_ones) == 2


def test_in_a_graph_some_arguments_may_have_values():
    constant = np.full((3, 8), 5, np.float32)
    got = jax.jit(lambda x: added(constant, y=x, twice=True))(array())
    assert got.tolist() == (2 * (array() + 5)).tolist()


def test_a_kernel_in_a_graph_may_return_several_results():
    @nki.jit
    def kernel(x):
        return {"same": copied(x), "pair": (copied(x), added(x, x))}

    got = jax.jit(kernel)(array())
    assert got["pair"][1].tolist() == (2 * array()).tolist() and got["same"].shape == (3, 8)


def test_gradients_use_a_rule_of_the_user():
    @jax.custom_vjp
    def sum_of(x, y):
        return added(x, y)

    sum_of.defvjp(lambda x, y: (added(x, y), None), lambda _, g: (g, g))
    loss = jax.jit(jax.grad(lambda x, y: (sum_of(x, y) * x * y).sum(), argnums=(0, 1)))
    x, y = array() + 1, array() + 2
    for got, wanted in zip(loss(x, y), (2 * x * y + y * y, 2 * x * y + x * x)):
        assert got.tolist() == wanted.tolist()


def test_unsupported_uses_are_refused_while_the_graph_is_traced():
    graph = jax.jit(lambda x: added(x, x[:, :3]))
    with pytest.raises(ShapeError, match="do not match"):
        graph(array())
