"""neuronxcc.nki.language compared with numpy: loads, stores, gathers, scatters, casts, random
numbers."""

import ml_dtypes
import numpy as np
import pytest
from every import for_all
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_kernels import applied, numbers, stored

import neuroncore
from neuroncore.base.errors import (
    BufferKindError,
    KernelError,
    NotEmulated,
    OperatorError,
    OutOfBoundsError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
)

P, F = 77, 33


# --- loads and stores -----------------------------------------------------------------------------


@for_all("shape", [(P, F), (1, 1), (128, 3), (7, 3, 5)])
@for_all("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_a_load_and_a_store_copy_data(shape, dtype):
    x = numbers(*shape, dtype=dtype)
    assert np.array_equal(applied(lambda t: t, x), x)


def test_loads_and_stores_convert():
    x = numbers(P, F)

    def kernel(src):
        out = nl.ndarray((P, F), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(src, dtype=nl.bfloat16))
        return out

    want = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(nki.simulate_kernel(kernel, x), want)


def test_a_number_is_stored_in_every_element():
    def kernel(src):
        nl.store(src[3:20, :], 7.5)
        nl.store(src[nl.arange(P)[:, None], 0], value=-1, mask=nl.arange(P)[:, None] < 2)
        return src

    x = numbers(P, F)
    want = x.copy()
    want[3:20], want[:2, 0] = 7.5, -1
    kernel.__annotations__["src"] = nki.typing.mutable_tensor
    assert np.array_equal(nki.simulate_kernel(kernel, x.copy()), want)


def test_the_tail_of_a_tensor_is_masked():
    x = numbers(300, F)

    def kernel(src):
        out = nl.ndarray((300, F), src.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:128, 0:F]
        for b in nl.affine_range(3):
            rows = b * 128 + i
            tile = nl.load(src[rows, j], mask=rows < 300)
            nl.store(out[rows, j], nl.exp(tile, mask=rows < 300), mask=rows < 300)
        return out

    np.testing.assert_allclose(nki.simulate_kernel(kernel, x), np.exp(x), rtol=1e-5)


def test_a_tail_without_a_mask_is_refused():
    def kernel(src):
        i, j = nl.mgrid[0:128, 0:F]
        return stored(nl.load(src[256 + i, j]))

    with pytest.raises(OutOfBoundsError, match=r"\[256, 383\] exceeds axis 0 of size 300"):
        nki.simulate_kernel(kernel, numbers(300, F))


def test_tiles_are_not_loaded_and_not_stored_to():
    with pytest.raises(BufferKindError, match="must be in hbm"):
        applied(nl.load, numbers(P, F))
    with pytest.raises(BufferKindError, match="must be in hbm"):
        applied(lambda t: nl.store(t, 1.0), numbers(P, F))


def test_a_tile_has_128_partitions():
    with pytest.raises(PartitionLimitError):
        applied(lambda t: t, numbers(129, 2))


def shifted(x, offsets):
    """A kernel that copies runs of 4 columns from the offsets in one row."""
    tile, starts = nl.load(x), nl.load(offsets)
    out = nl.ndarray((P, 3, 4), x.dtype)
    i, j = nl.mgrid[0:P, 0:4]
    for k in nl.affine_range(3):
        out[i, k, j] = nisa.tensor_copy_dynamic_src(tile[i, starts[0, k] + j])
    return stored(out)


def test_an_index_expression_may_begin_at_an_offset_in_a_tile():
    x, offsets = numbers(P, F), np.array([[5, 0, F - 4]], np.int32)
    want = np.stack([x[:, at : at + 4] for at in offsets[0]], 1)
    assert np.array_equal(nki.simulate_kernel(shifted, x, offsets), want)
    with pytest.raises(IndexError, match=str(F - 3)):
        nki.simulate_kernel(shifted, x, offsets + 1)


@for_all("dtype", [np.float32, ml_dtypes.bfloat16])
@for_all("shape", [(2048, 128), (33, 77), (128, 64)])
def test_load_transpose2d(shape, dtype):
    x = numbers(*shape, dtype=dtype)

    def kernel(src):
        return stored(nl.load_transpose2d(src))

    assert np.array_equal(nki.simulate_kernel(kernel, x), x.T)


def test_load_transpose2d_needs_128_columns_at_most():
    with pytest.raises(KernelError, match="129"):
        nki.simulate_kernel(lambda src: stored(nl.load_transpose2d(src)), numbers(64, 129))


def test_the_mask_of_load_transpose2d_covers_the_loaded_elements():
    x = numbers(200, 100)
    want = np.zeros((128, 256), np.float32)
    want[:100, :200] = x.T

    def kernel(src):
        i, j = nl.mgrid[0:256, 0:128]
        tile = nl.zeros((128, 256), src.dtype)
        k, m = nl.mgrid[0:128, 0:256]
        tile[k, m] = nl.load_transpose2d(src[i, j], mask=(i < 200) & (j < 100))
        return stored(tile)

    assert np.array_equal(nki.simulate_kernel(kernel, x), want)


# --- rows chosen by a tile ------------------------------------------------------------------------


def test_rows_are_loaded_by_index():
    x, rows = numbers(200, F), np.random.default_rng(0).permutation(200)[:P].astype(np.int32)

    def kernel(src, index):
        j = nl.arange(F)[None, :]
        return stored(nl.load(src[nl.load(index), j]))

    assert np.array_equal(nki.simulate_kernel(kernel, x, rows[:, None]), x[rows])


def test_rows_are_loaded_by_index_with_a_mask():
    x, rows = numbers(200, F), np.random.default_rng(0).permutation(200)[:P].astype(np.int32)

    def kernel(src, index):
        j = nl.arange(F)[None, :]
        t = nl.zeros((P, F), src.dtype)
        i = nl.arange(P)[:, None]
        t[i, j] = nl.load(src[nl.load(index), j], mask=(i < 40) & (j < 9))
        return stored(t)

    want = np.zeros((P, F), np.float32)
    want[:40, :9] = x[rows][:40, :9]
    assert np.array_equal(nki.simulate_kernel(kernel, x, rows[:, None]), want)


def test_rows_are_stored_by_index():
    x, rows = numbers(P, F), np.random.default_rng(0).permutation(P).astype(np.int32)

    def kernel(src, index):
        out = nl.ndarray((P, F), src.dtype, buffer=nl.shared_hbm)
        nl.store(out[nl.load(index), nl.arange(F)[None, :]], nl.load(src))
        return out

    want = np.zeros_like(x)
    want[rows] = x
    assert np.array_equal(nki.simulate_kernel(kernel, x, rows[:, None]), want)


def test_a_row_out_of_bounds_is_refused():
    def kernel(src, index):
        return stored(nl.load(src[nl.load(index), nl.arange(F)[None, :]]))

    rows = np.full((4, 1), 200, np.int32)
    with pytest.raises(IndexError, match=r"index 6600 is out of bounds .* size 6600") as caught:
        nki.simulate_kernel(kernel, numbers(200, F), rows)
    assert type(caught.value) is IndexError
    assert isinstance(caught.value.__cause__, OutOfBoundsError)
    with pytest.raises(OutOfBoundsError, match="selects row 200"):
        nki.jit(kernel)(numbers(200, F), rows)


def added(values, index, first):
    """A kernel that adds rows of values to the rows of first that index names."""
    out = nl.ndarray((P, F), first.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(first))
    nl.atomic_rmw(out[nl.load(index), nl.arange(F)[None, :]], value=nl.load(values), op=np.add)
    return out


def test_atomic_rmw_adds_to_rows():
    rows = np.random.default_rng(0).permutation(P).astype(np.int32)
    x, start = numbers(P, F), numbers(P, F, seed=1)
    want = start.copy()
    want[rows] += x
    assert np.array_equal(nki.simulate_kernel(added, x, rows[:, None], start), want)


def copied(values, index, first):
    """A kernel that adds the same rows by a DMA."""
    out = nl.ndarray((P, F), first.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(first))
    p, f = nl.arange(P)[:, None], nl.arange(F)[None, :]
    places, x = nl.load(index), nl.load(values)
    nisa.dma_copy(dst=out[places[p, 0], f], src=x[p, f], dst_rmw_op=np.add)
    return out


def test_atomic_rmw_adds_to_one_row():
    def kernel(values, index, first):
        out = nl.ndarray(first.shape, first.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(first))
        p, f = nl.arange(1)[:, None], nl.arange(F)[None, :]
        nl.atomic_rmw(out[nl.load(index)[p, 0], f], value=nl.load(values), op=np.add)
        return out

    x, start = numbers(1, F), numbers(P, F, seed=1)
    want = start.copy()
    want[70] += x[0]
    index = np.array([[70]], np.int32)
    assert np.array_equal(nki.simulate_kernel(nki.jit(kernel), x, index, start), want)


@pytest.mark.parametrize("rows, columns", [(P, 3), (40, F), (9, 2)])
def test_a_mask_of_atomic_rmw_leaves_out_rows_and_columns(rows, columns):
    def kernel(values, index, first):
        out = nl.ndarray((P, F), first.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(first))
        p, f = nl.arange(P)[:, None], nl.arange(F)[None, :]
        places, x, mask = nl.load(index), nl.load(values), (p < rows) & (f < columns)
        nl.atomic_rmw(out[places[p, 0], f], value=x, op=np.add, mask=mask)
        return out

    index = np.random.default_rng(0).permutation(P).astype(np.int32)
    x, start = numbers(P, F), numbers(P, F, seed=1)
    want = start.copy()
    want[index[:rows], :columns] += x[:rows, :columns]
    assert np.array_equal(nki.simulate_kernel(nki.jit(kernel), x, index[:, None], start), want)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel", [added, copied])
def test_sums_of_a_repeated_row_are_all_added(kernel):
    """ "If duplicated offsets are present, the compiler automatically adds synchronization"
    (nki.isa.dma_copy of SDK 2.26); nl.atomic_rmw is atomic."""
    rows = (np.arange(P, dtype=np.int32) % 7)[:, None]
    x, start = numbers(P, F), numbers(P, F, seed=1)
    want = start.copy()
    for row, more in zip(rows[:, 0], x, strict=True):
        want[row] += more
    assert np.array_equal(nki.simulate_kernel(kernel, x, rows, start), want)


@pytest.mark.parametrize("op", [np.add, nl.add])
def test_atomic_rmw_adds_a_number(op):
    def kernel(index):
        out = nl.ndarray((P, F), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, 1.0)
        nl.atomic_rmw(out[nl.load(index), nl.arange(F)[None, :]], 2.5, op)
        return out

    rows = np.array([[3], [70]], np.int32)
    want = np.ones((P, F), np.float32)
    want[[3, 70]] += 2.5
    assert np.array_equal(nki.simulate_kernel(kernel, rows), want)


@pytest.mark.parametrize("op", [np.maximum, nl.maximum, nl.copy])
def test_atomic_rmw_only_adds(op):
    def kernel(index, values):
        out = nl.ndarray((P, F), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, 1.0)
        nl.atomic_rmw(out[nl.load(index), nl.arange(F)[None, :]], nl.load(values), op)
        return out

    with pytest.raises(OperatorError, match="combine src with the contents of dst by"):
        nki.simulate_kernel(kernel, np.zeros((P, 1), np.int32), numbers(P, F))


# --- new tensors and views ------------------------------------------------------------------------


def test_new_tensors_have_their_value():
    def kernel(x):
        t = nl.load(x)
        out = nl.ndarray((4, 5, 7), nl.float32, buffer=nl.shared_hbm)
        nl.store(out[0], nl.zeros((5, 7), nl.float32))
        nl.store(out[1], nl.ones((5, 7), nl.float32))
        nl.store(out[2], nl.full((5, 7), -2.5, nl.float32))
        nl.store(out[3], nl.zeros_like(t))
        return out

    want = np.stack([np.full((5, 7), v, np.float32) for v in (0, 1, -2.5, 0)])
    assert np.array_equal(nki.simulate_kernel(kernel, numbers(5, 7)), want)


@pytest.mark.parametrize("value", [None, "3", np.ones(2), "tile"])
def test_only_numbers_fill_tensors(value):
    def kernel(x):
        t = nl.load(x)
        nl.full((P, F), t if isinstance(value, str) and value == "tile" else value, nl.float32)

    with pytest.raises(SignatureError, match="fill_value must be a number"):
        nki.simulate_kernel(kernel, numbers(P, F))


def test_constants_are_in_hbm():
    array = numbers(5, 7)

    def kernel(x):
        out = nl.ndarray((2, 5, 7), nl.float32, buffer=nl.shared_hbm)
        identity = nl.load(nl.shared_identity_matrix(n=5))
        nl.store(out[0], nl.load(nl.shared_constant(array)))
        nl.store(out[1], nl.matmul(nl.copy(identity, dtype=nl.float32), nl.load(x)))
        return out

    got = nki.simulate_kernel(kernel, array)
    assert np.array_equal(got, np.stack([array, array]))


@for_all("size", [-1, 0, 2.5, "two", None])
def test_the_size_of_an_identity_matrix_is_a_positive_int(size):
    with pytest.raises(SignatureError, match="is not a shape"):
        nki.simulate_kernel(lambda x: nl.shared_identity_matrix(size), numbers(5, 7))


@pytest.mark.parametrize("shape", [(1, F), (F,), (P, 1)])
def test_a_tensor_in_hbm_is_broadcast_without_a_copy(shape):
    @nki.jit
    def kernel(x):
        out = nl.ndarray((P, F), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x.broadcast_to((P, F))))
        return out

    x = numbers(*shape)
    run = neuroncore.run(kernel, x)
    assert np.array_equal(run.results, np.broadcast_to(x, (P, F)))
    assert len(run.instructions) == 2


