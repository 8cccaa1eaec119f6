"""The stride of an axis of size 1 is the size of everything inside it, however the view was made.
Only a run-time offset along the axis depends on the stride."""

from math import prod

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import ShapeError, ViewError
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.memory import access

REGIONS = ("hbm", "sbuf", "psum")
SIZES = st.lists(st.sampled_from([1, 1, 2, 3, 4]), min_size=2, max_size=5).map(tuple)


def counting(shape):
    return np.arange(prod(shape), dtype=np.float32).reshape(shape)


# --- offsets along every axis ---------------------------------------------------------------------
# Each function makes another view that keeps the elements in order.


def regrouped(data, shape):
    """Return another shape with the same number of elements, with axes of size 1 among its axes."""
    left, found = prod(shape), []
    while left > 1:
        found.append(data.draw(st.sampled_from([n for n in range(2, left + 1) if left % n == 0])))
        left //= found[-1]
    for _ in range(data.draw(st.integers(0, 2))):
        found.insert(data.draw(st.integers(0, len(found))), 1)
    return tuple(found) or (1,)


def reshape(data, tile, first):
    return tile.reshape((*tile.shape[:first], *regrouped(data, tile.shape[first:])))


def expand_dim(data, tile, first):
    return tile.expand_dim(data.draw(st.integers(first, tile.ndim)))


def squeeze_dim(data, tile, first):
    ones = [axis for axis in range(first, tile.ndim) if tile.shape[axis] == 1]
    return tile.squeeze_dim(data.draw(st.sampled_from(ones))) if ones else tile


def reshape_dim(data, tile, first):
    axis = data.draw(st.integers(first, tile.ndim - 1))
    return tile.reshape_dim(axis, regrouped(data, (tile.shape[axis],)))


def flatten_dims(data, tile, first):
    return tile.flatten_dims(
        *sorted(data.draw(st.tuples(*[st.integers(first, tile.ndim - 1)] * 2)))
    )


def rearrange(data, tile, first):
    names = "abcdefgh"[: tile.ndim]
    axis = data.draw(st.integers(first, tile.ndim - 1))
    outer = data.draw(st.sampled_from([n for n in (1, 2, 3) if tile.shape[axis] % n == 0]))
    src = [(n, "x") if n == names[axis] else n for n in names]
    return tile.rearrange(src, [n for group in src for n in group], {names[axis]: outer})


def broadcast(data, tile, first):
    ones = [axis for axis in range(first, tile.ndim) if tile.shape[axis] == 1]
    return tile.broadcast(data.draw(st.sampled_from(ones)), 1) if ones else tile


def permute(data, tile, first):
    return tile.permute(range(tile.ndim))


def whole_slice(data, tile, first):
    return tile[(...,)]


ORDERLY = [
    *(reshape, expand_dim, squeeze_dim, reshape_dim, flatten_dims),
    *(rearrange, broadcast, permute, whole_slice),
]


