"""Forms that published kernels and guides use beyond the reference pages."""

from concurrent.futures import ThreadPoolExecutor

import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
import numpy as np
import pytest
from every import for_all

from neuroncore.base.errors import KernelError, SignatureError


@for_all("buffer", [nl.sbuf, nl.psum])
@for_all("rest", [(512,), (3, 5), ()])
def test_the_first_axis_may_be_marked_as_the_partition_axis(buffer, rest):
    @nki.jit
    def kernel():
        tile = nl.ndarray((nl.par_dim(96), *rest), nl.float32, buffer=buffer)
        assert tile.shape == (96, *(rest or (1,)))
        assert all(type(size) is int for size in tile.shape)
        nisa.memset(tile, 0.0)

    kernel()


@nki.jit
def quickstart(a):
    """The quickstart of SDK 2.27 and 2.28."""
    a_tile = sbuf.view(dtype=a.dtype, shape=a.shape)  # noqa: F821
    nisa.dma_copy(dst=a_tile, src=a)
    c_tile = nl.ndarray(a.shape, a.dtype, buffer=sbuf)  # noqa: F821
    nisa.tensor_tensor(dst=c_tile, data1=a_tile, data2=a_tile, op=nl.add)
    c = hbm.view(a.dtype, a.shape)  # noqa: F821
    nisa.dma_copy(dst=c, src=c_tile)
    assert psum.view(nl.float32, (128, 512)).buffer is nl.psum  # noqa: F821
    return c


def test_names_of_memories_are_defined_inside_kernels():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert np.array_equal(quickstart(x), 2 * x)
    with ThreadPoolExecutor(2) as threads:
        assert all(np.array_equal(y, 2 * x) for y in threads.map(quickstart, [x] * 8))


def test_names_of_memories_are_undefined_outside_of_kernels():
    @nki.jit
    def fails(x):
        assert sbuf is not None  # noqa: F821
        raise ValueError

    with pytest.raises(ValueError):
        fails(np.ones((4, 3), np.float32))
    with pytest.raises(NameError):
        sbuf.view(nl.float32, (4, 3))  # noqa: F821


def test_names_of_a_kernel_take_precedence_over_names_of_memories():
    @nki.jit
    def kernel(x):
        sbuf = nl.sbuf
        nl.store(x, nl.full(x.shape, 1.0, x.dtype, buffer=sbuf))

    x = np.zeros((4, 3), np.float32)
    kernel(x)
    assert (x == 1).all()


@pytest.mark.parametrize("shape", [(8, nl.par_dim(128), 512), (2, 8, nl.par_dim(4))])
def test_no_other_axis_can_be_the_partition_axis(shape):
    @nki.jit
    def kernel():
        nl.ndarray(shape, nl.float32)

    with pytest.raises(SignatureError, match="block axes before the partition axis") as raised:
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
def test_a_schedule_does_not_change_results(edges):
    x = np.array([[1, 2, 4], [8, 0.5, 16]], np.float32)
    scheduled = one_over_x_plus_x_plus_one.with_schedule(edges)
    assert (scheduled(x) == 1 / x + (x + 1)).all()
    assert scheduled.__name__ == "one_over_x_plus_x_plus_one"


def test_a_schedule_keeps_the_grid():
    assert one_over_x_plus_x_plus_one[2].with_schedule([("plus1", "recip")]).grid == (2,)


@for_all("edge", ["plus1", ("plus1",), ("plus1", 3), ("a", "b", "c"), (None, "b"), ("a", ["b", 1])])
def test_a_schedule_must_have_pairs_of_names(edge):
    with pytest.raises(SignatureError, match="is not an edge of a schedule"):
        one_over_x_plus_x_plus_one.with_schedule([("plus1", "recip"), edge])


def test_a_tensor_has_the_address_that_it_was_given():
    @nki.jit
    def kernel():
        placed = nl.ndarray((64, 16), nl.bfloat16, address=(64, 1024))
        assert placed.address == placed[0:32, 4:8].address == (64, 1024)
        assert nl.zeros((64, 16), nl.bfloat16).address is None

    kernel()


def test_a_range_of_the_language_is_an_index():
    @nki.jit
    def kernel(x, rows):
        tile = nl.load(x[rows, nl.affine_range(1, 9, 2)])
        out = nl.ndarray(tile.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out[nl.affine_range(tile.shape[0]), :], value=tile)
        return out

    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    assert np.array_equal(kernel(x, range(6)), x[:, 1:9:2])
    assert np.array_equal(kernel(x, range(2, 5)), x[2:5, 1:9:2])
    with pytest.raises(KernelError):
        kernel(x, range(2, 7))


def test_tensors_are_instances_of_the_annotations_of_tensors():
    @nki.jit
    def kernel(x: nt.tensor, rest: nt.tensor | None = None, scale: "int | nt.tensor" = 1):
        tile = nl.load(x)
        for kind in (
            nt.tensor,
            nt.tensor[4, 3],
            nt.mutable_tensor,
            (int, nt.tensor),
            nt.tensor | None,
        ):
            assert all(isinstance(tensor, kind) for tensor in (x, x[1:3], tile, tile[:2]))
        assert not any(isinstance(other, nt.tensor) for other in (rest, scale, x.shape, np.ones(3)))
        assert not any(isinstance(tile, kind) for kind in (nt.scalar, nt.mutable))
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=tile)
        return out

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert np.array_equal(kernel(x), x)
