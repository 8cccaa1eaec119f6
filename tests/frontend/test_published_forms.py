"""Forms that published kernels and guides use beyond the reference pages."""

from concurrent.futures import ThreadPoolExecutor

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neuroncore.errors import ShapeError, SignatureError


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
@pytest.mark.parametrize("rest", [(512,), (3, 5), ()])
def test_the_first_axis_may_be_marked_as_that_of_the_partitions(buffer, rest):
    @nki.jit
    def kernel():
        tile = nl.ndarray((nl.par_dim(96), *rest), nl.float32, buffer=buffer)
        assert tile.shape == (96, *(rest or (1,)))
        assert all(type(size) is int for size in tile.shape)
        nisa.memset(tile, 0.0)

    kernel()


@nki.jit
def quickstart(a):
    """As SDK 2.27 and 2.28 have it."""
    a_tile = sbuf.view(dtype=a.dtype, shape=a.shape)  # noqa: F821
    nisa.dma_copy(dst=a_tile, src=a)
    c_tile = nl.ndarray(a.shape, a.dtype, buffer=sbuf)  # noqa: F821
    nisa.tensor_tensor(dst=c_tile, data1=a_tile, data2=a_tile, op=nl.add)
    c = hbm.view(a.dtype, a.shape)  # noqa: F821
    nisa.dma_copy(dst=c, src=c_tile)
    assert psum.view(nl.float32, (128, 512)).buffer is nl.psum  # noqa: F821
    return c


def test_memories_are_words_that_a_kernel_finds():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert np.array_equal(quickstart(x), 2 * x)
    with ThreadPoolExecutor(2) as threads:
        assert all(np.array_equal(y, 2 * x) for y in threads.map(quickstart, [x] * 8))


def test_outside_of_kernels_they_are_no_words():
    @nki.jit
    def fails(x):
        assert sbuf is not None  # noqa: F821
        raise ValueError

    with pytest.raises(ValueError):
        fails(np.ones((4, 3), np.float32))
    with pytest.raises(NameError):
        sbuf.view(nl.float32, (4, 3))  # noqa: F821


def test_a_kernels_own_names_come_first():
    @nki.jit
    def kernel(x):
        sbuf = nl.sbuf
        nl.store(x, nl.full(x.shape, 1.0, x.dtype, buffer=sbuf))

    x = np.zeros((4, 3), np.float32)
    kernel(x)
    assert (x == 1).all()


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


@pytest.mark.parametrize("where", [nl.sbuf, nl.psum])
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16])
def test_a_tile_is_assigned_by_a_copy(where, dtype):
    @nki.jit
    def kernel(x):
        blocks = nl.ndarray((96, 3, 5), dtype, buffer=where)
        for i in range(3):
            blocks[0:96, i, 0:5] = nl.load(x[i])
        whole = nl.ndarray((96, 3, 5), nl.float32)
        whole[...] = blocks
        out = nl.ndarray((96, 3, 5), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, whole)
        return out

    x = np.random.default_rng(0).integers(-9, 9, (3, 96, 5)).astype(np.float32)
    assert (kernel(x) == x.swapaxes(0, 1)).all()


def test_a_tile_of_another_shape_is_not_assigned():
    @nki.jit
    def kernel(x):
        nl.ndarray((4, 6), nl.float32)[:, 0:5] = nl.load(x)

    with pytest.raises(ShapeError, match="tensor_copy"):
        kernel(np.zeros((4, 6), np.float32))


@pytest.mark.parametrize("value", [1.0, np.zeros((4, 6), np.float32)])
def test_numbers_and_arrays_are_not_assigned(value):
    @nki.jit
    def kernel():
        nl.ndarray((4, 6), nl.float32)[...] = value

    with pytest.raises(SignatureError, match="not by assignment"):
        kernel()


def test_what_is_in_hbm_is_not_assigned_nor_assigned_to():
    @nki.jit
    def loads(x):
        nl.ndarray((4, 6), nl.float32)[...] = x

    @nki.jit
    def stores(x):
        x[...] = nl.load(x)

    for kernel in loads, stores:
        with pytest.raises(SignatureError, match="not by assignment"):
            kernel(np.zeros((4, 6), np.float32))


def test_a_tensor_tells_the_address_that_it_was_given():
    @nki.jit
    def kernel():
        placed = nl.ndarray((64, 16), nl.bfloat16, address=(64, 1024))
        assert placed.address == placed[0:32, 4:8].address == (64, 1024)
        assert nl.zeros((64, 16), nl.bfloat16).address is None

    kernel()