@pytest.mark.parametrize("region", REGIONS)
@given(data=st.data())
def test_an_offset_along_an_axis_counts_the_elements_inside_it(region, data):
    """offset + scalar_offset * prod(shape[indirect_dim + 1:]), for every axis of every view that
    keeps the elements in order."""
    first = int(region != "hbm")
    values = counting(data.draw(SIZES))
    device = Device()
    tile = device.tile(values, buffer=region)
    for _ in range(data.draw(st.integers(1, 4))):
        view = data.draw(st.sampled_from(ORDERLY))(data, tile, first)
        tile = view if view.ndim <= 7 else tile
    row = values.reshape(values.shape[0], -1) if first else values.reshape(1, -1)
    partitions = [[row.shape[1], row.shape[0]]] if first else []
    for dim in range(first, tile.ndim):
        step = prod(tile.shape[dim + 1 :])
        index = data.draw(st.integers(0, (row.shape[1] - 1) // step))
        register = device.call(nisa.register_alloc, index)
        at = tile.ap([*partitions, [1, 1]], offset=0, scalar_offset=register, indirect_dim=dim)
        assert np.array_equal(at.resolved().numpy().ravel(), row[:, index * step])


@given(data=st.data(), shape=SIZES)
def test_reshaped_strides_equal_those_of_a_dense_array(data, shape):
    target = regrouped(data, shape)
    assert access.reshaped(shape, access.dense(shape), target) == access.dense(target)


@nki.jit
def block_of_a_reshape(a, i: int):
    out = nl.ndarray((8, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    blocks = a.reshape((8, 2, 1, 64, 1))
    register = nisa.register_alloc(i)
    src = blocks.ap([[128, 8], [1, 64]], offset=0, scalar_offset=register, indirect_dim=2)
    nisa.dma_copy(dst=out, src=src)
    return out


@nki.jit
def block_of_an_expanded_axis(a, i: int):
    out = nl.ndarray((8, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    blocks = a.reshape((8, 2, 64)).expand_dim(2)
    register = nisa.register_alloc(i)
    src = blocks.ap([[128, 8], [1, 64]], offset=0, scalar_offset=register, indirect_dim=2)
    nisa.dma_copy(dst=out, src=src)
    return out


@pytest.mark.parametrize("kernel", [block_of_a_reshape, block_of_an_expanded_axis])
@pytest.mark.parametrize("i", [0, 1])
def test_a_kernel_finds_its_block_along_an_axis_of_size_1(kernel, i):
    """nki-library's TensorView does this in attention with the keys distributed over ranks."""
    a = counting((8, 2, 64, 1))
    assert np.array_equal(kernel(a, i), a[:, i, :, 0])


@pytest.mark.parametrize("region", ["sbuf", "psum"])
def test_an_engine_reads_the_block_too(region):
    device = Device()
    values = counting((4, 2, 8))
    tile, out = device.tile(values, buffer=region), device.empty((4, 8))
    register = device.call(nisa.register_alloc, 1)
    src = tile.reshape((4, 2, 1, 8, 1)).ap(
        [[16, 4], [1, 8]], offset=0, scalar_offset=register, indirect_dim=2
    )
    device.issue("tensor_copy", out, src)
    assert np.array_equal(out.numpy(), values[:, 1])


def test_an_axis_of_size_1_in_a_view_with_gaps_steps_over_the_gaps():
    tile = Device().tile(counting((2, 6, 8)), buffer="hbm")
    assert tile[:, ::2, 1:3].expand_dim(1).strides == (48, 48, 16, 1)
    assert tile.permute((0, 2, 1)).expand_dim(1).strides == (48, 48, 1, 8)


def test_a_broadcast_axis_cannot_have_an_offset():
    device = Device()
    tile = device.tile(counting((4, 1, 8)))
    register = device.call(nisa.register_alloc, 0)
    again = tile.broadcast(1, 1).ap([[8, 4], [1, 8]], scalar_offset=register, indirect_dim=1)
    assert again.dynamic[0].step == 8
    with pytest.raises(ViewError, match="repeats one element"):
        tile.broadcast(1, 2).ap([[8, 4], [1, 8]], scalar_offset=register, indirect_dim=1)


# --- the older API --------------------------------------------------------------------------------


@given(data=st.data())
def test_the_older_api_gives_the_same_strides(data):
    shape = data.draw(SIZES)
    tensor = Tensor.of(Device().tile(counting(shape), buffer="hbm").storage)
    target = regrouped(data, shape)
    view = tensor.reshape(target)
    assert view.strides == access.dense(target)
    axis = data.draw(st.integers(0, len(target)))
    wider = (*target[:axis], 1, *target[axis:])
    assert view.expand_dims(axis).strides == access.dense(wider)
    assert view.shaped(wider).strides == access.dense(wider)


# --- independence of these strides ----------------------------------------------------------------


@given(data=st.data(), shape=SIZES)
def test_checks_of_an_access_ignore_axes_of_size_1(data, shape):
    strides = [data.draw(st.integers(-3, 9)) for _ in shape]
    others = [data.draw(st.integers(-9, 99)) if n == 1 else s for n, s in zip(shape, strides)]
    for judge in (access.free_axes, access.is_dense, access.contiguous_run, access.extent):
        assert judge(shape, strides) == judge(shape, others)
    assert access.long_axes(shape, strides) == access.long_axes(shape, others)
    target = data.draw(st.permutations(shape))
    assert access.reshaped(shape, strides, target) == access.reshaped(shape, others, target)


@for_all("stride", [1, 3, 64, 128])
@for_all("region", REGIONS)
def test_an_estimate_ignores_axes_of_size_1(region, stride):
    def ns(stride):
        device = Device()
        tile, out = device.zeros((128, 128), buffer=region), device.empty((128, 1, 64))
        src = tile.ap([[128, 128], [stride, 1], [1, 64]])
        device.issue("dma_copy" if region == "hbm" else "tensor_copy", out, src)
        return device.timeline().total_ns

    assert ns(stride) == ns(0)


@pytest.mark.parametrize("of", [lambda tile: tile, lambda tile: Tensor.of(tile.storage)])
def test_bits_are_viewed_whatever_the_stride_of_an_axis_of_size_1(of):
    values = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    tile = of(Device().tile(values, buffer="hbm"))
    part = tile[0:1, 2:3, 0:2]
    assert np.array_equal(part.view("uint16").numpy(), values[0:1, 2:3, :2].view(np.uint16))
    with pytest.raises((ViewError, ShapeError)):
        tile[:, 0:2, 0:2].view("uint16")
