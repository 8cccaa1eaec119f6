"""Ways to define and call a kernel, and launch grids."""

import functools
import pickle
import sys
from copy import deepcopy

import neuronxcc.nki
import nki
import nki.language as nl
import numpy as np
import pytest
from every import for_all
from launched import copied, increased

from neuroncore.base.errors import SignatureError
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings


def values(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_kernel_called_by_a_kernel_is_part_of_it():
    x = values(3, 7)

    @nki.jit
    def outer(x):
        assert copied[1](x).name == ""
        return increased(increased(x))

    run = launch(outer.function, (x,), tensor=NkiTensor)
    np.testing.assert_array_equal(run.outputs, values(3, 7) + 2)
    assert run.outputs is x and run.kernel == "outer"
    opcodes = [
        run.core.program.calls[c].instruction.opcode for c in run.core.program.columns().call
    ]
    assert opcodes == ["DMA_DIRECT2D"] + 2 * ["DMA_DIRECT2D", "TENSOR_SCALAR", "DMA_DIRECT2D"]


def test_the_function_of_a_kernel_has_the_vendors_name():
    inner = increased.func

    @nki.jit
    def outer(x):
        return inner(inner(x))

    assert inner is increased.function is increased[2].func
    np.testing.assert_array_equal(outer(values(3, 7)), values(3, 7) + 2)


class Model:
    bias = 1.0

    @nki.jit
    def method(self, x):
        nl.store(x, nl.add(nl.load(x), self.bias))
        return x

    @staticmethod
    @nki.jit
    def static(x):
        return increased(x)

    @classmethod
    @nki.jit
    def of_class(cls, x):
        return cls.bias, increased(x)


@for_all(
    "kernel",
    [
        increased,
        nki.jit()(increased.function),
        nki.jit(mode="simulation", show_compiler_tb=True)(increased.function),
        nki.jit(increased),
        increased[1],
        increased[(1, 1)],
        nki.simulate(increased),
        nki.simulate(increased.function),
        nki.simulate(increased[1]),
        Model().method,
        Model().method[1],
        Model.static,
        lambda x: Model().of_class(x)[1],
    ],
)
def test_all_ways_to_define_and_call_a_kernel_run_it(kernel):
    x = values(3, 7)
    np.testing.assert_array_equal(kernel(x), values(3, 7) + 1)
    np.testing.assert_array_equal(x, values(3, 7) + 1)


def test_a_kernel_keeps_its_name_docstring_and_signature():
    assert copied.__name__ == copied[1].__name__ == "copied"
    assert copied.__doc__ == "A new tensor with the values of x."
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        copied()
    with pytest.raises(TypeError, match="takes 1 positional argument but 2"):
        copied(values(1, 1), 3)


def named(x):
    return x


@pytest.mark.parametrize("jit", [nki.jit, neuronxcc.nki.jit], ids=["today", "older"])
def test_a_kernel_is_pickled_by_its_name_like_a_function(jit, monkeypatch):
    kernel = jit(named)
    monkeypatch.setattr(sys.modules[__name__], "named", kernel)
    assert pickle.loads(pickle.dumps([kernel])) == [kernel] and deepcopy(kernel) is kernel


@pytest.mark.parametrize("jit", [nki.jit, neuronxcc.nki.jit], ids=["today", "older"])
def test_a_kernel_of_another_name_than_its_function_is_pickled_with_its_attributes(jit):
    kernel = jit(named)[2]
    for again in (pickle.loads(pickle.dumps(kernel)), deepcopy(kernel)):
        assert again.function is named and again.grid == kernel.grid
    assert deepcopy(jit(functools.partial(named))).function.func is named


@nki.jit
def each_a_row(x):
    """Every program of the grid adds its number to a row."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rank = nl.program_id(0) * nl.num_programs(1) + nl.program_id(1)
    nl.store(out[rank : rank + 1], nl.add(nl.load(x[rank : rank + 1]), float(rank)))
    return out


@pytest.mark.parametrize(
    ("target", "grid"), [("trn2", 3), ("trn2", (2, 2)), ("trn3", np.int64(8)), ("trn1", 2)]
)
def test_programs_beyond_a_logical_core_run_with_a_warning(target, grid):
    x = np.zeros((int(np.prod(grid)), 7), np.float32)
    with settings(target=target), pytest.warns(NeuronWarning, match=r"test_calling\.py.*GRID_SIZE"):
        got = each_a_row[grid](x)
    np.testing.assert_array_equal(got, x + np.arange(len(x))[:, None])


@pytest.mark.parametrize(("target", "grid"), [("trn2", 2), ("trn2", (2, 1)), ("trn1", 1)])
def test_programs_of_a_logical_core_run_without_a_warning(target, grid, recwarn):
    x = np.zeros((int(np.prod(grid)), 7), np.float32)
    with settings(target=target):
        np.testing.assert_array_equal(each_a_row[grid](x), x + np.arange(len(x))[:, None])
    assert not recwarn


WRONG = [0, -1, "2", 1.0, None, (1, 0), (), (2, (1,)), [2], slice(1, 2), np.array([2, 2])]


@for_all("grid", WRONG)
def test_an_invalid_grid_is_refused(grid):
    with pytest.raises(SignatureError, match="launch grid") as refused:
        increased[grid]
    assert refused.value.place.file == __file__
