"""Tensors that the kernel places itself overlap like on the chip."""

import numpy as np
import pytest
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from neuronxcc import nki
from neuronxcc.nki import compiler as ncc
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older

from neuroncore.base.errors import KernelError, OutOfBoundsError, SignatureError


def placed(device, buffer, shape=(8, 16), dtype=np.float32):
    return device.call(nl.ndarray, shape, dtype=dtype, buffer=buffer)


def numbers(rows, columns, start=0.0):
    return (np.arange(rows * columns).reshape(rows, columns) + start).astype(np.float32)


def fill(device, target, values):
    """Write values by DMA."""

    def kernel():
        target[...] = nl.load(device.tile(values, buffer="hbm"))

    device.call(kernel)


def test_two_tensors_at_one_address_are_one_memory():
    device = Older()
    wide = placed(device, ncc.sbuf.alloc(lambda index, rows, size: (0, 1024)))
    half = placed(device, ncc.sbuf.alloc(lambda index, rows, size: (0, 1024 + 32)), (8, 8))
    other = placed(device, ncc.sbuf.alloc(lambda index, rows, size: (32, 1024)))
    fill(device, wide, numbers(8, 16))
    fill(device, other, numbers(8, 16, 500.0))
    assert np.array_equal(half.numpy(), numbers(8, 16)[:, 8:])
    fill(device, half, numbers(8, 8, 1000.0))
    assert np.array_equal(wide.numpy()[:, 8:], numbers(8, 8, 1000.0))
    assert np.array_equal(wide.numpy()[:, :8], numbers(8, 16)[:, :8])
    assert np.array_equal(other.numpy(), numbers(8, 16, 500.0))


def test_an_overlap_in_another_format_shows_the_bits():
    device = Older()
    words = placed(device, ncc.sbuf.alloc(lambda *_: (0, 512)), (4, 4))
    halves = placed(device, ncc.sbuf.alloc(lambda *_: (0, 512)), (4, 8), np.uint16)
    values = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    fill(device, words, values)
    assert np.array_equal(halves.numpy(), values.view(np.uint16))


def test_an_allocator_is_called_for_each_block_with_its_size():
    asked = []

    def place(index, rows, size):
        asked.append((index, rows, size))
        return 0, 128 * (2 * index[0] + index[1])

    device = Older()
    shape = (3, 2, nl.par_dim(8), 4, 5)
    blocks = placed(device, ncc.sbuf.alloc(place), shape)
    for i, j in np.ndindex(3, 2):
        fill(
            device, device.block(blocks, i, j), numbers(8, 20, 100.0 * i + 10 * j).reshape(8, 4, 5)
        )
    assert {row for row in asked} == {((i, j), 8, 80) for i, j in np.ndindex(3, 2)}
    for i, j in np.ndindex(3, 2):
        want = numbers(8, 20, 100.0 * i + 10 * j).reshape(8, 4, 5)
        assert np.array_equal(device.block(blocks, i, j).numpy(), want)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9))
def test_mod_alloc_alternates_between_a_few_places(places, base, count):
    device = Older()
    buffer = ncc.sbuf.mod_alloc(base_addr=base * 64, num_free_tiles=(places,))
    blocks = placed(device, buffer, (count, nl.par_dim(8), 16))
    for i in range(count):
        fill(device, device.block(blocks, i), numbers(8, 16, 1000.0 * i))
    for i in range(count):
        last = max(j for j in range(count) if j % places == i % places)
        assert np.array_equal(device.block(blocks, i).numpy(), numbers(8, 16, 1000.0 * last))
    image = placed(device, ncc.sbuf.alloc(lambda *_: (0, base * 64)), (8, 16))
    assert np.array_equal(image.numpy(), device.block(blocks, 0).numpy())


def test_mod_alloc_counts_blocks_of_several_axes_row_by_row():
    device = Older()
    buffer = ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2, 3))
    blocks = placed(device, buffer, (4, 3, nl.par_dim(8), 16))
    for i, j in np.ndindex(4, 3):
        fill(device, device.block(blocks, i, j), numbers(8, 16, 100.0 * (3 * i + j)))
    for place in range(6):
        at = placed(device, ncc.sbuf.alloc(lambda *_, k=place: (0, 64 * k)), (8, 16))
        assert np.array_equal(at.numpy(), numbers(8, 16, 100.0 * (place + 6)))


def test_mod_alloc_can_go_down_the_partitions():
    device = Older()
    buffer = ncc.sbuf.mod_alloc(base_addr=0, base_partition=32, num_par_tiles=(3,))
    blocks = placed(device, buffer, (3, nl.par_dim(32), 4))
    for i in range(3):
        fill(device, device.block(blocks, i), numbers(32, 4, 1000.0 * i))
    for i in range(3):
        at = placed(device, ncc.sbuf.alloc(lambda *_, k=i: (32 * k + 32, 0)), (32, 4))
        assert np.array_equal(at.numpy(), numbers(32, 4, 1000.0 * i))


