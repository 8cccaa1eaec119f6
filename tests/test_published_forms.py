"""Forms that published kernels and guides use beyond the reference pages."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neuroncore.errors import SignatureError


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
@pytest.mark.parametrize("rest", [(512,), (3, 5), ()])
def test_the_first_axis_may_be_marked_as_that_of_the_partitions(buffer, rest):
    @nki.jit
    def kernel():
        tile = nl.ndarray((nl.par_dim(96), *rest), nl.float32, buffer=buffer)
        assert tile.shape == (96, *(rest or (1,)))
        assert all(type(size) is int for size in tile.shape)

    kernel()


@pytest.mark.parametrize("shape", [(8, nl.par_dim(128), 512), (2, 8, nl.par_dim(4))])
def test_no_other_axis_can_be_that_of_the_partitions(shape):
    @nki.jit
    def kernel():
        nl.ndarray(shape, nl.float32)

    with pytest.raises(
        SignatureError, match="block dimensions before the partition axis"
    ) as raised:
        kernel()
    assert "list of tensors" in raised.value.hint


@nki.jit
def one_over_x_plus_x_plus_one(t):
    x, a, b = (nl.ndarray(t.shape, t.dtype) for _ in range(3))
    nisa.dma_copy(dst=x, src=t)
    nisa.reciprocal(dst=a, data=x, name="recip")
    nisa.tensor_scalar(dst=b, data=x, op0=nl.add, operand0=1, name="plus1")
    nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add)
    out = nl.ndarray(t.shape, t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=b)
    return out


@pytest.mark.parametrize(
    "edges", [[], [("plus1", "recip")], [("plus1", ["recip"])], (("recip", ("plus1",)),)]
)
def test_a_schedule_changes_no_result(edges):
    x = np.array([[1, 2, 4], [8, 0.5, 16]], np.float32)
    scheduled = one_over_x_plus_x_plus_one.with_schedule(edges)
    assert (scheduled(x) == 1 / x + (x + 1)).all()
    assert scheduled.__name__ == "one_over_x_plus_x_plus_one"


def test_a_schedule_keeps_the_grid():
    assert one_over_x_plus_x_plus_one[2].with_schedule([("plus1", "recip")]).grid == (2,)


@pytest.mark.parametrize(
    "edge", ["plus1", ("plus1",), ("plus1", 3), ("a", "b", "c"), (None, "b"), ("a", ["b", 1])]
)
def test_what_is_not_a_pair_of_names_is_refused(edge):
    with pytest.raises(SignatureError, match="is not an edge of a schedule"):
        one_over_x_plus_x_plus_one.with_schedule([("plus1", "recip"), edge])