def test_broadcast_to_and_expand_dims():
    row, column = numbers(1, F), numbers(P, 1)
    assert np.array_equal(applied(nl.broadcast_to, row, shape=(P, F)), np.repeat(row, P, 0))
    assert np.array_equal(applied(nl.broadcast_to, column, shape=(P, F)), np.repeat(column, F, 1))
    x = numbers(P, F)
    assert np.array_equal(applied(nl.expand_dims, x, axis=1), x[:, None])
    with pytest.raises(ShapeError, match="can't be broadcast"):
        applied(nl.broadcast_to, row, shape=(P, F + 1))


def test_static_cast_of_tiles_and_arrays():
    x = numbers(P, F)
    got = applied(nl.static_cast, x, dtype=nl.bfloat16)
    assert np.array_equal(got, x.astype(ml_dtypes.bfloat16))
    assert nl.static_cast(1.7, np.int32).dtype == np.int32
    assert nl.static_cast(x, nl.bfloat16).dtype == ml_dtypes.bfloat16


def test_limits_of_formats():
    assert nl.finfo(nl.bfloat16).max == ml_dtypes.finfo(ml_dtypes.bfloat16).max
    assert nl.finfo(np.float32).min == np.finfo(np.float32).min
    with pytest.raises(ValueError):
        nl.finfo(np.int32)