def test_banks_of_psum_alternate():
    device = Older()
    values = numbers(8, 8, 1.0) / 64
    x = device.tile(values)

    def kernel():
        buffer = ncc.psum.mod_alloc(base_bank=2, num_bank_tiles=(2,))
        sums = nl.ndarray((3, nl.par_dim(8), 8), dtype=np.float32, buffer=buffer)
        for i in range(3):
            sums[i] = nisa.nc_matmul(x, x)
            for _ in range(i):
                sums[i] += nisa.nc_matmul(x, x)
        bank = nl.ndarray((8, 8), dtype=np.float32, buffer=ncc.psum.alloc(lambda *_: (3, 0, 0)))
        return sums[0], sums[1], sums[2], bank

    product = values.T.astype(np.float64) @ values
    got = [tile.numpy() for tile in device.call(kernel)]
    for tile, times in zip(got, (3, 2, 3, 2), strict=True):
        assert np.allclose(tile, times * product, rtol=1e-6)


def test_without_counts_every_block_has_the_same_place():
    device = Older()
    one = placed(device, ncc.sbuf.mod_alloc(base_addr=256))
    fill(device, one, numbers(8, 16))
    again = placed(device, ncc.sbuf.mod_alloc(base_addr=256))
    assert np.array_equal(again.numpy(), numbers(8, 16))


def test_auto_alloc_finds_separate_places():
    device = Older()
    tiles = [placed(device, ncc.sbuf.auto_alloc()) for _ in range(3)]
    for number, tile in enumerate(tiles):
        fill(device, tile, numbers(8, 16, 100.0 * number))
    for number, tile in enumerate(tiles):
        assert np.array_equal(tile.numpy(), numbers(8, 16, 100.0 * number))
    sums = placed(device, ncc.psum.auto_alloc())
    assert sums.region.value == "psum"


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ((0, 10**9), KernelError, "1,000,000,000"),
        ((0, -64), KernelError, "-64"),
        ((127, 0), KernelError, "127"),
        ((0, 0, 0), SignatureError, "the allocation gives"),
        ((0,), SignatureError, "the allocation gives"),
    ],
)
def test_bad_addresses_in_sbuf_are_refused(address, kind, message):
    with pytest.raises(kind, match=message):
        placed(Older(), ncc.sbuf.alloc(lambda *_: address))


@for_all(
    ("address", "kind", "message"),
    [
        ((8, 0, 0), OutOfBoundsError, "bank 8"),
        ((-1, 0, 0), OutOfBoundsError, "bank -1"),
        ((0, 0, 2048 - 32), OutOfBoundsError, "bytes 2016 to 2079"),
        ((0, 0, -64), KernelError, "-64"),
        ((0, 0, 64), SignatureError, "byte 64"),
        ((0, 127, 0), KernelError, "127"),
        ((0, 0), SignatureError, "the allocation gives"),
    ],
)
def test_bad_addresses_in_psum_are_refused(address, kind, message):
    placed(Older(), ncc.psum.alloc(lambda *_: (7, 0, 0)))
    with pytest.raises(kind, match=message):
        placed(Older(), ncc.psum.alloc(lambda *_: address))


def test_each_block_axis_needs_a_count():
    device = Older()
    buffer = ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2,))
    with pytest.raises(SignatureError, match="but the tensor has 2 block axes"):
        device.block(placed(device, buffer, (2, 2, nl.par_dim(8), 4)), 0, 0)


def test_a_placed_tensor_does_not_begin_with_a_value():
    device = Older()
    with pytest.raises(SignatureError, match="can't have an initial value"):
        device.call(nl.zeros, (8, 4), np.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    assert device.call(nl.zeros, (8, 4), np.float32, buffer=ncc.sbuf.auto_alloc()).shape == (8, 4)


def rooting():
    """A separate kernel for each test."""

    def rooted(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        roots = nl.ndarray(x.shape, dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=2048))
        tile[...] = nl.load(x)
        roots[...] = nisa.activation(op=nl.rsqrt, data=tile)
        nl.store(out, roots)
        return out

    return rooted


def test_an_activation_among_placed_tensors_needs_a_bias():
    with pytest.raises(SignatureError) as caught:
        nki.jit(rooting())(numbers(8, 16, 1.0))
    assert caught.value.also == "err_bias_tensor_must_be_specified_in_allocation"


@pytest.mark.parametrize(
    "decorated",
    [
        lambda f: nki.compiler.skip_middle_end_transformations(nki.jit(f)),
        lambda f: nki.compiler.skip_middle_end_transformations()(nki.jit(f)),
        lambda f: nki.jit(nki.compiler.skip_middle_end_transformations(f)),
        lambda f: nki.baremetal(nki.compiler.skip_middle_end_transformations(f)),
    ],
)
def test_an_activation_needs_no_bias_if_the_middle_end_is_skipped(decorated):
    result = decorated(rooting())(numbers(8, 16, 1.0))
    np.testing.assert_allclose(result, 1 / np.sqrt(numbers(8, 16, 1.0)), rtol=1e-5)
