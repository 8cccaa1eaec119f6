"""Block dimensions: axes before the partition axis number separate tiles."""

import numpy as np
import pytest
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older

from neuroncore.base.errors import KernelError, OutOfBoundsError, SignatureError

VALUES = np.arange(6 * 4 * 5, dtype=np.float32).reshape(6, 4, 5)


SHAPE = (6, nl.par_dim(4), 5)


def made(device, shape=SHAPE, **options):
    return device.call(nl.ndarray, shape, dtype=np.float32, **options)


def test_shape_and_format_are_those_of_all_blocks():
    device = Older()
    blocks = made(device, (2, 3, nl.par_dim(4), 5))
    assert (blocks.shape, blocks.ndim, blocks.itemsize) == ((2, 3, 4, 5), 4, 4)
    assert device.block(blocks, 1).shape == (3, 4, 5)
    assert device.block(blocks, 1, 2).shape == device.block(device.block(blocks, 1), 2).shape
    assert device.block(blocks, 1, 2, slice(None), slice(1, 3)).shape == (4, 2)


def test_each_block_is_a_separate_tile():
    device = Older()
    x = device.tile(VALUES, buffer="hbm")

    def kernel():
        blocks = nl.ndarray((6, nl.par_dim(4), 5), dtype=np.float32)
        for i in nl.affine_range(6):
            blocks[i] = nl.load(x[i])
        total = nl.zeros((4, 5), np.float32)
        for i in nl.sequential_range(6):
            total += blocks[i, :, :]
        return blocks, total

    blocks, total = device.call(kernel)
    assert np.array_equal(total.numpy(), VALUES.sum(0))
    for i in range(6):
        assert np.array_equal(blocks[i].numpy(), VALUES[i])
        assert np.array_equal(blocks[i - 6, 1:3, ::2].numpy(), VALUES[i, 1:3, ::2])


def test_expressions_index_the_tile_behind_its_block():
    device = Older()
    x = device.tile(VALUES, buffer="hbm")
    p, f = nl.arange(4)[:, None], nl.arange(3)[None, :]

    def kernel():
        blocks = nl.zeros((2, 3, nl.par_dim(4), 5), np.float32)
        for i in nl.affine_range(2):
            for j in nl.affine_range(3):
                blocks[i, j, p, f + 1] = nl.load(x[i * 3 + j, p, f])
        return blocks[1, 2]

    want = np.zeros((4, 5), np.float32)
    want[:, 1:4] = VALUES[5, :, :3]

    def read():
        return nl.copy(kernel())

    assert np.array_equal(device.call(read).numpy(), want)


def test_a_sum_over_blocks_of_psum_begins_once_in_each():
    device = Older()
    a = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    x = device.tile(a)

    def kernel():
        sums = nl.zeros((3, nl.par_dim(5), 5), np.float32, buffer=nl.psum)
        for i in nl.affine_range(3):
            for _ in nl.affine_range(i + 1):
                sums[i] += nisa.nc_matmul(x, x)
        return [nl.copy(sums[i]) for i in range(3)]

    for times, total in enumerate(device.call(kernel), 1):
        assert np.allclose(total.numpy(), times * a.T.astype(np.float64) @ a, rtol=1e-6, atol=1e-6)
    assert "MEMSET" not in device.opcodes


def test_only_blocks_that_are_touched_take_memory():
    device = Older()
    blocks = made(device, (1000, nl.par_dim(128), 4096))  # 16 MiB per partition for all

    def kernel():
        for i in (0, 999):
            blocks[i] = 1.0
        return blocks[999]

    assert device.call(kernel).numpy().sum() == 128 * 4096


def test_a_tile_of_one_free_axis_gets_a_second():
    device = Older()
    assert device.block(made(device, (3, nl.par_dim(4))), 1).shape == (4, 1)


@pytest.mark.parametrize("use", [nl.exp, nisa.tensor_copy, lambda b: nl.add(b, 1.0), nl.load])
def test_many_tiles_are_refused_as_an_operand(use):
    device = Older()
    with pytest.raises(SignatureError, match="block axes"):
        device.call(use, made(device))
    assert not device.opcodes


def test_many_tiles_are_refused_as_a_target():
    device = Older()
    blocks = made(device, (2, 3, nl.par_dim(4), 5))
    with pytest.raises(SignatureError, match="block axes"):
        device.call(blocks.__setitem__, 1, 0.0)
    device.call(blocks.__setitem__, (1, 0), 0.0)


@pytest.mark.parametrize("key", [6, -7, (6, slice(None))])
def test_a_block_that_does_not_exist_is_refused(key):
    with pytest.raises(OutOfBoundsError, match="block axis 0 of size 6"):
        _ = made(Older())[key]


@pytest.mark.parametrize("key", [slice(0, 2), slice(None), 1.5, None])
def test_blocks_are_indexed_by_integers(key):
    with pytest.raises(SignatureError, match="block axis 0"):
        _ = made(Older())[key]


def test_blocks_are_not_indexed_by_expressions():
    with pytest.raises(SignatureError, match="block axis 0"):
        _ = made(Older())[nl.arange(4)[:, None], nl.arange(5)[None, :]]


@pytest.mark.parametrize(
    "shape", [(nl.par_dim(4), nl.par_dim(5)), (0, nl.par_dim(4)), (), (2.5, 4)]
)
def test_invalid_shapes_are_refused(shape):
    with pytest.raises(SignatureError, match="not a shape"):
        made(Older(), shape)


def test_a_whole_number_may_be_a_float():
    """A division gives such a float: (128, 256 * 256 / 128)."""
    tile = Older().call(nl.ndarray, (128, 256 * 256 / 128, np.float32(3)), np.float32)
    assert tile.shape == (128, 512, 3) and all(type(n) is int for n in tile.shape)


def test_more_partitions_than_exist_are_refused():
    device = Older()
    assert device.block(made(device, (300, nl.par_dim(128), 2)), 299).shape == (128, 2)
    with pytest.raises(KernelError, match="129"):
        device.block(made(device, (2, nl.par_dim(129), 2)), 0)
