"""Folds and statistics of the older API compared with numpy."""

import ml_dtypes
import numpy as np
import pytest
from every import for_all
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older

from neuroncore.base.errors import KernelError, NotEmulated, ShapeError

F32 = np.float32
FOLDS = {"add": np.add, "max": np.maximum, "min": np.minimum, "multiply": np.multiply}


def numbers(shape, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(0.5, 1.5, shape).astype(F32)


@pytest.mark.parametrize("name", FOLDS)
@for_all(
    ("shape", "axis"),
    [((5, 7), 1), ((1, 1), 1), ((128, 33), [1]), ((5, 3, 4), (1, 2)), ((5, 3, 4), 2)],
)
def test_a_fold_is_numpy_s(name, shape, axis):
    x = numbers(shape)
    device = Older()
    got = device.call(nisa.tensor_reduce, getattr(np, name), device.tile(x), axis=axis)
    axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
    want = FOLDS[name].reduce(x.astype(np.float64), axes)
    assert got.shape[0] == shape[0] and got.size == want.size
    np.testing.assert_allclose(got.numpy().reshape(want.shape), want, rtol=2e-6)
    assert len(device.opcodes) == 1


def test_folds_negate_keep_axes_and_round():
    x = numbers((5, 3, 4))
    device = Older()
    tile = device.tile(x)
    got = device.call(nisa.tensor_reduce, np.max, tile, axis=(1, 2), negate=True)
    assert np.array_equal(got.numpy().reshape(5), -x.max((1, 2)))
    kept = device.call(nisa.tensor_reduce, nl.maximum, tile, axis=(2,), keepdims=True)
    assert np.array_equal(kept.numpy(), x.max(2, keepdims=True))
    narrow = device.call(nisa.tensor_reduce, np.max, tile, axis=(2,), dtype=nl.bfloat16)
    want = x.max(2).astype(ml_dtypes.bfloat16)
    assert narrow.dtype == "bfloat16" and np.array_equal(narrow.numpy().reshape(5, 3), want)


def test_a_mask_folds_a_part():
    x = numbers((5, 7))
    device = Older()
    p, f = nl.arange(5)[:, None], nl.arange(7)[None, :]
    got = device.call(
        nisa.tensor_reduce, np.max, device.tile(x), axis=1, mask=(p < 3) & (f > 1) & (f < 5)
    )
    assert np.array_equal(got[0:3].numpy().reshape(3), x[:3, 2:5].max(1))
    assert got.unwritten().sum() == 2


COMBINATIONS = {
    "sum": lambda x, m, _: nl.sum(x, 1, mask=m),
    "mean": lambda x, m, _: nl.mean(x, 1, mask=m),
    "softmax": lambda x, m, _: nl.softmax(x, 1, mask=m),
    "bn_stats": lambda x, m, _: nisa.bn_stats(x, mask=m),
    "scan": lambda x, m, _: nisa.tensor_tensor_scan(x, x, 0.0, np.multiply, np.add, mask=m),
    "max8": lambda x, m, _: nisa.max8(src=x, mask=m),
    "accumulator": lambda x, m, sums: nisa.activation_reduce(
        np.exp, x, reduce_op=np.add, reduce_res=sums, mask=m
    ),
    "select": lambda x, m, sums: nisa.select_reduce(
        dst=x, predicate=x, on_true=x, on_false=0.0, reduce_res=sums, mask=m,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    ),
}  # fmt: skip


@for_all("name", COMBINATIONS)
def test_a_mask_does_not_combine_elements_of_separate_parts(name):
    # each part takes an instruction, which would overwrite or ignore the results of the others
    device = Older()
    tile, sums = device.tile(numbers((5, 24))), device.tile(numbers((5, 1)))
    f = nl.arange(24)[None, :]
    with pytest.raises(NotEmulated, match="several rectangles"):
        device.call(COMBINATIONS[name], tile, f != 11, sums)


def test_a_mask_may_choose_separate_parts_along_other_axes():
    x = numbers((5, 3, 4))
    device = Older()
    _, f, g = nl.mgrid[0:5, 0:3, 0:4]
    got = device.call(nl.sum, device.tile(x), 2, mask=(f != 1) & (g < 3))
    assert np.array_equal(got.numpy()[:, ::2], x[:, ::2, :3].sum(2))


def test_a_fold_goes_to_a_column_of_a_tile():
    x = numbers((5, 8))
    device = Older()
    tile = device.tile(x, buffer="psum")

    def kernel():
        sums = nl.ndarray((5, 4), dtype=nl.float32)
        rows, pair = nl.arange(5)[:, None], nl.arange(2)[None, :]
        for i in nl.affine_range(4):
            sums[rows, i] = nisa.tensor_reduce(np.add, tile[rows, i * 2 + pair], axis=[1])
        return sums

    assert np.array_equal(device.call(kernel).numpy(), x[:, ::2] + x[:, 1::2])
    assert len(device.opcodes) == 4


@for_all("axis", [0, (0, 1), 2, 3, -2, -3, (), (1, 1)])
def test_axes_that_can_not_be_folded_are_refused(axis):
    device = Older()
    with pytest.raises(ShapeError, match="can't be reduced"):
        device.call(nisa.tensor_reduce, np.add, device.tile(numbers((5, 7))), axis=axis)
    assert not device.opcodes


@pytest.mark.parametrize("shape", [(5, 7), (128, 3, 2), (1, 9)])
def test_partitions_are_folded(shape):
    x = numbers(shape)
    device = Older()
    got = device.call(nisa.tensor_partition_reduce, np.add, device.tile(x))
    want = x.astype(np.float64).sum(0, keepdims=True)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("shape", [(5, 7), (128, 512), (3, 1)])
def test_statistics_are_mean_and_variance(shape):
    x = numbers(shape)
    device = Older()
    tile = device.tile(x)

    def kernel():
        return nisa.bn_aggr(nisa.bn_stats(tile))

    got = device.call(kernel).numpy()
    wide = x.astype(np.float64)
    np.testing.assert_allclose(got[:, 0], wide.mean(1), rtol=1e-6)
    np.testing.assert_allclose(got[:, 1], wide.var(1), rtol=1e-4, atol=1e-7)


def test_statistics_of_pieces_can_be_combined():
    x = numbers((5, 700))
    device = Older()
    tile = device.tile(x)

    def kernel():
        stats = nl.ndarray((5, 2, 6), dtype=nl.float32)
        for i in nl.affine_range(2):
            stats[:, i, :] = nisa.bn_stats(tile[:, nl.ds(350 * i, 350)])
        return nisa.bn_aggr(stats)

    got = device.call(kernel).numpy()
    wide = x.astype(np.float64)
    np.testing.assert_allclose(got[:, 0], wide.mean(1), rtol=1e-6)
    np.testing.assert_allclose(got[:, 1], wide.var(1), rtol=1e-4)


def test_too_many_elements_for_statistics_are_refused():
    device = Older()
    device.call(nisa.bn_stats, device.tile(numbers((5, 512))))
    with pytest.raises(KernelError, match="512"):
        device.call(nisa.bn_stats, device.tile(numbers((5, 513))))


def test_a_result_and_its_fold():
    x = numbers((5, 7))
    device = Older()
    total = device.empty((5, 1))
    got = device.call(
        nisa.tensor_scalar_reduce,
        data=device.tile(x),
        op0=np.multiply,
        operand0=2.0,
        reduce_op=np.add,
        reduce_res=total,
    )
    assert np.array_equal(got.numpy(), x * F32(2))
    np.testing.assert_allclose(total.numpy()[:, 0], (x * F32(2)).sum(1), rtol=1e-6)
