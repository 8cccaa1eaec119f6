"""torch tensors as arguments and results of kernels."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from launched import copied, increased

from neuroncore.base.errors import DtypeError

torch = pytest.importorskip("torch")

DTYPES = (
    *("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "bool"),
)


def tensor(dtype="float32", shape=(3, 8)):
    """Return small whole numbers, which every format represents."""
    return (torch.arange(np.prod(shape)) % 2).reshape(shape).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_arguments_and_results_keep_their_format_in_torch(dtype):
    given = tensor(dtype)
    got = copied(given)
    assert isinstance(got, torch.Tensor) and got.dtype == given.dtype
    assert got.tolist() == given.tolist()
    assert got.data_ptr() != given.data_ptr()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_formats_keep_every_bit_pattern(dtype):
    bits = 16 if dtype == "bfloat16" else 8
    integer = getattr(torch, f"int{bits}")
    codes = torch.arange(-(1 << bits - 1), 1 << bits - 1).to(integer).reshape(-1, 64)
    got = copied(codes.view(getattr(torch, dtype)))
    assert torch.equal(got.view(integer), codes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int32"])
@pytest.mark.parametrize(
    "view",
    [lambda x: x, lambda x: x[:, ::2], lambda x: x.T, lambda x: x[1], lambda x: x[1, 2]],
    ids=["whole", "columns", "transposed", "row", "scalar"],
)
def test_writes_are_visible_in_the_tensor_of_the_caller(dtype, view):
    given = view(tensor(dtype))
    before = given.float().clone()
    assert increased(given) is given
    assert torch.equal(given.float(), before + 1)


def test_a_tensor_with_a_gradient_is_passed_as_its_values():
    given = tensor().requires_grad_()
    got = copied(given)
    assert torch.equal(got, given.detach()) and not got.requires_grad


def test_results_are_torch_tensors_if_an_argument_is():
    array = np.ones((3, 8), np.float32)

    @nki.jit
    def kernel(pair, named):
        return [copied(pair[0]), named["x"]], copied(named["x"])

    (first, second), third = kernel((array, None), {"x": tensor()})
    assert all(isinstance(x, torch.Tensor) for x in (first, second, third))
    assert isinstance(copied(array), np.ndarray)


def test_a_result_whose_format_torch_lacks_is_a_numpy_array():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, nl.float8_e4m3, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out

    got = kernel(tensor())
    assert isinstance(got, np.ndarray) and got.dtype == "float8_e4m3"


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_formats_without_an_engine_are_refused_by_name(dtype):
    with pytest.raises(DtypeError, match=f"argument x has dtype torch.{dtype}") as caught:
        copied(tensor(dtype))
    assert ".to(torch.float32)" in caught.value.hint