# --- random numbers -------------------------------------------------------------------------------


def drawn(seed, draw):
    def kernel(x):
        nl.random_seed(seed)
        return stored(draw(nl.load(x)))

    return nki.simulate_kernel(kernel, numbers(P, 500))


def test_rand_is_uniform_and_its_seed_repeats_it():
    first, again, other = (drawn(seed, lambda t: nl.rand(t.shape)) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert first.dtype == np.float32 and first.min() >= 0 and first.max() < 1
    assert abs(first.mean() - 0.5) < 0.01 and abs(first.var() - 1 / 12) < 0.005


@pytest.mark.parametrize("rate", [0.2, 0.75])
def test_dropout_zeroes_the_given_share(rate):
    x = numbers(P, 500)
    first, again, other = (drawn(seed, lambda t: nl.dropout(t, rate)) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert np.array_equal(first, np.where(first == 0, 0, x))
    assert abs((first == 0).mean() - rate) < 0.02


@pytest.mark.parametrize(("rate", "left"), [(0.0, 1.0), (1.0, 0.0)])
def test_dropout_of_nothing_and_of_all(rate, left):
    x = numbers(P, F)
    assert np.array_equal(applied(nl.dropout, x, rate), x * np.float32(left))


# --- the host, and missing functions --------------------------------------------------------------


def test_device_print_prints(capsys):
    def kernel(x):
        t = nl.load(x)
        nl.device_print("tile", t)
        return stored(t)

    nki.simulate_kernel(kernel, np.array([[1.5, -2.5]], np.float32))
    out = capsys.readouterr().out
    assert "tile" in out and "1.5" in out and "-2.5" in out


def test_functions_that_are_not_emulated_are_refused_with_a_reason():
    with pytest.raises(NotEmulated):
        nl.gemm_grid()
    with pytest.raises(NotEmulated):
        applied(lambda t: nl.all_reduce(t, np.add, program_axes=[0]), numbers(P, F))


@pytest.mark.parametrize("function", [nl.zeros, nl.ones, lambda s, d, **k: nl.full(s, 1, d, **k)])
def test_hbm_is_filled_by_dma(function):
    def kernel(x):
        return function((300, 5), nl.float32, buffer=nl.shared_hbm)

    run = neuroncore.run(nki.jit(kernel), numbers(P, F))
    assert np.array_equal(run.results, np.full((300, 5), function is not nl.zeros, np.float32))
    assert [one.severity for one in run.findings if one.code == "HBM_FILL"] == ["warning"]


def test_on_chip_results_can_be_read_after_a_simulation_only():
    def kernel(x):
        return nl.exp(nl.load(x)), nl.zeros((2, 3), nl.float32)

    x = numbers(P, F)
    with pytest.warns(UserWarning, match="RESULT_ON_CHIP"):
        powers, zeros = nki.simulate_kernel(kernel, x)
    np.testing.assert_allclose(powers, np.exp(x), rtol=1e-5)
    assert np.array_equal(zeros, np.zeros((2, 3)))
    with pytest.raises(SignatureError, match="in sbuf"):
        nki.jit(kernel)(x)


def test_an_argument_is_a_tensor_or_none():
    def kernel(x, y):
        t = nl.load(x)
        return stored(nl.add(t, nl.load(y)) if y else t)

    x = numbers(P, F)
    assert np.array_equal(nki.simulate_kernel(kernel, x, None), x)
    np.testing.assert_allclose(nki.simulate_kernel(kernel, x, x), 2 * x)
    with pytest.warns(UserWarning, match="TENSOR_TRUTH"):
        np.testing.assert_allclose(applied(lambda t: nl.exp(t) if t else t, x), np.exp(x), 1e-5)
    with pytest.raises(KernelError, match="has no truth value"):
        applied(lambda t: nl.exp(t) if t > 0 else t, x)
