"""neuronxcc.nki.language compared with numpy: folds, norms, selections, products and transposes."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from every import for_all
from neuronxcc import nki
from neuronxcc.nki import language as nl
from older_kernels import applied, numbers, stored

from neuroncore.base.errors import FreeSizeError, KernelError, ShapeError, SignatureError

P, F = 77, 33
SHAPES_AND_AXES = (
    *(((P, F), 1), ((P, F), -1), ((P, F), [1]), ((7, 3, 5), 2), ((7, 3, 5), (1, 2))),
    *(((7, 3, 5, 2), [2, 3]), ((7, 3, 5, 2), (1, 2, 3)), ((1, 1), 1)),
)
FOLDS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean}


def close(got, want, tolerance=1e-5):
    assert got.shape == want.shape
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def axes_of(axis):
    return axis if isinstance(axis, int) else tuple(axis)


def on_chip(folded):
    """A result with at least two axes, like a tile."""
    return folded[:, None] if folded.ndim == 1 else folded


def softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def rms_norm(x, w, axis, n, epsilon=1e-6):
    return x / np.sqrt(np.square(x).sum(axis=axis, keepdims=True) / n + epsilon) * w


# --- folds ----------------------------------------------------------------------------------------


@for_all(("shape", "axis"), SHAPES_AND_AXES)
@pytest.mark.parametrize("name", [*FOLDS, "var"])
def test_folds_leave_the_axes_out(name, shape, axis):
    x = numbers(*shape)
    want = on_chip((FOLDS | {"var": np.var})[name](x, axis=axes_of(axis)))
    close(applied(getattr(nl, name), x, axis), want)


@for_all("axis", [None, "x", 1.0, (), [1, 1], 0])
def test_axes_to_fold_are_numbers_of_free_axes(axis):
    with pytest.raises(ShapeError, match="can't be reduced"):
        applied(lambda t: nl.sum(t, axis=axis), numbers(P, F))


@for_all(("shape", "axis"), SHAPES_AND_AXES)
@pytest.mark.parametrize("name", FOLDS)
def test_folds_keep_the_axes(name, shape, axis):
    x = numbers(*shape)
    want = FOLDS[name](x, axis=axes_of(axis), keepdims=True)
    close(applied(getattr(nl, name), x, axis, keepdims=True), want)


@pytest.mark.parametrize("name", [*FOLDS, "var"])
def test_folds_round_once(name):
    x = numbers(P, F)
    got = applied(getattr(nl, name), x, 1, dtype=nl.bfloat16)
    assert got.dtype == ml_dtypes.bfloat16
    close(got, (FOLDS | {"var": np.var})[name](x, axis=1, keepdims=True), 0.01)


@pytest.mark.parametrize("name", [*FOLDS, "var"])
@for_all("options", [{}, {"keepdims": True}])
def test_a_mask_of_a_fold_selects_elements(name, options):
    options = {} if name == "var" else options  # which has none
    x = numbers(P, F)

    def kernel(src):
        i, j = nl.mgrid[0:P, 0:F]
        t = nl.zeros((P, 1), src.dtype)
        row = nl.arange(P)[:, None]
        t[row, 0] = getattr(nl, name)(nl.load(src), 1, mask=(i < 50) & (j < 20), **options)
        return stored(t)

    want = np.zeros((P, 1), np.float32)
    want[:50] = (FOLDS | {"var": np.var})[name](x[:50, :20], axis=1, keepdims=True)
    close(nki.simulate_kernel(kernel, x), want)


def test_the_mean_of_integers_is_a_float():
    x = numbers(P, F, dtype=np.int32)
    got = applied(nl.mean, x, 1)
    assert got.dtype == np.float32
    close(got, x.mean(1, keepdims=True))


def test_all():
    x = (np.abs(numbers(P, 3)) > 0.5).astype(np.float32)
    got = applied(nl.all, x, 1)
    assert got.dtype == np.bool_ and np.array_equal(got, x.all(1, keepdims=True))


@nki.jit
def all_of_one(x):
    tile, (i, j) = nl.load(x), nl.mgrid[0:4, 0:3]
    out = nl.ndarray((4, 2), nl.float32, buffer=nl.shared_hbm)
    nl.store(out[:, 0:1], nl.all(tile[:, 0:1], axis=1, dtype=nl.float32))
    nl.store(out[:, 1:2], nl.all(tile[i, j], axis=1, dtype=nl.float32, mask=j < 1))
    return out


def test_all_of_one_element_is_0_or_1():
    x = np.float32([[5, 0, 0], [0, 1, 1], [-2, 1, 1], [np.nan, 1, 0]])
    assert all_of_one(x).tolist() == [[1, 1], [0, 0], [1, 1], [1, 1]]


@for_all("name", [*FOLDS, "var", "softmax", "all"])
def test_the_partition_axis_is_not_folded(name):
    with pytest.raises(ShapeError):
        applied(getattr(nl, name), numbers(P, F), 0)


# --- norms ----------------------------------------------------------------------------------------


@for_all(("shape", "axis"), SHAPES_AND_AXES)
def test_softmax_works_along_the_axes(shape, axis):
    x = numbers(*shape) * 5
    close(applied(nl.softmax, x, axis), softmax(x, axes_of(axis)))


@pytest.mark.parametrize("option", ["dtype", "compute_dtype"])
def test_softmax_in_another_format(option):
    x = numbers(P, F)
    got = applied(nl.softmax, x, 1, **{option: nl.bfloat16})
    assert got.dtype == ml_dtypes.bfloat16
    close(got, softmax(x, 1), 0.01)


@pytest.mark.parametrize("w_shape", [(P, F), (1, F), (P, 1)])
def test_rms_norm_has_weights_that_repeat(w_shape):
    x, w = numbers(P, F), numbers(*w_shape, seed=1)
    close(applied(nl.rms_norm, x, w, 1, F), rms_norm(x, w, 1, F))
    got = applied(nl.rms_norm, x, w, 1, 10, epsilon=0.5, dtype=nl.bfloat16)
    assert got.dtype == ml_dtypes.bfloat16
    close(got, rms_norm(x, w, 1, 10, 0.5), 0.02)


def test_rms_norm_along_the_last_of_several_axes():
    x, w = numbers(7, 3, 5), numbers(7, 3, 5, seed=1)
    close(applied(nl.rms_norm, x, w, 2, 5), rms_norm(x, w, 2, 5))
    close(applied(nl.rms_norm, x, w, (1, 2), 15), rms_norm(x, w, (1, 2), 15))


@pytest.mark.parametrize("name", ["softmax", "rms_norm"])
def test_norms_of_elements_that_a_mask_selects(name):
    x = numbers(P, F)

    def kernel(src):
        i, j = nl.mgrid[0:P, 0:F]
        t, tile, mask = nl.zeros((P, F), src.dtype), nl.load(src), (i < 50) & (j < 20)
        if name == "softmax":
            t[i, j] = nl.softmax(tile, 1, mask=mask)
        else:
            t[i, j] = nl.rms_norm(tile, tile, 1, 20, mask=mask)
        return stored(t)

    part, want = x[:50, :20], np.zeros((P, F), np.float32)
    want[:50, :20] = softmax(part, 1) if name == "softmax" else rms_norm(part, part, 1, 20)
    close(nki.simulate_kernel(kernel, x), want)


def test_weights_of_another_size_are_refused():
    with pytest.raises(ShapeError, match="can't be broadcast"):
        applied(nl.rms_norm, numbers(P, F), numbers(P, F - 1), 1, F)


# --- choices --------------------------------------------------------------------------------------


def test_where_takes_tiles_and_numbers():
    x, y = numbers(P, F), numbers(P, F, seed=1)
    c = x > 0
    for condition in (c, c.astype(np.float32), c.astype(np.uint8)):
        assert np.array_equal(applied(nl.where, condition, x, y), np.where(c, x, y))
    assert np.array_equal(applied(nl.where, c, x, -2.5), np.where(c, x, np.float32(-2.5)))
    assert np.array_equal(applied(nl.where, c, 1.5, y), np.where(c, np.float32(1.5), y))
    both = applied(nl.where, c, 1.5, -2.5)
    assert np.array_equal(both, np.where(c, np.float32(1.5), np.float32(-2.5)))


def test_where_takes_comparisons_of_indices():
    x, y = numbers(P, F), numbers(P, F, seed=1)

    def kernel(a, b):
        i, j = nl.arange(P)[:, None], nl.arange(F)[None, :]
        return stored(nl.where((i >= j + 3) & (i < 90), nl.load(a), nl.load(b)))

    i, j = np.mgrid[:P, :F]
    want = np.where((i >= j + 3) & (i < 90), x, y)
    assert np.array_equal(nki.simulate_kernel(kernel, x, y), want)


@pytest.mark.parametrize("shape", [(1, F), (P, 1), (1, 1)])
def test_where_repeats_axes_of_size_1(shape):
    x, y = numbers(P, F), numbers(P, F, seed=1)
    c, part = numbers(*shape) > 0, numbers(*shape, seed=2)
    assert np.array_equal(applied(nl.where, c, x, y), np.where(c, x, y))
    assert np.array_equal(applied(nl.where, x > 0, part, y), np.where(x > 0, part, y))


def test_where_keeps_bits_and_takes_the_wider_format():
    x = numbers(P, F, dtype=np.int32) * 2**24 + 1
    y, c = numbers(P, F, seed=1, dtype=np.int32), numbers(P, F) > 0
    assert np.array_equal(applied(nl.where, c, x, y), np.where(c, x, y))
    half, single = numbers(P, F, dtype=np.float16), numbers(P, F, seed=1)
    assert np.array_equal(applied(nl.where, c, half, single), np.where(c, half, single))


def test_where_of_shapes_that_differ_is_refused():
    with pytest.raises(ShapeError, match="can't be broadcast"):
        applied(nl.where, numbers(P, F), numbers(P, F), numbers(P, F - 1))


def gathered(x, indices):
    rows = x.reshape(len(x), -1)
    found = np.take_along_axis(rows, indices.reshape(len(x), -1).astype(int), 1)
    return found.reshape(indices.shape)


@pytest.mark.parametrize(("shape", "picked"), [((P, F), (P, 19)), ((7, 3, 5), (7, 2, 3))])
@pytest.mark.parametrize("dtype", [np.uint32, np.int32])
def test_gather_flattened(shape, picked, dtype):
    x = numbers(*shape)
    rng = np.random.default_rng(0)
    indices = rng.integers(0, np.prod(shape[1:]), picked).astype(dtype)
    assert np.array_equal(applied(nl.gather_flattened, x, indices), gathered(x, indices))
    narrow = applied(nl.gather_flattened, x, indices, dtype=nl.bfloat16)
    assert np.array_equal(narrow, gathered(x, indices).astype(ml_dtypes.bfloat16))


def test_gather_flattened_with_a_mask():
    x = numbers(P, F)
    indices = np.random.default_rng(0).integers(0, F, (P, F)).astype(np.uint32)

    def kernel(src, places):
        i, j = nl.mgrid[0:P, 0:F]
        t = nl.zeros((P, F), src.dtype)
        mask = (i < 50) & (j < 7)
        t[i, j] = nl.gather_flattened(nl.load(src), nl.load(places), mask=mask)
        return stored(t)

    want = np.zeros_like(x)
    want[:50, :7] = gathered(x, indices)[:50, :7]
    assert np.array_equal(nki.simulate_kernel(kernel, x, indices), want)


def test_gather_flattened_past_the_end_is_refused():
    with pytest.raises(IndexError):
        applied(nl.gather_flattened, numbers(P, F), np.full((P, 2), F, np.uint32))


# --- products and transposes ----------------------------------------------------------------------


@for_all(("m", "k", "n"), [(60, 77, 33), (1, 1, 1), (128, 128, 512), (5, 3, 400)])
@for_all("transposed", [False, True])
def test_products(m, k, n, transposed):
    x, y = numbers(m, k), numbers(k, n, seed=1)
    given = x.T.copy() if transposed else x
    close(applied(nl.matmul, given, y, transpose_x=transposed), x @ y, 1e-4)


def test_products_accumulate_in_psum():
    x, y = numbers(3, 64, 40), numbers(3, 64, 50, seed=1)

    def kernel(a, b):
        total = nl.zeros((40, 50), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(3):
            total += nl.matmul(nl.load(a[k]), nl.load(b[k]), transpose_x=True)
        return stored(total)

    close(nki.simulate_kernel(kernel, x, y), np.einsum("kpm,kpn->mn", x, y), 1e-4)


def test_masks_of_operands():
    x, y = numbers(P, 60), numbers(P, F, seed=1)

    def kernel(a, b):
        m, n = nl.arange(60)[None, :], nl.arange(F)[None, :]
        return stored(nl.matmul(nl.load(a)[m < 40], nl.load(b)[n <= 20], transpose_x=True))

    close(nki.simulate_kernel(kernel, x, y), x[:, :40].T @ y[:, :21], 1e-4)
    with pytest.raises(SignatureError, match="selects 60 rectangles"):
        applied(lambda a: a[nl.arange(60)[:, None] >= nl.arange(60)[None, :]], numbers(60, 60))


@for_all("transposed", [True, False])
@for_all("assigned", ["sum", "tile"])
@for_all("sizes", [(150, 70, 130), (30, 130, 30), (64, 64, 100)])
def test_products_of_masked_operands_go_to_their_part_of_a_whole_tile(transposed, assigned, sizes):
    (m, k, n), side = sizes, 64
    x, y = numbers(m, k), numbers(k, n, seed=1)

    def kernel(a, b):
        out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
        i, j = nl.arange(side)[:, None], nl.arange(side)[None, :]
        for row, column in itertools.product(range(0, m, side), range(0, n, side)):
            total = nl.zeros((side, side), nl.float32, buffer=nl.psum)
            for inner in range(0, k, side):
                axes = ((inner, k), (row, m)) if transposed else ((row, m), (inner, k))
                (p, rows), (f, columns) = axes
                mask = (p + i < rows) & (f + j < columns)
                left = nl.load(a[p + i, f + j], mask=mask)[mask]
                mask = (inner + i < k) & (column + j < n)
                right = nl.load(b[inner + i, column + j], mask=mask)[mask]
                if assigned == "sum":
                    total += nl.matmul(left, right, transpose_x=transposed)
                else:
                    whole = nl.zeros((side, side), nl.float32)
                    whole[...] = nl.matmul(left, right, transpose_x=transposed)
                    total[...] = nl.add(total, whole)
            nl.store(out[row + i, column + j], total, mask=(row + i < m) & (column + j < n))
        return out

    got = nki.jit(kernel)(x.T.copy() if transposed else x, y)
    close(got, x @ y, 1e-4)


def test_products_beyond_the_array_are_refused():
    with pytest.raises(ShapeError, match="K is 77 in stationary and 76 in moving"):
        applied(nl.matmul, numbers(60, 77), numbers(76, 33))
    with pytest.raises(FreeSizeError, match="takes at most 512"):
        applied(nl.matmul, numbers(60, 77), numbers(77, 513))


@for_all("shape", [(P, F), (20, 17), (128, 128), (5, 100), (1, 1)])
@for_all("dtype", [np.float32, ml_dtypes.bfloat16])
def test_transposes(shape, dtype):
    x = numbers(*shape, dtype=dtype)
    assert np.array_equal(applied(nl.transpose, x), x.T)
    narrow = applied(nl.transpose, x, dtype=nl.bfloat16)
    assert np.array_equal(narrow, x.T.astype(ml_dtypes.bfloat16))


def test_a_transpose_of_elements_that_a_mask_selects():
    x = numbers(P, F)

    def kernel(src):
        i, j = nl.mgrid[0:P, 0:F]
        t = nl.zeros((F, P), src.dtype)
        t[...] = nl.transpose(nl.load(src), mask=(i < 50) & (j < 20))
        return stored(t)

    want = np.zeros((F, P), np.float32)
    want[:20, :50] = x.T[:20, :50]
    assert np.array_equal(nki.simulate_kernel(kernel, x), want)


def test_a_transpose_with_too_many_partitions_is_refused():
    with pytest.raises(KernelError, match="128"):
        applied(nl.transpose, numbers(5, 129))


@for_all("axis", (2, -1, (2, 3), [2, 4], (-1, 1), (1, 2, 3)))
def test_new_axes_are_at_their_positions_of_the_new_shape(axis):
    x = numbers(7, 3, 5)
    got = applied(nl.expand_dims, x, axis=axis)
    np.testing.assert_array_equal(got, np.expand_dims(x, axis))


@pytest.mark.parametrize("axis", [0, 4, -4, (1, 1), (0, 2)])
def test_a_new_axis_is_neither_the_partition_axis_nor_outside_of_the_new_shape(axis):
    with pytest.raises(ShapeError, match="can't get a new axis"):
        applied(nl.expand_dims, numbers(7, 3, 5), axis=axis)
